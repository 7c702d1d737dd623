"""Every test here has a cache and a package index of its own, and no other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.artifacts.cache import Cache
from tests.harness.artifacts.building import Site, serve


@pytest.fixture(autouse=True)
def no_pip_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if request.node.get_closest_marker("cores"):
        # The real thing is reached the way this machine reaches it.
        return
    for name in list(os.environ):
        if name.startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def real_pip() -> None:
    """Let the test start the pip of this environment."""


@pytest.fixture(autouse=True)
def no_pip(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    # Without a pip its variables are read directly, which saves half a second a test.
    if "real_pip" not in request.fixturenames:
        monkeypatch.setattr(sys, "executable", str(Path("no", "such", "python")))
        monkeypatch.setenv("PATH", "")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache((tmp_path / "cache").resolve())


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with serve() as started:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"{started.url}/simple")
        yield started
