from pathlib import Path

import pytest

from harness.artifacts.archives import extract_core, version_in_name
from harness.artifacts.target import Target
from harness.errors import ArtifactError
from tests.harness.artifacts.building import LINUX, MACOS, WINDOWS, tgz, zipped

CORE = b"the core"
OTHER = b"something else"


def extract(
    content: bytes, target: Target, tmp_path: Path, name: str = "a.tgz"
) -> tuple[str, bytes]:
    archive, into = tmp_path / name, tmp_path / "core.part"
    archive.write_bytes(content)
    file = extract_core(archive, into, target, name=name)
    return file, into.read_bytes()


def test_the_linux_release_archive_with_its_links(tmp_path: Path) -> None:
    top = "onnxruntime-linux-x64-1.24.4"
    content = tgz(
        {
            f"{top}/include/onnxruntime_c_api.h": OTHER,
            f"{top}/lib/libonnxruntime.so.1.24.4": CORE,
            f"{top}/lib/libonnxruntime_providers_shared.so": OTHER,
        },
        {
            f"{top}/lib/libonnxruntime.so.1": "libonnxruntime.so.1.24.4",
            f"{top}/lib/libonnxruntime.so": "libonnxruntime.so.1",
        },
    )
    assert extract(content, LINUX, tmp_path) == ("libonnxruntime.so.1.24.4", CORE)


def test_the_macos_release_archive_with_its_debug_symbols(tmp_path: Path) -> None:
    top = "./onnxruntime-osx-arm64-1.24.4"
    debug = f"{top}/lib/libonnxruntime.1.24.4.dylib.dSYM/Contents/Resources/DWARF"
    content = tgz(
        {
            f"{debug}/libonnxruntime.1.24.4.dylib": OTHER,
            f"{top}/lib/libonnxruntime.1.24.4.dylib": CORE,
        },
        {f"{top}/lib/libonnxruntime.dylib": "libonnxruntime.1.24.4.dylib"},
    )
    assert extract(content, MACOS, tmp_path) == ("libonnxruntime.1.24.4.dylib", CORE)


def test_the_windows_release_archive(tmp_path: Path) -> None:
    top = "onnxruntime-win-x64-1.24.4"
    content = zipped({f"{top}/lib/onnxruntime.dll": CORE, f"{top}/lib/onnxruntime.lib": OTHER})
    assert extract(content, WINDOWS, tmp_path) == ("onnxruntime.dll", CORE)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (LINUX, "libonnxruntime.so"),
        (MACOS, "libonnxruntime.dylib"),
        (WINDOWS, "onnxruntime.dll"),
        (Target("windows", "aarch64", ()), "onnxruntime.dll"),
    ],
)
def test_a_nupkg_gives_each_platform_its_own(target: Target, name: str, tmp_path: Path) -> None:
    files = {
        "runtimes/linux-x64/native/libonnxruntime.so": b"linux x86_64",
        "runtimes/linux-arm64/native/libonnxruntime.so": b"linux aarch64",
        "runtimes/osx-arm64/native/libonnxruntime.dylib": b"macos aarch64",
        "runtimes/win-x64/native/onnxruntime.dll": b"windows x86_64",
        "runtimes/win-arm64/native/onnxruntime.dll": b"windows aarch64",
    }
    expected = f"{target.os} {target.machine}".encode()
    assert extract(zipped(files), target, tmp_path, "a.nupkg") == (name, expected)


def test_copies_in_place_of_links_count_once(tmp_path: Path) -> None:
    files = {f"t/lib/libonnxruntime.so{end}": CORE for end in ("", ".1", ".1.24.4")}
    assert extract(zipped(files), LINUX, tmp_path) == ("libonnxruntime.so.1.24.4", CORE)


def test_an_archive_of_another_platform_says_what_it_has(tmp_path: Path) -> None:
    content = zipped({"t/lib/onnxruntime.dll": CORE})
    with pytest.raises(
        ArtifactError, match=r"no core library for linux-x86_64.*t/lib/onnxruntime\.dll"
    ):
        extract(content, LINUX, tmp_path)


def test_two_cores_in_one_archive_are_refused(tmp_path: Path) -> None:
    content = zipped({"a/lib/onnxruntime.dll": CORE, "b/lib/onnxruntime.dll": OTHER})
    with pytest.raises(ArtifactError, match="more than one core"):
        extract(content, WINDOWS, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["../lib/libonnxruntime.so.1.0.0", "/lib/libonnxruntime.so.1.0.0", "x/y/lib/libonnxruntime.so"],
)
def test_a_core_elsewhere_in_an_archive_is_not_taken(name: str, tmp_path: Path) -> None:
    if name.startswith("../"):
        # The folder ".." looks like the top of an archive; only the last part is ever used.
        assert extract(zipped({name: CORE}), LINUX, tmp_path)[0] == "libonnxruntime.so.1.0.0"
        assert not (tmp_path.parent / "lib").exists()
    else:
        with pytest.raises(ArtifactError, match="no core library"):
            extract(zipped({name: CORE}), LINUX, tmp_path)


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    content = tgz({}, {"t/lib/libonnxruntime.so.1.0.0": "/etc/passwd"})
    with pytest.raises(ArtifactError, match="no core library"):
        extract(content, LINUX, tmp_path)


@pytest.mark.parametrize("cut", [0.5, 0.9])
def test_a_damaged_archive_is_told(cut: float, tmp_path: Path) -> None:
    import random

    noise = random.Random(1).randbytes(20_000)  # noqa: S311 - bytes that do not compress
    content = tgz({"t/lib/libonnxruntime.so.1.0.0": noise})
    with pytest.raises(ArtifactError, match="damaged"):
        extract(content[: int(len(content) * cut)], LINUX, tmp_path)


def test_a_text_file_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="neither a zip"):
        extract(b"hello", LINUX, tmp_path)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("onnxruntime-linux-x64-1.24.4.tgz", "1.24.4"),
        ("onnxruntime-linux-x64-gpu-1.24.4.tgz", "1.24.4"),
        ("onnxruntime-win-x64-1.27.1.zip", "1.27.1"),
        ("microsoft.ml.onnxruntime.1.28.3.nupkg", "1.28.3"),
        ("onnxruntime-1.29.0-cp311-cp311-win_amd64.whl", "1.29.0"),
        ("onnxruntime-osx-arm64-1.30.0-rc.1.tgz", "1.30.0-rc.1"),
        ("onnxruntime-win-x64-1.24.4", "1.24.4"),
        ("nightly.tgz", None),
        ("onnxruntime-linux-x64.tgz", None),
    ],
)
def test_the_name_of_an_archive_tells_its_version(name: str, version: str | None) -> None:
    assert version_in_name(name) == version
