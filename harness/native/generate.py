"""Turns `ort_c_api.h` into `_ort_c_api.py`, so that no host process parses C at its start.

Run it after an edit of the header: `python -m harness.native.generate`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cffi

__all__ = ["generate", "main"]

HEADER = Path(__file__).with_name("ort_c_api.h")
MODULE = Path(__file__).with_name("_ort_c_api.py")


def generate() -> str:
    """The source of the out-of-line ABI module for the header."""
    ffi = cffi.FFI()
    ffi.set_source("harness.native._ort_c_api", None)
    ffi.cdef(HEADER.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / MODULE.name
        ffi.emit_python_code(str(target))
        return target.read_text(encoding="utf-8")


def main() -> None:
    """Write the module beside the header."""
    MODULE.write_text(generate(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
