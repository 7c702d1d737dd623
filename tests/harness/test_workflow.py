"""The steps of a run on cores that cannot be loaded: what is planned, recorded and judged."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.cache import Cache
from harness.artifacts.cores import Core
from harness.artifacts.plugins import Plugin
from harness.errors import ConfigError, InputError
from harness.execute import quiet
from harness.host.scenario import find_scenarios
from harness.matrix_file import LoadedMatrix, load
from harness.plan import CorePlan, make_plan
from harness.results import Results
from harness.store import read_case, write_record
from harness.workflow import (
    Ground,
    Planned,
    Selection,
    execute_run,
    judge_run,
    prepare,
    record_of,
    resume_run,
)
from tests.conftest import TOP
from tests.harness.samples import PLUGIN_SHA256


def core(version: str, **changes: Any) -> Core:
    values: dict[str, Any] = {
        "id": version,
        "version": version,
        "library": None,
        "sha256": None,
        "source": f"package index: onnxruntime-{version}.whl",
        "error": "the network is down",
    }
    return Core(**{**values, **changes})


@pytest.fixture
def plugin(loaded: LoadedMatrix, tmp_path: Path) -> Plugin:
    return Plugin(
        name="webgpu",
        version="0.4.0",
        library=tmp_path / "plugin.so",
        sha256=PLUGIN_SHA256,
        registration_name="webgpu",
        source="",
        entry=loaded.matrix.plugins["webgpu"],
    )


def planned(loaded: LoadedMatrix, plugin: Plugin, selection: Selection, *cores: Core) -> Planned:
    scenarios = find_scenarios(["scenarios"])
    plans = make_plan(
        loaded.matrix,
        cores=[(one.id, one.version) for one in cores],
        plugin_name=plugin.name,
        plugin_version=plugin.version,
        entry=plugin.entry,
        scenarios=list(scenarios.values()),
        scenario_globs=selection.scenarios,
        iterations=selection.iterations,
        mode=selection.mode,
        environment=os.environ,
        user_environment=selection.environment,
    )
    ground = Ground(loaded, None, Cache(plugin.library.parent / "cache"), ["scenarios"], scenarios)
    return Planned(ground, selection, plugin, cores, plans)


SAME_NAME = """
from harness.host.scenario import scenario
@scenario("copy/cpu-io", why="Mine.")
def mine(host):
    pass
"""


@contextlib.contextmanager
def unwatched(_counts: Mapping[str, int]) -> Iterator[Any]:
    yield quiet


def run(what: Planned, folder: Path, stop: threading.Event | None = None) -> Results:
    made = execute_run(what, output=folder, jobs=2, watch=unwatched, stop=stop or threading.Event())
    return judge_run(made, what.ground.loaded).results


@pytest.mark.parametrize(
    ("selection", "whole"),
    [
        (Selection(), True),
        (Selection(matrix=Path("m.yaml"), plugin="p", iterations=1), True),
        (Selection(environment={"A": "b"}), True),
        (Selection(cores=("1.32.0",)), False),
        (Selection(scenarios=("*",)), False),
        (Selection(mode="serialized"), False),
    ],
)
def test_a_selection_is_whole_if_it_leaves_nothing_out(selection: Selection, whole: bool) -> None:
    assert selection.whole is whole


def test_a_core_that_cannot_be_had_costs_its_cells_and_starts_nothing(
    loaded: LoadedMatrix, plugin: Plugin, tmp_path: Path
) -> None:
    results = run(
        planned(loaded, plugin, Selection(), core("1.31.0"), core("1.32.0")), tmp_path / "r"
    )

    assert {(c.outcome, c.reason, c.detail) for c in results.cells} == {
        ("infra-error", "core-unavailable", "the network is down")
    }
    assert len(results.cells) == 2 * len(find_scenarios(["scenarios"]))
    assert results.summary.exit_code == 1  # an expectation of the whole matrix matches nothing
    assert [c.error for c in results.cores] == ["the network is down"] * 2
    assert not (tmp_path / "r" / "logs").exists()


def test_a_part_of_the_matrix_that_could_not_be_tried_is_incomplete(
    loaded: LoadedMatrix, plugin: Plugin, tmp_path: Path
) -> None:
    selection = Selection(cores=("1.32.0",))
    results = run(planned(loaded, plugin, selection, core("1.32.0")), tmp_path / "r")

    assert results.summary.exit_code == 3


def test_a_run_that_was_stopped_before_it_began_starts_nothing(
    loaded: LoadedMatrix, plugin: Plugin, tmp_path: Path
) -> None:
    stop = threading.Event()
    stop.set()
    there = core("1.32.0", library=tmp_path / "core.so", error=None)
    selection = Selection(cores=("1.32.0",))
    results = run(planned(loaded, plugin, selection, there), tmp_path / "r", stop)

    assert {(c.outcome, c.reason) for c in results.cells} == {("not-run", "interrupted")}
    assert results.summary.exit_code == 3
    assert all(len(c.attempts) == 1 for c in results.cells)


def test_a_core_that_is_no_library_costs_its_cells(
    loaded: LoadedMatrix, plugin: Plugin, tmp_path: Path
) -> None:
    file = tmp_path / "core.so"
    file.write_text("no core")
    there = core("1.32.0", library=file, error=None)
    selection = Selection(cores=("1.32.0",), scenarios=("copy",), iterations=1)
    results = run(planned(loaded, plugin, selection, there, core("1.31.0")), tmp_path / "r")
    mine = [c for c in results.cells if c.core == "1.32.0"]

    assert {(c.outcome, c.reason) for c in mine} == {("infra-error", "core-unusable")}
    assert str(file) in mine[0].detail
    assert results.summary.exit_code == 3


def test_a_run_is_judged_again_with_the_time_and_the_cells_that_it_had(
    loaded: LoadedMatrix, plugin: Plugin, tmp_path: Path
) -> None:
    first = run(planned(loaded, plugin, Selection(), core("1.32.0")), tmp_path / "r")
    before = (tmp_path / "r" / "results.json").read_bytes()
    again = judge_run(tmp_path / "r", loaded).results

    assert first.run.started <= first.run.finished
    assert again == first
    assert (tmp_path / "r" / "results.json").read_bytes() == before
    assert (tmp_path / "r" / "junit.xml").is_file()
    assert (tmp_path / "r" / "summary.md").is_file()


def test_results_tell_the_matrix_that_judged_them(
    loaded: LoadedMatrix, plugin: Plugin, tmp_path: Path
) -> None:
    run(planned(loaded, plugin, Selection(), core("1.32.0")), tmp_path / "r")
    other = judge_run(tmp_path / "r", replace(loaded, sha256="cd" * 32)).results

    assert other.run.matrix_sha256 == "cd" * 32


def test_no_secret_of_the_users_environment_is_in_the_run_folder(
    loaded: LoadedMatrix, plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_SHELL", "hunter2")
    what = planned(loaded, plugin, Selection(), core("1.32.0"))
    assert what.plans[0].environment["OF_THE_SHELL"] == "hunter2"
    run(what, tmp_path / "r")

    assert "hunter2" not in repr(what)
    for file in (tmp_path / "r").rglob("*"):
        assert file.is_dir() or b"hunter2" not in file.read_bytes()


@pytest.mark.parametrize(
    ("source", "selectors", "argument"),
    [
        ("package index: a.whl", (">=1.30",), "1.32.0"),
        ("installed: x", (), "1.32.0"),
        ("installed: x", ("installed",), "installed"),
        ("path {library}", (), "1.32.0"),
        ("path {library}", ("{library}",), "{library}"),
        ("path {library}", ("1.24.4", "{folder}"), "{folder}"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="quotes as POSIX shells do")
def test_each_cell_has_the_command_that_repeats_it(
    loaded: LoadedMatrix,
    plugin: Plugin,
    tmp_path: Path,
    source: str,
    selectors: tuple[str, ...],
    argument: str,
) -> None:
    library = tmp_path / "c d" / "lib.so"
    library.parent.mkdir()
    library.touch()

    def filled(text: str) -> str:
        return text.format(library=library, folder=library.parent)

    one = core("1.32.0", source=filled(source), library=library)
    argument = filled(argument)
    selection = Selection(
        matrix=Path("my matrix.yaml"),
        plugin="./a plugin.so",
        cores=tuple(map(filled, selectors)),
        iterations=3,
        mode="concurrent",
        environment={"A": "x y", "B": "$HOME"},
    )
    what = planned(loaded, plugin, selection, one)
    record = record_of(what, tmp_path, 2)

    assert set(record.repeat) == {cell.id for cell in record.cells}
    for cell in record.cells:
        assert shlex.split(record.repeat[cell.id]) == [
            "ort-ep-matrix", "run", "--plugin", "./a plugin.so",
            "--core", argument, "--scenario", cell.scenario, "--iterations", "3",
            "--env", "A=x y", "--env", "B=$HOME", "--mode", "concurrent",
        ]  # fmt: skip


def test_what_is_recorded_is_what_was_planned(
    loaded: LoadedMatrix, plugin: Plugin, tmp_path: Path
) -> None:
    what = planned(loaded, plugin, Selection(), core("1.30.0"), core("1.31.0"))
    folder = execute_run(
        what, output=tmp_path / "r", jobs=3, watch=unwatched, stop=threading.Event()
    )
    case, record = read_case(folder)

    assert record.run.jobs == 3
    assert record.run.id == "r"
    assert record.whole
    assert record.plugin.described
    assert [c.id for c in case.cells] == [c.id for plan in what.plans for c in plan.cells]
    assert [c.id for c in case.cores] == ["1.30.0", "1.31.0"]
    assert all(c.mode == "serialized" and "<=0.4.0" in c.mode_rule for c in case.cores)
    assert case.plugin.sha256 == PLUGIN_SHA256


def test_an_expectation_of_a_scenario_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text("expectations:\n- {scenario: 'cap*/reply', outcome: failed, why: w}\n")

    with pytest.raises(ConfigError, match=r"expectations\[0\]") as caught:
        prepare(path)
    assert "ort-ep-matrix scenarios" in caught.value.hint


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("import no_such_module_anywhere\n", "no_such_module_anywhere"),
        (SAME_NAME, 'two scenarios are called "copy/cpu-io"'),
    ],
)
def test_scenarios_of_a_package_that_cannot_be_used_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, told: str
) -> None:
    (tmp_path / "brought_along.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        "harness.workflow.scenario_packages", lambda: ["scenarios", "brought_along"]
    )
    try:
        with pytest.raises(InputError, match=told) as caught:
            prepare(TOP / "matrix.yaml")
    finally:
        sys.modules.pop("brought_along", None)
    assert "brought_along" in caught.value.hint


def test_the_engine_loads_neither_a_core_nor_the_native_binding() -> None:
    code = (
        "import sys, harness.cli, harness.workflow;"
        "print(sorted(m for m in sys.modules if m.startswith('harness.native')"
        " or m == 'onnxruntime'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_an_expectation_of_a_plugin_without_an_entry_is_an_error(tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(
        "plugins: {mine: {path: mine.so}}\n"
        "expectations: [{plugin: mien, outcome: failed, why: A typing error.}]\n"
    )

    with pytest.raises(ConfigError, match='"mien" matches no plugin; perhaps you meant "mine"'):
        prepare(matrix)


def test_all_that_expectations_name_and_there_is_not_is_told_at_once(tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(
        "plugins: {mine: {path: mine.so}}\n"
        "expectations:\n"
        "  - {outcome: failed, why: Fine.}\n"
        "  - plugin: mien\n"
        "    scenario: copy/cpu-oi\n"
        "    outcome: failed\n"
        "    why: Two typing errors.\n"
        "  # More.\n"
        "  - {outcome: failed, reason: wrong-rslt, why: A third.}\n"
    )

    with pytest.raises(ConfigError) as caught:
        prepare(matrix)

    assert caught.value.message.splitlines() == [
        (
            f'{matrix}:4: expectations[1]: scenario "copy/cpu-oi" matches no scenario; '
            'perhaps you meant "copy/cpu-io"?'
        ),
        f'{matrix}:4: expectations[1]: plugin "mien" matches no plugin; perhaps you meant "mine"?',
        (
            f'{matrix}:9: expectations[2]: there is no reason "wrong-rslt"; '
            'perhaps you meant "wrong-result"?'
        ),
    ]
    first, second, third = caught.value.hint.splitlines()
    assert "ort-ep-matrix scenarios" in first
    assert "needs an entry" in second
    assert third.startswith("Reasons: ")


def test_a_reason_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.yaml"
    for reason, told in (("version-chek", '"version-check"'), ("wrong-rslt", '"wrong-result"')):
        matrix.write_text(
            f"expectations: [{{outcome: rejected, reason: {reason}, why: A typing error.}}]\n"
        )
        with pytest.raises(ConfigError, match=f'no reason "{reason}"; perhaps you meant {told}'):
            prepare(matrix)
    for reason in ("version-check", "SIGSEGV", "timeout", "ACCESS_VIOLATION"):
        matrix.write_text(f"expectations: [{{outcome: crashed, reason: {reason}, why: So.}}]\n")
        assert prepare(matrix).loaded.matrix.expectations[0].reason == reason


# --- going on with a run; no core could be had, so nothing is started ---


@pytest.fixture
def begun(plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run of two cores that was killed in the second one."""
    plugin.library.write_bytes(b"a plugin")
    digest = hashlib.sha256(b"a plugin").hexdigest()
    matrix = tmp_path / "matrix.yaml"
    shutil.copy(TOP / "matrix.yaml", matrix)
    monkeypatch.setenv("ORT_EP_MATRIX_CACHE", str(tmp_path / "cache"))
    scenarios = ("copy/cpu-io", "copy/device-cpu-device", "capture/replay")
    selection = Selection(scenarios=scenarios, iterations=3, environment={"A": "b"})
    what = planned(
        load(matrix), replace(plugin, sha256=digest), selection, core("1.31.0"), core("1.32.0")
    )
    folder = execute_run(
        what, output=tmp_path / "r", jobs=1, watch=unwatched, stop=threading.Event()
    )
    record = read_case(folder)[1]
    write_record(
        folder, record.model_copy(update={"run": record.run.model_copy(update={"finished": ""})})
    )
    path = folder / "observations.jsonl"
    raw = path.read_bytes()
    lines = raw.splitlines(keepends=True)
    assert len(lines) == len(record.cells) == 6
    path.write_bytes(b"".join(lines[:4]) + lines[4][:40])
    return folder


def resume(folder: Path, told: dict[str, int] | None = None) -> LoadedMatrix:
    @contextlib.contextmanager
    def watch(counts: Mapping[str, int]) -> Iterator[Any]:
        if told is not None:
            told.update(counts)
        yield quiet

    return resume_run(folder, jobs=2, watch=watch, stop=threading.Event()).loaded


def test_a_run_goes_on_with_what_is_unfinished_and_keeps_the_rest(begun: Path) -> None:
    before, was = read_case(begun)
    told: dict[str, int] = {}
    loaded = resume(begun, told)
    after, record = read_case(begun)

    assert told == {"1.32.0": 2}
    assert list(after.observations[:4]) == list(before.observations)
    assert [one.cell for one in after.observations] == [cell.id for cell in was.cells]
    assert {one.infra for one in after.observations} == {"core-unavailable: the network is down"}
    assert (record.run.id, record.run.started, record.run.jobs) == ("r", was.run.started, 2)
    assert was.run.started <= record.run.resumed[0] <= record.run.finished
    assert len(record.run.resumed) == 1
    assert record.cells == was.cells
    assert judge_run(begun, loaded).results.run.resumed == record.run.resumed


def test_a_run_in_which_nothing_is_left_is_not_touched(begun: Path) -> None:
    resume(begun)
    before = {path: path.read_bytes() for path in begun.iterdir()}
    told: dict[str, int] = {}
    resume(begun, told)

    assert told == {}
    assert {path: path.read_bytes() for path in begun.iterdir()} == before


def test_a_run_of_another_system_is_not_gone_on_with(begun: Path) -> None:
    record = read_case(begun)[1]
    write_record(begun, record.model_copy(update={"platform": "haiku"}))

    with pytest.raises(InputError, match="begun on haiku"):
        resume(begun)


def test_a_run_that_was_killed_after_its_last_cell_gets_its_end(begun: Path) -> None:
    resume(begun)
    record = read_case(begun)[1]
    ended = record.run.finished
    write_record(
        begun, record.model_copy(update={"run": record.run.model_copy(update={"finished": ""})})
    )
    told: dict[str, int] = {}
    resume(begun, told)
    run = read_case(begun)[1].run

    assert told == {}
    assert run.finished >= ended
    assert len(run.resumed) == 1


def test_cells_and_environment_are_those_of_the_run_wherever_it_goes_on(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned_again: list[CorePlan] = []

    def nothing_left(plans: Sequence[CorePlan], *_: object) -> list[CorePlan]:
        planned_again.extend(plans)
        return []

    monkeypatch.setattr("harness.workflow.unfinished", nothing_left)
    monkeypatch.chdir("/")
    resume(begun)

    assert [len(plan.cells) for plan in planned_again] == [3, 3]
    for plan in planned_again:
        assert plan.environment["A"] == "b"
        assert {cell.iterations for cell in plan.cells} == {3}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("matrix", "matrix.yaml of the run, .*, was changed since"),
        ("plugin", "plugin of the run, .*, was changed since"),
        ("mode", "cell 1.31.0/serialized/capture/replay of the run would not be planned now"),
        ("version", "that does not go on with runs"),
    ],
)
def test_another_run_is_refused_and_nothing_is_written(
    begun: Path,
    plugin: Plugin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    told: str,
) -> None:
    if change == "matrix":
        with (tmp_path / "matrix.yaml").open("a") as file:
            file.write("# A remark.\n")
    elif change == "plugin":
        plugin.library.write_bytes(b"another plugin")
    elif change == "mode":
        monkeypatch.setattr("harness.workflow.make_plan", concurrent_plan)
    else:
        record = read_case(begun)[1]
        write_record(begun, record.model_copy(update={"selection": None}))
    before = {path: path.read_bytes() for path in begun.iterdir()}

    with pytest.raises(InputError, match=told) as caught:
        resume(begun)
    assert caught.value.exit_code == 2
    assert {path: path.read_bytes() for path in begun.iterdir()} == before


def concurrent_plan(*arguments: Any, **rest: Any) -> Any:
    """What a change of the policy's variable would bring."""
    return make_plan(*arguments, **{**rest, "mode": "concurrent"})


def test_a_folder_that_is_no_run_folder_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        resume(tmp_path)
    assert list(tmp_path.iterdir()) == []
