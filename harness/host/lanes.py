"""Threads of a scenario that drive the device at the same time, or in turn.

In concurrent mode the lanes start together and nothing holds them. In serialized mode the same
work is done by as many threads, and every native call that may touch the device waits for its
turn, in the order of asking: no two calls overlap, and the threads take turns, since the contract
is no thread affinity.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from harness.host.blackbox import LANES, BlackBox

__all__ = ["Lanes", "Overlap"]

# Calls that reach no device: they read or fill objects that belong to their caller alone.
_OF_THE_CALLER = frozenset(
    {
        "AddRunConfigEntry",
        "AddSessionConfigEntry",
        "CreateRunOptions",
        "CreateSessionOptions",
        "CreateTensorWithDataAsOrtValue",
        "EnableProfiling",
        "GetDimensions",
        "GetDimensionsCount",
        "GetKeyValuePairs",
        "GetTensorMutableData",
        "GetTensorTypeAndShape",
        "ReleaseKeyValuePairs",
        "ReleaseRunOptions",
        "ReleaseSessionOptions",
        "ReleaseTensorTypeAndShapeInfo",
        "SetIntraOpNumThreads",
    }
)


@dataclass(frozen=True)
class Overlap:
    """How much the lanes really were at work at the same time."""

    free: bool
    """Whether nothing held them apart."""
    calls: int
    """Native calls that may touch the device."""
    overlapped: int
    """Those among them that began while another lane was inside one."""


class _Lane:
    """What one thread counts; nobody else writes to it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.inside = False
        self.calls = 0
        self.overlapped = 0


class Lanes:
    """The trace of a host's native calls, made by its main thread or by lanes."""

    def __init__(self, box: BlackBox, *, serialized: bool) -> None:
        self._box = box
        self._serialized = serialized
        self._thread = threading.local()
        self._lanes: list[_Lane] = []
        self._waiting: deque[_Lane] = deque()
        self._turn = threading.Condition()

    @property
    def current(self) -> int | None:
        """The number of the lane that asks, from 0; none outside of all lanes."""
        lane = self._lane
        return None if lane is None else lane.number

    @property
    def _lane(self) -> _Lane | None:
        return getattr(self._thread, "lane", None)

    def enter(self, function: str) -> None:
        """A native function is about to be called; in serialized mode, waits for its turn."""
        lane = self._lane
        if lane is None:
            self._box.enter(function)
            return
        if function not in _OF_THE_CALLER:
            if self._serialized:
                with self._turn:
                    self._waiting.append(lane)
                    self._turn.wait_for(lambda: self._waiting[0] is lane)
            lane.calls += 1
            lane.overlapped += any(other.inside for other in self._lanes)
            lane.inside = True
        self._box.enter(function, lane.number + 1)

    def leave(self) -> None:
        """It has returned."""
        lane = self._lane
        if lane is None:
            self._box.leave()
            return
        self._box.leave(lane.number + 1)
        if lane.inside:
            lane.inside = False
            if self._serialized:
                with self._turn:
                    self._waiting.popleft()
                    self._turn.notify_all()

    def run(self, work: Callable[[int], None], count: int) -> Overlap:
        """Do the same work in several threads that start together.

        Args:
            work: is given the number of its lane, from 0.
            count: how many lanes, 16 at most.

        Raises:
            ValueError: there are too many or too few, or a lane wants lanes.
            BaseException: what the first of the lanes that failed has raised.
        """
        if not 2 <= count <= LANES:
            raise ValueError(f"{count} lanes: 2 to {LANES} can run together")
        if self._lane is not None:
            raise ValueError("a lane cannot have lanes of its own")
        self._lanes = lanes = [_Lane(number) for number in range(count)]
        failures: dict[int, BaseException] = {}
        start = threading.Barrier(count)

        def lead(lane: _Lane) -> None:
            self._thread.lane = lane
            try:
                start.wait()
                work(lane.number)
            except BaseException as failure:  # noqa: BLE001 - told by the main thread
                failures[lane.number] = failure

        threads = [threading.Thread(target=lead, args=(lane,)) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._lanes = []
        self._box.no_lanes()
        if failures:
            raise failures[min(failures)]
        return Overlap(
            free=not self._serialized,
            calls=sum(lane.calls for lane in lanes),
            overlapped=sum(lane.overlapped for lane in lanes),
        )
