"""What is built and installed: the source archive, the wheel made of it, and what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from filelock import FileLock

from harness import __version__
from tests.source import TOP

NAME = f"ort_ep_matrix-{__version__}"
PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")
PACKAGES = ("harness", "scenarios")


def build(
    kind: str, source: Path, into: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What pip does to build, without an environment of its own for it."""
    script = f"import sys; from scikit_build_core.build import build_{kind} as b; b(sys.argv[1])"
    unset = ("CC", "CXX", "CMAKE_GENERATOR")
    return subprocess.run(
        [sys.executable, "-c", script, str(into)],
        cwd=source,
        env={name: value for name, value in os.environ.items() if name not in unset} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked source archive, and the wheel that was built from it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "packages"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            done = build("sdist", TOP, folder)
            assert done.returncode == 0, done.stdout
            with tarfile.open(folder / f"{NAME}.tar.gz") as archive:
                # Python 3.11.2, which Debian 12 has, knows no filters; 3.12 wants one.
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                for member in archive:
                    archive.extract(member, folder)
            done = build("wheel", folder / NAME, folder)
            assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(built / f"{NAME}-py3-none-{PLATFORM}.whl")


def sources(*suffixes: str) -> set[str]:
    return {
        path.relative_to(TOP).as_posix()
        for package in PACKAGES
        for path in (TOP / package).rglob("*")
        if path.suffix in suffixes
    }


def test_the_source_archive_has_what_the_plugin_and_the_tests_are_built_from(built: Path) -> None:
    there = {path.relative_to(built / NAME).as_posix() for path in (built / NAME).rglob("*")}

    assert sources(".py", ".cpp", ".h", ".yaml", ".map") <= there
    assert {"matrix.yaml", "tox.ini", "README.md", "LICENSE", "tests/test_packaging.py"} <= there
    assert not {".venv", ".tox", "build", "reports/baselines/.git"} & there


def test_the_wheel_has_every_module_all_data_and_the_library(wheel: zipfile.ZipFile) -> None:
    files = set(wheel.namelist())

    assert {name for name in files if not name.startswith(f"{NAME}.dist-info/")} == {
        *sources(".py", ".typed", ".json"),
        "harness/native/ort_c_api.h",
        "harness/native/ort_ep_api.h",
        "harness/reference_ep/faults.yaml",
        "harness/reference_ep/libreference_ep.so",
        "harness/resources/defaults.yaml",
        "harness/resources/matrix.yaml",
    }
    assert wheel.read("harness/resources/matrix.yaml") == (TOP / "matrix.yaml").read_bytes()


def test_the_wheel_is_for_this_platform_and_any_python_3(wheel: zipfile.ZipFile) -> None:
    said = message_from_string(wheel.read(f"{NAME}.dist-info/WHEEL").decode())
    metadata = message_from_string(wheel.read(f"{NAME}.dist-info/METADATA").decode())
    points = wheel.read(f"{NAME}.dist-info/entry_points.txt").decode()

    assert (said["Tag"], said["Root-Is-Purelib"]) == (f"py3-none-{PLATFORM}", "false")
    assert (metadata["Name"], metadata["Version"]) == ("ort-ep-matrix", __version__)
    assert "ort-ep-matrix = harness.cli:main" in points
    assert "builtin = scenarios" in points


def test_what_the_wheel_installs_finds_its_own_plugin_and_matrix(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    for name in wheel.namelist():
        wheel.extract(name, tmp_path)
    # Without site, so that nothing of an editable install takes part.
    script = (
        f"import sys; sys.path[:0] = {[str(tmp_path), *sys.path]!r}; "
        "from harness.artifacts.bundled import reference_library; "
        "from harness.matrix_file import load, shipped_matrix; "
        "print(reference_library()); print(load(shipped_matrix()).path)"
    )
    said = subprocess.run(
        [sys.executable, "-S", "-P", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    package = tmp_path / "harness"
    assert said.stdout.split() == [
        str(package / "reference_ep" / "libreference_ep.so"),
        str(package / "resources" / "matrix.yaml"),
    ]


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_without_a_compiler_the_last_words_say_what_to_install(tmp_path: Path, kind: str) -> None:
    ended = build(kind, TOP, tmp_path / "out", PATH=str(tmp_path))

    assert ended.returncode != 0
    assert "No CMAKE_CXX_COMPILER could be found" in ended.stdout
    assert "Traceback" not in ended.stdout
    last = ended.stdout.partition("CMake configuration failed")[2]
    for told in ("C++17 compiler", "apt-get install g++", "gcc-c++", "xcode-select", "Build Tools"):
        assert told in last
