"""What a cell tells of a planted fault."""

from __future__ import annotations

import pytest

from harness.results import CellResult
from harness.selftest.faults import Fault
from harness.selftest.scoring import Planting, Tally, score, tallies
from tests.harness.selftest.samples import attempt, cell, contained, fault

FLAKY = [attempt("crashed", "SIGSEGV"), attempt("passed", "ok")]


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (cell("failed/wrong-result"), "detected"),
        (cell("crashed/SIGSEGV", "copy/b"), "detected"),
        # The reason is part of what is demanded, and so is the scenario.
        (cell("failed/native-error"), "otherwise"),
        (cell("crashed/SIGABRT"), "otherwise"),
        (cell("failed/wrong-result", "copy/c"), "otherwise"),
        (cell("passed/ok", verdict="expected"), "missed"),
        # An outcome that the matrix expects alarms nobody, whatever the row demands.
        (cell("failed/wrong-result", verdict="expected"), "missed"),
        # Lacking what a scenario asks for is no sight of a fault.
        (cell("unsupported/unsupported"), "missed"),
        (cell("infra-error/core-unavailable"), "untried"),
        (cell("infra-error/harness-error"), "untried"),
        (cell("not-run/interrupted"), "untried"),
        (cell("infra-error/scenario-error"), "otherwise"),
        (cell("infra-error/no-ep-device"), "otherwise"),
        # A cell that passed when it was tried again showed the fault the first time.
        (cell("passed/ok", verdict="flaky", attempts=FLAKY), "detected"),
    ],
)
def test_a_cell_is_held_against_the_row_of_the_fault(one: CellResult, wanted: str) -> None:
    assert score(fault(), "1.30.0", [one]).score == wanted


@pytest.mark.parametrize(
    ("row", "one", "wanted"),
    [
        (fault(outcome=["infra-error/no-ep-device"]), cell("infra-error/no-ep-device"), "detected"),
        # The values are right, and what was captured is not as expected.
        (fault(outcome=["passed/ok"]), cell("passed/ok"), "detected"),
        (fault(outcome=["passed/ok"]), cell("passed/ok", verdict="expected"), "missed"),
        # That it passed in the end is no sight of it.
        (
            fault(outcome=["passed/ok"]),
            cell("passed/ok", verdict="flaky", attempts=FLAKY),
            "otherwise",
        ),
        (contained(), cell("passed/ok", verdict="expected"), "contained"),
        (contained(), cell("failed/process-state"), "otherwise"),
        (contained(), cell("passed/ok", verdict="flaky", attempts=FLAKY), "otherwise"),
        (contained(), cell("passed/ok", "copy/c", "expected"), "missed"),
    ],
)
def test_a_row_may_demand_that_it_passes(row: Fault, one: CellResult, wanted: str) -> None:
    assert score(row, "1.30.0", [one]).score == wanted


def test_of_several_cells_the_best_tells() -> None:
    cells = [
        cell("passed/ok", "copy/b", "expected"),
        cell("infra-error/host-start", "copy/c"),
        cell("failed/native-error", "copy/c", detail="another"),
        cell("crashed/SIGSEGV", "copy/a", detail="the one"),
    ]

    assert score(fault(), "1.30.0", cells) == Planting(
        fault(), "1.30.0", "detected", "copy/a", "crashed/SIGSEGV", "the one"
    )
    assert score(fault(), "1.30.0", cells[:3]).detail == "another"
    assert score(fault(), "1.30.0", cells[:2]).score == "untried"
    assert score(fault(), "1.30.0", cells[:1]).score == "missed"
    assert score(fault(), "1.30.0", []).score == "untried"


def test_families_are_counted_by_what_came_of_their_plantings() -> None:
    late = fault(name="late", family="hostile")
    plantings = [
        Planting(late, "1.24.4", "missed"),
        Planting(fault(), "1.24.4", "detected"),
        Planting(fault(), "1.32.0", "otherwise"),
        Planting(fault(name="none-copied"), "1.32.0", "detected"),
    ]

    copy, hostile = tallies(plantings)

    assert copy == Tally("copy", 2, {"detected": 2, "otherwise": 1})
    assert hostile == Tally("hostile", 1, {"missed": 1})
    assert (copy.planted, hostile.planted) == (3, 1)
