"""Whether a hostile fault costs its own cell alone: whole runs in which single sessions have one.

The scenarios of `harness.selftest.planted` stand between all others. What happens in theirs must
leave the others as they are, the run folder readable, and nothing behind.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from pathlib import Path

from harness.artifacts.cores import Core
from harness.host.scenario import find_scenarios
from harness.results import CellResult
from harness.selftest.faults import Fault
from harness.selftest.leftovers import RUN, left_files, left_processes, temporary_in, unusual
from harness.selftest.planted import HOSTILE
from harness.selftest.planting import narrowed, unwatched
from harness.store import read_case, write_record
from harness.workflow import Planned, execute_run, judge_run

__all__ = ["Neighbours", "interleaved", "plantable", "run_beside_faults", "weigh"]

_PACKAGE = "harness.selftest.planted"


@dataclass(frozen=True)
class Neighbours:
    """What one whole run with hostile faults in single sessions came to."""

    core: str
    planted: int
    """Cells that had a fault."""
    others: int
    """Cells that had none."""
    spoilt: tuple[CellResult, ...]
    """Of the cells that had none, those that are not as expected."""
    other_outcome: tuple[CellResult, ...]
    """Of the cells that had a fault, those with another outcome than its row demands."""
    untried: int
    """Cells of either kind that an interruption left out."""
    left_behind: tuple[str, ...]
    """Processes and files that are left."""

    @property
    def fine(self) -> bool:
        """Whether each fault cost its own cell and no more."""
        return not (self.spoilt or self.other_outcome or self.untried or self.left_behind)


def plantable(fault: Fault) -> bool:
    """Whether a fault can be planted for the life of one session."""
    return fault.name in HOSTILE


def run_beside_faults(
    planned: Planned, core: Core, faults: Sequence[Fault], folder: Path, stop: threading.Event
) -> Neighbours:
    """Run every scenario on a core, with sessions that have a hostile fault in between.

    Args:
        planned: a plan with all scenarios.
        core: where.
        faults: those that `harness.selftest.planted` can plant.
        folder: takes the run folder, `run`, and the temporary files of its hosts.
        stop: when set, the run ends early.
    """
    names = list(planned.ground.scenarios)
    # What a core writes by itself, as some do, is nobody's fault.
    usual = folder / "before"
    without = narrowed(planned, core, names[:1], temporary_in(usual))
    before = execute_run(without, output=usual / RUN, jobs=1, watch=unwatched, stop=stop)
    judge_run(before, planned.ground.loaded)

    wanted = {_scenario_of(fault.name): fault.name for fault in faults}
    ours = find_scenarios([_PACKAGE])
    woven = interleaved([name for name in ours if name in wanted], names)
    ground = replace(
        planned.ground,
        packages=[*planned.ground.packages, _PACKAGE],
        scenarios={**planned.ground.scenarios, **ours},
    )
    whole = narrowed(replace(planned, ground=ground), core, woven, temporary_in(folder))
    (plan,) = whole.plans
    by_name = {cell.scenario: cell for cell in plan.cells}
    whole = replace(whole, plans=[replace(plan, cells=tuple(by_name[name] for name in woven))])
    run = execute_run(whole, output=folder / RUN, jobs=1, watch=unwatched, stop=stop)
    _name_repeats(run, core, wanted)
    cells = judge_run(run, ground.loaded).results.cells
    left = [*left_processes(folder), *unusual(left_files(folder), left_files(usual))]
    return replace(weigh(core.id, cells, faults), left_behind=tuple(left))


def interleaved(few: Sequence[str], many: Sequence[str]) -> list[str]:
    """Both sequences as one, in which what stands in the first is spread over the second."""
    parts = len(few) + 1
    cuts = [len(many) * place // parts for place in range(parts + 1)]
    stretches = [many[start:end] for start, end in pairwise(cuts)]
    woven: list[str] = []
    for stretch, one in zip_longest(stretches, few):
        woven += [*stretch, *([] if one is None else [one])]
    return woven


def weigh(core: str, cells: Sequence[CellResult], faults: Sequence[Fault]) -> Neighbours:
    """What the cells of such a run show, without what was left behind.

    Args:
        core: its id.
        cells: of the run.
        faults: that were planted.
    """
    by_name = {_scenario_of(fault.name): fault for fault in faults}
    tried = [cell for cell in cells if cell.reason != "interrupted"]
    own = [cell for cell in tried if cell.scenario in by_name]
    others = [cell for cell in tried if cell.scenario not in by_name]
    return Neighbours(
        core,
        planted=len(own),
        others=len(others),
        spoilt=tuple(cell for cell in others if cell.verdict != "expected"),
        other_outcome=tuple(cell for cell in own if not _as_demanded(cell, by_name[cell.scenario])),
        untried=len(cells) - len(tried),
        left_behind=(),
    )


def _scenario_of(fault: str) -> str:
    return f"selftest/planted[{fault}]"


def _as_demanded(cell: CellResult, fault: Fault) -> bool:
    """Whether a cell that had a fault shows it, or need not."""
    if cell.verdict == "expected":
        return fault.contained or not fault.must_be_noticed_by(cell.scenario)
    return f"{cell.outcome}/{cell.reason}" in fault.outcome and cell.verdict == "unexpected"


def _name_repeats(run: Path, core: Core, faults: Mapping[str, str]) -> None:
    """Let the record name the command that repeats a cell with a fault: no `run` has it."""
    _, record = read_case(run)
    repeats = {
        cell.id: f"ort-ep-matrix selftest --core {core.id} --fault {faults[cell.scenario]}"
        for cell in record.cells
        if cell.scenario in faults
    }
    write_record(run, record.model_copy(update={"repeat": {**record.repeat, **repeats}}))
