"""A real core, a real plugin and real deaths: every cell gets what is its own, and no more."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from harness.artifacts.cores import Core
from harness.artifacts.plugins import Plugin
from harness.execute import Progress, Setting, execute, unfinished
from harness.host.scenario import find_scenarios
from harness.judge import Case, judge
from harness.matrix_file import LoadedMatrix
from harness.plan import make_plan
from harness.results import CellResult, CoreResult, Observation, PluginResult, RunInfo

pytestmark = [pytest.mark.cores, pytest.mark.webgpu]

FINE = ["rogue/fine[1]", "rogue/fine[2]", "rogue/fine[3]"]


@dataclass(frozen=True)
class Lab:
    core: Core
    plugin: Plugin
    loaded: LoadedMatrix
    environment: Mapping[str, str]
    folder: Path

    def run(
        self,
        *names: str,
        timeout_s: float = 20.0,
        before: Sequence[Observation] = (),
        seen: list[Observation] | None = None,
    ) -> dict[str, CellResult]:
        """The cells of scenarios.

        Args:
            names: the scenarios.
            timeout_s: for each that asks for no time of its own.
            before: what an engine that was killed had recorded.
            seen: takes what is recorded, `before` included.
        """
        known = find_scenarios(["tests.rogue"])
        plans = make_plan(
            self.loaded.matrix,
            cores=[(self.core.id, self.core.version)],
            plugin_name=self.plugin.name,
            plugin_version=self.plugin.version,
            entry=self.plugin.entry,
            scenarios=[
                replace(known[name], timeout_s=known[name].timeout_s or timeout_s) for name in names
            ],
            iterations=3,
            environment=self.environment,
            user_environment={"ROGUE_FLAG": str(self.folder / "flag")},
        )
        seen = [] if seen is None else seen
        seen += before
        setting = Setting(
            plugin=self.plugin,
            rejections=self.loaded.matrix.rejections,
            scenario_packages=["tests.rogue"],
            setup_timeout_s=5.0,
            folder=self.folder,
            python_packages={},
            models=self.folder / "models",
            record=seen.append,
            progress=Progress(lambda core, cell: None, lambda core, cell, outcome: None),
            stop=threading.Event(),
            part=f"after-{len(before)}" if before else "",
        )
        execute(plans, [self.core], setting, jobs=1, before=before)
        # By what it recorded, a run that ended has nothing left to do.
        assert unfinished(plans, [self.core], setting, seen) == []
        case = Case(
            run=RunInfo(
                id="test",
                started="",
                finished="",
                harness_version="",
                matrix_sha256="",
                platform="",
            ),
            plugin=PluginResult(
                name=self.plugin.name,
                version=self.plugin.version,
                library=str(self.plugin.library),
                sha256=self.plugin.sha256,
                ep_name=None,
                registration_name=self.plugin.registration_name,
            ),
            platform="linux",
            cores=[
                CoreResult(
                    id=self.core.id,
                    version=self.core.version,
                    library=None,
                    sha256=None,
                    source="",
                    mode="serialized",
                    mode_rule="",
                    declared="serialized",
                )
            ],
            cells=plans[0].cells,
            observations=seen,
            whole=False,
        )
        results = judge(case, self.loaded.matrix, lambda cell: cell.id)
        return {cell.scenario: cell for cell in results.cells}


@pytest.fixture
def lab(
    newest: Core,
    webgpu: Plugin,
    loaded: LoadedMatrix,
    host_environment: Mapping[str, str],
    tmp_path: Path,
) -> Lab:
    return Lab(newest, webgpu, loaded, host_environment, tmp_path)


def outcome(cell: CellResult) -> tuple[str, str, str]:
    return cell.outcome, cell.reason, cell.verdict


@pytest.mark.parametrize(
    ("name", "ends", "detail"),
    [
        ("rogue/signal[SIGSEGV]", ("crashed", "SIGSEGV"), "iteration 1"),
        ("rogue/signal[SIGKILL]", ("crashed", "SIGKILL"), "iteration 1"),
        ("rogue/signal[SIGABRT]", ("crashed", "SIGABRT"), "iteration 1"),
        ("rogue/null", ("crashed", "SIGSEGV"), "phase scenario"),
        ("rogue/exit[0]", ("crashed", "exited-early"), "status 0 and no report"),
        ("rogue/exit[7]", ("crashed", "exit-status"), "exit status 7"),
        ("rogue/endless", ("hung", "timeout"), "no end after 1 s"),
        ("rogue/no-descriptors", ("crashed", "exit-status"), ""),
        ("rogue/wrong", ("failed", "wrong-result"), "1 of 3 checks did not hold"),
        ("rogue/misplaced", ("failed", "placement"), "not on CPUExecutionProvider"),
        ("rogue/unchecked", ("failed", "no-checks"), ""),
        ("rogue/native-error", ("failed", "native-error"), "Run returned INVALID_ARGUMENT"),
        ("rogue/raises", ("infra-error", "scenario-error"), "ZeroDivisionError"),
        ("rogue/unsupported", ("unsupported", "unsupported"), "asked for a thing"),
        ("rogue/at-exit", ("crashed", "at-exit"), "SIGSEGV in phase exit"),
        ("rogue/log-pipe", ("crashed", "SIGSEGV"), "phase scenario"),
        ("rogue/box-pipe", ("crashed", "SIGSEGV"), ""),
        (
            "rogue/raising[half-character]",
            ("infra-error", "scenario-error"),
            "RuntimeError: \\udcff",
        ),
        ("rogue/raising[huge]", ("infra-error", "scenario-error"), "RuntimeError: xxx"),
        ("rogue/raising[untellable]", ("infra-error", "scenario-error"), "cannot be told"),
        ("rogue/raising[interrupt]", ("infra-error", "scenario-error"), "KeyboardInterrupt"),
        ("rogue/child", ("failed", "left-behind"), "python"),
        ("rogue/forked", ("failed", "left-behind"), "python"),
    ],
)
def test_trouble_costs_its_own_cell_alone(
    lab: Lab, name: str, ends: tuple[str, str], detail: str
) -> None:
    before = set(psutil.Process().children(recursive=True))
    cells = lab.run(FINE[0], FINE[1], name, FINE[2])

    assert outcome(cells[name]) == (*ends, "unexpected")
    assert detail in cells[name].detail
    for other in FINE:
        assert outcome(cells[other]) == ("passed", "ok", "expected"), cells[other].detail
    assert not (lab.folder / "hosts").exists()
    assert set(psutil.Process().children(recursive=True)) <= before


def test_what_no_core_offers_is_as_expected_with_any_plugin(lab: Lab) -> None:
    cell = lab.run("rogue/newer-level")["rogue/newer-level"]

    assert outcome(cell) == ("unsupported", "unsupported", "expected")
    assert "level 9999" in cell.detail


def test_a_death_tells_the_last_native_call_and_the_end_of_the_log(lab: Lab) -> None:
    cell = lab.run("rogue/signal[SIGSEGV]")["rogue/signal[SIGSEGV]"]

    death = cell.attempts[-1].death
    assert death is not None
    assert (death.how, death.name, death.phase, death.iteration) == (
        "signal",
        "SIGSEGV",
        "scenario",
        1,
    )
    assert death.last_call == "GetTensorMutableData"
    assert not death.inside_call
    assert "Fatal Python error: Segmentation fault" in death.log_tail
    assert cell.log is not None
    assert "tests/rogue/scenarios.py" in (lab.folder / cell.log).read_text()


def test_a_hang_leaves_the_python_stacks_in_the_log(lab: Lab) -> None:
    began = time.monotonic()
    cell = lab.run("rogue/endless")["rogue/endless"]

    assert cell.log is not None
    assert "in endless" in (lab.folder / cell.log).read_text()
    assert time.monotonic() - began < 15


def test_a_host_that_never_ends_is_ended(lab: Lab) -> None:
    cell = lab.run("rogue/endless-at-exit")["rogue/endless-at-exit"]

    assert outcome(cell) == ("hung", "at-exit", "unexpected")


def test_what_fails_once_and_passes_alone_is_flaky(lab: Lab) -> None:
    cells = lab.run(FINE[0], "rogue/once", FINE[1])

    assert outcome(cells["rogue/once"]) == ("passed", "ok", "flaky")
    assert [a.outcome for a in cells["rogue/once"].attempts] == ["crashed", "passed"]
    assert [outcome(cells[name])[2] for name in FINE[:2]] == ["expected", "expected"]


def test_a_scenario_that_asks_for_it_has_a_host_of_its_own(lab: Lab) -> None:
    cells = lab.run("rogue/alone", *FINE[:2], "rogue/left-alive[fine]")

    assert {outcome(cell) for cell in cells.values()} == {("passed", "ok", "expected")}
    (tried,), *others = (cell.attempts for cell in cells.values())
    assert tried.alone
    assert [one.alone for (one,) in others] == [False, False, True]
    hosts = [one.host for (one,) in others]
    assert hosts[0] == hosts[1]
    assert len({tried.host, *hosts}) == 3


@pytest.mark.parametrize(
    ("case", "ends", "told"),
    [("fine", ("passed", "ok"), False), ("failing", ("failed", "native-error"), True)],
)
def test_what_is_left_alive_is_not_released_if_the_scenario_came_to_its_end(
    lab: Lab, case: str, ends: tuple[str, str], told: bool
) -> None:
    cell = lab.run(f"rogue/left-alive[{case}]")[f"rogue/left-alive[{case}]"]

    assert outcome(cell)[:2] == ends, cell.detail
    log = (lab.folder / cell.log).read_text() if cell.log else ""
    assert ("released" in log) == told


def test_a_failure_is_believed_only_when_a_fresh_host_shows_it_again(lab: Lab) -> None:
    cell = lab.run(FINE[0], "rogue/wrong")["rogue/wrong"]

    first, second = cell.attempts
    assert (first.alone, second.alone) == (False, True)
    assert first.host != second.host
    assert cell.iterations_passed == 2


def test_what_passed_before_a_death_is_confirmed_in_a_host_that_ends_well(lab: Lab) -> None:
    cells = lab.run(FINE[0], "rogue/exit[0]")

    first, second = cells[FINE[0]].attempts
    assert first.host != second.host
    assert second.outcome == "passed"


def test_what_is_printed_reaches_the_log_of_its_cell_and_is_cut(lab: Lab) -> None:
    cells = lab.run(FINE[0], "rogue/flood", FINE[1])

    assert {outcome(cell) for cell in cells.values()} == {("passed", "ok", "expected")}
    log = cells["rogue/flood"].log
    assert log is not None
    text = (lab.folder / log).read_bytes()
    assert len(text) < 3_000_000
    # 64 times a million and a thousand lines of 19 bytes were printed; two million are kept.
    printed = 64 * (1_000_000 + 19_000)
    marks = re.findall(rb"\xe2\x80\xa6 (\d+) bytes cut here", text)
    assert len(marks) == 1
    assert printed - 2_000_000 <= int(marks[0]) < printed - 1_990_000
    assert text.endswith(b'{"event": "ended"}\n')


def test_a_failure_is_recorded_while_its_host_still_runs(lab: Lab) -> None:
    seen: list[Observation] = []
    cells = lab.run("rogue/wrong", FINE[0], seen=seen)
    wrong = [one for one in seen if one.cell == cells["rogue/wrong"].id]

    assert seen[0] is wrong[0]
    assert [(one.attempt, one.early, one.clean_end) for one in wrong] == [
        (1, True, False),
        (1, False, True),
        (2, True, False),
        (2, False, True),
    ]
    assert [attempt.attempt for attempt in cells["rogue/wrong"].attempts] == [1, 2]
    assert all(not one.early for one in seen if one.cell == cells[FINE[0]].id)


def test_an_engine_that_was_killed_leaves_the_verdicts_of_one_that_was_not(lab: Lab) -> None:
    names = (FINE[0], "rogue/wrong-once", "rogue/signal[SIGSEGV]", FINE[1])
    seen: list[Observation] = []
    whole = lab.run(*names, seen=seen)
    verdicts = {name: cell.verdict for name, cell in whole.items()}
    assert verdicts == dict(
        zip(names, ("expected", "flaky", "unexpected", "expected"), strict=True)
    )
    # The failure of the one that fails once, then what its host showed at its end, and then what
    # a second host, a third to confirm, and one for each of the two showed.
    assert [(one.cell.partition("rogue/")[2], one.attempt, one.early) for one in seen] == [
        ("wrong-once", 1, True),
        ("fine[1]", 1, False),
        ("wrong-once", 1, False),
        ("signal[SIGSEGV]", 1, False),
        ("fine[2]", 1, False),
        ("fine[1]", 2, False),
        ("wrong-once", 2, False),
        ("signal[SIGSEGV]", 2, False),
    ]

    for length in (1, 4, 6):
        again: list[Observation] = []
        cells = lab.run(*names, before=seen[:length], seen=again)
        before, after = again[:length], again[length:]
        done = {one.cell for one in before if one.clean_end}

        assert before == seen[:length]
        assert {name: cell.verdict for name, cell in cells.items()} == verdicts, length
        assert not done & {one.cell for one in after}
        assert not {one.host for one in before} & {one.host for one in after}


def test_a_forged_message_is_not_believed(lab: Lab) -> None:
    cells = lab.run(FINE[0], "rogue/forged", FINE[1])

    assert outcome(cells["rogue/forged"])[:2] == ("crashed", "channel-lost")
    assert [outcome(cells[name])[2] for name in FINE[:2]] == ["expected", "expected"]


@pytest.mark.parametrize(
    ("case", "detail"),
    [
        ("folder", "working directory: / became /usr"),
        ("mask", "file mode mask: 022 became 077"),
        ("locale", "locale: "),
        ("rounding", "rounds to nearest became rounds upward"),
        ("denormals", "became rounds to nearest, flushes denormal numbers"),
        ("ignored-signal", "answer to SIGUSR1: "),
        ("caught-signal", "answer to SIGUSR2: "),
    ],
)
def test_a_changed_process_state_is_a_failure_of_its_own_cell(
    lab: Lab, case: str, detail: str
) -> None:
    name = f"rogue/changes[{case}]"
    cells = lab.run(FINE[0], name, FINE[1])

    assert outcome(cells[name]) == ("failed", "process-state", "unexpected")
    assert detail in cells[name].detail
    for other in FINE[:2]:
        assert outcome(cells[other]) == ("passed", "ok", "expected")
        assert len(cells[other].attempts) == 1


def test_an_end_of_the_harness_ends_its_hosts(
    host_environment: Mapping[str, str],
) -> None:
    script = (
        "import sys, time, subprocess;"
        "p = subprocess.Popen([sys.executable, '-P', '-m', 'harness.host'],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE);"
        "print(p.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=dict(host_environment)
    )
    assert parent.stdout is not None
    host = psutil.Process(int(parent.stdout.readline()))
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()

    host.wait(timeout=10)
    assert not psutil.pid_exists(host.pid)
