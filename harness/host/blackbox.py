"""What a host was doing, in a file that outlives it.

The host maps a small file and writes the phase, the scenario, the iteration and the native call
into it: plain stores to memory, which the kernel keeps whatever becomes of the process. The
engine reads it after a death.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BlackBox", "LastSeen", "read_blackbox"]

_LAYOUT = struct.Struct("=32s256si64s?")
_ITERATION = struct.Struct("=i")
_PHASE_AT, _SCENARIO_AT, _ITERATION_AT, _CALL_AT, _INSIDE_AT = 0, 32, 288, 292, 356
_NO_ITERATION = -1


@dataclass(frozen=True)
class LastSeen:
    """The last entries of a black box."""

    phase: str
    scenario: str | None
    iteration: int | None
    call: str | None
    inside_call: bool


class BlackBox:
    """The writing side, in the host; it is the `Trace` of the native binding."""

    def __init__(self, path: Path) -> None:
        with path.open("w+b") as file:
            file.truncate(_LAYOUT.size)
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        self._padded: dict[str, bytes] = {}
        self.at("start")

    def at(self, phase: str, scenario: str = "") -> None:
        """Enter a phase, of a scenario or of none."""
        self._map[_PHASE_AT:_SCENARIO_AT] = _pad(phase, 32)
        self._map[_SCENARIO_AT:_ITERATION_AT] = _pad(scenario, 256)
        self._map[_CALL_AT:_INSIDE_AT] = bytes(64)
        self._map[_INSIDE_AT] = 0
        self.iteration(None)

    def iteration(self, number: int | None) -> None:
        """Enter an iteration, from 0, or leave them."""
        _ITERATION.pack_into(self._map, _ITERATION_AT, _NO_ITERATION if number is None else number)

    def enter(self, function: str) -> None:
        """A native function is about to be called."""
        padded = self._padded.get(function)
        if padded is None:
            padded = self._padded[function] = _pad(function, 64)
        self._map[_CALL_AT:_INSIDE_AT] = padded
        self._map[_INSIDE_AT] = 1

    def leave(self) -> None:
        """It has returned."""
        self._map[_INSIDE_AT] = 0


def read_blackbox(path: Path) -> LastSeen:
    """What a host was last seen doing; phase `start` if it left no whole black box."""
    try:
        # The plugin may have put a pipe or a link in its place.
        careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, os.O_RDONLY | careful | getattr(os, "O_BINARY", 0))
        try:
            raw = os.read(descriptor, _LAYOUT.size + 1)
        finally:
            os.close(descriptor)
    except OSError:
        raw = b""
    if len(raw) != _LAYOUT.size:
        return LastSeen("start", None, None, None, inside_call=False)
    phase, scenario, iteration, call, inside = _LAYOUT.unpack(raw)
    return LastSeen(
        _unpad(phase) or "start",
        _unpad(scenario) or None,
        iteration if iteration >= 0 else None,
        _unpad(call) or None,
        inside_call=inside,
    )


def _pad(value: str, size: int) -> bytes:
    return value.encode()[:size].ljust(size, b"\0")


def _unpad(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "replace")
