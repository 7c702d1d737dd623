"""What a run was made of is found again unchanged, or told to have changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness import __version__
from harness.artifacts.cache import Cache
from harness.artifacts.cores import Core
from harness.artifacts.python_packages import PythonPackage
from harness.errors import InputError
from harness.matrix_file import LoadedMatrix
from harness.plan import Cell, CorePlan
from harness.policy import Decision
from harness.recorded import cores_again, matrix_again, packages_again, plans_again, plugin_again
from harness.results import CoreResult, PluginResult, RunInfo
from tests.harness.samples import cell


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"as it was")
    return path


SHA256 = hashlib.sha256(b"as it was").hexdigest()


def of_run(file: Path, loaded: LoadedMatrix) -> None:
    del loaded
    run = RunInfo(
        id="r",
        started="",
        finished="",
        harness_version=__version__,
        matrix_sha256=SHA256,
        platform="",
        matrix=str(file),
    )
    assert matrix_again(run) == file


def of_plugin(file: Path, loaded: LoadedMatrix) -> None:
    seen = PluginResult(
        name="webgpu",
        version="0.4.0",
        library=str(file),
        sha256=SHA256,
        ep_name=None,
        registration_name="as then",
    )
    again = plugin_again(seen, loaded.matrix)
    assert (again.name, again.version, again.library, again.sha256) == (
        "webgpu",
        "0.4.0",
        file,
        SHA256,
    )
    assert again.registration_name == "as then"
    assert again.entry == loaded.matrix.plugins["webgpu"]
    assert plugin_again(seen.model_copy(update={"described": False}), loaded.matrix).entry is None


def of_cores(file: Path, loaded: LoadedMatrix) -> None:
    del loaded
    core = CoreResult(
        id="1.30.0@12345678",
        version="1.30.0",
        library=str(file),
        sha256=SHA256,
        source="somewhere",
        mode="serialized",
        mode_rule="",
        declared="concurrent",
        package="onnxruntime",
    )
    missing = core.model_copy(update={"library": None, "sha256": None, "error": "no network"})
    there, not_there = cores_again([core, missing])
    assert (there.id, there.version, there.library, there.sha256, there.error) == (
        "1.30.0@12345678",
        "1.30.0",
        file,
        SHA256,
        None,
    )
    assert (there.source, there.package) == ("somewhere", "onnxruntime")
    assert (not_there.library, not_there.error) == (None, "no network")


EACH = [
    (of_run, "matrix.yaml of the run"),
    (of_plugin, "plugin of the run"),
    (of_cores, "library of core 1.30.0@12345678 of the run"),
]


@pytest.mark.parametrize(("find", "told"), EACH)
def test_what_is_as_it_was_is_taken_as_it_was_recorded(
    loaded: LoadedMatrix, file: Path, find: Callable[[Path, LoadedMatrix], None], told: str
) -> None:
    del told
    find(file, loaded)


@pytest.mark.parametrize(("find", "told"), EACH)
def test_what_was_changed_or_taken_away_is_refused(
    loaded: LoadedMatrix, file: Path, find: Callable[[Path, LoadedMatrix], None], told: str
) -> None:
    file.write_bytes(b"as it is")
    with pytest.raises(InputError, match=f"The {told}, {file}, was changed since") as changed:
        find(file, loaded)
    file.unlink()
    with pytest.raises(InputError, match=f"The {told}, {file}, cannot be read: No such file"):
        find(file, loaded)
    assert changed.value.exit_code == 2


def test_a_run_of_another_version_of_the_harness_is_refused(file: Path) -> None:
    run = RunInfo(
        id="r",
        started="",
        finished="",
        harness_version="0.0.1",
        matrix_sha256=SHA256,
        platform="",
        matrix=str(file),
    )
    with pytest.raises(InputError, match=rf"ort-ep-matrix 0\.0\.1, and this is {__version__}"):
        matrix_again(run)


def plan_of(*cells: Cell) -> CorePlan:
    decision = Decision(
        mode="serialized", rule="", why="", link=None, override=None, rejection=None
    )
    return CorePlan(cells[0].core, cells[0].core, decision, "serialized", {}, {}, cells)


def test_the_cells_of_the_run_are_planned_and_no_others() -> None:
    a, b, c = (cell(scenario=f"copy/{name}") for name in "abc")
    other = cell("1.31.0")

    assert plans_again([plan_of(a, b, c), plan_of(other)], [b, c, other]) == [
        plan_of(b, c),
        plan_of(other),
    ]


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (replace(cell(), iterations=3), "is another one now"),
        (replace(cell(), timeout_s=1.0), "is another one now"),
        (replace(cell(), id="1.30.0/concurrent/copy/a", mode="concurrent"), "would not be planned"),
    ],
)
def test_a_cell_that_would_be_another_one_now_is_refused(now: Cell, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        plans_again([plan_of(now)], [cell()])
    assert "environment variable that the policy asks for" in caught.value.hint


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (PythonPackage(Path("/c/other"), Path("/c/other/core.so")), "the run any more."),
        (PythonPackage(None, None, "the network is down"), "any more: the network is down."),
    ],
)
def test_the_python_package_of_a_core_is_the_one_of_the_run_or_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: PythonPackage, told: str
) -> None:
    then = PythonPackage(Path("/c/then"), Path("/c/then/core.so"))
    lacking = PythonPackage(None, None, "there was none")
    seen = {"1.30.0": then, "1.31.0": lacking}
    cores = [
        Core(version, version, tmp_path, SHA256, "", None, "onnxruntime")
        for version in ("1.30.0", "1.31.0", "1.32.0")
    ]
    now = {"1.30.0": then}
    asked: list[str] = []

    def resolved(wanted: Sequence[Core], _cache: Cache) -> dict[str, PythonPackage]:
        asked.extend(core.id for core in wanted)
        return now

    monkeypatch.setattr("harness.recorded.python_packages", resolved)
    assert packages_again(seen, cores, Cache(tmp_path)) == seen
    # Where there was none then, none is looked for now.
    assert asked == ["1.30.0"]
    now["1.30.0"] = found
    with pytest.raises(InputError, match=rf"package of core 1\.30\.0 is not .*{told}"):
        packages_again(seen, cores, Cache(tmp_path))
