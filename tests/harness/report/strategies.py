"""Hostile text for property tests: any code point, and what is special in some format."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["hostile_text"]

_FRAGMENTS = (
    "\x1b[2J", "\x1b]8;;https://evil.example\x07", "\x9b31m", "\u202e", "\u2066", "\u2028", "\x85",
    "\r\n", "\n", "\r", "\t", "\x00", "\ud800", "\udfff", "\ufffe", "\uffff", "]]>", "<![CDATA[",
    "<script>", "</details>", "<!--", "&amp;", "&#10;", "`", "```", "````", "|", "\\|", "\\", "~~~",
    "\n# heading\n", "\n- item\n", "\n---\n", "[link](http://evil.example)", "http://evil.example",
    "www.evil.example", "@someone", "**bold**", "[red]", "[/]", ":boom:", "OK  0 cells", " ", "  ",
    "\u3000", "\u00a0", "\U0001f600", "\u0301", "x" * 3000,
)  # fmt: skip


def hostile_text() -> st.SearchStrategy[str]:
    """Text with any code point, lone surrogates included."""
    fragment = st.one_of(st.sampled_from(_FRAGMENTS), st.text(st.characters(), max_size=8))
    return st.lists(fragment, max_size=12).map("".join)
