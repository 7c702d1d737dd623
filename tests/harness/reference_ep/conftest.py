from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from harness.artifacts.cores import Core
from tests.conftest import TOP
from tests.harness.reference_ep.lab import Lab, cores

SOURCE = TOP / "harness" / "reference_ep"
OLDEST, MIDDLE, NEWEST = "1.24.4", "1.28.0", "1.32.0"


def build(folder: Path, target: str, *options: str) -> Path:
    """Build the plugin or its native driver into a folder, unless that was done."""
    with FileLock(folder.with_suffix(".lock")):
        done = folder / f"{target}.done"
        if done.exists():
            return folder
        # CMake and Ninja come with the extra "test".
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
        for missing in (t for t in ("cmake", "ninja", "c++") if shutil.which(t, path=path) is None):
            pytest.fail(f"the tests build the reference plugin anew, and there is no {missing}")
        configure = ["cmake", "-G", "Ninja", "-S", str(SOURCE), "-B", str(folder)]
        for command in (
            [*configure, "-DREFERENCE_EP_TESTS=ON", *options],
            ["cmake", "--build", str(folder), "--parallel", "2", "--target", target],
        ):
            built = subprocess.run(
                command,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            if built.returncode != 0:
                pytest.fail(built.stdout + built.stderr)
        done.touch()
        return folder


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds by name and options, each once a session, for all its workers."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return lambda name, target, *options: build(shared / f"reference-{name}", target, *options)


@pytest.fixture(scope="session")
def library(builds: Callable[..., Path]) -> Path:
    return builds("plain", "reference_ep") / "libreference_ep.so"


@pytest.fixture(scope="session")
def sanitized(builds: Callable[..., Path]) -> Path:
    return (
        builds("address", "reference_ep", "-DREFERENCE_EP_SANITIZER=address") / "libreference_ep.so"
    )


@pytest.fixture
def lab(library: Path, tmp_path: Path) -> Lab:
    return Lab(library, tmp_path / "lab")


@pytest.fixture(scope="session")
def three() -> list[Core]:
    """The oldest, a middle and the newest core."""
    return cores([OLDEST, MIDDLE, NEWEST])
