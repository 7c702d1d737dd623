"""What a scenario is given: the core and the plugin of this process, and a place to report to.

A scenario creates sessions and tensors through its `Host`, checks values, states where its nodes
must run, and says what it counted. The host records; it never decides whether that is fine.
"""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.host.descriptors import open_descriptors
from harness.host.model import Model
from harness.host.record import Recording, UnsupportedError
from harness.host.resident import resident_bytes
from harness.native.allocators import create_shared_allocator, shared_allocator, statistics
from harness.native.api import Api, NativeCallError
from harness.native.environments import EpDevice
from harness.native.handles import Handle, Scope
from harness.native.sessions import (
    IoBinding,
    Session,
    SessionOptions,
    create_options,
    create_session,
    session_with,
)
from harness.native.tensors import (
    Array,
    Tensor,
    address_of,
    copy_tensors,
    cpu_tensor,
    create_stream,
    device_tensor,
    foreign_memory,
    part_of,
)

__all__ = [
    "CPU",
    "FLOAT32",
    "Array",
    "EpDevice",
    "Handle",
    "Host",
    "IoBinding",
    "NativeCallError",
    "Options",
    "Promises",
    "Session",
    "SessionOptions",
    "Tensor",
    "UnsupportedError",
    "kernel_runs",
    "nodes_of",
]

CPU = "CPUExecutionProvider"
"""The name of ORT's own CPU EP."""

FLOAT32: np.dtype[Any] = np.dtype(np.float32)


@dataclass(frozen=True)
class Options:
    """Provider options by purpose; none where it is not known how to ask the plugin."""

    always: Mapping[str, str] = field(default_factory=dict)
    capture: Mapping[str, str] | None = None
    cpu_nodes: tuple[str, str] | None = None
    """The option's key, and what separates node names in its value."""

    def asked(self, cpu_nodes: Sequence[str] = (), *, capture: bool = False) -> dict[str, str]:
        """The provider options of a session.

        Args:
            cpu_nodes: names of nodes that the plugin must leave to the CPU EP.
            capture: whether graph capture is turned on.

        Raises:
            UnsupportedError: it is not known how to ask this plugin for that.
        """
        options = dict(self.always)
        if capture:
            if self.capture is None:
                raise UnsupportedError(
                    "a provider option that turns graph capture on",
                    "none is known for this plugin: options.capture in its entry of matrix.yaml",
                )
            options.update(self.capture)
        if cpu_nodes:
            if self.cpu_nodes is None:
                raise UnsupportedError(
                    "a provider option that forces nodes to the CPU EP",
                    "none is known for this plugin: options.cpu_nodes in its entry of matrix.yaml",
                )
            key, separator = self.cpu_nodes
            options[key] = separator.join(cpu_nodes)
        return options


@dataclass(frozen=True)
class Promises:
    """What is said of the plugin's device memory; see `harness.config.Promises`."""

    zeroed_memory: bool = False
    alignment: int | None = None
    byte_addresses: bool = False


@dataclass(frozen=True, kw_only=True)
class Host(Recording):
    """One core and one plugin, for one scenario.

    Everything created through it is released when the scenario ends, last created first. Several
    threads may use it at the same time, as `together` has them do.
    """

    api: Api
    env: Handle
    device: EpDevice
    """The EP device that is driven."""
    devices: Sequence[EpDevice]
    """All EP devices of that EP, the driven one among them."""
    mode: Literal["serialized", "concurrent"]
    options: Options
    promises: Promises
    models: Path
    """Cache of built models."""
    scratch: Path
    """A folder for files that the scenario or ORT writes."""
    scope: Scope
    cpu: Handle
    """The memory info of CPU memory."""

    @property
    def ep_name(self) -> str:
        """The name of the plugin's EP."""
        return self.device.ep_name

    def session(
        self,
        model: Model,
        *,
        cpu_nodes: Sequence[str] = (),
        capture: bool = False,
        profile: bool = False,
        options: Mapping[str, str] | None = None,
        device: EpDevice | None = None,
    ) -> Session:
        """A session of a model on the plugin's EP device.

        Args:
            model: what to run.
            cpu_nodes: names of nodes that the plugin must leave to the CPU EP.
            capture: whether graph capture is turned on.
            profile: whether ORT records which nodes ran; see `profile_of`.
            options: provider options beside those.
            device: another EP device than the driven one.

        Raises:
            UnsupportedError: it is not known how to ask this plugin for that.
            NativeCallError: ORT or the plugin refused.
        """
        asked = {**self.options.asked(cpu_nodes, capture=capture), **(options or {})}
        return self._session(model, asked, profile, device)

    def session_options(
        self,
        *,
        options: Mapping[str, str] | None = None,
        devices: Sequence[EpDevice] | None = None,
    ) -> SessionOptions:
        """Session options that several sessions may be made with.

        Args:
            options: provider options beside those that the plugin always gets.
            devices: EP devices; the driven one if none are named.

        Raises:
            NativeCallError: ORT refused.
        """
        return create_options(
            self.api,
            self.scope,
            self.env,
            [self.device] if devices is None else devices,
            provider_options={**self.options.always, **(options or {})},
        )

    def session_with(self, model: Model, options: SessionOptions) -> Session:
        """A session of a model, made with session options, which stay as they are.

        Raises:
            NativeCallError: ORT or the plugin refused.
        """
        return session_with(self.api, self.scope, self.env, model.load(self.models), options)

    def cpu_tensor(self, array: Array) -> Tensor:
        """A tensor over the memory of an array."""
        return cpu_tensor(self.api, self.scope, self.cpu, array)

    def device_allocator(self, session: Session) -> Handle:
        """The session's allocator for the plugin's device memory.

        Raises:
            UnsupportedError: the EP device offers no device memory.
            NativeCallError: the session has no allocator for it.
        """
        memory = self._device_memory(session.devices[0])
        return session.allocator(memory)

    def promised(self, what: str) -> int:
        """What the plugin's entry in matrix.yaml promises of its device memory.

        Args:
            what: the name of a promise, as `zeroed_memory`.

        Raises:
            UnsupportedError: it promises nothing of the kind.
        """
        promise: int | None = getattr(self.promises, what)
        if not promise:
            raise UnsupportedError(
                f"device memory with {what.replace('_', ' ')}",
                f"this plugin promises none: promises.{what} in its entry of matrix.yaml",
            )
        return promise

    def resident_bytes(self) -> int:
        """How much memory of this process is in use now."""
        return resident_bytes()

    def open_descriptors(self) -> int:
        """How many descriptors are open in this process now.

        Raises:
            UnsupportedError: the system has none that could be counted.
        """
        count = open_descriptors()
        if count is None:
            raise UnsupportedError(
                "a count of open descriptors", f"{platform.system()} has none", of_core=True
            )
        return count

    def shared_allocator(self, device: EpDevice | None = None) -> Handle:
        """The environment's allocator for the plugin's device memory, which the core owns.

        Raises:
            UnsupportedError: the EP device offers no device memory, or no allocator for it.
        """
        device = device or self.device
        self._device_memory(device)
        allocator = shared_allocator(self.api, self.env, device)
        if allocator is None:
            raise UnsupportedError(
                "a shared allocator of the EP device", "GetSharedAllocator gives none"
            )
        return allocator

    def new_shared_allocator(self) -> Handle:
        """A new allocator of the environment for the plugin's device memory, instead of its own.

        Its release takes it out of the environment, which then has none.

        Raises:
            UnsupportedError: the EP device offers no device memory.
            NativeCallError: ORT or the plugin refused.
        """
        self._device_memory(self.device)
        return self.scope.own(create_shared_allocator(self.api, self.env, self.device))

    def statistics(self, allocator: Handle) -> Mapping[str, str]:
        """What an allocator says of itself, by the names that ORT gave these numbers.

        Raises:
            UnsupportedError: it says nothing.
        """
        found = statistics(self.api, allocator)
        if not found:
            raise UnsupportedError("an allocator's statistics", "AllocatorGetStats gives none")
        return found

    def stream(self, device: EpDevice | None = None) -> Handle:
        """A sync stream of an EP device, the driven one if none is named: an order of its own.

        Raises:
            UnsupportedError: the EP device has no streams.
            NativeCallError: it could not make one.
        """
        try:
            return create_stream(self.api, self.scope, (device or self.device).pointer)
        except NativeCallError as error:
            if error.code != "NOT_IMPLEMENTED":
                raise
            raise UnsupportedError("a sync stream of the EP device", error.message) from None

    def copy(
        self,
        sources: Sequence[Tensor],
        destinations: Sequence[Tensor],
        stream: Handle | None = None,
    ) -> None:
        """Copy each source to its destination, through the plugin's data transfer.

        Args:
            sources: tensors.
            destinations: as many tensors; all pairs in one direction.
            stream: the sync stream in whose order that is done; done on return without one.

        Raises:
            NativeCallError: ORT or the plugin refused.
        """
        copy_tensors(self.api, self.env, sources, destinations, stream)

    def part(self, tensor: Tensor, first: int, shape: Sequence[int]) -> Tensor:
        """A tensor over a part of a device tensor's memory, from an element of it on.

        Raises:
            UnsupportedError: an address of this plugin cannot be reckoned with.
        """
        self.promised("byte_addresses")
        memory = self._device_memory(self.device)
        return part_of(self.api, self.scope, memory, tensor, first, shape)

    def address(self, tensor: Tensor) -> int:
        """Where a tensor's data lies, on its own device."""
        return address_of(self.api, tensor)

    def foreign_tensor(self, array: Array) -> Tensor:
        """A tensor that is said to be on a device that nobody drives, and lies over an array."""
        with Scope() as scope:
            foreign = cpu_tensor(self.api, self.scope, foreign_memory(self.api, scope), array)
        return replace(foreign, array=None)

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
        array = np.full(tensor.shape, np.array(-77).astype(tensor.dtype))
        destination = self.cpu_tensor(array)
        copy_tensors(self.api, self.env, [tensor], [destination])
        destination.release()
        return array

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
            seen = {**seen, **nodes_of(events)}
        self.record.placement += [
            {"node": node, "expected": expected, "got": seen.get(node)}
            for node, expected in where.items()
        ]

    def profile_of(self, model: Model, session: Session) -> list[dict[str, Any]]:
        """The events of a session's profile, which ends it, or of one Run of a profiled twin."""
        if session.profiled:
            return _events(session.end_profiling())
        twin = self._session(
            model, session.provider_options, profile=True, device=session.devices[0]
        )
        feeds = {
            name: self.cpu_tensor(np.ones(shape, dtype=np.float32))
            for name, shape in model.inputs.items()
        }
        twin.run(feeds, dict.fromkeys(model.outputs, FLOAT32))
        events = _events(twin.end_profiling())
        twin.release()
        return events

    def _device_memory(self, device: EpDevice) -> Any:
        if device.memory is None:
            raise UnsupportedError(
                "device memory of the EP device",
                "EpDevice_MemoryInfo gives none: tensors of this plugin live in CPU memory",
            )
        return device.memory

    def _session(
        self,
        model: Model,
        provider_options: Mapping[str, str],
        profile: bool,
        device: EpDevice | None,
    ) -> Session:
        # A folder for each: ORT names a profile by the second in which it began.
        folder = tempfile.mkdtemp(dir=self.scratch) if profile else None
        return create_session(
            self.api,
            self.scope,
            self.env,
            [device or self.device],
            model.load(self.models),
            provider_options=provider_options,
            profile_prefix=None if folder is None else str(Path(folder, "profile")),
        )


def kernel_runs(events: list[dict[str, Any]], node: str) -> int:
    """How often a node's kernel was executed, by the events of a profile."""
    return sum(
        event.get("cat") == "Node" and event["name"] == f"{node}_kernel_time" for event in events
    )


def _events(path: str) -> list[dict[str, Any]]:
    file = Path(path)
    events: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8", errors="replace"))
    file.unlink()
    return events


def nodes_of(events: list[dict[str, Any]]) -> dict[str, str]:
    """Node name to EP name, from the kernel events of a profile."""
    return {
        event["name"].removesuffix("_kernel_time"): event["args"]["provider"]
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    }
