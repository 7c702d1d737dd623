"""Which library files are really mapped into this process."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path

__all__ = ["mapped_files", "parse_proc_maps"]


# How the kernel writes a line end within a path.
_OCTAL = re.compile(r"\\(012)")


def mapped_files(platform: str = sys.platform) -> list[str]:
    """The paths of all files mapped into this process, each once, in order of address."""
    if platform == "linux":
        return parse_proc_maps(os.fsdecode(Path("/proc/self/maps").read_bytes()))
    if platform == "darwin":
        return _dyld_images()
    import psutil

    return list(dict.fromkeys(entry.path for entry in psutil.Process().memory_maps()))


def parse_proc_maps(text: str) -> list[str]:
    """The file paths of the lines of a `/proc/<pid>/maps`."""
    paths: dict[str, None] = {}
    # By line ends alone: a path may hold whatever else Python takes for one.
    for line in text.split("\n"):
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/"):
            path = fields[5].removesuffix(" (deleted)")
            paths[_OCTAL.sub(lambda code: chr(int(code[1], 8)), path)] = None
    return list(paths)


def _dyld_images() -> list[str]:
    dyld = ctypes.CDLL(None)
    dyld._dyld_get_image_name.restype = ctypes.c_char_p  # noqa: SLF001 - the names of the system
    count = dyld._dyld_image_count()  # noqa: SLF001 - as above
    names = (dyld._dyld_get_image_name(i) for i in range(count))  # noqa: SLF001 - as above
    return [name.decode("utf-8", "replace") for name in names if name]
