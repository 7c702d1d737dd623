"""What a native library is, read from its file without loading it."""

from __future__ import annotations

import mmap
import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.artifacts.cache import Cache, write_bytes
from harness.artifacts.target import OperatingSystem, Target
from harness.errors import ArtifactError

if TYPE_CHECKING:
    import lief

__all__ = ["Library", "holds_a_core", "inspect_library", "misfit", "not_a_library"]

_CORE_ENTRY = "OrtGetApiBase"
_ENTRY_POINTS = ("CreateEpFactories", _CORE_ENTRY, "ReleaseEpFactory")
_SAMPLE = 6
_MAGIC_BYTES = 4
_SHOWN_BYTES = 40
_FORMATS: dict[OperatingSystem, str] = {"linux": "ELF", "windows": "PE", "macos": "Mach-O"}
_SYSTEMS = {"ELF": "Linux", "PE": "Windows", "Mach-O": "macOS"}
_MACHINES = {
    "AMD64": "x86_64",
    "X86_64": "x86_64",
    "ARM64": "aarch64",
    "AARCH64": "aarch64",
    "I386": "x86",
    "X86": "x86",
    "ARM": "arm",
    "ARMNT": "arm",
}
_MACH_O_MAGICS = (
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"\xbe\xba\xfe\xca",
)


class Library(BaseModel):
    """What the file of a native library says of itself.

    Args:
        machines: those that it holds code for; several in a universal Mach-O file.
        shared: whether it is a library and no program, object or core dump.
        entry_points: those of the functions that matter here which it exports.
        exports: how many functions and variables it exports.
        sample: the names of a few of them.
        version: what it says of its own version, if it says one that can be told.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    format: Literal["ELF", "PE", "Mach-O"]
    machines: tuple[str, ...]
    shared: bool
    entry_points: tuple[str, ...]
    exports: int
    sample: tuple[str, ...]
    version: str | None


def not_a_library(path: Path) -> str | None:
    """Why a path cannot be a native library at all, from its first bytes; None if it may be one."""
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            return "it is a folder"
        with path.open("rb") as stream:
            head = stream.read(_SHOWN_BYTES)
    except FileNotFoundError:
        return "there is no such file"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    if not head:
        return "it is empty"
    if head.startswith((b"\x7fELF", b"MZ")) or head[:_MAGIC_BYTES] in _MACH_O_MAGICS:
        return None
    if head.startswith(b"version https://git-lfs"):
        return 'it is a Git LFS pointer, whose content "git lfs pull" brings'
    return f"it starts with {_shown(head)}"


def inspect_library(path: Path, sha256: str, cache: Cache) -> Library | None:
    """Read what a library is; remembered by its hash, because reading it is slow.

    Args:
        path: of the file.
        sha256: of the file.
        cache: where it is remembered.

    Returns:
        None if it has the first bytes of a library and cannot be read as one.
    """
    kept = cache.inspections / f"{sha256}.json"
    try:
        return Library.model_validate_json(kept.read_bytes())
    except (OSError, ValidationError):
        pass
    library = _read(path)
    if library is not None:
        try:
            write_bytes(kept, library.model_dump_json(indent=1).encode())
        except ArtifactError:
            # A cache that cannot be written makes the next start slower, and no more.
            return library
    return library


def misfit(library: Library, target: Target) -> str | None:
    """Why a library cannot be loaded on a platform; None if nothing speaks against it."""
    if library.format != _FORMATS[target.os]:
        system = _SYSTEMS[library.format]
        return f"it is a library for {system} ({library.format}), and this is {target}"
    if not library.shared:
        return "it is a program or an object file and no shared library"
    if target.machine not in library.machines:
        machines = " and ".join(library.machines)
        return f"it is built for {machines}, and this process runs on {target.machine}"
    return None


def holds_a_core(path: Path) -> bool:
    """Whether a file is a library that exports what a core does, whatever it is called.

    Reads the file, and parses it where it names that function at all; False if it cannot be read.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            if held.find(_CORE_ENTRY.encode()) < 0:
                return False
        found = _read(path)
    except (OSError, ValueError):
        return False
    return found is not None and _CORE_ENTRY in found.entry_points


def _shown(head: bytes) -> str:
    text = head.decode("ascii", errors="replace")
    line = text.splitlines()[0] if text.splitlines() else text
    if all(character.isprintable() and character != "\ufffd" for character in line):
        return f'"{line}"'
    return "the bytes " + head[:8].hex(" ")


def _read(path: Path) -> Library | None:
    import lief

    # It would write what it thinks of a damaged file to the terminal.
    lief.logging.disable()
    warnings.filterwarnings("ignore", ".* is not a valid ", RuntimeWarning, __name__)
    name, size = str(path), path.stat().st_size
    if lief.is_elf(name):
        return _read_elf(lief.ELF.parse(name), size)
    if lief.is_pe(name):
        return _read_pe(lief.PE.parse(name), size)
    if lief.is_macho(name):
        return _read_macho(lief.MachO.parse(name), size)
    return None


# Each of these answers None for a file cut short, whose headers alone may still be readable.


def _read_elf(binary: lief.ELF.Binary | None, size: int) -> Library | None:
    import lief

    if binary is None or not binary.segments:
        return None
    if max(part.file_offset + part.physical_size for part in binary.segments) > size:
        return None
    versions = [
        str(auxiliary.name).removeprefix("VERS_")
        for definition in binary.symbols_version_definition
        for auxiliary in definition.auxiliary_symbols
        if str(auxiliary.name).startswith("VERS_")
    ]
    # A position-independent program has the file type of a library, and an interpreter.
    program = binary.header.file_type != lief.ELF.Header.FILE_TYPE.DYN or binary.has_interpreter
    return _library(
        "ELF",
        [_machine(binary.header.machine_type)],
        shared=not program,
        exports=[str(symbol.name) for symbol in binary.exported_symbols],
        version=versions[0] if len(versions) == 1 else None,
    )


def _read_pe(binary: lief.PE.Binary | None, size: int) -> Library | None:
    import lief

    if binary is None or not binary.sections:
        return None
    if max(part.offset + part.size for part in binary.sections) > size:
        return None
    return _library(
        "PE",
        [_machine(binary.header.machine)],
        shared=binary.header.has_characteristic(lief.PE.Header.CHARACTERISTICS.DLL),
        exports=[str(function.name) for function in binary.exported_functions],
        version=None,
    )


def _read_macho(binaries: lief.MachO.FatBinary | None, size: int) -> Library | None:
    import lief

    slices = list(binaries or ())
    ends = [
        binary.fat_offset + part.file_offset + part.file_size
        for binary in slices
        for part in binary.segments
    ]
    if not ends or max(ends) > size:
        return None
    kinds = lief.MachO.Header.FILE_TYPE
    own = [
        command
        for command in slices[0].libraries
        if command.command == lief.MachO.LoadCommand.TYPE.ID_DYLIB
    ]
    version = ".".join(map(str, own[0].current_version)) if own else "0.0.0"
    return _library(
        "Mach-O",
        [_machine(binary.header.cpu_type) for binary in slices],
        shared=all(binary.header.file_type in (kinds.DYLIB, kinds.BUNDLE) for binary in slices),
        # What one slice lacks is missing on its machine.
        exports=sorted(set.intersection(*map(_macho_exports, slices))),
        version=version if version != "0.0.0" else None,
    )


def _macho_exports(binary: lief.MachO.Binary) -> set[str]:
    return {
        str(symbol.name).removeprefix("_")
        for symbol in binary.symbols
        # A file without an export trie exports what its symbol table marks as external: defined,
        # not private, not for debuggers.
        if symbol.has_export_info or (symbol.raw_type & 0xF1 == 0x01 and symbol.raw_type & 0x0E)
    }


def _machine(value: object) -> str:
    """What we call a machine; a number where lief knows none by it."""
    name = getattr(value, "name", f"machine {value}")
    return _MACHINES.get(name, name.lower())


def _library(
    kind: Literal["ELF", "PE", "Mach-O"],
    machines: list[str],
    *,
    shared: bool,
    exports: list[str],
    version: str | None,
) -> Library:
    names = sorted(set(filter(None, exports)))
    return Library(
        format=kind,
        machines=tuple(machines),
        shared=shared,
        entry_points=tuple(name for name in _ENTRY_POINTS if name in names),
        exports=len(names),
        sample=tuple(names[:_SAMPLE]),
        version=version,
    )
