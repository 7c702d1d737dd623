"""The report of a run as GitHub-flavoured Markdown, for the summary of a CI step.

Text from outside stands only in code spans, in fences that are longer than any run of backticks
inside, or with its punctuation as character references, so it can neither end the place where it
stands nor become a heading, a link, a mention or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.report.grid import Column, Grid, Mark, grid_of, mark, marks_in
from harness.report.grouping import (
    Cause,
    causes,
    death_of,
    expected_causes,
    overlap_lines,
    places,
    shown_log,
)
from harness.report.text import last_lines, one_line, visible
from harness.report.wording import attempts_text, count, example_text, headline, summary_text
from harness.results import Results

__all__ = ["SIZE_LIMIT", "render_markdown"]

# GitHub refuses a step summary above 1 MiB; the rest is for what else a step writes into it.
SIZE_LIMIT = 900_000

_MOST_PLACES = 20
_ROOM_FOR_NOTE = 1_000
_SIGNS = {"expected": "", "unexpected": "❌ ", "flaky": "⚠️ ", "improved": "⬆️ "}


def render_markdown(results: Results) -> str:
    """The report in at most `SIZE_LIMIT` bytes of UTF-8; what is cut off is said at the end."""
    parts: list[str] = []
    room = SIZE_LIMIT - _ROOM_FOR_NOTE
    left_out = 0
    for part in _parts(results):
        size = len(part.encode()) + 2
        # A part is left out as a whole: half of one could leave a fence or a table open.
        if size > room:
            left_out += 1
            continue
        parts.append(part)
        room -= size
    if left_out:
        parts.append(
            f"**{count(left_out, 'part')} of this report left out**, since a step summary is "
            "limited in size. All of it is in `results.json` and `junit.xml` of the run folder."
        )
    return "\n\n".join(parts) + "\n"


def _parts(results: Results) -> Iterator[str]:
    plugin = results.plugin
    version = _code(plugin.version) if plugin.version else "(version unknown)"
    sign = "✅" if results.summary.exit_code == 0 else "❌"
    yield f"## {sign} ORT matrix of {_code(plugin.name)} {version}"
    yield f"**{_plain(summary_text(results))}**"
    ep_name = _code(plugin.ep_name) if plugin.ep_name else "no EP seen"
    yield f"{ep_name}, sha256 {_code(plugin.sha256[:12])}, run {_code(results.run.id)}"
    missing = [core for core in results.cores if core.error is not None]
    if missing:
        yield "Cores not to be had: " + ", ".join(_code(core.id) for core in missing)
    grid = grid_of(results)
    if grid.cells:
        yield _table(grid)
        yield _legend(grid, results)
    overlap = overlap_lines(results)
    if overlap:
        yield "\n".join(f"- **overlap** {_plain(one_line(line))}" for line in overlap)
    found = causes(results)
    if found:
        cells = sum(len(cause.cells) for cause in found)
        yield (f"### Not as expected: {count(cells, 'cell')}, {count(len(found), 'cause')}")
    for number, cause in enumerate(found, 1):
        yield _block(number, cause, results)
    for title, expectations in (
        ("Outdated expectations", results.summary.outdated_expectations),
        ("Expectations that match no cell", results.summary.unmatched_expectations),
    ):
        if expectations:
            yield f"### {title}\n\nCorrect or remove them in `matrix.yaml`."
            yield "\n".join(f"- {_code(one_line(text))}" for text in expectations)


def _table(grid: Grid) -> str:
    rows = [["scenario", *(_code(one_line(column.core, 60)) for column in grid.columns)]]
    rows.append(["---", *(":-:" for _ in grid.columns)])
    if len(grid.modes) > 1:
        rows.append(["*mode*", *(column.mode or "" for column in grid.columns)])
    rows.extend(
        [
            _code(one_line(scenario, 200)),
            *(_cell(grid, scenario, column) for column in grid.columns),
        ]
        for scenario in grid.scenarios
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(grid: Grid, scenario: str, column: Column) -> str:
    cell = grid.cells.get((scenario, column))
    return "" if cell is None else _shown(mark(cell))


def _shown(shown: Mark) -> str:
    if shown.verdict == "expected":
        return "✓" if shown.passed else shown.text
    return f"{_SIGNS[shown.verdict]}**{shown.text[1:]}**"


def _legend(grid: Grid, results: Results) -> str:
    expected = expected_causes(results)
    lines = []
    for shown in marks_in(grid):
        lines.append(f"- {_shown(shown)} {shown.meaning}")
        if shown.verdict == "expected" and not shown.passed:
            same = [cause for cause in expected if mark(cause.example) == shown]
            lines.extend(
                f"  - {_code(one_line('; '.join(places(cause.cells, results))))}: "
                f"{_plain(one_line(cause.example.expected))}"
                for cause in same[:_MOST_PLACES]
            )
    return "\n".join(lines)


def _block(number: int, cause: Cause, results: Results) -> str:
    cell = cause.example
    title = f"{_plain(one_line(headline(cause), 200))}, {count(len(cause.cells), 'cell')}"
    lines = [f"#### {number}. {title}", ""]
    lines += [_fence(one_line(cell.detail, 2000) or "(no detail)", "text"), ""]
    if len(cause.cells) > 1:
        where = places(cause.cells, results)
        lines += [f"- **where** {_code(one_line(line))}" for line in where[:_MOST_PLACES]]
        if len(where) > _MOST_PLACES:
            lines.append(f"- and {len(where) - _MOST_PLACES} more lines, see `results.json`")
    label = "example" if len(cause.cells) > 1 else "where"
    lines.append(f"- **{label}** {_code(one_line(example_text(cell)))}")
    if len(cell.attempts) > 1:
        lines.append(f"- **attempts** {_code(one_line(attempts_text(cell)))}")
    lines.append(f"- **expected** {_plain(one_line(cell.expected))}")
    if cell.hint:
        lines.append(f"- **do** {_plain(one_line(cell.hint))}")
    log = shown_log(cell)
    if log is not None:
        lines.append(f"- **log** {_code(visible(log))}")
    if cell.repeat:
        lines += ["- **repeat** with", "", _fence(visible(cell.repeat), "sh")]
    death = death_of(cell)
    tail = last_lines(death.log_tail, 20) if death is not None else []
    if tail:
        lines += [
            "",
            "<details><summary>end of the log</summary>",
            "",
            _fence("\n".join(tail), "text"),
            "",
            "</details>",
        ]
    return "\n".join(lines)


def _code(text: str) -> str:
    """Text as inline code, safe in a table as well."""
    text = visible(text)
    if text.strip() and not re.search(r"[`|]", text):
        return f"`{text}`"
    # A code span cannot hold a pipe in a table, nor every run of backticks.
    return f"<code>{_references(text, keep=' ')}</code>" if text.strip() else "(empty)"


def _plain(text: str) -> str:
    """Text that stays plain text, after the beginning of a line."""
    # Before a space these end a sentence or a clause; before anything else they could make a link.
    kept = _references(visible(text), keep=" ,.:()=;-")
    return re.sub(r"[.:](?! |$)", lambda match: f"&#{ord(match[0])};", kept)


def _references(text: str, *, keep: str) -> str:
    return "".join(char if char.isalnum() or char in keep else f"&#{ord(char)};" for char in text)


def _fence(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{language}\n{text}\n{fence}"
