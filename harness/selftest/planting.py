"""Plants one fault on one core: which cores, which scenarios, and the run that shows it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from harness.artifacts.cores import Core
from harness.config import ScenarioSettings
from harness.errors import SelectionError
from harness.execute import Progress, quiet
from harness.names import matches
from harness.results import CellResult
from harness.selftest.faults import VARIABLE, Fault
from harness.selftest.scoring import Planting, score
from harness.workflow import Ground, Planned, execute_run, judge_run, lay_out

__all__ = [
    "HANG_LIMIT_S",
    "Site",
    "ends_and_middle",
    "limited",
    "narrowed",
    "plant",
    "sites",
    "stages",
    "unwatched",
]

HANG_LIMIT_S = 6.0
"""The time limit where a fault hangs: waited for twice, since what hung is tried again alone."""


@dataclass(frozen=True)
class Site:
    """One fault on one core."""

    fault: Fault
    core: Core


def sites(faults: Sequence[Fault], cores: Sequence[Core], *, everywhere: bool) -> tuple[Site, ...]:
    """Where faults are planted.

    Args:
        faults: what to plant.
        cores: of the matrix, or those of them that the user selected.
        everywhere: on every core where a fault can occur, not on three.

    Returns:
        For each fault the oldest, the middle and the newest of the cores, as far as it can occur
        there; if on none of the three, the newest of the others. A fault that can occur on none
        of the cores has no site.

    Raises:
        SelectionError: no fault can occur on any of the cores.
    """
    three = ends_and_middle(cores)
    found: list[Site] = []
    for fault in faults:
        where = [core for core in _by_version(cores) if fault.can_occur(core.version)]
        chosen = where if everywhere else [core for core in where if core in three]
        found += [Site(fault, core) for core in chosen or where[-1:]]
    if not found:
        raise SelectionError(
            "None of the selected faults can occur on any of the selected cores.",
            "`cores` in the row of a fault says where it can.",
        )
    return tuple(found)


def ends_and_middle(cores: Sequence[Core]) -> tuple[Core, ...]:
    """The oldest, the middle and the newest of some cores; fewer if there are no three."""
    ordered = _by_version(cores)
    places = dict.fromkeys((0, len(ordered) // 2, len(ordered) - 1))
    return tuple(ordered[place] for place in places)


def plant(site: Site, planned: Planned, folder: Path, stop: threading.Event) -> Planting:
    """Run scenarios with a fault until one notices it as its row demands, and say what came of it.

    First one scenario that must notice it, then the others that must, then all that are left.
    Each of these is a run with a folder of its own.

    Args:
        site: what to plant, and where.
        planned: a plan with all cores and scenarios.
        folder: takes the run folders, `1` to `3`.
        stop: when set, no further run begins.
    """
    fault, core = site.fault, site.core
    cells: list[CellResult] = []
    planting = score(fault, core.id, cells)
    for number, names in enumerate(stages(fault, list(planned.ground.scenarios)), 1):
        if stop.is_set():
            break
        narrow = narrowed(
            planned,
            core,
            names,
            {VARIABLE: fault.name},
            timeout_s=HANG_LIMIT_S if fault.hangs else None,
        )
        run = execute_run(narrow, output=folder / str(number), jobs=1, watch=unwatched, stop=stop)
        cells += judge_run(run, narrow.ground.loaded).results.cells
        planting = score(fault, core.id, cells)
        if planting.score in ("detected", "contained"):
            break
    return planting


def narrowed(
    planned: Planned,
    core: Core,
    scenarios: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout_s: float | None = None,
) -> Planned:
    """One core's part of a plan, in the mode that the policy says.

    Args:
        planned: the whole.
        core: the core to keep.
        scenarios: the names of those to keep.
        environment: variables to add for the hosts.
        timeout_s: seconds for every scenario and every other phase of a host; as the matrix and
            the scenarios say if none.
    """
    ground = planned.ground if timeout_s is None else limited(planned.ground, timeout_s)
    # A core may be driven in a second mode as well, by an override; the first is the policy's.
    mode = next(plan.mode for plan in planned.plans if plan.core == core.id)
    selection = replace(
        planned.selection,
        cores=(core.id,),
        scenarios=tuple(scenarios),
        mode=mode,
        environment={**planned.selection.environment, **environment},
    )
    plans = lay_out(ground, selection, planned.plugin, [(core.id, core.version)])
    return replace(planned, ground=ground, selection=selection, cores=[core], plans=plans)


def limited(ground: Ground, timeout_s: float) -> Ground:
    """The same with one time limit, in seconds, for every scenario and phase of a host."""
    settings = {"*": ScenarioSettings(timeout_s=timeout_s)}
    matrix = ground.loaded.matrix.model_copy(update={"timeout_s": timeout_s, "scenarios": settings})
    return replace(ground, loaded=replace(ground.loaded, matrix=matrix))


@contextlib.contextmanager
def unwatched(counts: Mapping[str, int]) -> Iterator[Progress]:  # noqa: ARG001 - as a run asks it
    """What `execute_run` takes to show a run; shows nothing."""
    yield quiet


def _by_version(cores: Sequence[Core]) -> list[Core]:
    return sorted(cores, key=lambda core: Version(core.version))


def stages(fault: Fault, names: Sequence[str]) -> Iterator[list[str]]:
    """The scenarios in the order in which they are worth trying; no stage is empty."""
    must = list(
        dict.fromkeys(name for glob in fault.noticed_by for name in names if matches(glob, name))
    )
    others = [name for name in names if name not in must]
    yield from (stage for stage in (must[:1], must[1:], others) if stage)
