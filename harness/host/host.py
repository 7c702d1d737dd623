"""What a scenario is given: the core and the plugin of this process, and a place to report to.

A scenario creates sessions and tensors through its `Host`, checks values, states where its nodes
must run, and says what it counted. The host records; it never decides whether that is fine.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.host.blackbox import BlackBox
from harness.host.model import Model
from harness.native.api import Api, MissingApiLevelError, NativeCallError
from harness.native.environments import EpDevice
from harness.native.handles import Handle, Scope
from harness.native.sessions import Session, create_session
from harness.native.tensors import (
    Array,
    Tensor,
    copy_tensors,
    cpu_tensor,
    device_tensor,
)

__all__ = [
    "CPU",
    "FLOAT32",
    "Host",
    "Options",
    "Record",
    "Session",
    "Tensor",
    "UnsupportedError",
    "kernel_runs",
]

CPU = "CPUExecutionProvider"
"""The name of ORT's own CPU EP."""

FLOAT32: np.dtype[Any] = np.dtype(np.float32)

_FAILURES_KEPT = 5
_VALUES_SHOWN = 16
_LONGEST_MESSAGE = 4_000


class UnsupportedError(Exception):
    """The plugin or the core lacks what a scenario needs."""

    def __init__(self, asked: str, answered: str) -> None:
        super().__init__(f"{asked}: {answered}")
        self.asked = asked
        self.answered = answered


@dataclass(frozen=True)
class Options:
    """Provider options by purpose; none where it is not known how to ask the plugin."""

    always: Mapping[str, str] = field(default_factory=dict)
    capture: Mapping[str, str] | None = None
    cpu_nodes: tuple[str, str] | None = None
    """The option's key, and what separates node names in its value."""


@dataclass
class Record:
    """What a scenario was seen to do so far."""

    iterations_passed: int = 0
    checks: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    failure_count: int = 0
    placement: list[dict[str, Any]] = field(default_factory=list)
    capture: dict[str, int] | None = None
    iteration: int | None = None


@dataclass(frozen=True)
class Host:
    """One core and one plugin, for one scenario.

    Everything created through it is released when the scenario ends, last created first.
    """

    api: Api
    env: Handle
    device: EpDevice
    mode: Literal["serialized", "concurrent"]
    iteration_count: int
    options: Options
    models: Path
    """Cache of built models."""
    scratch: Path
    """A folder for files that the scenario or ORT writes."""
    scope: Scope
    cpu: Handle
    """The memory info of CPU memory."""
    box: BlackBox
    record: Record = field(default_factory=Record)

    @property
    def ep_name(self) -> str:
        """The name of the plugin's EP."""
        return self.device.ep_name

    def iterations(self) -> Iterator[int]:
        """The iterations, from 0. One passed if it checked something and every check held."""
        record = self.record
        for number in range(self.iteration_count):
            self.box.iteration(number)
            record.iteration = number
            checks, failures = record.checks, record.failure_count
            yield number
            if record.checks > checks and record.failure_count == failures:
                record.iterations_passed += 1
        record.iteration = None
        self.box.iteration(None)

    def session(
        self,
        model: Model,
        *,
        cpu_nodes: Sequence[str] = (),
        capture: bool = False,
        profile: bool = False,
    ) -> Session:
        """A session of a model on the plugin's EP device.

        Args:
            model: what to run.
            cpu_nodes: names of nodes that the plugin must leave to the CPU EP.
            capture: whether graph capture is turned on.
            profile: whether ORT records which nodes ran; see `profile_of`.

        Raises:
            UnsupportedError: it is not known how to ask this plugin for that.
            NativeCallError: ORT or the plugin refused.
        """
        return self._session(model, self._provider_options(cpu_nodes, capture=capture), profile)

    def cpu_tensor(self, array: Array) -> Tensor:
        """A tensor over the memory of an array."""
        return cpu_tensor(self.api, self.scope, self.cpu, array)

    def device_allocator(self, session: Session) -> Handle:
        """The session's allocator for the plugin's device memory.

        Raises:
            UnsupportedError: the EP device offers no device memory.
            NativeCallError: the session has no allocator for it.
        """
        if self.device.memory is None:
            raise UnsupportedError(
                "device memory of the EP device",
                "EpDevice_MemoryInfo gives none: tensors of this plugin live in CPU memory",
            )
        return session.allocator(self.device.memory)

    def device_tensor(self, allocator: Handle, array: Array) -> Tensor:
        """A device tensor that holds a copy of an array."""
        tensor = self.empty_device_tensor(allocator, array.shape, array.dtype)
        self.write(tensor, array)
        return tensor

    def empty_device_tensor(
        self, allocator: Handle, shape: Sequence[int], dtype: np.dtype[Any] = FLOAT32
    ) -> Tensor:
        """A device tensor that nothing was written to."""
        return device_tensor(self.api, self.scope, allocator.pointer, shape, dtype)

    def write(self, tensor: Tensor, array: Array) -> None:
        """Copy an array into a device tensor, through the plugin's data transfer."""
        source = self.cpu_tensor(array)
        copy_tensors(self.api, self.env, [source], [tensor])
        source.release()

    def read(self, tensor: Tensor) -> Array:
        """A copy of what a tensor holds, wherever that is."""
        if tensor.array is not None:
            return tensor.array.copy()
        # Filled beforehand, so that a transfer that copies nothing cannot seem right.
        array = np.full(tensor.shape, -77, dtype=tensor.dtype)
        destination = self.cpu_tensor(array)
        copy_tensors(self.api, self.env, [tensor], [destination])
        destination.release()
        return array

    def check(self, what: str, expected: Array, got: Array) -> None:
        """Record whether a value is exactly what it should be: type, shape and every element.

        0.0 and -0.0 are two values; a NaN equals every NaN, since its bits carry no meaning.
        """
        self.record.checks += 1
        if expected.dtype == got.dtype and expected.shape == got.shape and _same(expected, got):
            return
        self.record.failure_count += 1
        if len(self.record.failures) < _FAILURES_KEPT:
            self.record.failures.append(
                {
                    "iteration": self.record.iteration,
                    "what": what,
                    "expected": _shown(expected),
                    "got": _shown(got),
                }
            )

    def placed(
        self,
        model: Model,
        session: Session,
        where: Mapping[str, str],
        profile: list[dict[str, Any]] | None = None,
    ) -> None:
        """Record where ORT says that nodes were placed, beside where they should be.

        ORT's own record is asked first. Cores that keep none for an EP with registered kernels
        are asked by a profile: of the session if it has one, else of one Run of a second session
        with the same options, so that profiling cannot change what the scenario tries.

        Args:
            model: the model of the session.
            session: a session that has done its work.
            where: node name to the name of the EP that it must run on.
            profile: the events of the session's own profile, if it was ended already.
        """
        seen = session.assignment()
        if not where.keys() <= seen.keys():
            events = self.profile_of(model, session) if profile is None else profile
            seen = {**seen, **_nodes_of(events)}
        self.record.placement += [
            {"node": node, "expected": expected, "got": seen.get(node)}
            for node, expected in where.items()
        ]

    def profile_of(self, model: Model, session: Session) -> list[dict[str, Any]]:
        """The events of a session's profile, which ends it, or of one Run of a profiled twin."""
        if session.profiled:
            return _events(session.end_profiling())
        twin = self._session(model, session.provider_options, profile=True)
        feeds = {
            name: self.cpu_tensor(np.ones(shape, dtype=np.float32))
            for name, shape in model.inputs.items()
        }
        twin.run(feeds, dict.fromkeys(model.outputs, FLOAT32))
        events = _events(twin.end_profiling())
        twin.release()
        return events

    def counted_capture(self, *, runs: int, kernel_runs: int, host_replays: int) -> None:
        """Record how the runs of a capturing session were executed."""
        self.record.capture = {
            "runs": runs,
            "kernel_runs": kernel_runs,
            "host_replays": host_replays,
        }

    def _session(self, model: Model, provider_options: Mapping[str, str], profile: bool) -> Session:
        # A folder for each: ORT names a profile by the second in which it began.
        folder = tempfile.mkdtemp(dir=self.scratch) if profile else None
        return create_session(
            self.api,
            self.scope,
            self.env,
            [self.device],
            model.load(self.models),
            provider_options=provider_options,
            profile_prefix=None if folder is None else str(Path(folder, "profile")),
        )

    def _provider_options(self, cpu_nodes: Sequence[str], *, capture: bool) -> dict[str, str]:
        options = dict(self.options.always)
        if capture:
            if self.options.capture is None:
                raise UnsupportedError(
                    "a provider option that turns graph capture on",
                    "none is known for this plugin: options.capture in its entry of matrix.yaml",
                )
            options.update(self.options.capture)
        if cpu_nodes:
            if self.options.cpu_nodes is None:
                raise UnsupportedError(
                    "a provider option that forces nodes to the CPU EP",
                    "none is known for this plugin: options.cpu_nodes in its entry of matrix.yaml",
                )
            key, separator = self.options.cpu_nodes
            options[key] = separator.join(cpu_nodes)
        return options


def kernel_runs(events: list[dict[str, Any]], node: str) -> int:
    """How often a node's kernel was executed, by the events of a profile."""
    return sum(
        event.get("cat") == "Node" and event["name"] == f"{node}_kernel_time" for event in events
    )


def run_scenario(host: Host, function: Any) -> dict[str, Any]:
    """Run a scenario and report what was seen, its own release included.

    Returns:
        The fields of `harness.results.ScenarioReport` but its name, its time and its plan.
    """
    error: dict[str, Any] | None = None
    unsupported: dict[str, str] | None = None
    try:
        function(host)
    except UnsupportedError as lack:
        unsupported = {"asked": lack.asked, "answered": lack.answered}
    except MissingApiLevelError as lack:
        unsupported = {
            "asked": f"{lack.function}, of ORT API level {lack.level}",
            "answered": f"core {lack.core_version} does not offer that level",
        }
    except NativeCallError as failure:
        error = native_error(failure, host.record.iteration)
    except BaseException as failure:  # noqa: BLE001 - whatever a scenario raises is data
        import traceback

        traceback.print_exc()
        error = {
            "kind": "python",
            "function": type(failure).__name__,
            "code": "",
            "message": _message_of(failure),
            "iteration": host.record.iteration,
        }
    record = host.record
    return {
        "iterations_planned": host.iteration_count,
        "iterations_passed": record.iterations_passed,
        "checks": record.checks,
        "check_failures": record.failures,
        "check_failure_count": record.failure_count,
        "placement": record.placement,
        "error": error,
        "unsupported": unsupported,
        "capture": record.capture,
    }


def _message_of(failure: BaseException) -> str:
    """What an exception says, cut; half a character, which Python may hold, as an escape."""
    try:
        text = str(failure)
    except Exception:  # noqa: BLE001 - an exception may fail to say what it is
        text = "(it cannot be told)"
    return text[:_LONGEST_MESSAGE].encode("utf-8", "backslashreplace").decode()


def native_error(failure: NativeCallError, iteration: int | None = None) -> dict[str, Any]:
    """A native failure as data."""
    return {
        "kind": "native",
        "function": failure.function,
        "code": failure.code,
        "message": failure.message[:_LONGEST_MESSAGE],
        "iteration": iteration,
    }


def _events(path: str) -> list[dict[str, Any]]:
    file = Path(path)
    events: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8", errors="replace"))
    file.unlink()
    return events


def _nodes_of(events: list[dict[str, Any]]) -> dict[str, str]:
    """Node name to EP name, from the kernel events of a profile."""
    return {
        event["name"].removesuffix("_kernel_time"): event["args"]["provider"]
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    }


def _same(one: Array, other: Array) -> bool:
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    equal = (one == other) & (np.signbit(one) == np.signbit(other))
    return bool(np.all(equal | (np.isnan(one) & np.isnan(other))))


def _shown(array: Array) -> str:
    """An array for people: whole if small, else its beginning."""
    if array.size <= _VALUES_SHOWN:
        return f"{array.dtype}{list(array.shape)} {array.tolist()}"
    start = array.ravel()[:_VALUES_SHOWN].tolist()
    return f"{array.dtype}{list(array.shape)} {start}… ({array.size} elements)"
