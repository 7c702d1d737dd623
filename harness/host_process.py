"""One host process from the engine's side: give it a job, hear what it reports, see it end.

The engine waits for the next message or the end, never longer than the present phase may take.
What comes out is a plain value: what the host said, and how it ended.
"""

from __future__ import annotations

import contextlib
import json
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.containment import TOKEN_VARIABLE, ask_for_stacks, end_tree, exit_name, start
from harness.host.blackbox import LastSeen, read_blackbox
from harness.memory import give_up_first, killed_so_far
from harness.results import EpDeviceSeen, NativeError, ScenarioReport

__all__ = ["HostEnd", "HostJob", "HostRun", "HostTask", "run_host"]

_LAUNCH = [sys.executable, "-P", "-m", "harness.host"]
# A host whose channel is closed may need this much until its process has ended.
_GRACE_S = 1.0
_POLL_S = 0.25
# All that had the channel were killed: it ends at once, however busy the machine is.
_STREAM_END_S = 5.0
_HIDDEN = "one that keeps the host's channel open and could not be found, so that it goes on"
_STOPPED_S = 1.0
_LONGEST_LINE = 4_000_000
# None that programs are known to end with.
_FAREWELLS = range(80, 120)


@dataclass(frozen=True)
class HostTask:
    """One scenario to run in a host."""

    cell: str
    scenario: str
    """Its name, with the number of a later repetition."""
    iterations: int
    timeout_s: float
    log: Path


@dataclass(frozen=True)
class HostJob:
    """Everything a host process needs to know."""

    name: str
    core: Path
    plugin: Path
    registration_name: str
    ep_name: str | None
    device_type: str | None
    device_index: int
    python_package: Path | None
    """What holds the core's Python package, for a host of kind `python`; its core is `core`."""
    python_lack: str
    """Why there is none."""
    kind: str
    """What it has done before its scenarios; see `harness.host.scenario.HostKind`."""
    mode: str
    shuffle: int | None
    options: Mapping[str, Any]
    promises: Mapping[str, Any]
    environment: Mapping[str, str]
    scenario_packages: Sequence[str]
    tasks: Sequence[HostTask]
    setup_timeout_s: float
    models: Path
    scratch: Path
    log: Path
    mark: str = ""
    """The token begins with it."""


class Ready(BaseModel):
    """What a host says once the plugin is registered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    core_version: str
    plugin_sha256_before: str | None
    ep_devices: list[EpDeviceSeen]
    ep_name: str | None
    plugin_version: str | None


class SetupFailed(BaseModel):
    """What a host says when the core or the plugin refused to be set up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    core_version: str
    plugin_sha256_before: str | None
    error: NativeError


class TornDown(BaseModel):
    """What a host says when it has released everything."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    failures: list[str]
    mapped: list[str]
    cores: list[str] = []
    """The libraries that export what a core does, as far as the system could be asked."""
    plugin_sha256_after: str | None


@dataclass(frozen=True)
class HostEnd:
    """How a host process ended."""

    how: str
    """`clean`, `signal`, `exit`, `hang`, `channel`, or `stopped` by the harness."""
    name: str
    last: LastSeen
    left_behind: tuple[str, ...] = ()
    """Processes that outlived it; those with an id were ended."""
    out_of_memory: bool = False
    """Whether the system ended processes while it ran, because memory had run out."""

    @property
    def clean(self) -> bool:
        """Whether it tore down, said so and ended with the status that it was told to end with."""
        return self.how == "clean"


@dataclass
class HostRun:
    """What a host said, in order, and how it ended."""

    ready: Ready | None = None
    setup_failed: SetupFailed | None = None
    core_unusable: str | None = None
    reports: dict[str, ScenarioReport] = field(default_factory=dict)
    torn_down: TornDown | None = None
    running: str | None = None
    """The scenario that had started and not ended."""
    end: HostEnd | None = None
    infra: str | None = None


@dataclass(frozen=True)
class _Secret:
    """What a host is told of by its job alone, so that nothing else in it can speak for it."""

    token: str
    """Stands in each of its messages."""
    farewell: int
    """The status that it ends with: an exit handler that ends the process would say 0."""


def run_host(
    job: HostJob,
    *,
    on_start: Callable[[str], None] = lambda scenario: None,
    on_report: Callable[[ScenarioReport], None] = lambda report: None,
    stop: threading.Event | None = None,
) -> HostRun:
    """Run one host process to its end.

    Args:
        job: what it is to do.
        on_start: is told the scenario that has begun.
        on_report: is given the report of one that has ended, while the host goes on.
        stop: when set, the host is ended at once.
    """
    secret = _Secret(job.mark + secrets.token_hex(16), secrets.choice(_FAREWELLS))
    run = HostRun()
    blackbox = job.scratch / "blackbox"
    try:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        job.log.touch()
        job.scratch.mkdir(parents=True, exist_ok=True)
        environment = {**job.environment, TOKEN_VARIABLE: secret.token}
        killed_before = killed_so_far()
        process = start(_LAUNCH, environment, job.log, job.scratch)
    except OSError as error:
        run.infra = f"the host process could not be started: {error}"
        return run
    give_up_first(process.pid)
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    try:
        how, name = _converse(process, job, secret, blackbox, lines, run, on_start, on_report, stop)
        if how == "hang":
            # It is given up already; whatever asking does to it, it cannot change that.
            ask_for_stacks(process)
    finally:
        # Whatever happened, nothing of this host outlives this call.
        left = end_tree(process, secret.token)
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        reader.join(_STREAM_END_S)
        if reader.is_alive():
            left.append(_HIDDEN)
    run.end = HostEnd(
        how,
        name,
        _last_seen(run, read_blackbox(blackbox)),
        tuple(left),
        out_of_memory=killed_so_far() > killed_before,
    )
    return run


def _last_seen(run: HostRun, box: LastSeen) -> LastSeen:
    """What the black box holds, unless what the host said shows that it was overwritten."""
    if run.ready is None or box.phase not in ("start", "load"):
        return box
    phase = "exit" if run.torn_down else "scenario" if run.running else "register"
    return replace(box, phase=phase)


def _converse(
    process: subprocess.Popen[bytes],
    job: HostJob,
    secret: _Secret,
    blackbox: Path,
    lines: queue.SimpleQueue[bytes | None],
    run: HostRun,
    on_start: Callable[[str], None],
    on_report: Callable[[ScenarioReport], None],
    stop: threading.Event | None,
) -> tuple[str, str]:
    """Hear everything that the host says; returns how it ended and the name of that."""
    assert process.stdin is not None  # noqa: S101 - it was started with a pipe
    # A host that does not read must not keep us from seeing that.
    threading.Thread(
        target=_give, args=(process.stdin, _job_line(job, secret, blackbox)), daemon=True
    ).start()
    planned = {task.scenario: task for task in job.tasks}
    limit = _Limit(job.setup_timeout_s)
    number = 0
    while True:
        left_s = limit.left_s()
        if stop is not None and stop.is_set():
            return "stopped", "the run was interrupted"
        try:
            line = _next_line(process, lines, left_s)
        except TimeoutError:
            return "hang", f"no end after {limit.seconds:g} s"
        if line == b"":
            continue
        if line is None:
            break
        message = _message(line, secret.token, number)
        if message is None:
            return "channel", f"a message that is not the host's: {line[:80]!r}"
        number += 1
        try:
            phase = _take(message, run, planned)
        except ValueError as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            return "channel", f"a message that makes no sense: {why}"
        seconds = limit.seconds
        if phase == "started":
            assert run.running is not None  # noqa: S101 - `_take` set it
            seconds = planned[run.running].timeout_s
            on_start(run.running)
        elif phase == "ended":
            seconds = job.setup_timeout_s
            on_report(next(reversed(run.reports.values())))
        limit = _Limit(seconds)
    return _ended(process, run, secret.farewell, limit, stop)


class _Limit:
    """A time that runs out, less the time in which we ourselves were stopped.

    Args:
        seconds: how long it is from now on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._awake = time.monotonic()
        self._end = self._awake + seconds

    def left_s(self) -> float:
        """The seconds left; none below zero. A gap between two questions is a stop of ours."""
        now = time.monotonic()
        lost = now - self._awake - _POLL_S
        self._end += lost if lost > _STOPPED_S else 0.0
        self._awake = now
        return max(0.0, self._end - now)


def _give(stream: IO[bytes], line: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # If it is already dead, its end tells how.
        stream.write(line)
        stream.flush()


def _next_line(
    process: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes | None], left_s: float
) -> bytes | None:
    """The next line; empty if there is none yet, none if there will be no more.

    Raises:
        TimeoutError: no time is left.
    """
    # What was said in time is heard, however late we come to it.
    with contextlib.suppress(queue.Empty):
        return lines.get_nowait()
    if not left_s:
        raise TimeoutError
    try:
        return lines.get(timeout=min(left_s, _POLL_S))
    except queue.Empty:
        if process.poll() is None:
            return b""
    try:
        # It has ended, and what it said is all in the stream, which a child may keep open.
        return lines.get(timeout=_POLL_S)
    except queue.Empty:
        return None


def _ended(
    process: subprocess.Popen[bytes],
    run: HostRun,
    farewell: int,
    limit: _Limit,
    stop: threading.Event | None,
) -> tuple[str, str]:
    """The host's stream has ended; now its process should, too."""
    without_device = run.ready is not None and run.ready.ep_name is None
    said_all = bool(
        run.torn_down or run.setup_failed or run.core_unusable is not None or without_device
    )
    # Without its channel a host can do nothing more that counts.
    grace = _Limit(max(limit.left_s(), _GRACE_S) if said_all else _GRACE_S)
    while (returncode := process.poll()) is None:
        left_s = grace.left_s()
        if stop is not None and stop.is_set():
            return "stopped", "the run was interrupted"
        if not left_s and said_all:
            return "hang", f"no end of the process after {limit.seconds:g} s"
        if not left_s:
            return "channel", "the host's channel was closed while its process went on"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=min(left_s, _POLL_S))
    name, killed = exit_name(returncode)
    if killed:
        return "signal", name
    return ("clean" if returncode == farewell and said_all else "exit"), name


def _take(message: dict[str, Any], run: HostRun, planned: Mapping[str, HostTask]) -> str:
    """Add a message to what the host said; returns its kind.

    Raises:
        ValidationError: it lacks something, or has what it should not have.
        ValueError: it is none that can come now.
    """
    event = message.pop("event")
    fresh = not (run.ready or run.setup_failed or run.core_unusable is not None)
    idle = run.ready is not None and run.running is None and run.torn_down is None
    if event == "ready" and fresh:
        run.ready = Ready.model_validate(message)
    elif event == "setup-failed" and fresh:
        run.setup_failed = SetupFailed.model_validate(message)
    elif event == "core-unusable" and fresh:
        run.core_unusable = str(message.get("message"))
    elif event == "started" and idle:
        scenario = str(message.get("scenario"))
        if scenario not in planned or scenario in run.reports:
            raise ValueError(f"the host started {scenario!r:.80}")
        run.running = scenario
    elif event == "ended" and run.running is not None:
        report = ScenarioReport.model_validate(message.get("report"))
        if report.scenario != run.running:
            raise ValueError(f"{report.scenario!r:.80} ended while {run.running!r} ran")
        if report.iterations_planned != planned[run.running].iterations:
            raise ValueError(f"{report.iterations_planned} iterations were not asked for")
        run.reports[report.scenario] = report
        run.running = None
    elif event == "torn-down" and idle:
        run.torn_down = TornDown.model_validate(message)
    else:
        raise ValueError(f"{event!r:.80} at this point")
    return str(event)


def _message(line: bytes, token: str, number: int) -> dict[str, Any] | None:
    """A line as a message; none if it is not the next one of our host."""
    try:
        message = json.loads(line)
        if b"\\u" in line:
            message = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.pop("token", None) != token:
        return None
    return message if message.pop("number", None) == number and "event" in message else None


def _job_line(job: HostJob, secret: _Secret, blackbox: Path) -> bytes:
    fields = {
        "token": secret.token,
        "farewell": secret.farewell,
        "log": str(job.log),
        "blackbox": str(blackbox),
        "setup_timeout_s": job.setup_timeout_s,
        "scenario_packages": list(job.scenario_packages),
        "core": str(job.core),
        "plugin": str(job.plugin),
        "registration_name": job.registration_name,
        "ep_name": job.ep_name,
        "device_type": job.device_type,
        "device_index": job.device_index,
        "kind": job.kind,
        "python_package": None if job.python_package is None else str(job.python_package),
        "python_lack": job.python_lack,
        "mode": job.mode,
        "shuffle": job.shuffle,
        "options": dict(job.options),
        "promises": dict(job.promises),
        "models": str(job.models),
        "scratch": str(job.scratch),
        "tasks": [
            {
                "scenario": task.scenario,
                "iterations": task.iterations,
                "timeout_s": task.timeout_s,
                "log": str(task.log),
            }
            for task in job.tasks
        ],
    }
    return json.dumps(fields).encode() + b"\n"


def _read(process: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    # Closed here and nowhere else: whoever closes a stream waits for the one who reads it.
    with process.stdout, contextlib.suppress(OSError):
        while line := process.stdout.readline(_LONGEST_LINE):
            # A death in the middle of a line tears it; the death itself says more than that.
            if line.endswith(b"\n") or len(line) == _LONGEST_LINE:
                lines.put(line)
    lines.put(None)
