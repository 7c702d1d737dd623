from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.host.host import Host
from harness.host.model import Model
from harness.host.scenario import ScenarioGroup, find_scenarios, scenario, scenario_packages
from tests.conftest import TOP

NINE = [
    "allocation/dirty-bind-input",
    "allocation/scratch-reuse",
    "capture/replay",
    "copy/cpu-io",
    "copy/device-cpu-device",
    "copy/mixed-inputs[cpu-first]",
    "copy/mixed-inputs[device-first]",
    "copy/mixed-outputs[cpu-first]",
    "copy/mixed-outputs[device-first]",
]
HEAD = "from harness.host.scenario import scenario\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "brought_by_a_test"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]


def write(folder: Path, **modules: str) -> None:
    (folder / "__init__.py").write_text(modules.pop("init", ""))
    for name, body in modules.items():
        (folder / f"{name}.py").write_text(HEAD + body)


def simple(name: str, function: str = "f") -> str:
    return f"@scenario('{name}', why='w')\ndef {function}(host): pass\n"


def test_the_shipped_package_brings_its_families() -> None:
    found = find_scenarios(scenario_packages())

    assert found.keys() >= set(NINE)
    assert all(one.why and one.name == name for name, one in found.items())
    assert {one.family for one in found.values()} == {
        "allocation",
        "capture",
        "concurrency",
        "copy",
        "lifecycle",
        "python",
    }
    assert {one.family for one in found.values() if one.host == "bare"} == {"lifecycle"}
    assert all((one.host == "python") == (one.family == "python") for one in found.values())


def test_what_ends_with_everything_alive_is_alone() -> None:
    @scenario("a/b", why="w", ends_alive=True, cases={"1": 1, "2": 2})
    def ends(host: Host, case: int) -> None: ...

    @scenario("a/c", why="w", alone=True)
    def alone(host: Host) -> None: ...

    @scenario("a/d", why="w")
    def plain(host: Host) -> None: ...

    assert [
        (one.name, one.alone, one.ends_alive)
        for group in (ends, alone, plain)
        for one in group.scenarios
    ] == [
        ("a/b[1]", True, True),
        ("a/b[2]", True, True),
        ("a/c", True, False),
        ("a/d", False, False),
    ]


def test_every_module_of_a_package_is_looked_at_in_the_order_of_its_source(package: Path) -> None:
    write(
        package, init=HEAD + simple("z/root"), b=simple("b/1"), a=simple("a/2") + simple("a/1", "g")
    )

    assert list(find_scenarios([package.name])) == ["z/root", "a/2", "a/1", "b/1"]


def test_a_scenario_that_is_imported_elsewhere_is_one_scenario(package: Path) -> None:
    write(package, a=simple("a/1"), b=f"from {package.name}.a import f\n" + simple("b/1", "g"))

    assert list(find_scenarios([package.name, package.name])) == ["a/1", "b/1"]


@pytest.mark.parametrize("other", ["a/1", "a/1[x]"])
def test_two_scenarios_of_one_name_are_refused(package: Path, other: str) -> None:
    cases = "@scenario('a/1', why='w', cases={'x': 1})\ndef g(host, x): pass\n"
    write(package, a=simple(other) + (cases if "[" in other else simple("a/1", "g")))

    with pytest.raises(ValueError, match=r'two scenarios are called "a/1'):
        find_scenarios([package.name])


def test_a_case_is_a_scenario_that_gets_its_own_value() -> None:
    got: list[tuple[object, object]] = []

    @scenario("a/b", why="w", cases={"one": 1, "two": None}, timeout_s=3.0)
    def function(host: Host, value: object) -> None:
        got.append((host, value))

    assert isinstance(function, ScenarioGroup)
    one, two = function.scenarios
    assert [one.name, two.name] == ["a/b[one]", "a/b[two]"]
    assert (one.timeout_s, one.why, one.family) == (3.0, "w", "a")
    host = object()
    two.function(host)
    one.function(host)
    assert got == [(host, None), (host, 1)]


def test_finding_scenarios_imports_no_slow_package() -> None:
    code = (
        "import sys; from harness.host.scenario import find_scenarios;"
        "find_scenarios(['scenarios']);"
        "slow = {'onnx', 'onnxruntime', 'pydantic', 'rich', 'yaml'};"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "[]"


BUILDER = """
from pathlib import Path
from harness.host.model import Model
def build(model):
    with open({log!r}, "a") as log: log.write("built ")
    return b"{content}"
MODEL = Model("m", {{}}, {{}}, build)
"""


def model_in(package: Path, log: Path, content: str, module: str = "models") -> Model:
    (package / f"{module}.py").write_text(BUILDER.format(log=str(log), content=content))
    (package / "__init__.py").touch()
    sys.modules.pop(f"{package.name}.{module}", None)
    found = __import__(f"{package.name}.{module}", fromlist=["MODEL"]).MODEL
    assert isinstance(found, Model)
    return found


def test_a_model_is_built_once_and_then_read(package: Path, tmp_path: Path) -> None:
    log, cache = tmp_path / "log", tmp_path / "new" / "cache"
    model = model_in(package, log, "one")

    assert [model.load(cache) for _ in range(3)] == [b"one"] * 3
    assert log.read_text() == "built "
    assert [file.suffix for file in cache.iterdir()] == [".onnx"]


def test_a_changed_source_gives_a_new_model(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    log, cache = tmp_path / "log", tmp_path / "cache"

    assert model_in(package, log, "one").load(cache) == b"one"
    assert model_in(package, log, "other").load(cache) == b"other"
    assert model_in(package, log, "one").load(cache) == b"one"
    assert log.read_text() == "built built "
    assert len(list(cache.iterdir())) == 2


def test_what_a_killed_host_left_of_a_model_is_replaced_and_no_other_file_stays(
    package: Path, tmp_path: Path
) -> None:
    log, cache = tmp_path / "log", tmp_path / "cache"
    model_in(package, log, "one").load(cache)
    (path,) = cache.iterdir()
    for torn in (b"", b"on"):
        path.write_bytes(torn)
        assert model_in(package, log, "one").load(cache) == b"one"
        assert (list(cache.iterdir()), path.read_bytes()) == ([path], b"one")


def _load(cache: Path, barrier: object, answers: object) -> None:
    def build(_model: Model) -> bytes:
        time.sleep(0.1)
        return b"whole" * 100_000

    barrier.wait()  # type: ignore[attr-defined] # multiprocessing has no name for its type
    content = Model("slow", {}, {}, build).load(cache)
    answers.put((os.getpid(), len(content)))  # type: ignore[attr-defined] # as above


def test_two_processes_may_build_a_model_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    workers = [
        context.Process(target=_load, args=(tmp_path / "cache", barrier, answers)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)

    assert sorted(answers.get(timeout=5)[1] for _ in workers) == [500_000, 500_000]
    (file,) = (tmp_path / "cache").iterdir()
    assert file.read_bytes() == b"whole" * 100_000


@pytest.mark.parametrize("damage", [b"", b"on", b"twe", b"another model"])
def test_a_damaged_model_is_built_anew(package: Path, tmp_path: Path, damage: bytes) -> None:
    model = model_in(package, tmp_path / "log", "one")
    cache = tmp_path / "cache"
    model.load(cache)
    (kept,) = cache.iterdir()
    kept.write_bytes(damage)

    assert model.load(cache) == b"one"
    assert [file.read_bytes() for file in cache.iterdir()] == [b"one"]


def test_a_cache_that_cannot_be_written_is_done_without(package: Path, tmp_path: Path) -> None:
    model = model_in(package, tmp_path / "log", "one")
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("a file")

    assert model.load(in_the_way) == b"one"
