"""The grid of scenarios against cores, and the mark that stands for a cell in it; pure.

A mark tells verdict and outcome by its letters alone. What was expected is one quiet character:
a dot for a pass, a small letter for any other outcome. What was not expected is a sign with a
capital letter: ``!`` unexpected, ``~`` flaky, ``+`` improved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.config import Mode, Outcome
from harness.report.grouping import core_names, ordered_cells, scenario_names, shown_outcome, worse
from harness.results import CellResult, Results, Verdict

__all__ = ["Column", "Grid", "Mark", "grid_of", "mark", "marks_in"]

_LETTERS: Mapping[Outcome, str] = {
    "passed": "p",
    "failed": "f",
    "crashed": "c",
    "hung": "h",
    "rejected": "r",
    "unsupported": "u",
    "not-run": "n",
    "infra-error": "i",
}
_SIGNS: Mapping[Verdict, str] = {"unexpected": "!", "flaky": "~", "improved": "+"}


@dataclass(frozen=True)
class Mark:
    """What stands in the grid for a cell.

    Attributes:
        text: one or two ASCII characters.
        verdict: the verdict of the cell, which decides the emphasis.
        passed: whether it stands for a pass.
        meaning: the legend.
    """

    text: str
    verdict: Verdict
    passed: bool
    meaning: str


@dataclass(frozen=True)
class Column:
    """A column: a core, and the mode of its cells (none if it has no cells)."""

    core: str
    mode: Mode | None


@dataclass(frozen=True)
class Grid:
    """The cells of a run by scenario and column."""

    columns: tuple[Column, ...]
    scenarios: tuple[str, ...]
    cells: Mapping[tuple[str, Column], CellResult]

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes that occur, without repetition."""
        return tuple(dict.fromkeys(c.mode for c in self.columns if c.mode is not None))


def grid_of(results: Results) -> Grid:
    """The grid of a run: one column a core, or two for a core whose cells have both modes."""
    cells: dict[tuple[str, Column], CellResult] = {}
    for cell in ordered_cells(results):
        place = (cell.scenario, Column(cell.core, cell.mode))
        # Of several repetitions, the worst stands for all.
        cells[place] = worse(cells.get(place, cell), cell)
    modes: dict[str, dict[Mode, None]] = {}
    for _, column in cells:
        if column.mode is not None:
            modes.setdefault(column.core, {})[column.mode] = None
    columns = [
        Column(core, mode) for core in core_names(results) for mode in modes.get(core, [None])
    ]
    return Grid(tuple(columns), scenario_names(results), cells)


def mark(cell: CellResult) -> Mark:
    """The mark of a cell."""
    outcome = shown_outcome(cell)
    letter, passed = _LETTERS[outcome], outcome == "passed"
    if cell.verdict == "expected":
        if passed:
            return Mark(".", "expected", passed=True, meaning="passed, as expected")
        return Mark(letter, "expected", passed=False, meaning=f"{outcome}, as expected")
    meaning = {
        "unexpected": f"{outcome.upper()}, NOT as expected",
        "flaky": f"FLAKY: {outcome}, but not when repeated alone",
        "improved": f"IMPROVED: {outcome}, worse was expected",
    }[cell.verdict]
    return Mark(_SIGNS[cell.verdict] + letter.upper(), cell.verdict, passed, meaning)


def marks_in(grid: Grid) -> tuple[Mark, ...]:
    """The marks that occur in a grid: quiet ones first, each once."""
    found = dict.fromkeys(mark(cell) for cell in grid.cells.values())
    return tuple(
        sorted(found, key=lambda m: (m.verdict != "expected", not m.passed, m.verdict, m.text))
    )
