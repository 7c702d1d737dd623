"""A selftest as a list of steps: prepare, plant, run beside hostile faults, run without any."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from harness.artifacts.cores import Core
from harness.artifacts.progress import Progress as DownloadProgress
from harness.artifacts.progress import no_progress
from harness.errors import ConfigError, InputError, SelectionError
from harness.matrix_file import shipped_matrix
from harness.quoting import perhaps
from harness.selftest.faults import FAMILIES, Fault, check_faults, read_faults
from harness.selftest.live import Steps
from harness.selftest.neighbours import Neighbours, plantable, run_beside_faults
from harness.selftest.planting import Site, ends_and_middle, plant, sites, unwatched
from harness.selftest.proof import Proof, Round
from harness.selftest.scoring import Planting
from harness.store import create_folder
from harness.waiting import results_of
from harness.workflow import Ground, Planned, Selection, execute_run, judge_run, plan_on, prepare

__all__ = ["Prepared", "Wanted", "prepare_proof", "prove"]

PLUGIN = "reference"
_OF_PLUGIN = "ORT_REFERENCE_EP_"
ENOUGH_CELLS = 1000
_BESIDE, _CONFORMING = "whole runs beside hostile faults", "rounds without a fault"


@dataclass(frozen=True)
class Wanted:
    """What the user asked for."""

    matrix: Path | None = None
    """The matrix with the entry of the plugin; the shipped one if none."""
    library: Path | None = None
    """A build of the plugin to take in place of that of the entry."""
    faults: tuple[str, ...] = ()
    """Globs over names and families of faults; all if empty."""
    cores: tuple[str, ...] = ()
    every_core: bool = False
    """Whether a fault is planted on every core where it can occur, not on three."""
    rounds: int | None = None
    """Rounds of the conforming plugin; as `cells` says if none."""
    cells: int | None = None
    """At least so many cells of the conforming plugin; 1,000 if none, or 0 of a part of the
    faults."""
    output: Path | None = None


@dataclass(frozen=True)
class Prepared:
    """What is going to be run."""

    planned: Planned
    sites: Sequence[Site]
    elsewhere: Sequence[Fault]
    """The faults that can occur on none of the cores."""
    beside: Sequence[Core]
    """The cores of the whole runs beside hostile faults."""
    hostile: Sequence[Fault]
    rounds: int
    output: Path | None


def prepare_proof(
    wanted: Wanted,
    *,
    packages: Sequence[str] | None = None,
    progress: DownloadProgress = no_progress,
) -> Prepared:
    """Read the faults, resolve plugin and cores, and lay out what is to be run.

    Args:
        wanted: what the user asked for.
        packages: the packages that bring scenarios; those of installed distributions if none.
        progress: told of downloads.

    Raises:
        HarnessError: the faults, the matrix or the selection are wrong, or nothing can be had.
    """
    for name, value in os.environ.items():
        if name.startswith(_OF_PLUGIN) and value:
            raise InputError(
                f"{name} is set to {value}, and the plugin would not be the one to be proved.",
                "Unset it; a selftest plants faults itself.",
            )
    ground = prepare(wanted.matrix or shipped_matrix(), packages)
    if wanted.library is not None:
        ground = _with_library(ground, wanted.library)
    faults = read_faults()
    chosen = _chosen(faults, wanted.faults)
    planned = plan_on(ground, Selection(plugin=PLUGIN, cores=wanted.cores), progress=progress)
    check_faults(
        faults,
        scenarios=ground.scenarios,
        rejections=[one.reason for one in ground.loaded.matrix.rejections],
        versions=None if wanted.cores else [core.version for core in planned.cores],
    )
    where = sites(chosen, planned.cores, everywhere=wanted.every_core)
    planted = {site.fault.name for site in where}
    hostile = [fault for fault in chosen if fault.name in planted and plantable(fault)]
    return Prepared(
        planned,
        where,
        [fault for fault in chosen if fault.name not in planted],
        ends_and_middle(planned.cores) if hostile else (),
        hostile,
        _rounds(wanted, sum(len(plan.cells) for plan in planned.plans)),
        wanted.output,
    )


def prove(
    prepared: Prepared,
    *,
    jobs: int,
    watch: Callable[[Mapping[str, int]], AbstractContextManager[Steps]],
    stop: threading.Event,
) -> Proof:
    """Run everything, and say what came of it.

    Args:
        prepared: what to run.
        jobs: how many hosts work at the same time; those that wait for the end of a hang are not
            counted.
        watch: shows what goes on; given groups of steps to their numbers.
        stop: when set, nothing more begins.
    """
    began = time.monotonic()
    planned = prepared.planned
    folder = create_folder(prepared.output, "selftest")
    groups: Counter[str] = Counter(site.fault.family for site in prepared.sites)
    extra = {_BESIDE: len(prepared.beside), _CONFORMING: prepared.rounds}
    with watch({**groups, **{name: number for name, number in extra.items() if number}}) as steps:
        plantings, neighbours = _plant_all(prepared, folder, jobs, steps, stop)
        rounds = []
        for number in range(1, prepared.rounds + 1):
            if stop.is_set():
                break
            rounds.append(_round(planned, folder / "conforming" / str(number), jobs, stop))
            steps.finished(_CONFORMING, str(number), _told_of(rounds[-1]))
    plugin = planned.plugin
    return Proof(
        folder=folder,
        plugin=f"{plugin.name} {plugin.version or ''}".strip(),
        versions=tuple(core.version for core in planned.cores),
        plantings=plantings,
        elsewhere=prepared.elsewhere,
        neighbours=neighbours,
        rounds=rounds,
        planned_rounds=prepared.rounds,
        seconds=time.monotonic() - began,
    )


def _plant_all(
    prepared: Prepared, folder: Path, jobs: int, steps: Steps, stop: threading.Event
) -> tuple[list[Planting], list[Neighbours]]:
    planned = prepared.planned

    def one(site: Site) -> Planting:
        planting = plant(site, planned, folder / "faults" / site.fault.name / site.core.id, stop)
        where = f"{site.fault.name} on {site.core.id}"
        steps.finished(site.fault.family, where, planting.score)
        return planting

    def beside(core: Core) -> Neighbours:
        found = run_beside_faults(
            planned, core, prepared.hostile, folder / "beside" / core.id, stop
        )
        steps.finished(_BESIDE, core.id, "as expected" if found.fine else "spoilt")
        return found

    # Hosts that hang take no processor, so that they can wait beside those that work. Some of a
    # whole run's hosts do, too.
    with ThreadPoolExecutor(jobs) as working, ThreadPoolExecutor(jobs) as waiting:
        try:
            runs = [waiting.submit(beside, core) for core in prepared.beside]
            planted = [
                (waiting if site.fault.hangs else working).submit(one, site)
                for site in prepared.sites
            ]
            return results_of(planted), results_of(runs)
        except BaseException:
            stop.set()
            raise


def _round(planned: Planned, folder: Path, jobs: int, stop: threading.Event) -> Round:
    run = execute_run(planned, output=folder, jobs=jobs, watch=unwatched, stop=stop)
    results = judge_run(run, planned.ground.loaded).results
    summary = results.summary
    tried = [cell for cell in results.cells if cell.reason != "interrupted"]
    return Round(
        run,
        len(tried),
        tuple(cell for cell in tried if cell.verdict != "expected"),
        len(results.cells) - len(tried),
        (*summary.outdated_expectations, *summary.unmatched_expectations),
    )


def _told_of(one: Round) -> str:
    return "with a false alarm" if one.alarms or one.expectations else "as expected"


def _rounds(wanted: Wanted, cells: int) -> int:
    if wanted.rounds is not None:
        return wanted.rounds
    enough = wanted.cells
    if enough is None:
        enough = 0 if wanted.faults else ENOUGH_CELLS
    return -(-enough // cells)


def _chosen(faults: Sequence[Fault], globs: Sequence[str]) -> list[Fault]:
    """The faults that any of the globs matches, by name or family; all without a glob."""
    for glob in globs:
        if not any(_meant(glob, fault) for fault in faults):
            known = [*FAMILIES, *(fault.name for fault in faults)]
            raise SelectionError(
                f'--fault "{glob}" matches no fault' + perhaps(glob, known),
                "`ort-ep-matrix selftest --list` lists them.",
            )
    return [fault for fault in faults if not globs or any(_meant(g, fault) for g in globs)]


def _meant(glob: str, fault: Fault) -> bool:
    return fnmatchcase(fault.name, glob) or fault.family == glob


def _with_library(ground: Ground, library: Path) -> Ground:
    """The same with a build of the plugin by path."""
    matrix = ground.loaded.matrix
    entry = matrix.plugins.get(PLUGIN)
    if entry is None:
        raise ConfigError(f'{ground.loaded.path} has no entry "{PLUGIN}" under plugins.')
    given = {"path": str(library.absolute()), "requirement": None, "bundled": False}
    plugins = {**matrix.plugins, PLUGIN: entry.model_copy(update=given)}
    loaded = replace(ground.loaded, matrix=matrix.model_copy(update={"plugins": plugins}))
    return replace(ground, loaded=loaded)
