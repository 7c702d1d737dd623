"""Which library files are really mapped into this process."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

__all__ = ["mapped_files", "parse_proc_maps"]


def mapped_files(platform: str = sys.platform) -> list[str]:
    """The paths of all files mapped into this process, each once, in order of address."""
    if platform == "linux":
        return parse_proc_maps(
            Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        )
    if platform == "darwin":
        return _dyld_images()
    import psutil

    return list(dict.fromkeys(entry.path for entry in psutil.Process().memory_maps()))


def parse_proc_maps(text: str) -> list[str]:
    """The file paths of the lines of a `/proc/<pid>/maps`."""
    paths: dict[str, None] = {}
    for line in text.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/"):
            paths[fields[5].removesuffix(" (deleted)")] = None
    return list(paths)


def _dyld_images() -> list[str]:
    dyld = ctypes.CDLL(None)
    dyld._dyld_get_image_name.restype = ctypes.c_char_p  # noqa: SLF001 - the names of the system
    count = dyld._dyld_image_count()  # noqa: SLF001 - as above
    names = (dyld._dyld_get_image_name(i) for i in range(count))  # noqa: SLF001 - as above
    return [name.decode("utf-8", "replace") for name in names if name]
