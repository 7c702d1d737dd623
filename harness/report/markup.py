"""Pieces of GitHub-flavoured Markdown that text of unknown origin cannot get out of.

Such text stands only in code spans, in fences that are longer than any run of backticks inside,
or with its punctuation as character references, so it can neither end the place where it stands
nor become a heading, a link, a mention or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.report.text import visible
from harness.report.wording import count

__all__ = ["SIZE_LIMIT", "code", "fence", "page_of", "plain", "table_of"]

# GitHub refuses a step summary above 1 MiB; the rest is for what else a step writes into it.
SIZE_LIMIT = 900_000

_ROOM_FOR_NOTE = 1_000


def page_of(parts: Iterable[str]) -> str:
    """Parts as a page of at most `SIZE_LIMIT` bytes of UTF-8; what is left out is said at its end.

    A part is left out as a whole: half of one could leave a fence or a table open.
    """
    kept: list[str] = []
    room = SIZE_LIMIT - _ROOM_FOR_NOTE
    left_out = 0
    for part in parts:
        size = len(part.encode()) + 2
        if size > room:
            left_out += 1
            continue
        kept.append(part)
        room -= size
    if left_out:
        kept.append(
            f"**{count(left_out, 'part')} of this report left out**, since a step summary is "
            "limited in size. All of it is in `results.json` and `junit.xml` of the run folder."
        )
    return "\n\n".join(kept) + "\n"


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]], *, centred: bool = False) -> str:
    """A table.

    Args:
        head: what stands over the columns, as Markdown.
        rows: the cells, as Markdown, as many a row as there are columns.
        centred: whether all columns but the first are centred.
    """
    rule = ["---", *(":-:" if centred else "---" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def code(text: str) -> str:
    """Text as inline code, safe in a table as well."""
    text = visible(text)
    if text.strip() and not re.search(r"[`|]", text):
        return f"`{text}`"
    # A code span cannot hold a pipe in a table, nor every run of backticks.
    return f"<code>{_references(text, keep=' ')}</code>" if text.strip() else "(empty)"


def plain(text: str) -> str:
    """Text that stays plain text, after the beginning of a line."""
    # Before a space these end a sentence or a clause; before anything else they could make a link.
    kept = _references(visible(text), keep=" ,.:()=;-")
    return re.sub(r"[.:](?! |$)", lambda match: f"&#{ord(match[0])};", kept)


def fence(text: str, language: str) -> str:
    """Lines of text as a fenced block of code."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _references(text: str, *, keep: str) -> str:
    return "".join(char if char.isalnum() or char in keep else f"&#{ord(char)};" for char in text)
