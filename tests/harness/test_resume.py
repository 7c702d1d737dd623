"""`run --resume`: what was killed goes on, what is another run is refused, nothing is orphaned."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from harness.results import CellResult, Results
from harness.store import hold
from tests.conftest import TOP

pytestmark = [
    pytest.mark.cores,
    pytest.mark.webgpu,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX"),
]

SCRIPT = """
from harness import cli, workflow
workflow.scenario_packages = lambda: ["tests.rogue"]
cli.main()
"""
MARK = "ORT_EP_MATRIX_TEST_MARK"
FINE, WAITING, ONCE = "rogue/fine[1]", "rogue/until-told", "rogue/wrong-once"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Bench:
    """A folder with a matrix for the scenarios that misbehave, and its processes."""

    folder: Path
    environment: Mapping[str, str]

    @property
    def run(self) -> Path:
        return self.folder / "out"

    @property
    def flag(self) -> Path:
        """What a scenario touches when it has come to the point."""
        return self.folder / "flag"

    def waits(self, number: int) -> bool:
        """Whether the scenario that waits has come to its point in its nth run."""
        return (self.folder / f"waiting-{number}").exists()

    def go_on(self, number: int) -> None:
        """Let the nth run of the scenario that waits come to its end."""
        (self.folder / f"go-{number}").touch()

    def start(self, *scenarios: str, cores: tuple[str, ...] = ("1.32.0",)) -> subprocess.Popen[str]:
        """A run with one core at a time."""
        selected = [word for name in scenarios for word in ("--scenario", name)]
        selected += [word for core in cores for word in ("--core", core)]
        return self._popen(
            *("run", "--iterations", "2", "--jobs", "1", "--output", "out"),
            *("--env", f"ROGUE_FLAG={self.flag}", *selected),
        )

    def call(self, *arguments: str) -> Ended:
        process = self._popen(*arguments)
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err
        return Ended(process.returncode, out, err)

    def until(self, process: subprocess.Popen[str], due: Callable[[], bool]) -> None:
        """Wait for a run to come to a point that it does not leave by itself."""
        deadline = time.monotonic() + 60
        while not due():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def kill_when(self, process: subprocess.Popen[str], due: Callable[[], bool]) -> float:
        """Kill the engine at a point; gives the seconds until nothing of it was left."""
        self.until(process, due)
        process.kill()
        process.communicate()
        began = time.monotonic()
        while left := self.processes():
            assert time.monotonic() < began + 30, left
            time.sleep(0.02)
        return time.monotonic() - began

    def processes(self) -> list[psutil.Process]:
        """All living processes of this bench, and those whose parent emptied their environment."""
        found = []
        for process in psutil.process_iter():
            try:
                mine = process.environ().get(MARK) == self.environment[MARK]
                # A child without environment is known by what it runs.
                hidden = process.cmdline()[-1:] == [f"import time; time.sleep({self.seconds})"]
                if (mine or hidden) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    @property
    def seconds(self) -> str:
        return self.environment["ROGUE_SECONDS"]

    def observed(self) -> list[dict[str, object]]:
        """The whole lines of the observations; none before there is such a file."""
        path = self.run / "observations.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def results(self) -> dict[str, CellResult]:
        raw = (self.run / "results.json").read_bytes()
        return {cell.scenario: cell for cell in Results.model_validate_json(raw).cells}

    def _popen(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *arguments],
            cwd=self.folder,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def bench(tmp_path: Path, host_environment: Mapping[str, str]) -> Iterator[Bench]:
    data = yaml.safe_load((TOP / "matrix.yaml").read_text(encoding="utf-8"))
    entry = data["plugins"]["webgpu"]
    (tmp_path / "matrix.yaml").write_text(
        yaml.safe_dump({"plugin": "webgpu", "plugins": {"webgpu": entry}})
    )
    (tmp_path / "tmp").mkdir()
    made = Bench(
        tmp_path,
        {
            **host_environment,
            "COLUMNS": "200",
            "TMPDIR": str(tmp_path / "tmp"),
            MARK: uuid.uuid4().hex,
            # No two benches of a machine have the same.
            "ROGUE_SECONDS": f"6{uuid.uuid4().int % 10**12:012}",
        },
    )
    yield made
    for process in made.processes():
        process.kill()


@pytest.mark.parametrize("case", ["call", "interpreter-lock", "children", "exit"])
def test_nothing_is_left_of_a_host_that_cannot_end_itself(bench: Bench, case: str) -> None:
    process = bench.start(f"rogue/held[{case}]")
    bench.kill_when(process, bench.flag.exists)

    assert list((bench.folder / "tmp").iterdir()) == []


def test_a_failure_that_nobody_repeated_before_the_kill_is_flaky_after_it(bench: Bench) -> None:
    bench.kill_when(bench.start(ONCE, WAITING), lambda: bench.waits(1))
    # Its host was still running.
    assert [one["early"] for one in bench.observed()] == [True]

    assert bench.call("judge", "out").code == 1
    assert bench.results()[ONCE].outcome == "failed"
    bench.go_on(2)
    resumed = bench.call("run", "--resume", "out")

    assert resumed.code == 1
    assert "Going on: 2 cells on 1 core left." in resumed.out
    assert "resumed 1 time" in resumed.out
    assert (bench.results()[ONCE].outcome, bench.results()[ONCE].verdict) == ("passed", "flaky")
    assert bench.results()[WAITING].verdict == "expected"
    assert not (bench.run / "hosts").exists()


def test_a_killed_run_is_completed_by_one_process_and_then_left_as_it_is(bench: Bench) -> None:
    bench.go_on(1)
    process = bench.start(WAITING, cores=("1.24.4", "1.32.0"))
    bench.kill_when(process, lambda: bench.waits(2))
    (first,) = bench.observed()
    with (bench.run / "observations.jsonl").open("ab") as file:
        file.write(b'{"cell": "1.32.0/seri')
    for name in ("run.json.new", ".results.json.0123.tmp"):
        (bench.run / name).touch()

    with hold(bench.run):
        refused = bench.call("run", "--resume", "out")
    bench.go_on(3)
    resumed = bench.call("run", "--resume", "out")

    assert refused.code == 2
    assert f"Another process is running in {bench.run}." in refused.err
    assert (resumed.code, "Going on: 1 cell on 1 core left." in resumed.out) == (0, True)
    assert bench.observed()[0] == first
    assert [(one["cell"], one["attempt"]) for one in bench.observed()] == [
        (f"1.24.4/serialized/{WAITING}", 1),
        (f"1.32.0/serialized/{WAITING}", 1),
    ]
    left = {
        ".lock", "run.json", "observations.jsonl",
        "logs", "results.json", "junit.xml", "summary.md",
    }  # fmt: skip
    assert {path.name for path in bench.run.iterdir()} <= left

    before = {path: path.read_bytes() for path in bench.run.iterdir() if path.is_file()}
    again = bench.call("run", "--resume", "out")
    assert (again.code, "Going on" in again.out) == (0, False)
    assert again.out.startswith("Nothing of the run was left to do.")
    assert {path: path.read_bytes() for path in before} == before


def signal_main(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)


def signal_another_thread(process: subprocess.Popen[str]) -> None:
    """As where a signal comes just before the main thread falls asleep: it wakes nobody."""
    other = next(one.id for one in psutil.Process(process.pid).threads() if one.id != process.pid)
    assert ctypes.CDLL(None).tgkill(process.pid, other, signal.SIGINT) == 0


@pytest.mark.parametrize(
    "interrupt",
    [
        signal_main,
        pytest.param(
            signal_another_thread,
            marks=pytest.mark.skipif(sys.platform != "linux", reason="tgkill is of Linux"),
        ),
    ],
)
def test_an_interrupted_run_is_completed(
    bench: Bench, interrupt: Callable[[subprocess.Popen[str]], None]
) -> None:
    bench.go_on(1)
    process = bench.start(FINE, WAITING, cores=("1.24.4", "1.32.0"))
    bench.until(process, lambda: bench.waits(2))
    interrupt(process)
    process.communicate(timeout=60)
    assert process.returncode == 3

    bench.go_on(3)
    assert bench.call("run", "--resume", "out").code == 0
    assert [one.reason for one in bench.results()[WAITING].attempts] == ["interrupted", "ok"]
    assert len([one for one in bench.observed() if one["cell"] == f"1.24.4/serialized/{FINE}"]) == 1
