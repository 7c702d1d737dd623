"""The allocators that the environment shares, and what any allocator says of itself.

Shared allocators and `AllocatorGetStats` hold from API level 23.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.native.api import Api, ffi
from harness.native.environments import EpDevice
from harness.native.handles import Handle

__all__ = ["create_shared_allocator", "shared_allocator", "statistics"]

_DEVICE_ALLOCATOR, _DEFAULT_DEVICE_MEMORY = 0, 0
_STATISTICS_SINCE = 23


def shared_allocator(api: Api, env: Handle, device: EpDevice) -> Handle | None:
    """The environment's allocator for an EP device's memory; none if it has none.

    A registration makes one for each EP device that has device memory. The environment owns it:
    releasing the handle does nothing.

    Raises:
        NativeCallError: ORT refused.
    """
    allocator = api.get("GetSharedAllocator", "OrtAllocator **", env.pointer, device.memory)
    if allocator == ffi.NULL:
        return None
    return Handle("shared allocator", allocator, lambda _: None)


def create_shared_allocator(api: Api, env: Handle, device: EpDevice) -> Handle:
    """A new shared allocator for an EP device's memory, in place of the one that there is.

    Releasing the handle takes it out of the environment.

    Raises:
        NativeCallError: ORT or the plugin refused.
    """
    allocator = api.get(
        "CreateSharedAllocator",
        "OrtAllocator **",
        env.pointer,
        device.pointer,
        _DEFAULT_DEVICE_MEMORY,
        _DEVICE_ALLOCATOR,
        ffi.NULL,
    )
    return Handle(
        "shared allocator",
        allocator,
        lambda _: api.call(
            "ReleaseSharedAllocator", env.pointer, device.pointer, _DEFAULT_DEVICE_MEMORY
        ),
    )


def statistics(api: Api, allocator: Handle) -> Mapping[str, str]:
    """An allocator's statistics by name; empty where it has none.

    Raises:
        NativeCallError: ORT or the plugin refused.
    """
    # An allocator may leave the function out, and the cores up to 1.32 call it without a look.
    own = allocator.pointer
    if own.version < _STATISTICS_SINCE or own.GetStats == ffi.NULL:
        return {}
    pairs = api.get("AllocatorGetStats", "OrtKeyValuePairs **", allocator.pointer)
    try:
        return dict(api.pairs(pairs))
    finally:
        api.plain("ReleaseKeyValuePairs", pairs)
