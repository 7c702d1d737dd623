"""What a selftest says at its end, and the exit code that it ends with."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from harness.selftest.neighbours import Neighbours
from harness.selftest.proof import Proof, Round
from harness.selftest.report import render_page, show_proof
from harness.selftest.scoring import Planting
from tests.harness.selftest.samples import cell, contained, fault

ODD = cell("failed/wrong-result", "copy/z")
GONE = cell("infra-error/host-start", "copy/z")
FOUND = Planting(fault(), "1.24.4", "detected", "copy/a", "failed/wrong-result")
BESIDE = Neighbours("1.24.4", 16, 9, (), (), 0, ())
ROUND = Round(Path("/out/conforming/1"), 99, (), 0, ())


def proof(**changes: Any) -> Proof:
    values: dict[str, Any] = {
        "folder": Path("/out"),
        "plugin": "reference 1.0.0",
        "versions": ("1.24.4", "1.32.0"),
        "plantings": [
            FOUND,
            replace(FOUND, core="1.32.0", scenario="copy/b", outcome="crashed/SIGSEGV"),
            Planting(contained(), "1.24.4", "contained", "copy/a", "passed/ok"),
        ],
        "elsewhere": [],
        "neighbours": [BESIDE],
        "rounds": [ROUND, ROUND],
        "planned_rounds": 2,
        "seconds": 61.4,
    }
    return Proof(**{**values, **changes})


def test_it_says_when_false_alarms_were_not_looked_for() -> None:
    said = "nothing is known of false alarms"

    assert said in " ".join(shown(proof(rounds=[], planned_rounds=0)).split())
    assert said not in shown(proof())


def shown(one: Proof) -> str:
    out = io.StringIO()
    show_proof(one, Console(file=out, width=80, highlight=False))
    return out.getvalue()


def rows(page: str) -> list[list[str]]:
    """The cells of the rows of all tables, as a reader of Markdown sees them."""
    found: list[list[str]] = []
    inside = False
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        if token.type in ("tr_open", "tr_close"):
            inside = token.type == "tr_open"
        if token.type == "tr_open":
            found.append([])
        if token.type == "inline" and inside:
            found[-1].append("".join(child.content for child in token.children or ()))
    return found


def one_more(*plantings: Planting) -> dict[str, Any]:
    return {"plantings": [FOUND, *plantings]}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        (one_more(Planting(fault(), "1.32.0", "missed")), 1),
        (one_more(Planting(fault(), "1.32.0", "otherwise")), 1),
        (one_more(Planting(fault(), "1.32.0", "untried")), 3),
        # A finding counts whatever else is not known.
        (
            one_more(Planting(fault(), "1.32.0", "untried"), Planting(fault(), "1.32.0", "missed")),
            1,
        ),
        ({"rounds": [ROUND, replace(ROUND, alarms=(ODD,))]}, 1),
        ({"rounds": [ROUND, replace(ROUND, alarms=(GONE,))]}, 3),
        ({"rounds": [ROUND, replace(ROUND, expectations=("expectations[0]: …",))]}, 1),
        ({"rounds": [ROUND]}, 3),
        ({"rounds": [ROUND, replace(ROUND, untried=1)]}, 3),
        ({"neighbours": [replace(BESIDE, untried=1)]}, 3),
        ({"neighbours": [replace(BESIDE, spoilt=(ODD,))]}, 1),
        ({"neighbours": [replace(BESIDE, spoilt=(GONE,))]}, 3),
        ({"neighbours": [replace(BESIDE, other_outcome=(ODD,))]}, 1),
        ({"neighbours": [replace(BESIDE, left_behind=("process sleep (7)",))]}, 1),
    ],
)
def test_the_exit_code_follows_from_what_was_found(changes: dict[str, Any], code: int) -> None:
    assert proof(**changes).exit_code == code


def test_the_end_counts_by_family_and_in_all() -> None:
    out = shown(proof(plantings=[*proof().plantings, Planting(fault(), "1.30.0", "missed")]))

    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == [
        "family",
        "faults",
        "planted",
        "detected",
        "contained",
        "otherwise",
        "missed",
        "untried",
    ]
    assert lines[1] == ["copy", "2", "4", "2", "1", "0", "1", "0"]
    assert lines[2] == ["all", "2", "4", "2", "1", "0", "1", "0"]
    assert "16 sessions with a hostile fault in 1 whole run: 0 of 9 other cells spoilt" in out
    assert "0 false alarms in 198 cells of 2 rounds" in out
    assert "NOT OK  61 s; exit 1 (something is not as expected)" in out


def test_everything_that_is_wrong_is_named() -> None:
    missed = Planting(
        fault(), "1.32.0", "otherwise", "copy/c", "failed/native-error", "it said \x1b[31mno"
    )
    out = shown(
        proof(
            plantings=[missed],
            rounds=[replace(ROUND, alarms=(ODD,), expectations=("expectations[3]: x",))],
            neighbours=[replace(BESIDE, spoilt=(GONE,), left_behind=("process sleep (7)",))],
            elsewhere=[fault(name="elsewhere")],
        )
    )

    assert (
        "OTHERWISE half-copied on 1.32.0 (due: failed/wrong-result or crashed/SIGSEGV): copy/c: "
        "failed/native-error: it said \\x1b[31mno\n" in out
    )
    assert "FALSE ALARM: 1.30.0/serialized/copy/z: failed (wrong-result), unexpected" in out
    assert "FALSE ALARM: expectations[3]: x" in out
    assert "SPOILT by a fault of another cell: 1.30.0/serialized/copy/z: infra-error" in out
    assert "LEFT BEHIND on 1.24.4: process sleep (7)" in out
    assert "Can occur on none of the selected cores: elsewhere." in out


def test_all_that_is_well_is_said_shortly() -> None:
    out = shown(proof())

    assert out.rstrip().splitlines()[-1] == (
        "OK  61 s; exit 0 (all as expected); everything is kept in /out"
    )
    for word in ("ALARM:", "MISSED", "SPOILT", "LEFT BEHIND"):
        assert word not in out


def test_the_page_has_a_row_for_each_fault_and_no_time() -> None:
    odd = fault(name="odd", what="A | B of `x` and <b>.", stands_for="[1] *is* one.")
    page = render_page(
        proof(
            plantings=[
                *proof().plantings,
                Planting(odd, "1.24.4", "missed", "copy/c", "passed/ok"),
                Planting(odd, "1.32.0", "detected", "copy/b[x]", "failed/wrong-result"),
            ]
        )
    )

    found = {row[0]: row[1:] for row in rows(page) if row}
    assert found["copy"] == ["3", "5", "3", "1", "0", "1", "0"]
    assert found["half-copied"] == [
        "Half of it is copied.",
        "A copy is whole.",
        "1.24.4, 1.32.0",
        "copy/a, copy/b",
        "failed/wrong-result, crashed/SIGSEGV",
    ]
    assert found["chatty"][2:] == ["1.24.4", "contained", "passed/ok"]
    assert found["odd"] == [
        "A | B of `x` and <b>.",
        "[1] *is* one.",
        "1.24.4, 1.32.0",
        "copy/b[x]; not on 1.24.4",
        "failed/wrong-result",
    ]
    assert "61" not in page
    assert "1.24.4, 1.32.0" in page
