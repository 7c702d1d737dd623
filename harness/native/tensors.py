"""Tensors in CPU and in device memory, and copies between them.

`CopyTensors` and sync streams hold from API level 23.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.native.api import Api, ffi
from harness.native.elements import element_type
from harness.native.handles import Handle, Scope

__all__ = [
    "Array",
    "Tensor",
    "address_of",
    "adopt_fetch",
    "copy_tensors",
    "cpu_memory",
    "cpu_tensor",
    "create_stream",
    "device_tensor",
    "foreign_memory",
    "part_of",
    "shape_of",
]

Array = npt.NDArray[Any]

_DEVICE_ALLOCATOR, _DEFAULT_MEMORY = 0, 0
_NPU, _NO_VENDOR, _DEFAULT_ALIGNMENT = 3, 0x7ABE, 0


@dataclass(frozen=True)
class Tensor:
    """A tensor: its `OrtValue`, and its array where that is in CPU memory."""

    handle: Handle
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    array: Array | None = None
    """Shares the memory of a CPU tensor: to be written and read in place. None on a device."""

    def release(self) -> None:
        """Release it before its scope does."""
        self.handle.release()


def cpu_memory(api: Api, scope: Scope) -> Handle:
    """The memory info of plain CPU memory."""
    memory = api.get("CreateCpuMemoryInfo", "OrtMemoryInfo **", _DEVICE_ALLOCATOR, _DEFAULT_MEMORY)
    return scope.own(Handle("memory info", memory, lambda m: api.plain("ReleaseMemoryInfo", m)))


def foreign_memory(api: Api, scope: Scope) -> Handle:
    """The memory info of an NPU of a vendor that there is not. From API level 23."""
    memory = api.get(
        "CreateMemoryInfo_V2",
        "OrtMemoryInfo **",
        b"Foreign",
        _NPU,
        _NO_VENDOR,
        0,
        _DEFAULT_MEMORY,
        _DEFAULT_ALIGNMENT,
        _DEVICE_ALLOCATOR,
    )
    return scope.own(Handle("memory info", memory, lambda m: api.plain("ReleaseMemoryInfo", m)))


def cpu_tensor(api: Api, scope: Scope, memory: Handle, array: Array) -> Tensor:
    """A tensor over the memory of an array; a copy is made of one that is not contiguous."""
    array = np.ascontiguousarray(array)
    value = api.get(
        "CreateTensorWithDataAsOrtValue",
        "OrtValue **",
        memory.pointer,
        ffi.cast("void *", array.ctypes.data),
        array.nbytes,
        list(array.shape),
        array.ndim,
        element_type(array.dtype),
    )
    return _own(api, scope, value, array.shape, array.dtype, array)


def device_tensor(
    api: Api, scope: Scope, allocator: Any, shape: Sequence[int], dtype: np.dtype[Any]
) -> Tensor:
    """A tensor that an allocator gave memory for.

    Raises:
        NativeCallError: the allocator refused.
    """
    value = api.get(
        "CreateTensorAsOrtValue",
        "OrtValue **",
        allocator,
        list(shape),
        len(shape),
        element_type(dtype),
    )
    return _own(api, scope, value, tuple(shape), dtype, None)


def adopt_fetch(
    api: Api, scope: Scope, value: Any, shape: Sequence[int], dtype: np.dtype[Any]
) -> Tensor:
    """Own a value that ORT allocated in CPU memory as the fetch of a Run."""
    data = api.get("GetTensorMutableData", "void **", value)
    size = math.prod(shape) * dtype.itemsize
    array = np.frombuffer(memoryview(ffi.buffer(data, size)), dtype=dtype).reshape(shape)
    return _own(api, scope, value, tuple(shape), dtype, array)


def shape_of(api: Api, value: Any) -> tuple[int, ...]:
    """The shape of a tensor value."""
    info = api.get("GetTensorTypeAndShape", "OrtTensorTypeAndShapeInfo **", value)
    try:
        rank = api.get("GetDimensionsCount", "size_t *", info)
        shape = ffi.new("int64_t[]", rank)
        api.call("GetDimensions", info, shape, rank)
        return tuple(shape)
    finally:
        api.plain("ReleaseTensorTypeAndShapeInfo", info)


def address_of(api: Api, tensor: Tensor) -> int:
    """Where a tensor's data lies, on its own device."""
    data = api.get("GetTensorMutableData", "void **", tensor.handle.pointer)
    return int(ffi.cast("uintptr_t", data))


def part_of(
    api: Api, scope: Scope, memory: Any, tensor: Tensor, first: int, shape: Sequence[int]
) -> Tensor:
    """A tensor over a part of another's device memory, which must live as long.

    Args:
        api: the core.
        scope: owns the part, not the memory.
        memory: the memory info of that device.
        tensor: has the memory.
        first: the element of it at which the part begins.
        shape: of the part.
    """
    size = tensor.dtype.itemsize
    value = api.get(
        "CreateTensorWithDataAsOrtValue",
        "OrtValue **",
        memory,
        ffi.cast("void *", address_of(api, tensor) + first * size),
        math.prod(shape) * size,
        list(shape),
        len(shape),
        element_type(tensor.dtype),
    )
    return _own(api, scope, value, tuple(shape), tensor.dtype, None)


def create_stream(api: Api, scope: Scope, ep_device: Any) -> Handle:
    """A sync stream of an EP device, for copies that keep its order.

    Raises:
        NativeCallError: the EP device has none.
    """
    stream = api.get("CreateSyncStreamForEpDevice", "OrtSyncStream **", ep_device, ffi.NULL)
    return scope.own(Handle("sync stream", stream, lambda s: api.plain("ReleaseSyncStream", s)))


def copy_tensors(
    api: Api,
    env: Handle,
    sources: Sequence[Tensor],
    destinations: Sequence[Tensor],
    stream: Handle | None = None,
) -> None:
    """Copy each source to its destination through the EP's data transfer.

    Args:
        api: the core.
        env: the environment.
        sources: tensors.
        destinations: as many tensors, of the same sizes; all pairs in one direction.
        stream: the sync stream in whose order they are copied; done on return without one.

    Raises:
        NativeCallError: ORT or the plugin refused.
    """
    api.call(
        "CopyTensors",
        env.pointer,
        [tensor.handle.pointer for tensor in sources],
        [tensor.handle.pointer for tensor in destinations],
        ffi.NULL if stream is None else stream.pointer,
        len(sources),
    )


def _own(
    api: Api,
    scope: Scope,
    value: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    array: Array | None,
) -> Tensor:
    handle = scope.own(Handle("tensor", value, lambda value: api.plain("ReleaseValue", value)))
    return Tensor(handle, shape, dtype, array)
