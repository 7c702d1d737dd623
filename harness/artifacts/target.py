"""The platform that cores and plugins must be built for: this one, unless a test says otherwise."""

from __future__ import annotations

import platform
import re
import struct
import sysconfig
from dataclasses import dataclass
from typing import Literal

from packaging.tags import platform_tags

from harness.errors import ArtifactError

__all__ = ["OperatingSystem", "Target", "current_target", "machine_name"]

OperatingSystem = Literal["linux", "windows", "macos"]

_SYSTEMS: dict[str, OperatingSystem] = {"Linux": "linux", "Windows": "windows", "Darwin": "macos"}
_MACHINES = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "arm64": "aarch64",
    "i386": "x86",
    "i486": "x86",
    "i586": "x86",
    "i686": "x86",
    "armv6l": "arm",
    "armv7l": "arm",
    "armv8l": "arm",
}
_MACHINES_32_BIT = {"x86_64": "x86", "aarch64": "arm"}
_LIBRARY_NAMES: dict[OperatingSystem, str] = {
    "linux": r"libonnxruntime\.so(?:\.(?P<version>\d[\w.+]*))?",
    "macos": r"libonnxruntime(?:\.(?P<version>\d[\w.+]*))?\.dylib",
    "windows": r"onnxruntime\.dll",
}
_PLAIN_NAMES: dict[OperatingSystem, str] = {
    "linux": "libonnxruntime.so",
    "macos": "libonnxruntime.dylib",
    "windows": "onnxruntime.dll",
}
_NUGET_SYSTEMS: dict[OperatingSystem, str] = {"linux": "linux", "macos": "osx", "windows": "win"}
_NUGET_MACHINES = {"x86_64": "x64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Target:
    """An operating system, a machine, and the wheel platform tags that run there, best first."""

    os: OperatingSystem
    machine: str
    tags: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.os}-{self.machine}"

    @property
    def core_name(self) -> str:
        """The core library's file name without a version, for messages."""
        return _PLAIN_NAMES[self.os]

    @property
    def nuget_folder(self) -> str:
        """The folder of a .nupkg that holds this platform's native libraries."""
        machine = _NUGET_MACHINES.get(self.machine, self.machine)
        return f"runtimes/{_NUGET_SYSTEMS[self.os]}-{machine}/native"

    def is_core_name(self, name: str) -> bool:
        """Whether a file of this name is a core library of this platform."""
        return re.fullmatch(_LIBRARY_NAMES[self.os], name) is not None

    def version_in(self, name: str) -> str | None:
        """The version that a core library's file name carries, if it does."""
        match = re.fullmatch(_LIBRARY_NAMES[self.os], name)
        found = match.groupdict().get("version") if match else None
        # The "1" of libonnxruntime.so.1 is an ABI and not a version.
        return found if found and "." in found else None


def machine_name(text: str) -> str:
    """One name for a machine that several systems name differently, such as AMD64 and x86_64."""
    lowered = text.lower()
    return _MACHINES.get(lowered, lowered)


def current_target() -> Target:
    """The platform of this process, which is also that of its host processes.

    Raises:
        ArtifactError: ORT has no builds for this operating system.
    """
    system = _SYSTEMS.get(platform.system())
    if system is None:
        raise ArtifactError(
            f"{platform.system()} is not supported: cores exist for Linux, Windows and macOS."
        )
    # An emulated Windows process is told the machine below it; its own build names the right one.
    spoken = (
        sysconfig.get_platform().removeprefix("win-") if system == "windows" else platform.machine()
    )
    machine = "x86" if spoken == "win32" else machine_name(spoken)
    if struct.calcsize("P") == 4:
        machine = _MACHINES_32_BIT.get(machine, machine)
    return Target(system, machine, tuple(dict.fromkeys(platform_tags())))
