"""Owning handles: what is created is released once at most, in reverse order of creation.

A `Scope` owns handles. Closing a scope releases, last created first, what was not released
before; a release that fails does not keep the others from being released.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

__all__ = ["Handle", "ReleasedHandleError", "Scope"]


_FEWEST_SWEPT = 256


class ReleasedHandleError(Exception):
    """A handle was used after its release: a mistake in a scenario."""


class Handle:
    """One native object and how it is released."""

    def __init__(self, kind: str, pointer: Any, release: Callable[[Any], None]) -> None:
        self.kind = kind
        self._pointer = pointer
        self._release: Callable[[Any], None] | None = release

    @property
    def pointer(self) -> Any:
        """The native pointer.

        Raises:
            ReleasedHandleError: it was released.
        """
        if self._release is None:
            raise ReleasedHandleError(f"a released {self.kind} was used")
        return self._pointer

    @property
    def released(self) -> bool:
        """Whether it is gone."""
        return self._release is None

    def release(self) -> None:
        """Release it; a second time does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release(self._pointer)

    def abandon(self) -> None:
        """Give it up without a release: what could release it is gone."""
        self._release = None


class Scope:
    """Owns handles and releases them in reverse order; several threads may give it some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handles: list[Handle] = []
        self._sweep_at = _FEWEST_SWEPT

    def own(self, handle: Handle) -> Handle:
        """Take a handle over."""
        with self._lock:
            if len(self._handles) >= self._sweep_at:
                # A scenario of many iterations releases most of its handles itself.
                self._handles = [kept for kept in self._handles if not kept.released]
                self._sweep_at = max(_FEWEST_SWEPT, 2 * len(self._handles))
            self._handles.append(handle)
        return handle

    def close(self) -> list[str]:
        """Release everything that is left.

        Returns:
            What failed, one line a handle; empty if nothing did.
        """
        failures = []
        while self._handles:
            handle = self._handles.pop()
            try:
                handle.release()
            except Exception as error:  # noqa: BLE001 - the rest must still be released
                failures.append(f"{handle.kind}: {error}")
        return failures

    def abandon(self) -> None:
        """Give up everything that is left without a release."""
        for handle in self._handles:
            handle.abandon()
        self._handles.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
