"""What came of planted faults: found as their rows demand, otherwise, or not at all. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.results import CellResult
from harness.selftest.faults import FAMILIES, Family, Fault

__all__ = ["SCORES", "Planting", "Score", "Tally", "score", "tallies"]

Score = Literal["detected", "contained", "otherwise", "missed", "untried"]
"""Of one fault on one core:

* `detected`: a scenario of its row reports an outcome of its row, and the cell is not as expected
* `contained`: the harness should not mind, and did not
* `otherwise`: another scenario noticed, or the outcome was another
* `missed`: every scenario that was tried was as expected
* `untried`: nothing was seen, because of the machine or an interruption
"""
SCORES: tuple[Score, ...] = get_args(Score)

_BY_THE_PLUGIN = ("no-ep-device", "scenario-error")
"""Reasons of `infra-error` that a fault of a plugin can bring about."""


@dataclass(frozen=True)
class Planting:
    """One fault on one core, and the cell that tells most of it."""

    fault: Fault
    core: str
    score: Score
    scenario: str = ""
    outcome: str = ""
    """Outcome and reason of the attempt that tells it."""
    detail: str = ""


@dataclass(frozen=True)
class Tally:
    """The plantings of one family, counted."""

    family: Family
    faults: int
    scores: Mapping[Score, int]

    @property
    def planted(self) -> int:
        """How often a fault of the family was planted."""
        return sum(self.scores.values())


def score(fault: Fault, core: str, cells: Sequence[CellResult]) -> Planting:
    """What the cells that were tried tell of a fault, the best of it first.

    Args:
        fault: what was planted.
        core: where.
        cells: of scenarios that ran with the fault, in the order in which they ran.
    """
    told = [_told(fault, core, cell) for cell in cells]
    for wanted in ("detected", "contained", "otherwise", "untried", "missed"):
        for one in told:
            if one.score == wanted:
                return one
    return Planting(fault, core, "untried", detail="no scenario was tried")


def tallies(plantings: Iterable[Planting]) -> tuple[Tally, ...]:
    """The counts by family, in the order of the families; those with nothing planted left out."""
    found = list(plantings)
    counted = []
    for family in FAMILIES:
        own = [one for one in found if one.fault.family == family]
        if own:
            faults = {one.fault.name for one in own}
            counted.append(Tally(family, len(faults), Counter(one.score for one in own)))
    return tuple(counted)


def _told(fault: Fault, core: str, cell: CellResult) -> Planting:
    """What one cell tells of a fault."""
    # A cell that failed, and passed when it was tried again, told it the first time.
    failures = [f"{a.outcome}/{a.reason}" for a in cell.attempts if a.outcome != "passed"]
    seen = failures if cell.verdict == "flaky" else [f"{cell.outcome}/{cell.reason}"]
    demanded = next((one for one in seen if one in fault.outcome), None)

    def planting(score: Score) -> Planting:
        return Planting(fault, core, score, cell.scenario, demanded or seen[0], cell.detail)

    must = fault.must_be_noticed_by(cell.scenario)
    if cell.verdict == "expected":
        fine = fault.contained and must and demanded is not None
        return planting("contained" if fine else "missed")
    if must and demanded is not None and not fault.contained:
        return planting("detected")
    harness = cell.outcome == "infra-error" and cell.reason not in _BY_THE_PLUGIN
    if harness or cell.outcome == "not-run":
        return planting("untried")
    # A scenario that this core or mode has no room for has seen nothing, fault or no fault.
    return planting("missed" if cell.outcome == "unsupported" else "otherwise")
