"""Files that others may have put something else in place of, and paths that may be none."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["existing_path", "open_regular"]

# Not on every system; a link is then followed, and a pipe has no name there.
_CAREFULLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file: never of what a link, a pipe or a device would lead to.

    Raises:
        OSError: it cannot be opened, or is none.
    """
    descriptor = os.open(path, flags | _CAREFULLY | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def existing_path(text: str) -> Path | None:
    """What a person may have meant as a path, if there is something; `~` stands for the home."""
    try:
        path = Path(text).expanduser()
        return path if text and path.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None
