"""All that a selftest came to, and the exit code that follows from it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.outcome import INFRASTRUCTURE
from harness.results import CellResult
from harness.selftest.faults import Fault
from harness.selftest.neighbours import Neighbours
from harness.selftest.scoring import Planting

__all__ = ["Proof", "Round"]


@dataclass(frozen=True)
class Round:
    """One run of the conforming plugin over all scenarios."""

    folder: Path
    cells: int
    alarms: tuple[CellResult, ...]
    """The cells that are not as expected."""
    untried: int
    """The cells that an interruption left out."""
    expectations: tuple[str, ...]
    """The expectations that do not hold, or match nothing."""


@dataclass(frozen=True)
class Proof:
    """What was planted and found, what was spoilt, and what was alarmed about without a cause."""

    folder: Path
    plugin: str
    """Name and version."""
    versions: tuple[str, ...]
    """Of the cores."""
    plantings: Sequence[Planting]
    elsewhere: Sequence[Fault]
    """The faults that can occur on none of the selected cores."""
    neighbours: Sequence[Neighbours]
    rounds: Sequence[Round]
    planned_rounds: int
    seconds: float

    @property
    def conforming_cells(self) -> int:
        """The cells of the conforming plugin."""
        return sum(one.cells for one in self.rounds)

    @property
    def alarms(self) -> int:
        """The cells and expectations of the conforming plugin that are not as they should be."""
        return sum(len(one.alarms) + len(one.expectations) for one in self.rounds)

    @property
    def exit_code(self) -> int:
        """0 all found and no false alarm; 1 not so; 3 not all was tried, and no more is known."""
        wrong = [
            cell
            for cells in (
                *(one.alarms for one in self.rounds),
                *(one.spoilt for one in self.neighbours),
                *(one.other_outcome for one in self.neighbours),
            )
            for cell in cells
        ]
        if (
            any(cell.outcome not in INFRASTRUCTURE for cell in wrong)
            or any(one.expectations for one in self.rounds)
            or any(one.left_behind for one in self.neighbours)
            or any(one.score in ("otherwise", "missed") for one in self.plantings)
        ):
            return 1
        untried = (
            any(one.score == "untried" for one in self.plantings)
            or any(one.untried for one in self.neighbours)
            or any(one.untried for one in self.rounds)
            or len(self.rounds) < self.planned_rounds
        )
        return 3 if wrong or untried else 0
