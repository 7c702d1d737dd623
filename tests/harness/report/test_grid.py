from __future__ import annotations

from typing import get_args

from harness.config import Mode, Outcome
from harness.report.grid import Column, grid_of, mark, marks_in
from harness.results import Verdict
from tests.harness.report import samples


def test_no_two_meanings_share_a_mark_and_all_marks_are_short_ascii() -> None:
    cell = samples.real_run().cells[0].model_copy(update={"attempts": []})
    marks = [
        mark(cell.model_copy(update={"outcome": outcome, "verdict": verdict}))
        for outcome in get_args(Outcome)
        for verdict in get_args(Verdict)
    ]
    assert len({shown.text for shown in marks}) == 8 * 4
    assert all(shown.text.isascii() and 1 <= len(shown.text) <= 2 for shown in marks)


def test_the_grid_has_a_column_for_each_core_and_a_row_for_each_scenario() -> None:
    grid = grid_of(samples.real_run())
    assert tuple(column.core for column in grid.columns) == samples.CORES
    assert grid.scenarios == samples.SCENARIOS
    assert len(grid.cells) == 99
    assert [shown.text for shown in marks_in(grid)] == [".", "r"]


def test_a_core_whose_cells_have_both_modes_has_two_columns() -> None:
    run = samples.real_run()
    twice = [
        cell.model_copy(update={"mode": mode, "id": f"{cell.id}-{mode}"})
        for cell in run.cells
        if cell.core in ("1.31.0", "1.32.0")
        for mode in (get_args(Mode) if cell.core == "1.32.0" else ("serialized",))
    ]
    grid = grid_of(samples.run_of(twice, cores=("1.31.0", "1.32.0")))
    assert grid.columns == (
        Column("1.31.0", "serialized"),
        Column("1.32.0", "serialized"),
        Column("1.32.0", "concurrent"),
    )
    assert len(grid.cells) == 27


def test_a_core_without_cells_keeps_its_column() -> None:
    run = samples.real_run()
    grid = grid_of(samples.run_of([cell for cell in run.cells if cell.core != "1.28.0"]))
    assert Column("1.28.0", None) in grid.columns
