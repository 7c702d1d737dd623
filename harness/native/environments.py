"""The ORT environment, the plugin registration in it, and the EP devices that it offers.

`RegisterExecutionProviderLibrary` and EP devices hold from API level 22, their memory infos from
level 23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.native.api import Api, ffi, path_argument, text
from harness.native.handles import Handle, Scope

__all__ = ["EpDevice", "create_environment", "ep_devices", "register_plugin", "unregister_plugin"]

_LOG_WARNINGS = 2
_HARDWARE_TYPES = {0: "cpu", 1: "gpu", 2: "npu"}
_DEFAULT_DEVICE_MEMORY = 0


@dataclass(frozen=True)
class EpDevice:
    """An EP device: one EP of a plugin on one hardware device. Valid while it is registered."""

    pointer: Any
    ep_name: str
    ep_vendor: str
    hardware_type: str
    hardware_vendor: str
    metadata: Mapping[str, str]
    memory: Any
    """The `OrtMemoryInfo *` of its default device memory; none if it has no such memory."""


def create_environment(api: Api, scope: Scope) -> Handle:
    """A new ORT environment that logs warnings and errors.

    Raises:
        NativeCallError: ORT refused.
    """
    env = api.get("CreateEnv", "OrtEnv **", _LOG_WARNINGS, b"ort-ep-matrix")
    return scope.own(Handle("environment", env, lambda env: api.plain("ReleaseEnv", env)))


def register_plugin(
    api: Api, scope: Scope, env: Handle, registration_name: str, library: str
) -> Handle:
    """Register a plugin library under a name; releasing the handle unregisters it.

    Args:
        api: the core.
        scope: owns the registration.
        env: the environment.
        registration_name: the name of the registration.
        library: an absolute path; a relative one would be resolved against the core's folder.

    Raises:
        NativeCallError: ORT or the plugin refused.
    """
    name = registration_name.encode()
    api.call("RegisterExecutionProviderLibrary", env.pointer, name, path_argument(library))
    return scope.own(
        Handle(
            "plugin registration",
            name,
            lambda name: api.call("UnregisterExecutionProviderLibrary", env.pointer, name),
        )
    )


def unregister_plugin(api: Api, env: Handle, registration: Handle) -> None:
    """Unregister a plugin library; a registration that is refused this stays, and can try again.

    Raises:
        NativeCallError: ORT or the plugin refused.
    """
    api.call("UnregisterExecutionProviderLibrary", env.pointer, registration.pointer)
    registration.abandon()


def ep_devices(api: Api, env: Handle) -> list[EpDevice]:
    """All EP devices of the environment, those of ORT's own EPs included."""
    pointers = api.get_list("GetEpDevices", "const OrtEpDevice *const **", env.pointer)
    return [_ep_device(api, pointer) for pointer in pointers]


def _ep_device(api: Api, pointer: Any) -> EpDevice:
    hardware = api.plain("EpDevice_Device", pointer)
    memory = api.plain("EpDevice_MemoryInfo", pointer, _DEFAULT_DEVICE_MEMORY)
    return EpDevice(
        pointer=pointer,
        ep_name=text(api.plain("EpDevice_EpName", pointer)) or "",
        ep_vendor=text(api.plain("EpDevice_EpVendor", pointer)) or "",
        hardware_type=_HARDWARE_TYPES.get(api.plain("HardwareDevice_Type", hardware), "unknown"),
        hardware_vendor=text(api.plain("HardwareDevice_Vendor", hardware)) or "",
        metadata=dict(api.pairs(api.plain("EpDevice_EpMetadata", pointer))),
        memory=None if memory == ffi.NULL else memory,
    )
