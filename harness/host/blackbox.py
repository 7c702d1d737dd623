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

__all__ = ["LANES", "BlackBox", "LastSeen", "read_blackbox"]

LANES = 16
"""How many threads of a scenario have a place of their own for their native calls."""

_HEAD = struct.Struct("=32s256si")
_CALL = struct.Struct("=64s?")
_ITERATION = struct.Struct("=i")
_PHASE_AT, _SCENARIO_AT, _ITERATION_AT = 0, 32, 288
_SIZE = _HEAD.size + (1 + LANES) * _CALL.size
_NO_ITERATION = -1


@dataclass(frozen=True)
class LastSeen:
    """The last entries of a black box."""

    phase: str
    scenario: str | None
    iteration: int | None
    call: str | None
    """Of several lanes: all that were inside one."""
    inside_call: bool


class BlackBox:
    """The writing side, in the host; it is the `Trace` of the native binding."""

    def __init__(self, path: Path) -> None:
        with path.open("w+b") as file:
            file.truncate(_SIZE)
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._padded: dict[str, bytes] = {}
        self.at("start")

    def at(self, phase: str, scenario: str = "") -> None:
        """Enter a phase, of a scenario or of none."""
        self._map[_PHASE_AT:_SCENARIO_AT] = _pad(phase, 32)
        self._map[_SCENARIO_AT:_ITERATION_AT] = _pad(scenario, 256)
        self._map[_HEAD.size :] = bytes(_SIZE - _HEAD.size)
        self.iteration(None)

    def iteration(self, number: int | None) -> None:
        """Enter an iteration, from 0, or leave them."""
        _ITERATION.pack_into(self._map, _ITERATION_AT, _NO_ITERATION if number is None else number)

    def enter(self, function: str, place: int = 0) -> None:
        """A native function is about to be called, by the main thread or by a lane, from 1."""
        padded = self._padded.get(function)
        if padded is None:
            padded = self._padded[function] = _pad(function, _CALL.size - 1) + b"\1"
        at = _HEAD.size + place * _CALL.size
        self._map[at : at + _CALL.size] = padded

    def leave(self, place: int = 0) -> None:
        """It has returned."""
        self._map[_HEAD.size + (place + 1) * _CALL.size - 1] = 0

    def no_lanes(self) -> None:
        """Forget what lanes called."""
        self._map[_HEAD.size + _CALL.size :] = bytes(LANES * _CALL.size)


def read_blackbox(path: Path) -> LastSeen:
    """What a host was last seen doing; phase `start` if it left no whole black box."""
    try:
        # The plugin may have put a pipe or a link in its place.
        careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, os.O_RDONLY | careful | getattr(os, "O_BINARY", 0))
        try:
            raw = os.read(descriptor, _SIZE + 1)
        finally:
            os.close(descriptor)
    except OSError:
        raw = b""
    if len(raw) != _SIZE:
        return LastSeen("start", None, None, None, inside_call=False)
    phase, scenario, iteration = _HEAD.unpack(raw[: _HEAD.size])
    (call, inside), *lanes = _CALL.iter_unpack(raw[_HEAD.size :])
    within = sorted({_unpad(name) for name, still in lanes if still})
    return LastSeen(
        _unpad(phase) or "start",
        _unpad(scenario) or None,
        iteration if iteration >= 0 else None,
        " and ".join(within) or _unpad(call) or None,
        inside_call=bool(within) or inside,
    )


def _pad(value: str, size: int) -> bytes:
    return value.encode()[:size].ljust(size, b"\0")


def _unpad(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "replace")
