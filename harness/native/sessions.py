"""Sessions on chosen EP devices, Run, IoBinding, graph assignment and profiles.

Graph assignment (`Session_GetEpGraphAssignmentInfo`) holds from API level 24.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.native.api import Api, ffi, path_argument, strings, text
from harness.native.environments import EpDevice
from harness.native.handles import Handle, Scope
from harness.native.tensors import Tensor, adopt_fetch, shape_of

__all__ = [
    "IoBinding",
    "Session",
    "SessionOptions",
    "create_options",
    "create_session",
    "session_with",
]

# One key for the EPs of all vendors, in spite of what ORT's constant for it is called.
_GRAPH_ID = b"gpu_graph_id"
_RECORD_ASSIGNMENT = {"session.record_ep_graph_assignment_info": "1"}


@dataclass(frozen=True)
class SessionOptions:
    """Session options, and what was said in them."""

    handle: Handle
    devices: Sequence[EpDevice]
    provider_options: Mapping[str, str]
    profiled: bool

    def release(self) -> None:
        """Release them; sessions that were made with them live on."""
        self.handle.release()


@dataclass(frozen=True)
class Session:
    """A session and the options that it was created with."""

    api: Api
    scope: Scope
    handle: Handle
    devices: Sequence[EpDevice]
    provider_options: Mapping[str, str]
    profiled: bool
    parts: list[Handle] = field(default_factory=list)
    """What was made from it and must go before it: allocators and IoBindings."""

    def run(
        self,
        feeds: Mapping[str, Tensor],
        fetches: Mapping[str, Tensor | np.dtype[Any]],
        graph: int | None = None,
        stream: Handle | None = None,
    ) -> dict[str, Tensor]:
        """One Run, with feeds and fetches in the order of the mappings.

        Args:
            feeds: input names to tensors, on any device.
            fetches: output names to preallocated tensors, or to the element type of a CPU tensor
                that ORT is to allocate.
            graph: which graph is captured or replayed, -1 for neither; nothing is said without.
            stream: a sync stream that takes the place of the session's own on its device.

        Returns:
            The fetched tensors by name.

        Raises:
            NativeCallError: the Run failed.
        """
        feed_names, kept_feeds = strings(feeds)
        fetch_names, kept_fetches = strings(fetches)
        values = ffi.new(
            "OrtValue *[]",
            [f.handle.pointer if isinstance(f, Tensor) else ffi.NULL for f in fetches.values()],
        )
        with _run_options(self.api, graph, stream) as options:
            self.api.call(
                "Run",
                self.handle.pointer,
                options,
                feed_names,
                [tensor.handle.pointer for tensor in feeds.values()],
                len(feeds),
                fetch_names,
                len(fetches),
                values,
            )
        del kept_feeds, kept_fetches
        return {
            name: fetch
            if isinstance(fetch, Tensor)
            else adopt_fetch(self.api, self.scope, values[i], shape_of(self.api, values[i]), fetch)
            for i, (name, fetch) in enumerate(fetches.items())
        }

    def allocator(self, memory: Any) -> Handle:
        """The session's allocator for a memory info.

        Raises:
            NativeCallError: the session has none.
        """
        allocator = self.api.get("CreateAllocator", "OrtAllocator **", self.handle.pointer, memory)
        return self._owned(
            Handle("allocator", allocator, lambda a: self.api.plain("ReleaseAllocator", a))
        )

    def io_binding(self) -> IoBinding:
        """A new IoBinding of the session."""
        binding = self.api.get("CreateIoBinding", "OrtIoBinding **", self.handle.pointer)
        handle = self._owned(
            Handle("IoBinding", binding, lambda b: self.api.plain("ReleaseIoBinding", b))
        )
        return IoBinding(self.api, self, handle)

    def _owned(self, handle: Handle) -> Handle:
        self.parts.append(handle)
        return self.scope.own(handle)

    def assignment(self) -> dict[str, str]:
        """Node name to EP name, as ORT recorded it when it built the session."""
        subgraphs = self.api.get_list(
            "Session_GetEpGraphAssignmentInfo",
            "const OrtEpAssignedSubgraph *const **",
            self.handle.pointer,
        )
        nodes = {}
        for subgraph in subgraphs:
            ep = text(self.api.get("EpAssignedSubgraph_GetEpName", "const char **", subgraph))
            for node in self.api.get_list(
                "EpAssignedSubgraph_GetNodes", "const OrtEpAssignedNode *const **", subgraph
            ):
                name = text(self.api.get("EpAssignedNode_GetName", "const char **", node))
                nodes[name or ""] = ep or ""
        return nodes

    def release_captured_graph(self, graph: int) -> None:
        """Release a captured graph, so that its id may be captured anew. From API level 27.

        Raises:
            MissingApiLevelError: the core is older.
            NativeCallError: ORT or the plugin refused.
        """
        self.api.call_at_level(27, "SessionReleaseCapturedGraph", self.handle.pointer, graph)

    def end_profiling(self) -> str:
        """End the profile of the session and return the path of its file."""
        allocator = self.api.get("GetAllocatorWithDefaultOptions", "OrtAllocator **")
        path = self.api.get("SessionEndProfiling", "char **", self.handle.pointer, allocator)
        try:
            return text(path) or ""
        finally:
            self.api.call("AllocatorFree", allocator, path)

    def release(self) -> None:
        """Release it before its scope does, after its allocators and IoBindings.

        They reach into the session: the address sanitizer sees one that is released later.
        """
        while self.parts:
            self.parts.pop().release()
        self.handle.release()


@dataclass(frozen=True)
class IoBinding:
    """Inputs and outputs bound to tensors, for a Run that names none."""

    api: Api
    session: Session
    handle: Handle

    def bind_input(self, name: str, tensor: Tensor) -> None:
        """Bind an input; ORT copies a tensor that is not where the input is needed, now."""
        self.api.call("BindInput", self.handle.pointer, name.encode(), tensor.handle.pointer)

    def bind_output(self, name: str, tensor: Tensor) -> None:
        """Bind a preallocated output."""
        self.api.call("BindOutput", self.handle.pointer, name.encode(), tensor.handle.pointer)

    def run(self, graph: int | None = None) -> None:
        """Run the session with what is bound.

        Args:
            graph: which graph is captured or replayed, -1 for neither; nothing is said without.

        Raises:
            NativeCallError: the Run failed.
        """
        with _run_options(self.api, graph) as options:
            self.api.call(
                "RunWithBinding", self.session.handle.pointer, options, self.handle.pointer
            )

    def synchronize_inputs(self) -> None:
        """Wait until the bound inputs have arrived on their devices."""
        self.api.call("SynchronizeBoundInputs", self.handle.pointer)

    def synchronize_outputs(self) -> None:
        """Wait until the bound outputs can be read."""
        self.api.call("SynchronizeBoundOutputs", self.handle.pointer)

    def release(self) -> None:
        """Release it before its scope does."""
        self.handle.release()


@contextmanager
def _run_options(api: Api, graph: int | None, stream: Handle | None = None) -> Iterator[Any]:
    options = api.get("CreateRunOptions", "OrtRunOptions **")
    try:
        if graph is not None:
            api.call("AddRunConfigEntry", options, _GRAPH_ID, str(graph).encode())
        if stream is not None:
            api.plain("RunOptionsSetSyncStream", options, stream.pointer)
        yield options
    finally:
        api.plain("ReleaseRunOptions", options)


def create_options(
    api: Api,
    scope: Scope,
    env: Handle,
    devices: Sequence[EpDevice],
    *,
    provider_options: Mapping[str, str],
    profile_prefix: str | None = None,
) -> SessionOptions:
    """Session options that name EP devices, for one session or several.

    Args:
        api: the core.
        scope: owns them.
        env: the environment.
        devices: EP devices of one EP.
        provider_options: what is sent to the EP; keys and values.
        profile_prefix: where a profile is written, if one is wanted; an absolute path.

    Raises:
        NativeCallError: ORT refused.
    """
    options = scope.own(
        Handle(
            "session options",
            api.get("CreateSessionOptions", "OrtSessionOptions **"),
            lambda pointer: api.plain("ReleaseSessionOptions", pointer),
        )
    )
    for key, value in _RECORD_ASSIGNMENT.items():
        api.call("AddSessionConfigEntry", options.pointer, key.encode(), value.encode())
    # One thread: the models are tiny, and a pool in each session would be the larger work.
    api.call("SetIntraOpNumThreads", options.pointer, 1)
    if profile_prefix is not None:
        api.call("EnableProfiling", options.pointer, path_argument(profile_prefix))
    keys, kept_keys = strings(provider_options)
    values, kept_values = strings(provider_options.values())
    api.call(
        "SessionOptionsAppendExecutionProvider_V2",
        options.pointer,
        env.pointer,
        [device.pointer for device in devices],
        len(devices),
        keys,
        values,
        len(provider_options),
    )
    del kept_keys, kept_values
    return SessionOptions(
        options, tuple(devices), dict(provider_options), profiled=profile_prefix is not None
    )


def session_with(
    api: Api, scope: Scope, env: Handle, model: bytes, options: SessionOptions
) -> Session:
    """A session for a model, made with session options, which stay as they are.

    Args:
        api: the core.
        scope: owns the session and what is created from it.
        env: the environment.
        model: the bytes of an ONNX model.
        options: name its EP devices.

    Raises:
        NativeCallError: ORT or the plugin refused.
    """
    session = api.get(
        "CreateSessionFromArray",
        "OrtSession **",
        env.pointer,
        ffi.from_buffer(model),
        len(model),
        options.handle.pointer,
    )
    return Session(
        api,
        scope,
        scope.own(Handle("session", session, lambda s: api.plain("ReleaseSession", s))),
        options.devices,
        options.provider_options,
        profiled=options.profiled,
    )


def create_session(
    api: Api,
    scope: Scope,
    env: Handle,
    devices: Sequence[EpDevice],
    model: bytes,
    *,
    provider_options: Mapping[str, str],
    profile_prefix: str | None = None,
) -> Session:
    """A session for a model on the given EP devices, nodes that they decline on the CPU EP.

    Args:
        api: the core.
        scope: owns the session and what is created from it.
        env: the environment.
        devices: EP devices of one EP.
        model: the bytes of an ONNX model.
        provider_options: what is sent to the EP; keys and values.
        profile_prefix: where a profile is written, if one is wanted; an absolute path.

    Raises:
        NativeCallError: ORT or the plugin refused.
    """
    with Scope() as passing:
        options = create_options(
            api,
            passing,
            env,
            devices,
            provider_options=provider_options,
            profile_prefix=profile_prefix,
        )
        return session_with(api, scope, env, model, options)
