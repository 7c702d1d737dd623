"""How much memory the process really has in use."""

from __future__ import annotations

__all__ = ["resident_bytes"]


def resident_bytes() -> int:
    """The bytes of this process that are in memory now.

    Of now, not the most ever: that may have been inherited from whoever started the process.
    """
    import psutil

    return int(psutil.Process().memory_info().rss)
