"""A selftest on real cores, small: it finds what is planted, and says when something is not."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from harness.errors import InputError, SelectionError
from harness.selftest.faults import VARIABLE, Fault, read_faults
from harness.selftest.live import live_steps
from harness.selftest.neighbours import run_beside_faults
from harness.selftest.planting import Site, plant
from harness.selftest.proof import Proof
from harness.selftest.work import Prepared, Wanted, prepare_proof, prove
from harness.workflow import Planned, judge_run
from tests.harness.reference_ep.lab import SCENARIOS, Lab

FEW = ("allocation/dirty-bind-input", "copy/cpu-io", "copy/device-cpu-device")
OLDEST = "1.24.4"


@pytest.fixture
def matrix(library: Path, tmp_path: Path) -> Path:
    return Lab(library, tmp_path / "lab").matrix()


def prepared(matrix: Path, **wanted: object) -> Prepared:
    values: dict[str, object] = {"matrix": matrix, "cores": (OLDEST,), **wanted}
    return prepare_proof(Wanted(**values), packages=[SCENARIOS])  # type: ignore[arg-type]  # any of its fields


def few(planned: Planned, names: Iterable[str] = FEW) -> Planned:
    """A plan that knows a few of the scenarios only."""
    known = {name: planned.ground.scenarios[name] for name in names}
    return replace(planned, ground=replace(planned.ground, scenarios=known))


def named(name: str, **changes: object) -> Fault:
    (row,) = [one for one in read_faults() if one.name == name]
    return row.model_copy(update=changes)


def ended(one: Prepared, stop: threading.Event | None = None) -> Proof:
    console = Console(file=sys.stdout, width=100)
    return prove(
        one,
        jobs=2,
        watch=lambda groups: live_steps(console, groups),
        stop=stop or threading.Event(),
    )


def run_folders(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob("run.json"))


def test_a_fault_that_is_none_is_answered_with_the_one_that_was_meant(matrix: Path) -> None:
    with pytest.raises(SelectionError, match='perhaps you meant "abort-in-run"'):
        prepared(matrix, faults=("abort-in-runs",))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (VARIABLE, "abort-in-run"),
        ("ORT_REFERENCE_EP_DEVICES", "1"),
        ("ORT_REFERENCE_EP_FORCE_LEGACY", "1"),
    ],
)
def test_what_would_make_another_plugin_of_it_is_refused(
    matrix: Path, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(InputError, match=f"{variable} is set to {value}"):
        prepared(matrix)


@pytest.mark.cores
def test_a_selection_leaves_what_it_names(matrix: Path) -> None:
    faults = read_faults()
    hostile = [fault.name for fault in faults if fault.family == "hostile"]

    one = prepared(matrix)
    cells = sum(len(plan.cells) for plan in one.planned.plans)
    assert {site.fault.name for site in one.sites} == {
        f.name for f in faults if f.can_occur(OLDEST)
    }
    assert [fault.name for fault in one.hostile] == hostile
    assert [core.id for core in one.beside] == [OLDEST]
    assert (one.rounds - 1) * cells < 1000 <= one.rounds * cells

    two = prepared(matrix, faults=("capture", "*-in-run", "claims-too-new"))
    names = {site.fault.name for site in two.sites}
    assert {"replay-reversed", "abort-in-run"} <= names
    assert "batch-swapped" not in names
    # That one is of another core.
    assert "claims-too-new" in [fault.name for fault in two.elsewhere]
    assert [fault.name for fault in two.hostile] == [n for n in hostile if n.endswith("-in-run")]
    assert two.rounds == 0

    three = prepared(matrix, faults=("batch-swapped",), cells=cells + 1)
    assert (three.rounds, three.beside, three.hostile) == (2, (), [])
    assert prepared(matrix, rounds=0, cells=1000).rounds == 0


@pytest.mark.cores
def test_what_is_planted_is_found_and_every_run_can_be_judged_again(
    matrix: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    wanted = prepared(
        matrix, faults=("no-devices", "abort-in-run", "stdout-text"), rounds=1, output=output
    )
    # Only what is tried of the conforming plugin; a selftest itself leaves no scenario out.
    plans = [
        replace(plan, cells=tuple(cell for cell in plan.cells if cell.scenario in FEW))
        for plan in wanted.planned.plans
    ]
    proof = ended(replace(wanted, planned=replace(few(wanted.planned), plans=plans)))

    assert {one.fault.name: (one.score, one.outcome) for one in proof.plantings} == {
        "no-devices": ("detected", "infra-error/no-ep-device"),
        "abort-in-run": ("detected", "crashed/SIGABRT"),
        "stdout-text": ("contained", "passed/ok"),
    }
    assert [(one.cells, one.alarms) for one in proof.rounds] == [(len(FEW), ())]
    (beside,) = proof.neighbours
    assert (beside.planted, beside.others, beside.fine) == (2, len(FEW), True)
    assert proof.exit_code == 0

    folders = run_folders(output)
    assert len(folders) == 3 + 2 + 1
    for folder in folders:
        before = (folder / "results.json").read_bytes()
        judge_run(folder, wanted.planned.ground.loaded)
        assert (folder / "results.json").read_bytes() == before


@pytest.mark.cores
@pytest.mark.parametrize(
    ("fault", "score", "scenario", "runs"),
    [
        # The right scenario, and another outcome than the row demands.
        (named("abort-in-run", outcome=["failed/wrong-result"]), "otherwise", FEW[0], 2),
        # The outcome is right, and a scenario notices of which nobody demanded it.
        (named("cpu-nodes-ignored", noticed_by=[FEW[1]]), "otherwise", FEW[2], 2),
        # Nothing can be noticed.
        (
            named("stdout-text", outcome=["failed/wrong-result"], contained=False),
            "missed",
            FEW[0],
            2,
        ),
        # The first scenario of the row does not notice; another one of the row does.
        (named("cpu-nodes-ignored", noticed_by=[FEW[1], FEW[2]]), "detected", FEW[2], 2),
    ],
    ids=["outcome", "scenario", "missed", "second"],
)
def test_a_selftest_can_fail(
    matrix: Path, tmp_path: Path, fault: Fault, score: str, scenario: str, runs: int
) -> None:
    planned = few(prepared(matrix).planned)

    planting = plant(Site(fault, planned.cores[0]), planned, tmp_path / "out", threading.Event())

    assert (planting.score, planting.scenario) == (score, scenario), planting
    assert len(run_folders(tmp_path / "out")) == runs


@pytest.mark.cores
def test_hostile_faults_cost_their_own_cells_alone(matrix: Path, tmp_path: Path) -> None:
    names = {
        "exit-in-run": ("crashed", "exited-early"),
        "segfault-in-run": ("crashed", "SIGSEGV"),
        "descriptors-closed": ("crashed", "exit-status"),
        "directory-changed": ("failed", "process-state"),
        "child-left-behind": ("failed", "left-behind"),
        "stderr-flood": ("passed", "ok"),
    }
    planned = few(prepared(matrix).planned)
    folder = tmp_path / "out"

    found = run_beside_faults(
        planned,
        planned.cores[0],
        [fault for fault in read_faults() if fault.name in names],
        folder,
        threading.Event(),
    )

    assert found.fine, found
    assert (found.planted, found.others) == (len(names), len(FEW))
    judged = judge_run(folder / "run", planned.ground.loaded)
    cells = {cell.scenario: cell for cell in judged.results.cells}
    assert {name: (cells[name].outcome, cells[name].verdict) for name in FEW} == dict.fromkeys(
        FEW, ("passed", "expected")
    )
    for name, ends in names.items():
        own = cells[f"selftest/planted[{name}]"]
        assert (own.outcome, own.reason) == ends, own.detail
        assert own.repeat == f"ort-ep-matrix selftest --core {OLDEST} --fault {name}"


@pytest.mark.cores
def test_what_is_stopped_is_told_as_not_tried(matrix: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()

    proof = ended(prepared(matrix, faults=("copy",), rounds=1, output=tmp_path / "out"), stop)

    assert {one.score for one in proof.plantings} == {"untried"}
    assert proof.rounds == []
    assert proof.exit_code == 3


@pytest.mark.cores
def test_the_command_ends_with_the_exit_code_and_writes_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    arguments = [
        "--fault",
        "no-devices",
        "--core",
        OLDEST,
        "--output",
        "out",
        "--markdown",
        str(page),
    ]

    done = subprocess.run(
        [sys.executable, "-m", "harness", "selftest", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line]
    assert ["lifecycle", "1", "1", "1", "0", "0", "0", "0"] in lines
    assert lines[-1][0] == "OK"
    assert "| `no-devices` |" in page.read_text(encoding="utf-8")
    assert len(run_folders(tmp_path / "out")) == 1
