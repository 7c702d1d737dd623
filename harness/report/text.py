r"""Makes text of unknown origin safe to show, in every format.

A plugin writes into status messages and logs what it likes: escape codes, bidirectional marks,
lone surrogates, megabytes without a line end. What leaves this module is printable text of known
length in which every other character stands as a visible escape such as ``\x1b``.
"""

from __future__ import annotations

__all__ = ["cut", "for_encoding", "last_lines", "one_line", "visible"]

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """The text with every character that is not printable written as an escape.

    Control and format characters, line ends, lone surrogates, noncharacters and all spaces but
    the plain one are escaped, so the result is one line, valid XML text and valid UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def cut(text: str, limit: int, *, lost: int = 0) -> str:
    """The text in at most `limit` characters; what is left out is in the middle, and counted.

    Args:
        text: what to shorten.
        limit: in characters.
        lost: characters that are missing from the middle of the text already.
    """
    if len(text) <= limit and not lost:
        return text
    note = f" [... {lost + max(len(text) - limit, 1)} or more characters left out ...] "
    room = limit - len(note)
    if room < len(note):
        return (text[: max(limit - 3, 0)] + "...")[:limit]
    tail = min(room, len(text)) // 3
    head = min(room, len(text)) - tail
    return text[:head] + note + text[len(text) - tail :]


def one_line(text: str, limit: int = 600) -> str:
    """The text as one safe line: white space collapsed, the rest `visible`, then `cut`."""
    # A text of megabytes is shortened before it is looked at, so that it stays cheap.
    keep = 4 * limit
    lost = max(len(text) - 2 * keep, 0)
    kept = text[:keep] + text[-keep:] if lost else text
    return cut(visible(" ".join(kept.split())), limit, lost=lost)


def last_lines(text: str, count: int, width: int = 200) -> list[str]:
    """The last lines that are not blank, each safe and at most `width` characters long."""
    end = text[-8 * count * width :]
    lines = [line.expandtabs(4).rstrip() for line in end.splitlines()]
    return [cut(visible(line), width) for line in lines if line][-count:]


def for_encoding(text: str, encoding: str) -> str:
    """The text with what the encoding cannot express written as escapes."""
    try:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except (LookupError, UnicodeError):
        return text.encode("ascii", "backslashreplace").decode("ascii")


def _escape(char: str) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
