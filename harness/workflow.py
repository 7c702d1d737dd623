"""A run as a list of steps, each given what the one before it made."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import shlex
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from harness import __version__
from harness.artifacts.cache import Cache, default_cache
from harness.artifacts.cores import Core, list_cores, resolve_cores
from harness.artifacts.lock import Lock, read_lock
from harness.artifacts.locking import write_lock
from harness.artifacts.plugins import Plugin, resolve_plugin
from harness.artifacts.progress import Progress as DownloadProgress
from harness.artifacts.progress import no_progress
from harness.artifacts.python_packages import PythonPackage, python_packages
from harness.audit import Audit, audit_of
from harness.config import Expectation, Matrix, PluginEntry
from harness.errors import ConfigError, InputError, PluginError, SelectionError
from harness.execute import Progress, Setting, execute, quiet, unfinished
from harness.files import existing_path
from harness.host.lean import lean_numpy
from harness.host.scenario import Scenario, find_scenarios, scenario_packages
from harness.judge import judge
from harness.matrix_file import LoadedMatrix, find_matrix, load, shipped_matrix
from harness.names import matches, suggestion
from harness.outcome import REASONS
from harness.plan import Cell, CorePlan, Selection, make_plan, select_scenarios
from harness.policy import Decision, decide
from harness.quoting import perhaps
from harness.recorded import (
    cores_again,
    matrix_again,
    packages_again,
    plans_again,
    plugin_again,
)
from harness.report.atomic import write_atomic
from harness.report.audit_report import audit_page, write_audit
from harness.report.json_report import write_results
from harness.report.junit import write_audit_junit, write_junit
from harness.report.markdown import render_markdown
from harness.results import (
    CellResult,
    CoreResult,
    Observation,
    PluginResult,
    Results,
    RunInfo,
)
from harness.store import (
    RunRecord,
    case_of,
    clear_leftovers,
    create_folder,
    hold,
    read_case,
    recorder,
    write_record,
)

__all__ = [
    "Ground",
    "Judged",
    "Planned",
    "Resumed",
    "Selection",
    "execute_cell",
    "execute_run",
    "judge_run",
    "lay_out",
    "plan_on",
    "plan_run",
    "prepare",
    "record_of",
    "resume_run",
]

LOCK_NAME = "matrix.lock.json"
_ID_OF_ONE = re.compile(r"([^@/\\]+)@[0-9a-f]{8}")


@dataclass(frozen=True)
class Ground:
    """What every command stands on: the matrix, its lock, the cache and the scenarios."""

    loaded: LoadedMatrix
    lock: Lock | None
    cache: Cache
    packages: Sequence[str]
    scenarios: Mapping[str, Scenario]

    @property
    def base(self) -> Path:
        """The folder that relative paths of the matrix start from."""
        return self.loaded.path.parent


@dataclass(frozen=True)
class Planned:
    """A selection with everything that it needs, ready to be executed."""

    ground: Ground
    selection: Selection
    plugin: Plugin
    cores: Sequence[Core]
    plans: Sequence[CorePlan]
    python_packages: Mapping[str, PythonPackage] = field(default_factory=dict)
    """By the core's id, of the cores that have cells of kind `python`."""


@dataclass(frozen=True)
class Resumed:
    """A run that was gone on with: what it is judged by, and how many cells were left of it."""

    loaded: LoadedMatrix
    left: int


@dataclass(frozen=True)
class Judged:
    """What a run amounts to, and what its audit does if it was made for one."""

    results: Results
    audit: Audit | None = None

    @property
    def exit_code(self) -> int:
        """Of the command that made the run."""
        return self.results.summary.exit_code if self.audit is None else self.audit.exit_code


def prepare(matrix: Path | None, packages: Sequence[str] | None = None) -> Ground:
    """Load the matrix and find the scenarios.

    Args:
        matrix: the one that the user named; that of the working directory or the shipped one if
            none.
        packages: the packages that bring scenarios; those of installed distributions if none.

    Raises:
        ConfigError: the matrix or its lock is wrong, or names scenarios that there are not.
        InputError: an installed package brings scenarios that cannot be imported or that have the
            name of others.
    """
    loaded = _load_matrix(matrix)
    packages = scenario_packages() if packages is None else packages
    try:
        with lean_numpy():
            scenarios = find_scenarios(packages)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"The scenarios of the installed packages cannot be used: {error}.",
            f"They are brought by {', '.join(packages)}.",
        ) from error
    _check_expectations(loaded, list(scenarios))
    return Ground(
        loaded, read_lock(loaded.path.parent / LOCK_NAME), default_cache(), packages, scenarios
    )


def _load_matrix(matrix: Path | None) -> LoadedMatrix:
    """The matrix that the user named, or that of the working directory, or the shipped one."""
    try:
        return load((matrix or find_matrix(Path.cwd())).absolute())
    except OSError as error:
        raise InputError(
            f"The working directory cannot be used: {error.strerror or error}.",
            "Change to a folder that exists and that you may read.",
        ) from None


def plan_run(
    selection: Selection, *, refresh: bool = False, progress: DownloadProgress = no_progress
) -> Planned:
    """Resolve the plugin and the cores, and lay out the cells.

    Raises:
        HarnessError: the selection or the matrix is wrong, or nothing can be had.
    """
    return plan_on(prepare(selection.matrix), selection, refresh=refresh, progress=progress)


def plan_on(
    ground: Ground,
    selection: Selection,
    *,
    refresh: bool = False,
    progress: DownloadProgress = no_progress,
) -> Planned:
    """What `plan_run` does once it stands on firm ground.

    Raises:
        HarnessError: as `plan_run`.
    """
    matrix = ground.loaded.matrix
    # A misspelt scenario is told before anything is fetched.
    select_scenarios(list(ground.scenarios), selection.scenarios)
    plugin = _plugin(ground, selection, refresh=refresh, progress=progress)
    cores = resolve_cores(
        matrix,
        ground.base,
        ground.cache,
        lock=ground.lock,
        selectors=[_without_digits(text) for text in selection.cores],
        refresh=refresh,
        progress=progress,
    )
    wanted = _chosen_ids([core.id for core in cores], selection.cores)
    cores = [core for core in cores if core.id in wanted]
    plans = lay_out(ground, selection, plugin, [(core.id, core.version) for core in cores])
    wanted = {cell.core for plan in plans for cell in plan.cells if cell.host == "python"}
    packages = python_packages(
        [core for core in cores if core.id in wanted and core.library is not None],
        ground.cache,
        refresh=refresh,
        progress=progress,
    )
    return Planned(ground, selection, plugin, cores, plans, packages)


def plan_cells(
    selection: Selection, *, progress: DownloadProgress = no_progress
) -> Sequence[CorePlan]:
    """The cells of a selection. The plugin is fetched, since its version decides; no core is.

    Raises:
        HarnessError: as `plan_run`.
    """
    ground = prepare(selection.matrix)
    matrix = ground.loaded.matrix
    select_scenarios(list(ground.scenarios), selection.scenarios)
    plugin = _plugin(ground, selection, refresh=False, progress=progress)
    cores = list_cores(
        matrix,
        ground.base,
        ground.cache,
        lock=ground.lock,
        selectors=[_without_digits(text) for text in selection.cores],
    )
    wanted = _chosen_ids([core for core, _ in cores], selection.cores)
    return lay_out(ground, selection, plugin, [core for core in cores if core[0] in wanted])


def _plugin(
    ground: Ground, selection: Selection, *, refresh: bool, progress: DownloadProgress
) -> Plugin:
    return resolve_plugin(
        ground.loaded.matrix,
        ground.base,
        ground.cache,
        selection.plugin,
        refresh=refresh,
        progress=progress,
        shipped=shipped_matrix(),
    )


def _without_digits(text: str) -> str:
    """The version in a core's id, as a selector: ids of one version differ in what follows @."""
    id_of_one = _ID_OF_ONE.fullmatch(text)
    return id_of_one[1] if id_of_one else text


def _chosen_ids(ids: Sequence[str], selectors: Sequence[str]) -> set[str]:
    """The ids that selectors leave, where some of them name one core among several of a version.

    Raises:
        SelectionError: such a selector names none.
    """
    named = {text for text in selectors if _ID_OF_ONE.fullmatch(text)}
    missing = named - set(ids)
    if missing:
        raise SelectionError(
            f'--core "{min(missing)}" matches no core of the matrix.',
            f"Of those versions there are: {', '.join(ids)}.",
        )
    spoken_for = {_without_digits(text) for text in named}
    return {one for one in ids if one in named or _without_digits(one) not in spoken_for}


def lay_out(
    ground: Ground, selection: Selection, plugin: Plugin, cores: Sequence[tuple[str, str]]
) -> tuple[CorePlan, ...]:
    """The cells of a selection on cores, given by id and version.

    Raises:
        HarnessError: as `harness.plan.make_plan`.
    """
    return make_plan(
        ground.loaded.matrix,
        cores=cores,
        plugin_name=plugin.name,
        plugin_version=plugin.version,
        entry=plugin.entry,
        scenarios=list(ground.scenarios.values()),
        scenario_globs=selection.scenarios,
        iterations=selection.iterations,
        mode=selection.mode,
        repeat=selection.repeat,
        shuffle=selection.shuffle,
        environment=os.environ,
        user_environment=selection.environment,
    )


def lock_cores(matrix: Path | None, progress: DownloadProgress) -> tuple[Path, Lock]:
    """Write the lock beside the matrix.

    Returns:
        Its path and what it holds.
    """
    own = matrix or Path("matrix.yaml")
    if not own.exists():
        raise InputError(
            f"There is no {own} to lock here.",
            "A lock stands beside the matrix that it locks: name one with --matrix.",
        )
    loaded = load(own.absolute())
    path = loaded.path.parent / LOCK_NAME
    return path, write_lock(loaded.matrix, loaded.path.parent, default_cache(), path, progress)


def ask_policy(
    matrix: Path | None,
    plugin: str | None,
    plugin_version: str | None,
    core: str,
    environment: Mapping[str, str],
) -> Decision:
    """What the policy says of a core and a version of a plugin.

    Raises:
        PluginError: the matrix has no such entry.
        InputError: a version is none, or the environment says what the policy does not know.
    """
    loaded = _load_matrix(matrix)
    name = plugin or loaded.matrix.plugin
    if name is None:
        raise PluginError(
            f"No plugin was named, and {loaded.path} has no default one.",
            'Name one with --plugin, or set "plugin:" there.',
        )
    entry = loaded.matrix.plugins.get(name)
    if entry is None:
        raise PluginError(
            f'There is no entry "{name}" under plugins in {loaded.path}.',
            f"Entries: {', '.join(loaded.matrix.plugins) or 'none'}.",
        )
    return decide(
        entry.policy,
        loaded.matrix.core_checks,
        core=core,
        plugin_version=plugin_version or _version_of_entry(entry),
        environment={
            **loaded.matrix.environment,
            **entry.environment,
            **os.environ,
            **environment,
        },
    )


def _version_of_entry(entry: PluginEntry) -> str | None:
    """The version that an entry names, or pins in its requirement."""
    if entry.version is not None or entry.requirement is None:
        return entry.version
    pinned = [part for part in Requirement(entry.requirement).specifier if part.operator == "=="]
    return pinned[0].version if pinned and "*" not in pinned[0].version else None


def execute_run(
    planned: Planned,
    *,
    output: Path | None,
    jobs: int,
    watch: Callable[[Mapping[str, int]], AbstractContextManager[Any]],
    stop: threading.Event,
    once_alone: bool = False,
) -> Path:
    """Execute what was planned and record it.

    Args:
        planned: the cells and what they need.
        output: the run folder; one in `reports/` if none.
        jobs: how many cores are driven at the same time.
        watch: shows what goes on; given core ids to numbers of cells.
        stop: when set, the run ends early and what was not tried is recorded as such.
        once_alone: whether each cell is tried once, in a host of its own, and believed.

    Returns:
        The run folder.
    """
    folder = create_folder(output, planned.plugin.name)
    record = record_of(planned, folder, jobs).model_copy(update={"once_alone": once_alone})
    with hold(folder, new=True):
        write_record(folder, record)
        setting = _setting(planned, folder, recorder(folder), quiet, stop, once_alone=once_alone)
        _execute_and_finish(planned.plans, planned.cores, setting, record, watch)
    return folder


def resume_run(
    folder: Path,
    *,
    jobs: int,
    watch: Callable[[Mapping[str, int]], AbstractContextManager[Any]],
    stop: threading.Event,
) -> Resumed:
    """Execute what is unfinished of a run that was killed or interrupted.

    What was recorded counts as if this process had seen it. Of a run in which nothing is left
    to do nothing is changed.

    Args:
        folder: the run folder.
        jobs: how many cores are driven at the same time.
        watch: shows what goes on; given core ids to numbers of cells that are left.
        stop: when set, the run ends early once more.

    Returns:
        What the run is judged by, and how many cells were left.

    Raises:
        InputError: the folder is no run folder, something runs in it, or what the run was made
            of is not there any more as it was.
        RunFolderError: it cannot be read or written.
    """
    # Nothing is written into a folder that is none of ours, a lock included.
    read_case(folder)
    with hold(folder):
        clear_leftovers(folder)
        case, record = read_case(folder)
        planned = _planned_again(record)
        run = record.run
        once = record.once_alone
        setting = _setting(planned, folder, recorder(folder), quiet, stop, once_alone=once)
        left = unfinished(planned.plans, planned.cores, setting, case.observations)
        if left:
            run = run.model_copy(
                update={"resumed": [*run.resumed, _now()], "finished": "", "jobs": jobs}
            )
            write_record(folder, record.model_copy(update={"run": run}))
            setting = replace(setting, part=f"resumed-{len(run.resumed)}")
        if left or not run.finished:
            _execute_and_finish(
                left,
                planned.cores,
                setting,
                record.model_copy(update={"run": run}),
                watch,
                before=case.observations,
            )
            clear_leftovers(folder)
    return Resumed(planned.ground.loaded, sum(len(plan.cells) for plan in left))


def _execute_and_finish(
    plans: Sequence[CorePlan],
    cores: Sequence[Core],
    setting: Setting,
    record: RunRecord,
    watch: Callable[[Mapping[str, int]], AbstractContextManager[Any]],
    before: Sequence[Observation] = (),
) -> None:
    if plans:
        counts = Counter[str]()
        for plan in plans:
            counts[plan.core] += len(plan.cells)
        with watch(counts) as live:
            progress = Progress(live.started, live.finished)
            execute(plans, cores, replace(setting, progress=progress), record.run.jobs, before)
    finished = record.run.model_copy(update={"finished": _now()})
    write_record(setting.folder, record.model_copy(update={"run": finished}))


def _planned_again(record: RunRecord) -> Planned:
    """What was planned for a recorded run, from what was recorded of it.

    Raises:
        InputError: something of it was changed since, or is missing.
    """
    if record.selection is None:
        raise InputError(
            "The run was begun by a version of ort-ep-matrix that does not go on with runs.",
            "Start a new run.",
        )
    if record.platform != _platform():
        raise InputError(
            f"The run was begun on {record.platform}, and this is {_platform()}.",
            "Go on there, or start a new run.",
        )
    selection = replace(record.selection, matrix=matrix_again(record.run))
    ground = prepare(selection.matrix)
    plugin = plugin_again(record.plugin, ground.loaded.matrix)
    cores = cores_again(record.cores)
    plans = lay_out(ground, selection, plugin, [(core.id, core.version) for core in cores])
    again = plans_again(plans, record.cells)
    packages = packages_again(record.python_packages, cores, ground.cache)
    return Planned(ground, selection, plugin, cores, again, packages)


def execute_cell(
    planned: Planned, record: RunRecord, cell: Cell, folder: Path
) -> tuple[CellResult, Sequence[Observation]]:
    """Execute one cell by itself, in hosts of its own, and judge it.

    Several processes may do so in one run folder at the same time. Nothing is written there but
    logs: what was seen is for the caller to record.

    Args:
        planned: the cells and what they need.
        record: of the run, as `record_of` makes it.
        cell: one of the planned cells.
        folder: the run folder.

    Returns:
        The cell's result, and what was seen of it.
    """
    seen: list[Observation] = []
    (plan,) = [plan for plan in planned.plans if cell in plan.cells]
    part = f"cell-{[one.id for one in record.cells].index(cell.id) + 1}"
    setting = _setting(planned, folder, seen.append, quiet, threading.Event())
    execute([replace(plan, cells=(cell,))], planned.cores, replace(setting, part=part), jobs=1)
    case = replace(case_of(record, seen), cells=[cell], whole=False)
    matrix = planned.ground.loaded.matrix
    (result,) = judge(case, matrix, lambda one: record.repeat.get(one.id, "")).cells
    return result, seen


def matrix_of_run(folder: Path) -> Path:
    """The matrix.yaml that a run was planned from.

    Raises:
        InputError: the folder is no run folder, or the file is not there any more.
        RunFolderError: it cannot be read.
    """
    path = Path(read_case(folder)[1].run.matrix)
    if not path.is_file():
        raise InputError(
            f"The matrix.yaml of this run, {path}, is not there.",
            "Name the one to judge it by with --matrix.",
        )
    return path


def judge_run(folder: Path, loaded: LoadedMatrix) -> Judged:
    """Judge a run folder and write its reports into it.

    The reports of an audit are about the policy, not about expectations; there is an `audit.json`
    then, and `results.json` holds its cells.
    """
    case, record = read_case(folder)
    run = case.run.model_copy(
        update={
            "finished": case.run.finished or _now(),
            "matrix_sha256": loaded.sha256,
            "matrix": str(loaded.path),
        }
    )
    results = judge(
        replace(case, run=run),
        loaded.matrix,
        lambda cell: record.repeat.get(cell.id, ""),
        loaded.expectation_lines,
    )
    if not record.once_alone:
        write_results(results, folder / "results.json")
        write_junit(results, folder / "junit.xml")
        write_atomic(folder / "summary.md", render_markdown(results).encode())
        return Judged(results)
    audit = audit_of(results)
    # The command's own: what a single cell should have done is not what an audit asks.
    summary = results.summary.model_copy(update={"exit_code": audit.exit_code})
    results = results.model_copy(update={"summary": summary})
    write_results(results, folder / "results.json")
    write_audit(audit, results, folder / "audit.json")
    write_audit_junit(audit, results, folder / "junit.xml")
    write_atomic(folder / "summary.md", audit_page(audit, results).encode())
    return Judged(results, audit)


def _setting(
    planned: Planned,
    folder: Path,
    record: Callable[[Observation], None],
    progress: Progress,
    stop: threading.Event,
    *,
    once_alone: bool = False,
) -> Setting:
    matrix = planned.ground.loaded.matrix
    return Setting(
        plugin=planned.plugin,
        rejections=matrix.rejections,
        scenario_packages=planned.ground.packages,
        setup_timeout_s=matrix.timeout_s,
        folder=folder,
        models=planned.ground.cache.root / "models",
        python_packages=planned.python_packages,
        record=record,
        progress=progress,
        stop=stop,
        once_alone=once_alone,
    )


def record_of(planned: Planned, folder: Path, jobs: int) -> RunRecord:
    """What is known of a run before its first cell."""
    plugin = planned.plugin
    # The first plan of a core is that of the mode that was asked for.
    plans = {plan.core: plan for plan in reversed(planned.plans)}
    return RunRecord(
        run=RunInfo(
            id=folder.name,
            started=_now(),
            finished="",
            harness_version=__version__,
            matrix_sha256=planned.ground.loaded.sha256,
            platform=platform.platform(),
            command=["ort-ep-matrix", *sys.argv[1:]],
            jobs=jobs,
            shuffle=planned.selection.shuffle,
            matrix=str(planned.ground.loaded.path),
        ),
        plugin=PluginResult(
            name=plugin.name,
            version=plugin.version,
            library=str(plugin.library),
            sha256=plugin.sha256,
            ep_name=None,
            registration_name=plugin.registration_name,
            described=plugin.entry is not None,
        ),
        platform=_platform(),
        cores=[
            CoreResult(
                id=core.id,
                version=core.version,
                library=str(core.library) if core.library else None,
                sha256=core.sha256,
                source=core.source,
                error=core.error,
                package=core.package,
                mode=plans[core.id].mode,
                mode_rule=_mode_rule(plans[core.id], planned),
                declared=plans[core.id].decision.mode,
            )
            for core in planned.cores
        ],
        cells=[cell for plan in planned.plans for cell in plan.cells],
        whole=planned.selection.whole,
        repeat=_repeat_commands(planned),
        selection=planned.selection,
        python_packages=dict(planned.python_packages),
    )


def _repeat_commands(planned: Planned) -> dict[str, str]:
    """Cell id to the command that repeats just that cell."""
    selection = planned.selection
    common = ["ort-ep-matrix", "run"]
    matrix = planned.ground.loaded.path
    # Paths are absolute, so that a command works in whatever folder it is pasted.
    if matrix.resolve() != shipped_matrix().resolve():
        common += ["--matrix", str(matrix)]
    if selection.plugin is not None:
        common += ["--plugin", _absolute(selection.plugin)]
    tail: list[str] = []
    if selection.iterations is not None:
        tail += ["--iterations", str(selection.iterations)]
    if selection.shuffle is not None:
        tail += ["--shuffle", str(selection.shuffle)]
    for name, value in selection.environment.items():
        tail += ["--env", f"{name}={value}"]
    both = Counter(plan.core for plan in planned.plans)

    def explicit(plan: CorePlan) -> bool:
        return selection.mode != "policy" or both[plan.core] > 1

    join = subprocess.list2cmdline if sys.platform == "win32" else shlex.join
    sources = {core.id: core for core in planned.cores}
    return {
        cell.id: join(
            [
                *common,
                "--core",
                _core_argument(sources[cell.core], selection.cores),
                "--scenario",
                cell.scenario,
                *tail,
                *(["--mode", cell.mode] if explicit(plan) else []),
            ]
        )
        for plan in planned.plans
        for cell in plan.cells
    }


def _absolute(text: str) -> str:
    """A path that exists as an absolute one; any other text as it is."""
    path = existing_path(text)
    return text if path is None else str(path.absolute())


def _mode_rule(plan: CorePlan, planned: Planned) -> str:
    decision, selection = plan.decision, planned.selection
    rule = f"{decision.rule}: {decision.why}"
    if planned.plugin.version is None and planned.plugin.entry is not None:
        rule += " The plugin's version was not known then: `version` in its entry names it."
    if selection.mode == "policy":
        forced = [one for one in planned.plans if one.core == plan.core and one is not plan]
        return rule + "".join(
            f" Driven {one.mode} as well, by the override of the plugin's entry." for one in forced
        )
    return f"--mode {selection.mode}; the policy says {decision.mode}, by {rule}"


def _core_argument(core: Core, selectors: Sequence[str]) -> str:
    """What names a core to `--core`: what the user called it there, or its id in the matrix."""
    for text in selectors:
        path = existing_path(text)
        if text == "installed" and core.source.startswith("installed"):
            return text
        if path is None or core.library is None:
            continue
        if core.library.is_relative_to(path.resolve()) or path.name in core.source:
            return _absolute(text)
    return core.id


def _check_expectations(loaded: LoadedMatrix, names: Sequence[str]) -> None:
    """An expectation that no cell and no outcome can ever meet would never be missed."""
    wrong = [
        (f"{loaded.path}:{line}: expectations[{place}]: {what}", hint)
        for place, line in enumerate(loaded.expectation_lines)
        for what, hint in _wrong_with(loaded.matrix.expectations[place], loaded.matrix, names)
    ]
    if wrong:
        texts, hints = zip(*wrong, strict=True)
        raise ConfigError("\n".join(texts), "\n".join(dict.fromkeys(hints)))


def _wrong_with(
    one: Expectation, matrix: Matrix, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """What an expectation names and there is not, with what to do."""
    for kind, pattern, known, hint in (
        ("scenario", one.scenario, names, "`ort-ep-matrix scenarios` lists them."),
        ("plugin", one.plugin, matrix.plugins, "A plugin that is expected of needs an entry."),
    ):
        if pattern == "*" or any(matches(pattern, name) for name in known):
            continue
        close = suggestion(pattern, known)
        told = f'; perhaps you meant "{close}"?' if close else "."
        yield f'{kind} "{pattern}" matches no {kind}{told}', hint
    reasons = {*REASONS, *(rejection.reason for rejection in matrix.rejections)}
    reason = one.reason
    # A signal's name is a reason, too.
    if reason is None or reason in reasons or re.fullmatch("[A-Z][A-Z0-9_]+", reason):
        return
    yield (
        f'there is no reason "{reason}"' + perhaps(reason, reasons),
        f"Reasons: {', '.join(sorted(reasons))}, and the names of signals.",
    )


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def _platform() -> str:
    return {"win32": "windows", "darwin": "macos"}.get(sys.platform, "linux")
