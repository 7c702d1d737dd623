"""How a long download tells what it is doing, so that the caller can draw it."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Progress", "no_progress"]


class Progress(Protocol):
    """Told of each download. Called from several threads at once.

    A download that is tried again starts again under the same name.
    """

    def started(self, name: str, total_bytes: int | None) -> None:
        """A download began; its size in bytes where the server said it."""

    def advanced(self, name: str, count_bytes: int) -> None:
        """That many more bytes arrived."""

    def finished(self, name: str) -> None:
        """The download ended, well or not."""


class _Silent:
    def started(self, name: str, total_bytes: int | None) -> None:
        pass

    def advanced(self, name: str, count_bytes: int) -> None:
        pass

    def finished(self, name: str) -> None:
        pass


no_progress: Progress = _Silent()
