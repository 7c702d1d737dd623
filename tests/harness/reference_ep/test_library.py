"""The built library: what it shows, and that its declarations are those of cffi and C++."""

from __future__ import annotations

import re
from pathlib import Path

import cffi
import lief

from tests.conftest import TOP

NATIVE = TOP / "harness" / "native"


def test_it_exports_two_functions_and_nothing_else(library: Path) -> None:
    binary = lief.ELF.parse(str(library))

    assert binary is not None
    exported = {symbol.name for symbol in binary.exported_symbols}
    assert exported == {"CreateEpFactories", "ReleaseEpFactory"}


def test_no_symbol_keeps_it_mapped_after_an_unload(library: Path) -> None:
    binary = lief.ELF.parse(str(library))

    assert binary is not None
    unique = [s.name for s in binary.symbols if s.binding == lief.ELF.Symbol.BINDING.GNU_UNIQUE]
    assert unique == []


def test_the_ep_declarations_parse_and_count_as_the_public_header_does() -> None:
    text = (NATIVE / "ort_ep_api.h").read_text(encoding="utf-8")
    ffi = cffi.FFI()
    ffi.cdef((NATIVE / "ort_c_api.h").read_text(encoding="utf-8"))
    ffi.cdef(text)

    def place(struct: str, member: str) -> int:
        pointer = ffi.sizeof("void *")
        return ffi.offsetof(struct, member) // pointer

    # Counted in the public header of API level 28. Of OrtEp and OrtEpFactory, whose first member
    # is the level, that is the member's number too.
    assert place("OrtEpApi", "CreateHardwareDevice") == 16
    assert place("OrtEpApi", "EpGraphSupportInfo_LookUpKernel") == 41
    assert place("OrtEpApi", "KernelInfo_GetEp") == 43
    assert place("OrtEp", "OnRunStart") == 8
    assert place("OrtEp", "GetKernelRegistry") == 13
    assert place("OrtEp", "Sync") == 15
    assert place("OrtEp", "IsGraphCaptureEnabled") == 17
    assert place("OrtEp", "OnSessionInitializationEnd") == 22
    assert place("OrtEp", "ReleaseCapturedGraph") == 24
    assert ffi.sizeof("OrtEp") == 25 * ffi.sizeof("void *")
    assert place("OrtEpFactory", "CreateSyncStreamForDevice") == 13
    assert ffi.sizeof("OrtEpFactory") == 21 * ffi.sizeof("void *")
    assert ffi.sizeof("OrtAllocator") == 8 * ffi.sizeof("void *")
    assert ffi.sizeof("OrtKernelImpl") == 5 * ffi.sizeof("void *")
    assert re.search(r"level 2[5-8]", text) is not None
