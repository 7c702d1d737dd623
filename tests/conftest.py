from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.artifacts.cache import default_cache
from harness.artifacts.cores import Core, resolve_cores
from harness.artifacts.lock import read_lock
from harness.artifacts.plugins import Plugin, resolve_plugin
from harness.matrix_file import LoadedMatrix, load

TOP = Path(__file__).parent.parent
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")


@pytest.fixture(scope="session")
def loaded() -> LoadedMatrix:
    return load(TOP / "matrix.yaml")


def core(version: str) -> Core:
    (found,) = resolve_cores(
        load(TOP / "matrix.yaml").matrix,
        TOP,
        default_cache(),
        lock=read_lock(TOP / "matrix.lock.json"),
        selectors=[version],
    )
    assert found.error is None, found.error
    return found


@pytest.fixture(scope="session")
def oldest() -> Core:
    return core("1.24.4")


@pytest.fixture(scope="session")
def newest() -> Core:
    return core("1.32.0")


@pytest.fixture(scope="session")
def webgpu(loaded: LoadedMatrix) -> Plugin:
    return resolve_plugin(loaded.matrix, TOP, default_cache(), "webgpu")


@pytest.fixture(scope="session")
def host_environment() -> dict[str, str]:
    """An environment in which the WebGPU plugin finds an adapter in software on Debian."""
    environment = dict(os.environ)
    environment.setdefault("VK_ICD_FILENAMES", str(SWIFTSHADER))
    environment["ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join([str(TOP), *sys.path])
    return environment
