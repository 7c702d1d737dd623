"""How many descriptors the process has open."""

from __future__ import annotations

__all__ = ["open_descriptors"]


def open_descriptors() -> int | None:
    """How many files, sockets, fences and the like are open in this process now.

    None where the system has no such descriptors, as Windows, whose handles are another thing.
    """
    # Not for all hosts: few scenarios ask.
    import psutil

    count = getattr(psutil.Process(), "num_fds", None)
    return None if count is None else int(count())
