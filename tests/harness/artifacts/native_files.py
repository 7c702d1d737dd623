"""Tiny native libraries, written byte by byte from the formats' specifications.

They can be read and not run. No tool of any platform is needed to make them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["CORE_EXPORTS", "PLUGIN_EXPORTS", "elf", "fat_macho", "macho", "pe"]

# A number that no machine has.
UNKNOWN = 31000
ELF_MACHINES = {"x86_64": 62, "aarch64": 183, "x86": 3, "unknown": UNKNOWN}
PE_MACHINES = {"x86_64": 0x8664, "aarch64": 0xAA64, "unknown": UNKNOWN}
MACHO_MACHINES = {"x86_64": 0x01000007, "aarch64": 0x0100000C, "unknown": UNKNOWN}
PLUGIN_EXPORTS = ("CreateEpFactories", "ReleaseEpFactory")
CORE_EXPORTS = ("OrtGetApiBase",)


def elf(
    exports: Sequence[str] = PLUGIN_EXPORTS,
    *,
    machine: str = "x86_64",
    needed: Sequence[str] = (),
    program: bool = False,
    filler: bytes = b"",
) -> bytes:
    """A 64-bit little-endian ELF file; a shared library unless it is to be a program."""
    strings = b"\0"
    offsets = {}
    for name in (*exports, *needed):
        offsets[name] = len(strings)
        strings += name.encode() + b"\0"
    header_size = 64 + 2 * 56
    strtab = header_size
    symtab = _align(strtab + len(strings))
    count = len(exports) + 1
    hashtab = symtab + 24 * count
    dynamic = _align(hashtab + 4 * (2 + 1 + count))
    entries = [(1, offsets[name]) for name in needed]
    entries += [(5, strtab), (6, symtab), (10, len(strings)), (11, 24), (4, hashtab), (0, 0)]
    end = dynamic + 16 * len(entries)
    body = bytearray(end)
    body[0:64] = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        2 if program else 3,
        ELF_MACHINES[machine],
        1,
        0,
        64,
        0,
        0,
        64,
        56,
        2,
        64,
        0,
        0,
    )
    body[64:120] = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, end, end, 0x1000)
    size = 16 * len(entries)
    body[120:176] = struct.pack("<IIQQQQQQ", 2, 6, dynamic, dynamic, dynamic, size, size, 8)
    body[strtab : strtab + len(strings)] = strings
    for index, name in enumerate(exports, 1):
        symbol = struct.pack("<IBBHQQ", offsets[name], 0x12, 0, 1, 0x100, 8)
        body[symtab + 24 * index : symtab + 24 * (index + 1)] = symbol
    chain = [1, count, 1 if count > 1 else 0, 0, *range(2, count), 0]
    body[hashtab : hashtab + 4 * (2 + 1 + count)] = struct.pack(
        f"<{3 + count}I", *chain[: 3 + count]
    )
    for index, (tag, value) in enumerate(entries):
        body[dynamic + 16 * index : dynamic + 16 * (index + 1)] = struct.pack("<QQ", tag, value)
    return bytes(body) + filler


def pe(
    exports: Sequence[str] = PLUGIN_EXPORTS, *, machine: str = "x86_64", library: bool = True
) -> bytes:
    """A PE32+ file with an export table."""
    rva, raw = 0x1000, 0x200
    names = sorted(exports)
    count = len(names)
    functions = 40
    name_table = functions + 4 * count
    ordinals = name_table + 4 * count
    text = ordinals + 2 * count
    strings, offsets = b"it.dll\0", []
    for name in names:
        offsets.append(text + len(strings))
        strings += name.encode() + b"\0"
    directory = struct.pack(
        "<IIHHIIIIIII",
        0,
        0,
        0,
        0,
        rva + text,
        1,
        count,
        count,
        rva + functions,
        rva + name_table,
        rva + ordinals,
    )
    section = directory
    section += struct.pack(f"<{count}I", *(rva + 0x800 + 16 * i for i in range(count)))
    section += struct.pack(f"<{count}I", *(rva + offset for offset in offsets))
    section += struct.pack(f"<{count}H", *range(count))
    section = (section + strings).ljust(0x1000, b"\0")
    dos = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    characteristics = 0x0022 | (0x2000 if library else 0)
    coff = struct.pack(
        "<4sHHIIIHH", b"PE\0\0", PE_MACHINES[machine], 1, 0, 0, 0, 240, characteristics
    )
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, 0x1000, 0, 0, 0x1000, 0x1000)
    optional += struct.pack(
        "<QIIHHHHHHIIII", 0x180000000, 0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0, 0x2000, 0x200, 0
    )
    optional += struct.pack("<HHQQQQII", 3, 0, 0x100000, 0x1000, 0x100000, 0x1000, 0, 16)
    optional += struct.pack("<II", rva, len(section)) + bytes(8 * 15)
    header = struct.pack(
        "<8sIIIIIIHHI", b".edata", 0x1000, rva, 0x1000, raw, 0, 0, 0, 0, 0x40000040
    )
    return (dos + coff + optional + header).ljust(raw, b"\0") + section


def macho(
    exports: Sequence[str] = PLUGIN_EXPORTS,
    *,
    machine: str = "aarch64",
    version: tuple[int, int, int] = (0, 0, 0),
    needed: Sequence[str] = (),
) -> bytes:
    """A 64-bit Mach-O dynamic library with a symbol table."""
    packed = version[0] << 16 | version[1] << 8 | version[2]
    commands = [_dylib(0x0D, "@rpath/it.dylib", packed)]
    commands += [_dylib(0x0C, name, 0x10000) for name in needed]
    segment_size, symtab_size, dysymtab_size = 72, 24, 80
    total = sum(map(len, commands)) + segment_size + symtab_size + dysymtab_size
    symbols_at = 32 + total
    strings, offsets = b"\0", []
    for name in exports:
        offsets.append(len(strings))
        strings += b"_" + name.encode() + b"\0"
    strings_at = symbols_at + 16 * len(exports)
    end = strings_at + len(strings)
    segment = struct.pack(
        "<II16sQQQQiiII", 0x19, segment_size, b"__LINKEDIT", 0, end, 0, end, 5, 5, 0, 0
    )
    symtab = struct.pack(
        "<IIIIII", 2, symtab_size, symbols_at, len(exports), strings_at, len(strings)
    )
    dysymtab = struct.pack("<II18I", 0x0B, dysymtab_size, 0, 0, 0, len(exports), *([0] * 14))
    header = struct.pack(
        "<IIIIIIII", 0xFEEDFACF, MACHO_MACHINES[machine], 0, 6, len(commands) + 3, total, 0, 0
    )
    table = b"".join(struct.pack("<IBBHQ", offset, 0x0F, 1, 0, 0x100) for offset in offsets)
    return header + segment + b"".join(commands) + symtab + dysymtab + table + strings


def fat_macho(slices: Sequence[tuple[str, bytes]]) -> bytes:
    """A universal Mach-O file of several machines' libraries."""
    body = struct.pack(">II", 0xCAFEBABE, len(slices))
    offset = 0x1000
    for machine, content in slices:
        body += struct.pack(">IIIII", MACHO_MACHINES[machine], 0, offset, len(content), 12)
        offset += _align(len(content), 0x1000)
    for _, content in slices:
        body = body.ljust(_align(len(body), 0x1000), b"\0") + content
    return body


def _dylib(command: int, name: str, version: int) -> bytes:
    text = name.encode() + b"\0"
    size = _align(24 + len(text))
    return (struct.pack("<IIIIII", command, size, 24, 0, version, 0x10000) + text).ljust(
        size, b"\0"
    )


def _align(value: int, to: int = 8) -> int:
    return (value + to - 1) // to * to
