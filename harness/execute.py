"""Runs the cells of the plan on host processes and contains what happens to them.

All scenarios of a core share a host until something dies, but those that ask for one of their own.
A death costs the scenario that was running: it is told of that one, and the rest goes on in a fresh
host. What failed is tried again alone in a fresh host. What had passed in a host that then died is
confirmed in a fresh one.

What was recorded of the cells before, by an engine that was killed, counts as if it had been seen
now.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import re
import secrets
import shutil
import stat
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from harness.artifacts.cores import Core
from harness.artifacts.library import holds_a_core
from harness.artifacts.plugins import Plugin
from harness.artifacts.python_packages import PythonPackage
from harness.config import DeviceChoice, Promises, ProviderOptions, Rejection
from harness.errors import RunFolderError
from harness.guardian import guarded
from harness.host_process import HostJob, HostRun, HostTask, run_host
from harness.log_end import tail, trim
from harness.outcome import (
    NO_DEVICE,
    NO_OVERLAP,
    AskedFor,
    Finding,
    classify,
    died_with_a_device,
    is_failure,
    needs_repeat,
    settled,
    shows_a_device,
)
from harness.plan import Cell, CorePlan
from harness.remaining import Remaining, failed_in_setup, remaining
from harness.results import Death, HostIdentity, MappedFile, Observation, ScenarioReport
from harness.waiting import results_of

__all__ = ["Progress", "Setting", "execute", "quiet", "unfinished"]

_NO_PACKAGE = PythonPackage(None, None, "none was looked for")
# Lanes that did not meet may meet when the machine is less busy.
_TRIES_TO_MEET = 3
_STOPPED = "interrupted: the run was stopped"
_CORE_NAME = re.compile(
    r"(lib)?onnxruntime(\.so(\.[\d.]+)?|(\.[\d.]+)?\.dylib|\.dll)", re.IGNORECASE
)


@dataclass(frozen=True)
class Progress:
    """Who is told what is going on: the core's id and a cell's id, then its outcome."""

    started: Callable[[str, str], None]
    finished: Callable[[str, str, str], None]


quiet = Progress(lambda core, cell: None, lambda core, cell, outcome: None)


@dataclass(frozen=True)
class Setting:
    """What all hosts of a run have in common."""

    plugin: Plugin
    rejections: Sequence[Rejection]
    scenario_packages: Sequence[str]
    setup_timeout_s: float
    folder: Path
    """The run folder; logs go to `logs`, what hosts need for themselves to `hosts`."""
    models: Path
    python_packages: Mapping[str, PythonPackage]
    """By the core's id; of the cores that have cells of kind `python`."""
    record: Callable[[Observation], None]
    progress: Progress
    stop: threading.Event
    once_alone: bool = False
    """Each cell is tried once, in a host of its own, and what is seen is believed."""
    part: str = ""
    """Keeps the hosts apart from those of other executions in the same run folder."""

    @property
    def hosts(self) -> Path:
        """The folder for what hosts need for themselves."""
        return self.folder / "hosts" / self.part

    @property
    def options(self) -> ProviderOptions:
        """The plugin's provider options by purpose; none are known of a plugin without entry."""
        return self.plugin.entry.options if self.plugin.entry else ProviderOptions()

    @property
    def promises(self) -> Promises:
        """What is said of the plugin's device memory; nothing of a plugin without entry."""
        return self.plugin.entry.promises if self.plugin.entry else Promises()

    @property
    def no_device_messages(self) -> Sequence[str]:
        """How the plugin says that the machine has no device for it."""
        entry = self.plugin.entry
        return entry.no_device.messages if entry and entry.no_device else ()

    @property
    def device(self) -> DeviceChoice:
        """Which EP device is driven."""
        return self.plugin.entry.device if self.plugin.entry else DeviceChoice()


def unfinished(
    plans: Sequence[CorePlan],
    cores: Sequence[Core],
    setting: Setting,
    before: Sequence[Observation],
) -> list[CorePlan]:
    """The plans with the cells alone that something is still to be tried of.

    Args:
        plans: the cells, core by core.
        cores: the cores of the plans.
        setting: what all hosts have in common.
        before: what was recorded of the cells.
    """
    by_id = {core.id: core for core in cores}
    left = []
    for plan in plans:
        drive = _Drive(plan, by_id[plan.core], setting, before)
        if drive.cells:
            left.append(replace(plan, cells=drive.cells))
    return left


def execute(
    plans: Sequence[CorePlan],
    cores: Sequence[Core],
    setting: Setting,
    jobs: int,
    before: Sequence[Observation] = (),
) -> None:
    """Run all cells, cores side by side; everything that is seen is recorded at once.

    Args:
        plans: the cells, core by core.
        cores: the cores of the plans; one that could not be had costs its own cells.
        setting: what all hosts have in common.
        jobs: how many cores are driven at the same time.
        before: what was recorded of the cells by an engine that did not finish them.
    """
    by_id = {core.id: core for core in cores}
    mark = f"{secrets.token_hex(8)}-"
    try:
        with (
            guarded(mark),
            ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="core") as pool,
        ):
            drives = [_Drive(plan, by_id[plan.core], setting, before, mark) for plan in plans]
            futures = [pool.submit(_run_core, drive) for drive in drives]
            try:
                results_of(futures)
            except BaseException:
                setting.stop.set()
                raise
    finally:
        shutil.rmtree(setting.hosts, ignore_errors=True)


def _run_core(drive: _Drive) -> None:
    try:
        _run_cells(drive)
    except RunFolderError:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of ours must not cost the other cores
        traceback.print_exc()
        for cell in drive.cells:
            if not drive.is_finished(cell):
                drive.give_up(cell, f"harness-error: {type(error).__name__}: {error}")


def _run_cells(drive: _Drive) -> None:
    if drive.core.library is None:
        for cell in drive.cells:
            drive.give_up(cell, f"core-unavailable: {drive.core.error}")
        return
    if drive.once_alone:
        for cell in drive.cells:
            if cell.id in drive.host([cell]).findings:
                drive.finish(cell)
            else:
                drive.give_up(cell, _STOPPED)
        return
    shared = [cell for cell in drive.cells if not cell.alone]
    # A host is of one kind.
    for kind in dict.fromkeys(cell.host for cell in shared):
        _run_group(drive, [cell for cell in shared if cell.host == kind])
    for cell in drive.cells:
        if cell.alone:
            _run_group(drive, [cell])


def _run_group(drive: _Drive, cells: Sequence[Cell]) -> None:
    seen_before = [cell for cell in cells if drive.remaining(cell) == "alone"]
    rest = [cell for cell in cells if drive.remaining(cell) == "together"]
    suspects, unconfirmed = _together(drive, rest)
    suspects = [*seen_before, *suspects]
    if unconfirmed:
        seen = drive.host(unconfirmed)
        for cell in unconfirmed:
            if seen.clean and not seen.suspicious(cell):
                drive.finish(cell)
            else:
                suspects.append(cell)
    for cell in suspects:
        seen = drive.host([cell])
        for _ in range(_TRIES_TO_MEET - 1):
            if cell.id not in seen.findings or seen.findings[cell.id].reason != NO_OVERLAP:
                break
            seen = drive.host([cell])
        if cell.id in seen.findings:
            drive.finish(cell)
        else:
            drive.give_up(cell, _STOPPED)


def _together(drive: _Drive, rest: list[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Run the cells in as few hosts as deaths allow.

    Returns:
        The cells that a host of their own must see again, and those that had passed in a host
        that then died.
    """
    suspects: list[Cell] = []
    unconfirmed: list[Cell] = []
    setup_had_failed = bool(rest) and all(map(drive.failed_in_setup, rest))
    while rest:
        seen = drive.host(rest)
        if seen.setup_failed:
            # Nothing ran, and it is the same for all cells: one more host is proof enough.
            if not setup_had_failed and seen.suspicious(rest[0]):
                setup_had_failed = True
                continue
            for cell in rest:
                drive.finish(cell)
            break
        for cell in [cell for cell in rest if cell.id in seen.findings]:
            if seen.suspicious(cell):
                suspects.append(cell)
            elif seen.clean:
                drive.finish(cell)
            else:
                unconfirmed.append(cell)
        rest = [cell for cell in rest if cell.id not in seen.findings]
    return suspects, unconfirmed


@dataclass(frozen=True)
class _Seen:
    """What one host showed of the cells that it reached."""

    findings: Mapping[str, Finding]
    clean: bool
    setup_failed: bool
    device_seen: bool = False
    """Whether it or a host before it showed that the machine has a device."""

    def suspicious(self, cell: Cell) -> bool:
        """Whether the cell must be seen again, in a host of its own."""
        finding = self.findings.get(cell.id)
        if finding is None or needs_repeat(finding) or finding.shared:
            return True
        # A device that was there and is gone may be the doing of another scenario.
        return self.device_seen and finding.reason == NO_DEVICE


@dataclass(frozen=True)
class _Time:
    """When a host was started, and how long it lasted."""

    started: str
    seconds: float


class _Drive:
    """One core's cells on their way through host processes: attempts, names and records."""

    def __init__(
        self,
        plan: CorePlan,
        core: Core,
        setting: Setting,
        before: Sequence[Observation],
        mark: str = "",
    ) -> None:
        self.core = core
        self._plan = plan
        self._setting = setting
        self._mark = mark
        self._asked = AskedFor(core.version, setting.plugin.sha256, setting.no_device_messages)
        self._before: dict[str, list[tuple[Observation, Finding]]] = defaultdict(list)
        mine = {cell.id for cell in plan.cells}
        for one in settled([one for one in before if one.cell in mine]):
            finding = classify(one, self._asked, setting.rejections)
            self._before[one.cell].append((one, finding))
        self._device_seen = any(
            _had_a_device(*one) for tried in self._before.values() for one in tried
        )
        self.cells = tuple(cell for cell in plan.cells if self.remaining(cell) != "nothing")
        """Of which something is still to be tried."""
        self._attempts = {
            cell.id: max((one.attempt for one, _ in self._before[cell.id]), default=0)
            for cell in plan.cells
        }
        self._failed_before = {
            cell
            for cell, tried in self._before.items()
            if any(_went_wrong(finding) for _, finding in tried)
        }
        self._finished: set[str] = set()
        self._last: dict[str, Finding] = {}
        self._hosts = 0

    @property
    def once_alone(self) -> bool:
        """Whether each cell is tried once, in a host of its own."""
        return self._setting.once_alone

    def remaining(self, cell: Cell) -> Remaining:
        """What is still to be tried of a cell by what was recorded of it before."""
        return remaining(
            self._before[cell.id],
            once=self._setting.once_alone,
            device_seen=self._device_seen,
        )

    def failed_in_setup(self, cell: Cell) -> bool:
        """Whether the last host before this drive could not be set up for a cell."""
        tried = self._before[cell.id]
        return bool(tried) and failed_in_setup(tried[-1][0])

    def host(self, cells: Sequence[Cell]) -> _Seen:
        """Run cells in a fresh host and record what was seen of those that it reached."""
        if self._setting.stop.is_set():
            for cell in cells:
                last = self._last.get(cell.id)
                if last is None or last.outcome != "not-run":
                    self.give_up(cell, _STOPPED)
            return _Seen(dict(self._last), clean=True, setup_failed=False)
        self._hosts += 1
        started, clock = _now(), time.monotonic()
        job = self._job(cells)
        logs = {task.cell: task.log for task in job.tasks}
        for log in logs.values():
            _fresh(log)
        by_task = {cell.task: cell for cell in cells}
        alone = len(cells) == 1
        run = run_host(
            job,
            on_start=lambda task: self._setting.progress.started(self.core.id, by_task[task].id),
            on_report=lambda report: self._record_early(
                report, by_task[report.scenario], job, started, alone=alone
            ),
            stop=self._setting.stop,
        )
        lasted = _Time(started, time.monotonic() - clock)
        observations = {
            cell: self._observe(run, cell, job, logs[cell.id], lasted, alone=alone)
            for cell in cells
        }
        findings = {}
        for cell, observation in observations.items():
            if observation is None:
                continue
            self._attempts[cell.id] += 1
            self._setting.record(observation)
            finding = classify(observation, self._asked, self._setting.rejections)
            if _went_wrong(self._last.get(cell.id, finding)):
                self._failed_before.add(cell.id)
            findings[cell.id] = self._last[cell.id] = finding
            self._device_seen |= _had_a_device(observation, finding)
        shutil.rmtree(job.scratch, ignore_errors=True)
        return _Seen(
            findings,
            clean=run.end is not None and run.end.clean,
            setup_failed=_setup_failed(run),
            device_seen=self._device_seen,
        )

    def _record_early(
        self, report: ScenarioReport, cell: Cell, job: HostJob, started: str, *, alone: bool
    ) -> None:
        """Record what must be repeated before the host has ended, which may take minutes.

        Were it lost with the engine, a pass in a later attempt would hide it.
        """
        early = Observation(
            cell=cell.id,
            attempt=self._next_attempt(cell),
            alone=alone,
            host=job.name,
            report=report,
            clean_end=False,
            early=True,
            log=self._log(cell).relative_to(self._setting.folder).as_posix(),
            started=started,
            duration_s=report.duration_s,
        )
        if needs_repeat(classify(early, self._asked, self._setting.rejections)):
            self._setting.record(early)

    def finish(self, cell: Cell) -> None:
        """Tell, once, that nothing more is tried of a cell."""
        if self.is_finished(cell):
            return
        self._finished.add(cell.id)
        outcome = self._last[cell.id].outcome
        flaky = outcome == "passed" and cell.id in self._failed_before
        self._setting.progress.finished(self.core.id, cell.id, "flaky" if flaky else outcome)

    def is_finished(self, cell: Cell) -> bool:
        """Whether nothing more is tried of a cell."""
        return cell.id in self._finished

    def give_up(self, cell: Cell, why: str) -> None:
        """Record that the harness could not try a cell."""
        self._finished.add(cell.id)
        observation = Observation(
            cell=cell.id,
            attempt=self._next_attempt(cell),
            alone=False,
            host="",
            clean_end=False,
            infra=why,
            started=_now(),
            duration_s=0.0,
        )
        self._setting.record(observation)
        finding = classify(observation, self._asked, self._setting.rejections)
        self._last[cell.id] = finding
        self._setting.progress.finished(self.core.id, cell.id, finding.outcome)

    def _next_attempt(self, cell: Cell) -> int:
        return self._attempts[cell.id] + 1

    def _job(self, cells: Sequence[Cell]) -> HostJob:
        setting, plugin, device = self._setting, self._setting.plugin, self._setting.device
        assert self.core.library is not None  # noqa: S101 - such a core has no host
        number = f"{setting.part}-{self._hosts}" if setting.part else f"{self._hosts}"
        core, mode = _file_name(self.core.id), self._plan.mode
        name = f"{core}-{mode}-{number}"
        options = setting.options
        kind = cells[0].host
        package = setting.python_packages.get(self.core.id, _NO_PACKAGE)
        core_file = package.core if kind == "python" and package.core else self.core.library
        return HostJob(
            name=name,
            core=core_file,
            plugin=plugin.library,
            registration_name=plugin.registration_name,
            ep_name=plugin.entry.ep_name if plugin.entry else None,
            device_type=device.type,
            device_index=device.index,
            kind=kind,
            python_package=package.folder,
            python_lack=package.lack,
            mode=mode,
            shuffle=self._plan.shuffle,
            options={
                "always": options.always,
                "capture": options.capture,
                "cpu_nodes": None
                if options.cpu_nodes is None
                else [options.cpu_nodes.option, options.cpu_nodes.separator],
            },
            promises=setting.promises.model_dump(),
            environment=self._plan.environment,
            scenario_packages=setting.scenario_packages,
            tasks=[
                HostTask(cell.id, cell.task, cell.iterations, cell.timeout_s, self._log(cell))
                for cell in cells
            ],
            setup_timeout_s=setting.setup_timeout_s,
            models=setting.models,
            scratch=setting.hosts / name,
            log=setting.folder / "logs" / core / mode / f"host-{number}.log",
            mark=self._mark,
        )

    def _log(self, cell: Cell) -> Path:
        attempt = self._next_attempt(cell)
        parts = [_file_name(part) for part in cell.id.split("/")]
        suffix = "" if attempt == 1 else f".{attempt}"
        folder = self._setting.folder / "logs" / Path(*parts[:-1])
        return folder / f"{parts[-1]}{suffix}.log"

    def _observe(
        self, run: HostRun, cell: Cell, job: HostJob, log: Path, lasted: _Time, *, alone: bool
    ) -> Observation | None:
        """What was seen of one cell in one host; none if the host did not come to it."""
        end, report = run.end, run.reports.get(cell.task)
        hit = _hit(run)
        setup = _setup_failed(run)
        stopped = end is not None and end.how == "stopped"
        if stopped and report is None and cell.task == run.running:
            infra: str | None = _STOPPED
        elif end is None:
            infra = f"host-start: {run.infra}"
        elif run.core_unusable is not None:
            infra = f"core-unusable: {run.core_unusable}"
        else:
            infra = None
        if report is None and infra is None and (stopped or (cell.task != hit and not setup)):
            return None
        # Once a log: what was cut out of one is counted in its mark.
        told = next((one for one in (log, job.log) if trim(one)), None)
        death = None
        if end is not None and infra is None and not end.clean and not stopped:
            at_exit = hit is None and not setup
            if setup or at_exit or cell.task == hit:
                death = Death(
                    how=end.how,
                    name=end.name,
                    phase=end.last.phase,
                    iteration=end.last.iteration,
                    last_call=end.last.call,
                    inside_call=end.last.inside_call,
                    log_tail=tail(job.log if at_exit else told or job.log),
                    out_of_memory=end.out_of_memory,
                )
        return Observation(
            cell=cell.id,
            attempt=self._next_attempt(cell),
            alone=alone,
            host=job.name,
            report=report,
            death=death,
            setup_error=run.setup_failed.error if run.setup_failed else None,
            no_device=run.ready is not None and run.ready.ep_name is None,
            identity=_identity(run, job),
            clean_end=end is not None and end.clean,
            teardown_errors=run.torn_down.failures if run.torn_down else [],
            left_behind=list(end.left_behind) if end is not None and end.clean else [],
            infra=infra,
            log=told and told.relative_to(self._setting.folder).as_posix(),
            started=lasted.started,
            duration_s=report.duration_s if report else lasted.seconds,
        )


def _had_a_device(observation: Observation, finding: Finding) -> bool:
    """Whether a later host without a device must be seen again, alone."""
    return shows_a_device(observation, finding) or died_with_a_device(observation)


def _went_wrong(finding: Finding) -> bool:
    """Whether a pass after it makes a cell flaky; where it passes, there was a device."""
    return is_failure(finding) or finding.reason == NO_DEVICE


def _setup_failed(run: HostRun) -> bool:
    """Whether the host did not come as far as its first scenario."""
    return run.running is None and not run.reports


def _hit(run: HostRun) -> str | None:
    """The scenario that a host died in; none if it lived, or died when all were done."""
    if run.end is None or run.end.clean:
        return None
    if run.running is not None:
        return run.running
    if run.torn_down is None and run.end.last.phase in ("scenario", "release") and run.reports:
        return next(reversed(run.reports))
    return None


def _identity(run: HostRun, job: HostJob) -> HostIdentity:
    ready, torn_down = run.ready, run.torn_down
    told = ready or run.setup_failed
    return HostIdentity(
        core_version=told.core_version if told else None,
        mapped=list(_roles(torn_down.mapped, torn_down.cores, job)) if torn_down else [],
        plugin_sha256_before=told.plugin_sha256_before if told else None,
        plugin_sha256_after=torn_down.plugin_sha256_after if torn_down else None,
        ep_devices=ready.ep_devices if ready else [],
        ep_name=ready.ep_name if ready else None,
        plugin_version=ready.plugin_version if ready else None,
        registration_name=job.registration_name,
    )


def _roles(mapped: Sequence[str], cores: Sequence[str], job: HostJob) -> Iterator[MappedFile]:
    """The mapped files that are the core, the plugin, or another core.

    Args:
        mapped: all mapped files.
        cores: the libraries that export what a core does, whether or not their files are there.
        job: with the core and the plugin that were asked for.
    """
    for path in dict.fromkeys([*mapped, *cores]):
        if _same_file(path, job.core):
            yield MappedFile(path=path, role="core")
        elif _same_file(path, job.plugin):
            yield MappedFile(path=path, role="plugin")
        elif path in cores or _CORE_NAME.fullmatch(Path(path).name) or _holds_a_core(path):
            yield MappedFile(path=path, role="other-core")


def _holds_a_core(path: str) -> bool:
    """Whether it is a core under a name of its own; remembered as long as the file is the same."""
    try:
        seen = os.stat(path)  # noqa: PTH116 - a path of a host, which may be no path here
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(seen.st_mode) and _reads_as_core(path, seen.st_size, seen.st_mtime_ns)


@functools.cache
def _reads_as_core(path: str, _size: int, _changed: int) -> bool:
    return holds_a_core(Path(path))


def _same_file(path: str, asked: Path) -> bool:
    try:
        return Path(path).samefile(asked)
    except OSError:
        return Path(path) == asked


def _file_name(text: str) -> str:
    """A text as a part of a path on every platform."""
    return re.sub(r"[^\w.@+\[\]=-]", "_", text)


def _fresh(log: Path) -> None:
    """Make an empty log, by us, since a host may create files with a mode that nobody can read."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        # What an attempt left that was cut off and not recorded is none of this one.
        with contextlib.suppress(OSError):
            log.unlink()
        log.touch()
    except OSError as error:
        raise RunFolderError(
            f"The log {log} cannot be written: {error.strerror or error}.",
            "What was seen until then is kept. Free space, or room for files; `ort-ep-matrix run "
            "--resume` goes on with a run.",
        ) from None


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
