import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.artifacts.cache import Cache, hash_file
from harness.artifacts.library import (
    Library,
    inspect_library,
    misfit,
    not_a_library,
)
from harness.artifacts.target import Target
from tests.harness.artifacts.building import LINUX, MACOS, WINDOWS
from tests.harness.artifacts.native_files import elf, fat_macho, macho, pe

LINUX_ARM = Target("linux", "aarch64", ())
GCC = shutil.which("gcc")


def inspect(content: bytes, tmp_path: Path, cache: Cache) -> Library:
    path = tmp_path / "library"
    path.write_bytes(content)
    library = inspect_library(path, hash_file(path), cache)
    assert library is not None
    return library


@pytest.mark.parametrize(
    ("content", "kind", "machines"),
    [
        (elf(), "ELF", ("x86_64",)),
        (elf(machine="aarch64"), "ELF", ("aarch64",)),
        (pe(), "PE", ("x86_64",)),
        (pe(machine="aarch64"), "PE", ("aarch64",)),
        (macho(), "Mach-O", ("aarch64",)),
        (
            fat_macho([("x86_64", macho(machine="x86_64")), ("aarch64", macho())]),
            "Mach-O",
            ("x86_64", "aarch64"),
        ),
    ],
)
def test_a_plugin_library_of_any_platform_is_read(
    content: bytes, kind: str, machines: tuple[str, ...], tmp_path: Path, cache: Cache
) -> None:
    library = inspect(content, tmp_path, cache)
    assert (library.format, library.machines) == (kind, machines)
    assert library.shared
    assert library.entry_points == ("CreateEpFactories", "ReleaseEpFactory")
    assert library.exports == 2


@pytest.mark.parametrize("build", [elf, pe, macho])
def test_a_library_without_exports_has_no_entry_points(
    build: object, tmp_path: Path, cache: Cache
) -> None:
    assert callable(build)
    library = inspect(build(()), tmp_path, cache)
    assert library.entry_points == ()
    assert library.exports == 0


def test_what_one_slice_lacks_the_universal_file_lacks(tmp_path: Path, cache: Cache) -> None:
    slices = [("x86_64", macho(("ReleaseEpFactory",), machine="x86_64")), ("aarch64", macho())]
    assert inspect(fat_macho(slices), tmp_path, cache).entry_points == ("ReleaseEpFactory",)


def test_a_dylib_tells_its_version(tmp_path: Path, cache: Cache) -> None:
    assert inspect(macho(version=(1, 24, 4)), tmp_path, cache).version == "1.24.4"
    assert inspect(macho(), tmp_path, cache).version is None


@pytest.mark.skipif(GCC is None, reason="needs gcc")
def test_an_elf_library_tells_its_version_by_its_symbols(tmp_path: Path, cache: Cache) -> None:
    source, script = tmp_path / "core.c", tmp_path / "core.lds"
    source.write_text("int OrtGetApiBase(void) { return 0; }\n")
    script.write_text("VERS_1.27.1 { global: OrtGetApiBase; local: *; };\n")
    built = tmp_path / "core.so"
    command = [GCC, "-shared", "-fPIC", "-nostdlib", f"-Wl,--version-script={script}"]
    subprocess.run(
        [*map(str, command), "-o", str(built), str(source)],
        check=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
    )
    assert inspect(built.read_bytes(), tmp_path, cache).version == "1.27.1"


@pytest.mark.parametrize(
    ("content", "target", "reason"),
    [
        (elf(), LINUX, None),
        (pe(), WINDOWS, None),
        (macho(), MACOS, None),
        (fat_macho([("x86_64", macho(machine="x86_64")), ("aarch64", macho())]), MACOS, None),
        (elf(), LINUX_ARM, "it is built for x86_64, and this process runs on aarch64"),
        (elf(), WINDOWS, "it is a library for Linux (ELF), and this is windows-x86_64"),
        (pe(), LINUX, "it is a library for Windows (PE), and this is linux-x86_64"),
        (macho(), LINUX, "it is a library for macOS (Mach-O), and this is linux-x86_64"),
        (
            macho(machine="x86_64"),
            MACOS,
            "it is built for x86_64, and this process runs on aarch64",
        ),
        (
            elf(machine="unknown"),
            LINUX,
            "it is built for machine 31000, and this process runs on x86_64",
        ),
        (
            pe(machine="unknown"),
            WINDOWS,
            "it is built for machine 31000, and this process runs on x86_64",
        ),
        (
            macho(machine="unknown"),
            MACOS,
            "it is built for machine 31000, and this process runs on aarch64",
        ),
        (
            # A type of file that there is none of.
            elf()[:16] + b"\x80\x80" + elf()[18:],
            LINUX,
            "it is a program or an object file and no shared library",
        ),
        (elf(program=True), LINUX, "it is a program or an object file and no shared library"),
        (pe(library=False), WINDOWS, "it is a program or an object file and no shared library"),
    ],
)
def test_a_library_fits_its_own_platform_alone(
    content: bytes, target: Target, reason: str | None, tmp_path: Path, cache: Cache
) -> None:
    assert misfit(inspect(content, tmp_path, cache), target) == reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"#!/bin/sh\necho hi\n", 'it starts with "#!/bin/sh"'),
        (b"", "it is empty"),
        (
            b"\x00\x01\x02\x03\x04\x05\x06\x07\x08",
            "it starts with the bytes 00 01 02 03 04 05 06 07",
        ),
        (b"PK\x03\x04abcd", "it starts with the bytes 50 4b 03 04 61 62 63 64"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            'it is a Git LFS pointer, whose content "git lfs pull" brings',
        ),
        (b"hello \xc3\xa9", "it starts with the bytes 68 65 6c 6c 6f 20 c3 a9"),
    ],
)
def test_what_is_no_library_is_told_by_its_first_bytes(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "plugin.so"
    path.write_bytes(content)
    assert not_a_library(path) == reason


def test_a_missing_file_and_a_folder_are_no_libraries(tmp_path: Path) -> None:
    assert not_a_library(tmp_path / "gone") == "there is no such file"
    assert not_a_library(tmp_path) == "it is a folder"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all files")
def test_a_file_without_the_right_to_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "plugin.so"
    path.write_bytes(elf())
    path.chmod(0)
    assert not_a_library(path) == "it cannot be read: Permission denied"


@pytest.mark.parametrize("build", [elf, pe, macho])
@pytest.mark.parametrize("part", [0.05, 0.3, 0.9])
def test_a_file_cut_short_is_no_library_and_prints_nothing(
    build: object, part: float, tmp_path: Path, cache: Cache, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(build)
    path = tmp_path / "plugin.so"
    whole = build()
    path.write_bytes(whole[: int(len(whole) * part)])
    assert inspect_library(path, hash_file(path), cache) is None
    assert capfd.readouterr() == ("", "")


def test_an_inspection_is_remembered_by_hash(tmp_path: Path, cache: Cache) -> None:
    path = tmp_path / "plugin.so"
    path.write_bytes(elf())
    digest = hash_file(path)
    first = inspect_library(path, digest, cache)
    path.unlink()
    assert inspect_library(path, digest, cache) == first
    (cache.inspections / f"{digest}.json").write_text("{}")
    path.write_bytes(elf())
    assert inspect_library(path, digest, cache) == first
