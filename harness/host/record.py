"""What is seen of a scenario: its iterations, its checks, and how far its lanes overlapped."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from harness.host.blackbox import BlackBox
from harness.host.lanes import Lanes, Overlap
from harness.native.api import MissingApiLevelError, NativeCallError
from harness.native.tensors import Array

__all__ = ["Record", "Recording", "UnsupportedError", "native_error", "run_scenario"]

_FAILURES_KEPT = 5
_VALUES_SHOWN = 16
_LONGEST_MESSAGE = 4_000


class UnsupportedError(Exception):
    """The plugin or the core lacks what a scenario needs.

    Args:
        asked: what the scenario needs.
        answered: why it cannot be had.
        of_core: whether it is the core or the system that lacks it, whatever the plugin.
    """

    def __init__(self, asked: str, answered: str, *, of_core: bool = False) -> None:
        super().__init__(f"{asked}: {answered}")
        self.asked = asked
        self.answered = answered
        self.of_core = of_core


@dataclass
class Record:
    """What a scenario was seen to do so far."""

    iterations_passed: int = 0
    checks: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    failure_count: int = 0
    placement: list[dict[str, Any]] = field(default_factory=list)
    capture: dict[str, int] | None = None
    overlap: Overlap | None = None
    iteration: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Lanes check at the same time."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The side of a host that takes down what a scenario sees.

    Several threads may check at the same time, as `together` has them do.
    """

    iteration_count: int
    shuffle: str | None = None
    """The seed of the order of the iterations; none for their own."""
    box: BlackBox
    lanes: Lanes
    record: Record = field(default_factory=Record)

    def iterations(self) -> Iterator[int]:
        """The iterations, from 0, or in the order of the run's seed.

        One passed if it checked something and every check held.
        """
        record = self.record
        numbers = list(range(self.iteration_count))
        if self.shuffle is not None:
            random.Random(self.shuffle).shuffle(numbers)  # noqa: S311 - an order, no secret
        for number in numbers:
            self.box.iteration(number)
            record.iteration = number
            checks, failures = record.checks, record.failure_count
            yield number
            if record.checks > checks and record.failure_count == failures:
                record.iterations_passed += 1
        record.iteration = None
        self.box.iteration(None)

    def together(self, work: Callable[[int], None], lanes: int = 4) -> None:
        """Do the same work in several threads: at once, or call by call in turn, by the mode.

        How much they really overlapped is recorded.

        Args:
            work: is given the number of its lane, from 0; it may check, and must not iterate.
            lanes: how many threads, 16 at most.

        Raises:
            Exception: what the first of the lanes that failed has raised.
        """
        seen = self.lanes.run(work, lanes)
        before = self.record.overlap or Overlap(seen.free, 0, 0)
        self.record.overlap = Overlap(
            seen.free, before.calls + seen.calls, before.overlapped + seen.overlapped
        )

    def check(self, what: str, expected: Array, got: Array) -> None:
        """Record whether a value is exactly what it should be: type, shape and every element.

        0.0 and -0.0 are two values; a NaN equals every NaN, since its bits carry no meaning.
        """
        right = expected.dtype == got.dtype and expected.shape == got.shape and _same(expected, got)
        self._checked(what, right, lambda: (_shown(expected), _shown(got)))

    def truth(self, what: str, holds: bool, got: object = "it does not hold") -> None:
        """Record whether something that is no tensor is as it should be.

        Args:
            what: a statement, such as "the two buffers lie apart".
            holds: whether it is true.
            got: what was seen instead, for people.
        """
        self._checked(what, holds, lambda: ("", str(got)))

    def refused(self, what: str, action: Callable[[], object]) -> NativeCallError | None:
        """Record whether a mistake of the caller's is answered by an error with a message.

        Args:
            what: the mistake, such as "a destination that is too small".
            action: makes it.

        Returns:
            The error; none if there was none.
        """
        error = self.refusal(action)
        if error is None:
            self.truth(f"{what} is refused", holds=False, got="it was taken")
        else:
            self.truth(f"{what} is refused with a message", bool(error.message), "an empty message")
        return error

    def refusal(self, action: Callable[[], object]) -> NativeCallError | None:
        """The error that answers an action which may be refused or taken; none if it was taken.

        Nothing is recorded: what is right after either answer is the scenario's to check.
        """
        try:
            action()
        except NativeCallError as error:
            return error
        return None

    def tolerated(self, what: str, action: Callable[[], object]) -> NativeCallError | None:
        """Record that a caller's mistake is let pass, or answered by an error with a message.

        Args:
            what: the mistake, such as "an option that nobody knows".
            action: makes it.

        Returns:
            The error; none if it was let pass.
        """
        error = self.refusal(action)
        if error is None:
            self.truth(f"{what} is let pass", holds=True)
        else:
            self.truth(f"{what} is refused with a message", bool(error.message), "an empty message")
        return error

    def counted_capture(self, *, runs: int, kernel_runs: int, host_replays: int) -> None:
        """Record how the runs of a capturing session were executed."""
        self.record.capture = {
            "runs": runs,
            "kernel_runs": kernel_runs,
            "host_replays": host_replays,
        }

    def _checked(self, what: str, right: bool, told: Callable[[], tuple[str, str]]) -> None:
        record, lane = self.record, self.lanes.current
        with record.lock:
            record.checks += 1
            if right:
                return
            record.failure_count += 1
            if len(record.failures) < _FAILURES_KEPT:
                expected, got = told()
                record.failures.append(
                    {
                        "iteration": record.iteration,
                        "what": what if lane is None else f"{what} (lane {lane})",
                        "expected": expected,
                        "got": got,
                    }
                )


def run_scenario(host: Recording, function: Any) -> dict[str, Any]:
    """Run a scenario and report what was seen, its own release included.

    Returns:
        The fields of `harness.results.ScenarioReport` but its name, its time and its plan.
    """
    error: dict[str, Any] | None = None
    unsupported: dict[str, Any] | None = None
    try:
        function(host)
    except UnsupportedError as lack:
        unsupported = {"asked": lack.asked, "answered": lack.answered, "of_core": lack.of_core}
    except MissingApiLevelError as lack:
        unsupported = {
            "asked": f"{lack.function}, of ORT API level {lack.level}",
            "answered": f"core {lack.core_version} does not offer that level",
            "of_core": True,
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
        "overlap": None if record.overlap is None else asdict(record.overlap),
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
