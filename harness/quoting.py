"""What a person wrote, as it stands in a message about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["perhaps", "printable", "shown"]


def perhaps(wrong: str, known: Iterable[str]) -> str:
    """The end of a sentence on a wrong name: the one that was meant, if one is close."""
    close = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f'; perhaps you meant "{close[0]}"?' if close else "."


def printable(text: str) -> str:
    """A text with what cannot be printed as escapes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def shown(text: str) -> str:
    """A text for a message: no control characters, and cut if it is long."""
    text = printable(text)
    return text if len(text) <= 60 else text[:57] + "..."
