from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.text import cut, for_encoding, last_lines, one_line, visible
from tests.harness.report.strategies import hostile_text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain ASCII, and Zürich 東京", "plain ASCII, and Zürich 東京"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
        ("\x9b\u2028\ufffe", "\\x9b\\u2028\\ufffe"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_is_not_printable_becomes_an_escape(raw: str, shown: str) -> None:
    assert visible(raw) == shown


@given(hostile_text())
def test_visible_text_has_no_control_format_or_surrogate_character(text: str) -> None:
    shown = visible(text)
    shown.encode()
    bad = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not bad & {unicodedata.category(char) for char in shown}


@given(st.text(max_size=400), st.integers(0, 200))
def test_cut_text_keeps_to_its_limit(text: str, limit: int) -> None:
    assert len(cut(text, limit)) <= limit
    if len(text) <= limit:
        assert cut(text, limit) == text


def test_cut_text_keeps_both_ends_and_says_how_much_is_missing() -> None:
    shown = cut("A" * 500 + "B" * 500, 200)
    assert shown.startswith("AAAA")
    assert shown.endswith("BBBB")
    assert "[... 800 or more characters left out ...]" in shown


@given(hostile_text(), st.integers(10, 300))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    shown = one_line(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1
    assert shown.isprintable()


def test_one_line_counts_what_it_left_out_of_a_long_text() -> None:
    shown = one_line("A" * 1_000_000, 100)
    assert len(shown) <= 100
    assert "999900 or more characters left out" in shown


def test_a_text_of_many_megabytes_is_cheap() -> None:
    text = "\x1b[0m " * 20_000_000
    begun = time.process_time()
    one_line(text)
    last_lines(text, 10)
    assert time.process_time() - begun < 0.2


def test_last_lines_are_the_last_that_say_something() -> None:
    assert last_lines("one\r\ntwo\n\n\tthree\x1b[0m\n\n", 2) == ["two", "    three\\x1b[0m"]
    assert last_lines("", 3) == []


@given(hostile_text())
def test_last_lines_are_few_short_and_printable(text: str) -> None:
    shown = last_lines(text, 3, 40)
    assert len(shown) <= 3
    assert all(len(line) <= 40 and line.isprintable() for line in shown)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8", "no-such-encoding"])
def test_text_for_an_encoding_can_be_encoded_in_it(encoding: str) -> None:
    shown = for_encoding("naïve 東京", encoding)
    assert shown.isascii() or encoding in ("cp1252", "utf-8")
    shown.encode(encoding if encoding != "no-such-encoding" else "ascii")
