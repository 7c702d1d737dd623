from __future__ import annotations

import pytest

from harness.report.grouping import (
    causes,
    expected_causes,
    modes_text,
    ordered_cells,
    overlap_lines,
    places,
    shown_log,
    shown_outcome,
    shown_reason,
    signature,
)
from harness.results import CellResult, Overlap
from tests.harness.report import samples


def _with_detail(detail: str) -> CellResult:
    return samples.failed(samples.real_run().cells[0]).model_copy(update={"detail": detail})


def test_a_run_as_expected_has_no_causes() -> None:
    assert causes(samples.real_run()) == ()


def test_ninety_nine_equal_crashes_are_one_cause() -> None:
    (cause,) = causes(samples.crash_everywhere())
    assert (cause.outcome, cause.reason, len(cause.cells)) == ("crashed", "signal", 99)
    assert cause.example.core == "1.24.4"


def test_causes_are_in_the_agreed_order_worst_first() -> None:
    found = [(cause.verdict, cause.outcome) for cause in causes(samples.everything_wrong())]
    assert found == [
        ("unexpected", "crashed"),
        ("flaky", "crashed"),
        ("unexpected", "hung"),
        ("unexpected", "failed"),
        ("unexpected", "unsupported"),
        ("unexpected", "infra-error"),
        ("improved", "passed"),
    ]


def test_every_cell_that_is_not_as_expected_is_in_exactly_one_cause() -> None:
    run = samples.everything_wrong()
    told = sorted(cell.id for cause in causes(run) for cell in cause.cells)
    assert told == sorted(cell.id for cell in run.cells if cell.verdict != "expected")


def test_among_equal_outcomes_the_cause_with_more_cells_comes_first() -> None:
    run = samples.change(samples.real_run(), samples.failed, core="1.24.4", scenario="copy/cpu-io")
    run = samples.change(
        run,
        lambda cell: samples.failed(cell).model_copy(update={"reason": "wrong-device"}),
        core="1.32.0",
    )
    assert [(cause.reason, len(cause.cells)) for cause in causes(run)] == [
        ("wrong-device", 9),
        ("wrong-value", 1),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("fault at 0x7ffd12", "fault at 0xAB"),
        ("got 0.5, expected -1", "got 12, expected 3.25e-07"),
        ("handle deadbeef12 lost", "handle 0123456789ab lost"),
        ("copy/cpu-io on 1.24.4", "copy/cpu-io on 1.31.1"),
        ("two  words\nhere", "two words here"),
    ],
)
def test_details_that_differ_in_numbers_addresses_and_space_are_one_cause(
    one: str, other: str
) -> None:
    assert signature(_with_detail(one)) == signature(_with_detail(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("device lost", "device removed"), ("input 0 wrong", "output 0 wrong"), ("accede", "facade")],
)
def test_details_that_differ_in_words_are_two_causes(one: str, other: str) -> None:
    assert signature(_with_detail(one)) != signature(_with_detail(other))


def test_the_names_of_the_cell_itself_do_not_part_causes() -> None:
    run = samples.change(
        samples.real_run(),
        lambda cell: samples.failed(cell).model_copy(
            update={"detail": f"{cell.scenario} on {cell.core} gave the wrong answer"}
        ),
    )
    assert len(causes(run)) == 1


def test_a_flaky_cell_is_shown_by_its_worst_attempt_with_the_log_of_that_one() -> None:
    cell = samples.flaky(samples.real_run().cells[0])
    assert (cell.outcome, cell.log) == ("passed", "logs/1.24.4/copy-cpu-io.log.2")
    assert (shown_outcome(cell), shown_reason(cell)) == ("crashed", "signal")
    assert shown_log(cell) == "logs/1.24.4/copy-cpu-io.log"


def test_a_flaky_rejection_is_shown_by_the_crash_before_it() -> None:
    cell = samples.flaky(samples.real_run().cells[0])
    second = cell.attempts[1].model_copy(update={"outcome": "rejected"})
    cell = cell.model_copy(update={"outcome": "rejected", "attempts": [cell.attempts[0], second]})
    assert shown_outcome(cell) == "crashed"


def test_what_was_expected_and_is_no_pass_is_told_apart() -> None:
    (cause,) = expected_causes(samples.real_run())
    assert (cause.outcome, cause.reason, len(cause.cells)) == ("rejected", "version-check", 9)


def _places(*chosen: tuple[str, str]) -> tuple[str, ...]:
    run = samples.real_run()
    return places([cell for cell in run.cells if (cell.core, cell.scenario) in chosen], run)


def test_places_name_whole_rows_columns_and_spans() -> None:
    every = samples.SCENARIOS
    one = "copy/cpu-io"
    assert places(samples.real_run().cells, samples.real_run()) == (
        "all 11 cores: all 9 scenarios",
    )
    assert _places(*((core, one) for core in samples.CORES[4:])) == ("1.27.0 to 1.32.0: " + one,)
    assert _places(*(("1.26.0", name) for name in every)) == ("1.26.0: all 9 scenarios",)
    assert _places(*(("1.26.0", name) for name in every[1:])) == (
        "1.26.0: all 9 scenarios but copy/cpu-io",
    )
    assert _places(*(("1.26.0", name) for name in every[6:8])) == ("1.26.0: allocation/* (all 2)",)
    assert _places(
        *((core, one) for core in samples.CORES if core not in ("1.25.0", "1.28.0"))
    ) == ("all 11 cores but 1.25.0, 1.28.0: " + one,)
    assert _places(("1.24.4", one), ("1.32.0", one)) == ("1.24.4, 1.32.0: " + one,)


def test_places_choose_the_shorter_way_to_say_it() -> None:
    first, second = samples.SCENARIOS[0], samples.SCENARIOS[8]
    chosen = [("1.24.4", first), ("1.25.0", first), ("1.25.0", second), ("1.25.1", second)]
    assert _places(*chosen) == ("1.24.4, 1.25.0: " + first, "1.25.0, 1.25.1: " + second)


def test_a_cause_that_shows_in_one_mode_alone_is_told_so_where_the_other_one_passed() -> None:
    run = samples.real_run()
    core = run.cells[-1].core
    serialized = [cell for cell in run.cells if cell.core == core][:2]
    twins = [cell.model_copy(update={"mode": "concurrent"}) for cell in serialized]
    both = run.model_copy(update={"cells": [*serialized, *twins]})

    assert {cell.mode for cell in serialized} == {"serialized"}
    assert modes_text(twins, both) == "concurrent alone; serialized, the same 2 cells passed"
    assert modes_text(serialized[:1], both) == "serialized alone; concurrent, the same cell passed"
    assert modes_text([serialized[0], twins[1]], both) == "both"
    # What was not driven in the other mode, or has trouble there as well, tells nothing.
    assert modes_text(serialized, run) == ""
    other = serialized[0].model_copy(update={"outcome": "hung"})
    troubled = run.model_copy(update={"cells": [other, serialized[1], *twins]})
    assert modes_text(twins, troubled) == ""
    assert modes_text(twins[1:], troubled) != ""


def test_cells_are_ordered_by_the_cores_of_the_run_and_keep_their_order_within_one() -> None:
    run = samples.real_run()
    shuffled = run.model_copy(update={"cells": [c for c in run.cells if c.core != "1.25.0"]
                                      + [c for c in run.cells if c.core == "1.25.0"]})  # fmt: skip
    assert ordered_cells(shuffled) == tuple(run.cells)


def test_a_run_without_lanes_has_no_line_about_them() -> None:
    assert overlap_lines(samples.real_run()) == ()


def test_overlap_is_told_for_each_mode_with_the_scenario_that_had_least() -> None:
    assert overlap_lines(samples.lanes_in_two_modes()) == (
        (
            "1.31.0 to 1.32.0: 50% of 2400 native calls of lanes began inside another lane's; "
            "least 0.5%, in copy/device-cpu-device on 1.31.1"
        ),
        "1.24.4 to 1.25.1: 600 native calls of lanes, one at a time as serialized mode wants",
    )


def test_lanes_that_called_nothing_have_no_share() -> None:
    cell = samples.real_run().cells[0]
    idle = cell.model_copy(update={"overlap": Overlap(free=True, calls=0, overlapped=0)})

    (line,) = overlap_lines(samples.run_of([idle], cores=[cell.core]))

    assert line.startswith("1.24.4: 0% of 0 native calls")
