"""The harness is killed at random moments, and nothing is lost, repeated or left behind."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from harness.matrix_file import LoadedMatrix, load
from harness.results import Results
from harness.workflow import judge_run
from tests.conftest import TOP
from tests.harness.reference_ep.conftest import MIDDLE, NEWEST, OLDEST
from tests.harness.reference_ep.lab import Lab

pytestmark = [
    pytest.mark.cores,
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX"),
]

FEW = ((OLDEST, NEWEST), ("copy/cpu-io", "capture/replay", "lifecycle/register-again"))
MANY = (
    (OLDEST, MIDDLE, NEWEST),
    (*FEW[1], "copy/mixed-inputs", "copy/device-cpu-device", "allocation/scratch-reuse"),
)
"""Cores and scenarios; those of two kinds of hosts."""
# The command, which notes the cells of every host before it starts that.
NOTING = """
import os
from harness import cli, execute
start_host = execute.run_host
def run_host(job, **rest):
    with open(os.environ["NOTES"], "a") as notes:
        notes.writelines(f"{task.cell}\\n" for task in job.tasks)
    return start_host(job, **rest)
execute.run_host = run_host
cli.main()
"""
MARK = "ORT_EP_MATRIX_TEST_MARK"
# Every so many kills one comes before the first host; what happens there takes longest.
AT_START = 5
LONGEST_S = 300.0


@dataclass
class Killer:
    """Runs and resumes one matrix, and kills that at random moments.

    The moments are parts of what the same takes here and now without a kill, so they fall into
    all parts of a run on a machine of whatever speed and load.
    """

    folder: Path
    loaded: LoadedMatrix
    moments: random.Random
    what: tuple[Sequence[str], Sequence[str]] = FEW
    process: subprocess.Popen[bytes] | None = None
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    cells: int = 0
    kills: int = 0
    runs: int = 0
    resumptions: int = 0
    finished_at_kills: list[int] = field(default_factory=list)
    seconds_to_die: list[tuple[float, float]] = field(default_factory=list)
    """After each kill until there was no host, and until there was no guardian any more."""
    before_hosts_s: float = 0.0
    with_hosts_s: float = 0.0

    @property
    def run(self) -> Path:
        return self.folder / "out"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def complete(self, kills: int, what: tuple[Sequence[str], Sequence[str]]) -> None:
        """Run until as many kills were made, and then until the run is complete.

        Args:
            kills: how many.
            what: cores and scenarios of each run.
        """
        self.what = what
        started, ended = self._measured()
        self.before_hosts_s, self.with_hosts_s = started, ended - started
        while self.kills < kills:
            self.runs += 1
            self._to_the_end(kills)

    def _measured(self) -> tuple[float, float]:
        """The seconds until the first host and until the end of a run that nobody kills."""
        process, began = self._start(), time.monotonic()
        self._until_a_host(process)
        started = time.monotonic() - began
        assert process.wait(LONGEST_S) == 0
        ended = time.monotonic() - began
        self._check_complete([])
        return started, ended

    def _to_the_end(self, kills: int) -> None:
        lines: list[bytes] = []
        done: set[str] = set()
        going_on = False
        while True:
            ended, notes = self._once(killing=self.kills < kills, going_on=going_on)
            assert not done & set(notes), "a finished cell was executed again"
            if ended is not None:
                break
            self._until_nothing_is_left()
            going_on = (self.run / "run.json").exists()
            if not going_on:
                # It was killed before there was a run; what it left of a folder is none.
                continue
            before, lines = lines, self._lines()
            assert lines[: len(before)] == before, "an observation was lost"
            done = self._finished(lines)
            results = judge_run(self.run, self.loaded).results
            shown = {cell.id for cell in results.cells if cell.outcome == "passed"}
            assert (len(results.cells), shown) == (self.cells, done)
            self.finished_at_kills.append(len(done))
        assert ended == 0
        self._check_complete(lines)

    def _once(self, *, killing: bool, going_on: bool) -> tuple[int | None, list[str]]:
        """Start or resume the run; its exit code or none if it was killed, and what it ran."""
        process = self._start(going_on=going_on)
        if not killing:
            return process.wait(LONGEST_S), self._noted()
        if self.kills % AT_START:
            self._until_a_host(process)
            delay = self.moments.uniform(0.0, self.with_hosts_s)
        else:
            delay = self.moments.uniform(0.0, self.before_hosts_s)
        try:
            return process.wait(delay), self._noted()
        except subprocess.TimeoutExpired:
            self.kills += 1
            process.kill()
            process.wait()
            return None, self._noted()

    def _start(self, *, going_on: bool = False) -> subprocess.Popen[bytes]:
        self.temporary.mkdir(exist_ok=True)
        self._notes.write_text("")
        if going_on:
            arguments = ["--resume", str(self.run)]
            self.resumptions += 1
        else:
            shutil.rmtree(self.run, ignore_errors=True)
            arguments = ["--matrix", str(self.loaded.path), "--output", str(self.run)]
            cores, scenarios = self.what
            arguments += [word for core in cores for word in ("--core", core)]
            arguments += [word for name in scenarios for word in ("--scenario", name)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", NOTING, "run", "--jobs", "2", *arguments],
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(TOP), *sys.path]),
                "TMPDIR": str(self.temporary),
                "NOTES": str(self._notes),
                MARK: self.mark,
            },
        )
        return self.process

    def _until_a_host(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a host is started, or until there is none to start any more."""
        deadline = time.monotonic() + LONGEST_S
        while process.poll() is None and not self._noted():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    @property
    def _notes(self) -> Path:
        return self.folder / "notes"

    def _noted(self) -> list[str]:
        """The cells of the hosts that the latest process has started."""
        return self._notes.read_text().splitlines()

    def _until_nothing_is_left(self) -> None:
        began = time.monotonic()
        hosts_s = None
        while left := self.left():
            assert time.monotonic() < began + 30, f"left behind: {left}"
            if hosts_s is None and all("harness.guardian" in names for names in left.values()):
                hosts_s = time.monotonic() - began
            time.sleep(0.01)
        ended_s = time.monotonic() - began
        self.seconds_to_die.append((ended_s if hosts_s is None else hosts_s, ended_s))

    def left(self) -> dict[psutil.Process, list[str]]:
        """The living processes that come from these runs, with what they run."""
        found = {}
        for process in psutil.process_iter():
            try:
                if (
                    process.environ().get(MARK) == self.mark
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found[process] = process.cmdline()
            except psutil.Error:
                continue
        return found

    def _lines(self) -> list[bytes]:
        return (self.run / "observations.jsonl").read_bytes().split(b"\n")[:-1]

    def _finished(self, lines: list[bytes]) -> set[str]:
        """The cells that a host had reported, and then ended in order: nothing fails here."""
        seen = [json.loads(line) for line in lines]
        return {one["cell"] for one in seen if one["report"] and one["clean_end"]}

    def _check_complete(self, before: list[bytes]) -> None:
        lines = self._lines()
        assert lines[: len(before)] == before
        cells = Counter(
            one["cell"] for one in map(json.loads, lines) if one["report"] and one["clean_end"]
        )
        self.cells = self.cells or len(cells)
        assert len(cells) == self.cells >= len(self.what[0]) * len(self.what[1])
        assert set(cells.values()) == {1}, "a finished cell was executed again"
        results = Results.model_validate_json((self.run / "results.json").read_bytes())
        assert {cell.outcome for cell in results.cells} == {"passed"}
        assert {path.name for path in self.run.iterdir()} <= {
            ".lock",
            "junit.xml",
            "logs",
            "observations.jsonl",
            "results.json",
            "run.json",
            "summary.md",
        }
        assert list(self.temporary.iterdir()) == []
        assert self.left() == {}


@pytest.fixture
def killer(lab: Lab, tmp_path: Path) -> Iterator[Killer]:
    seed = int(os.environ.get("ORT_EP_MATRIX_TEST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"to repeat: ORT_EP_MATRIX_TEST_SEED={seed}")
    made = Killer(tmp_path, load(lab.matrix()), random.Random(seed))  # noqa: S311 - moments
    yield made
    for process in made.left():
        process.kill()
    if made.process is not None:
        made.process.wait()


def test_a_run_that_is_killed_again_and_again_is_completed(killer: Killer) -> None:
    killer.complete(5, FEW)

    assert killer.kills == 5
    assert killer.resumptions >= 1


@pytest.mark.kills
@pytest.mark.timeout(3600)
def test_fifty_kills(killer: Killer) -> None:
    killer.complete(50, MANY)

    hosts, all_ended = (sorted(times) for times in zip(*killer.seconds_to_die, strict=True))
    print(
        f"{killer.kills} kills in {killer.runs} runs of {killer.cells} cells, "
        f"{killer.resumptions} resumptions; cells finished when killed: "
        f"{killer.finished_at_kills}; seconds until no host was left: median {hosts[25]:.2f}, "
        f"longest {hosts[-1]:.2f}; until nothing was left: median {all_ended[25]:.2f}, longest "
        f"{all_ended[-1]:.2f}"
    )
    assert killer.kills == 50
    # Had all kills come before the first cell or after the last, they would have shown nothing.
    assert sum(0 < count < killer.cells for count in killer.finished_at_kills) >= 10
