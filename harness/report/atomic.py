"""Writes a report file so that a reader sees the old one or the whole new one, never a part."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

from harness.errors import RunFolderError

__all__ = ["clear_partial_reports", "write_atomic"]

_SUFFIX = ".tmp"


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file in one step.

    Raises:
        RunFolderError: the folder is not there, is full or cannot be written to.
    """
    # In the same folder, since a rename is atomic only within one file system.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise RunFolderError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Check that its folder exists, that it may be written to and that its disk has space.",
        ) from error


def clear_partial_reports(folder: Path) -> None:
    """Remove what was not whole yet when its writer was killed."""
    for leftover in folder.glob(f".*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            leftover.unlink()
