"""Waiting for other threads in a main thread that answers signals meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import TypeVar

__all__ = ["results_of"]

_T = TypeVar("_T")

_ASLEEP_S = 0.1


def results_of(futures: Iterable[Future[_T]]) -> list[_T]:
    """What the futures give, in their order.

    Python runs the handler of a signal in the main thread alone. One that comes just before that
    thread falls asleep, or to another thread, does not wake it, and on Windows none does: so it
    never sleeps for long.

    Raises:
        BaseException: what the first future that failed, in their order, raised.
    """
    given = []
    for future in futures:
        while not wait([future], _ASLEEP_S).done:
            pass
        given.append(future.result())
    return given
