"""Which library files are really mapped into this process."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["exporting", "mapped_files", "parse_proc_maps"]


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


class _Object(ctypes.Structure):
    """The first fields of a `dl_phdr_info`."""

    _fields_ = (("address", ctypes.c_size_t), ("name", ctypes.c_char_p))


class _Symbol(ctypes.Structure):
    """A `Dl_info`."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


_Visitor = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)


def exporting(function: str, platform: str = sys.platform) -> list[str]:
    """The libraries loaded now that export a function, under the names that they were loaded by.

    The loader is asked, so that a library whose file is gone is told as well. Linux alone; empty
    elsewhere.
    """
    if platform != "linux":
        return []
    names: list[bytes] = []

    def visit(found: Any, _size: int, _data: object) -> int:
        names.append(found[0].name or b"")
        return 0

    loader = ctypes.CDLL(None)
    visitor = _Visitor(visit)
    loader.dl_iterate_phdr(visitor, None)
    loader.dlopen.restype = loader.dlsym.restype = ctypes.c_void_p
    loader.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    loader.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    loader.dlclose.argtypes = [ctypes.c_void_p]
    loader.dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Symbol)]
    told = []
    for name in filter(None, names):
        handle = loader.dlopen(name, os.RTLD_NOLOAD | os.RTLD_LAZY)
        if not handle:
            continue
        address, symbol = loader.dlsym(handle, function.encode()), _Symbol()
        # It is also found in what the library itself has loaded.
        if address and loader.dladdr(address, ctypes.byref(symbol)) and symbol.file == name:
            told.append(os.fsdecode(name))
        loader.dlclose(handle)
    return told


def _dyld_images() -> list[str]:
    dyld = ctypes.CDLL(None)
    dyld._dyld_get_image_name.restype = ctypes.c_char_p  # noqa: SLF001 - the names of the system
    count = dyld._dyld_image_count()  # noqa: SLF001 - as above
    names = (dyld._dyld_get_image_name(i) for i in range(count))  # noqa: SLF001 - as above
    return [name.decode("utf-8", "replace") for name in names if name]
