"""The cells as pytest items, in pytest processes of their own, on a real core and plugin."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.cores import Core
from harness.host.scenario import find_scenarios

TOP = Path(__file__).parents[2]
OLDEST = "1.24.4-serialized"
FINE = "matrix.yaml::1.24.4-serialized::rogue/fine[1]"
SEGFAULT = "matrix.yaml::1.24.4-serialized::rogue/signal[SIGSEGV]"
WRONG = "matrix.yaml::1.24.4-serialized::rogue/wrong"
# A capture that is wrong and a failure that does not happen, as a person may write them.
WRONG_EXPECTATIONS = """
  - core: "==1.24.4"
    scenario: capture/replay
    capture: {host_replays: 19}
    why: Written by mistake.
  - core: "==1.24.4"
    scenario: copy/cpu-io
    outcome: failed
    why: Written long ago.
"""


@dataclass(frozen=True)
class Ended:
    code: int
    output: str

    @property
    def outcomes(self) -> dict[str, str]:
        """Node id to outcome, from the short summary that -rA prints."""
        line = r"^(PASSED|FAILED|ERROR|XFAIL) (\S+::\S+?)(?: - .*)?$"
        return {name: word for word, name in re.findall(line, self.output, re.MULTILINE)}


def _without_ci(environment: Mapping[str, str]) -> dict[str, str]:
    """In CI, pytest says all of a failure once more in its summary, and we count what it says."""
    return {
        name: value for name, value in environment.items() if name not in ("CI", "BUILD_NUMBER")
    }


@dataclass(frozen=True)
class Bench:
    """A folder with a matrix, and an environment with an installed core and rogue scenarios."""

    folder: Path
    environment: Mapping[str, str]

    @property
    def temporary(self) -> Path:
        return Path(self.environment["TMPDIR"])

    def pytest(self, *arguments: str, **environment: str) -> Ended:
        return self.command(
            sys.executable, "-m", "pytest", "-p", "harness.pytest_plugin", *arguments, **environment
        )

    def command(self, *command: str, **environment: str) -> Ended:
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env={**_without_ci(self.environment), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout)

    def expect(self, text: str) -> None:
        with (self.folder / "matrix.yaml").open("a") as file:
            file.write(text)

    def collected(self, *arguments: str) -> list[str]:
        ended = self.pytest("--collect-only", "-q", *arguments)
        assert ended.code == 0, ended.output
        return [line for line in ended.output.splitlines() if "::" in line]


def distribution(site: Path, name: str, version: str, files: Mapping[str, str]) -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file, text in files.items():
        (folder / file).write_text(text)


@pytest.fixture
def bench(tmp_path: Path, host_environment: Mapping[str, str]) -> Bench:
    site, folder, temporary = (tmp_path / name for name in ("site", "project", "temporary"))
    points = "[ort_ep_matrix.scenarios]\nrogue = tests.rogue\n"
    distribution(site, "rogue", "1.0", {"entry_points.txt": points})
    folder.mkdir()
    temporary.mkdir()
    shutil.copy(TOP / "matrix.yaml", folder)
    environment = {
        name: value
        for name, value in host_environment.items()
        if not name.startswith(("PYTEST_", "TOX_", "COV_"))
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(site), environment["PYTHONPATH"]])
    environment["TMPDIR"] = str(temporary)
    return Bench(folder, environment)


@pytest.fixture
def installed(bench: Bench, oldest: Core) -> Bench:
    assert oldest.library is not None
    capi = bench.folder.parent / "site" / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    shutil.copy(oldest.library, capi)
    record = f"onnxruntime/capi/{oldest.library.name},,\n"
    distribution(capi.parents[1], "onnxruntime", oldest.version, {"RECORD": record})
    return bench


cores = pytest.mark.cores


@cores
def test_the_cells_of_the_installed_core_are_collected_in_the_order_of_the_scenarios(
    installed: Bench,
) -> None:
    found = [line for line in installed.collected() if "::rogue/" not in line]

    assert found == [f"matrix.yaml::{OLDEST}::{name}" for name in find_scenarios(["scenarios"])]
    assert list(installed.temporary.iterdir()) == []


@cores
@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("copy/cpu-io", {"copy/cpu-io"}),
        ("inputs and not cpu-first", {"copy/mixed-inputs[device-first]"}),
        ("mixed-inputs[cpu-first]", {"copy/mixed-inputs[cpu-first]"}),
        ("1.24.4 and serialized and scratch", {"allocation/scratch-reuse"}),
    ],
)
def test_cells_are_selected_by_parts_of_their_names(
    installed: Bench, expression: str, names: set[str]
) -> None:
    found = installed.collected("-k", expression)

    assert {line.partition(f"{OLDEST}::")[2] for line in found} == names


@cores
def test_a_node_id_selects_its_cell_and_a_core_all_of_its_cells(installed: Bench) -> None:
    assert installed.collected(SEGFAULT) == [SEGFAULT]
    assert SEGFAULT in installed.collected(f"matrix.yaml::{OLDEST}")


@cores
def test_several_cores_are_selected_by_a_specifier(bench: Bench) -> None:
    found = bench.collected("--ep-core", "==1.24.4", "--ep-core", "==1.32.0", "-k", "copy/cpu-io")

    assert found == [
        "matrix.yaml::1.24.4-serialized::copy/cpu-io",
        "matrix.yaml::1.32.0-concurrent::copy/cpu-io",
        "matrix.yaml::1.32.0-serialized::copy/cpu-io",
    ]


class TestDriven:
    pytestmark = cores

    def test_what_passes_as_expected_passes_and_leaves_nothing_behind(
        self, installed: Bench
    ) -> None:
        ended = installed.pytest("-k", "mixed-inputs or scratch", "--ep-iterations", "2")

        assert ended.code == 0, ended.output
        assert re.search(r"\b3 passed, \d+ deselected", ended.output)
        assert "core: 1.24.4 (installed: onnxruntime 1.24.4), serialized" in ended.output
        assert list(installed.temporary.iterdir()) == []

    @pytest.mark.webgpu
    def test_an_expected_rejection_is_an_xfail_that_says_why(self, bench: Bench) -> None:
        ended = bench.pytest(
            "--ep-plugin", "webgpu", "--ep-core", "1.26.0", "-k", "copy/cpu-io", "-rx"
        )

        assert ended.code == 0, ended.output
        assert "1 xfailed" in ended.output
        line = next(line for line in ended.output.splitlines() if "cpu-io" in line)
        assert line.startswith("XFAIL matrix.yaml::1.26.0-serialized::copy/cpu-io - ")
        assert "rejected (version-check)" in line
        assert "takes an ort_version_supported of 1 to 26, and the plugin claims 30" in line

    def test_what_is_not_as_expected_fails_with_what_a_person_needs(self, installed: Bench) -> None:
        installed.expect(WRONG_EXPECTATIONS)

        ended = installed.pytest("-k", "copy/cpu-io or capture/replay or scratch", "-rA")

        assert ended.code == 1
        assert ended.outcomes == {
            f"matrix.yaml::{OLDEST}::allocation/scratch-reuse": "PASSED",
            f"matrix.yaml::{OLDEST}::capture/replay": "FAILED",
            f"matrix.yaml::{OLDEST}::copy/cpu-io": "FAILED",
        }
        assert "20 kernel runs and 0 host replays in 20 runs" in ended.output
        assert re.search("passed, 19 host replays: .*Written by mistake", ended.output)
        assert "IMPROVED: passed (ok)" in ended.output
        assert "Take the outdated expectation out of matrix.yaml" in ended.output
        assert "Traceback" not in ended.output
        assert "pytest_plugin.py" not in ended.output
        (folder,) = installed.temporary.iterdir()
        for log in re.findall(r"^log +(\S+)$", ended.output, re.MULTILINE):
            assert Path(log).is_file()
            assert Path(log).is_relative_to(folder)
        assert f"run folder: {folder}" in ended.output

    def test_the_printed_command_repeats_just_that_cell(self, installed: Bench) -> None:
        installed.expect(WRONG_EXPECTATIONS)
        first = installed.pytest("-k", "replay", "--ep-iterations", "3", "--ep-env", "A=b c")

        printed = re.findall(r"^repeat +(pytest .*)$", first.output, re.MULTILINE)
        again = installed.command(sys.executable, "-m", *shlex.split(printed[0]), "-rA")

        assert len(printed) == 1
        assert "--ep-iterations 3 --ep-env 'A=b c'" in printed[0]
        assert again.outcomes == {f"matrix.yaml::{OLDEST}::capture/replay": "FAILED"}
        assert "3 kernel runs and 0 host replays in 3 runs" in again.output

    def test_within_tox_the_printed_command_goes_through_tox(self, installed: Bench) -> None:
        ended = installed.pytest(WRONG, TOX_ENV_NAME="ort124")

        command = rf"^repeat +tox -e ort124 -- {re.escape(WRONG)}$"
        assert re.search(command, ended.output, re.MULTILINE)

    def test_a_crash_and_a_hang_cost_their_own_items_alone(self, installed: Bench) -> None:
        endless, fine = f"matrix.yaml::{OLDEST}::rogue/endless", FINE.replace("[1]", "[2]")

        ended = installed.pytest(FINE, SEGFAULT, endless, fine, "-rA")

        assert ended.code == 1
        assert ended.outcomes == {
            FINE: "PASSED",
            SEGFAULT: "FAILED",
            endless: "FAILED",
            fine: "PASSED",
        }
        assert "CRASHED (SIGSEGV): SIGSEGV in phase scenario, iteration 1" in ended.output
        assert "HUNG (timeout): no end after 1 s" in ended.output
        assert ended.output.count("attempts  alone in a fresh host: ") == 2
        assert "| Fatal Python error: Segmentation fault" in ended.output
        assert "Traceback" not in ended.output

    def test_what_fails_first_and_passes_alone_is_a_failure_called_flaky(
        self, installed: Bench
    ) -> None:
        flag = f"ROGUE_FLAG={installed.folder / 'flag'}"

        ended = installed.pytest(f"matrix.yaml::{OLDEST}::rogue/once", "--ep-env", flag)

        assert ended.code == 1
        assert "FLAKY: crashed (SIGSEGV), then passed when repeated alone" in ended.output

    def test_what_the_harness_could_not_try_is_an_error(self, installed: Bench) -> None:
        raises = f"matrix.yaml::{OLDEST}::rogue/raises"

        ended = installed.pytest(raises, FINE, "-rA")

        assert ended.code == 1
        assert ended.outcomes == {raises: "ERROR", FINE: "PASSED"}
        assert "INFRA-ERROR (scenario-error)" in ended.output
        assert "ZeroDivisionError: of the scenario" in ended.output

    def test_the_last_failures_run_alone_and_the_first_one_ends_the_session(
        self, installed: Bench
    ) -> None:
        installed.pytest(FINE, SEGFAULT, WRONG)

        again = installed.pytest(FINE, SEGFAULT, WRONG, "--lf", "-rA")
        first = installed.pytest(FINE, SEGFAULT, WRONG, "-x", "-rA", "-p", "no:cacheprovider")

        assert again.outcomes == {SEGFAULT: "FAILED", WRONG: "FAILED"}
        assert first.outcomes == {FINE: "PASSED", SEGFAULT: "FAILED"}

    def test_workers_share_a_run_folder_that_is_judged_as_one_run(self, installed: Bench) -> None:
        folder = installed.folder / "run"

        fine = [FINE.replace("[1]", f"[{number}]") for number in (1, 2, 3)]
        passing = f"matrix.yaml::{OLDEST}::copy/cpu-io"

        ended = installed.pytest(
            "-n2", "--ep-output", "run", "-rA", passing, *fine, SEGFAULT, WRONG
        )

        assert ended.code == 1
        assert len(ended.outcomes) == 6
        results = json.loads((folder / "results.json").read_text())
        assert verdicts(results) == {
            "copy/cpu-io": ("passed", "ok", "expected"),
            "rogue/fine[1]": ("passed", "ok", "expected"),
            "rogue/fine[2]": ("passed", "ok", "expected"),
            "rogue/fine[3]": ("passed", "ok", "expected"),
            "rogue/signal[SIGSEGV]": ("crashed", "SIGSEGV", "unexpected"),
            "rogue/wrong": ("failed", "wrong-result", "unexpected"),
        }
        logs = {cell["scenario"]: cell["log"] for cell in results["cells"] if cell["log"]}
        assert "rogue/signal[SIGSEGV]" in logs
        assert all((folder / log).is_file() for log in logs.values())
        for cell in results["cells"]:
            assert all(attempt["alone"] for attempt in cell["attempts"])
        assert not (folder / "hosts").exists()
        assert not list(installed.temporary.glob("ort-ep-matrix-*"))

    def test_a_cell_is_judged_as_the_command_judges_it(self, installed: Bench) -> None:
        installed.expect(WRONG_EXPECTATIONS)
        rogues = ["rogue/exit[7]", "rogue/misplaced", "rogue/unsupported"]
        wanted = ["copy/cpu-io", "capture/replay", *rogues]
        items = [f"matrix.yaml::{OLDEST}::{name}" for name in wanted]
        scenarios = [part for name in wanted for part in ("--scenario", name)]

        installed.pytest(*items, "--ep-output", "items")
        installed.command(
            *(sys.executable, "-m", "harness", "run", "--core", "installed"),
            *("--output", "command", *scenarios),
        )

        by_items, by_command = (
            json.loads((installed.folder / name / "results.json").read_text())
            for name in ("items", "command")
        )
        assert len(by_items["cells"]) == 5
        assert verdicts(by_items) == verdicts(by_command)


def verdicts(results: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {
        cell["scenario"]: (cell["outcome"], cell["reason"], cell["verdict"])
        for cell in results["cells"]
    }


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "with workers"])
@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ["--ep-plugin", "webgp"],
            '--ep-plugin "webgp" is no entry of the matrix',
            'Perhaps you meant the entry "webgpu"?',
        ),
        (["--ep-env", "novalue"], '"novalue" is not of the form NAME=VALUE', ""),
        (["--ep-iterations", "0"], '"0" is not a count', ""),
        (["--ep-matrix", "gone.yaml"], "gone.yaml cannot be read", "with --ep-matrix"),
    ],
)
def test_a_mistake_ends_the_session_with_a_message_and_no_traceback(
    bench: Bench, arguments: list[str], message: str, hint: str, workers: list[str]
) -> None:
    ended = bench.pytest(*arguments, *workers)

    assert ended.code == pytest.ExitCode.USAGE_ERROR
    assert message in ended.output
    assert hint in ended.output
    assert "Traceback" not in ended.output
    assert "INTERNALERROR" not in ended.output


@cores
def test_without_an_installed_core_the_message_says_how_to_install_one(bench: Bench) -> None:
    ended = bench.pytest()

    assert ended.code == pytest.ExitCode.USAGE_ERROR
    assert "No onnxruntime is installed in the environment" in ended.output
    assert "pip install onnxruntime==" in ended.output
    assert "Traceback" not in ended.output


def test_a_misspelt_key_is_told_with_its_line(bench: Bench) -> None:
    (bench.folder / "matrix.yaml").write_text("plugin: webgpu\nplugns: {}\n")

    ended = bench.pytest()

    assert ended.code == pytest.ExitCode.USAGE_ERROR
    assert 'matrix.yaml:2: unknown key "plugns"; perhaps you meant "plugins"?' in ended.output


@cores
def test_a_run_folder_that_holds_something_is_refused(installed: Bench) -> None:
    (installed.folder / "full").mkdir()
    (installed.folder / "full" / "file").touch()

    ended = installed.pytest("--ep-output", "full")

    assert ended.code == pytest.ExitCode.USAGE_ERROR
    assert "Name a new folder with --ep-output" in ended.output


@cores
def test_an_empty_selection_is_no_success(installed: Bench) -> None:
    ended = installed.pytest("-k", "nothing-of-that-name")

    assert ended.code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert list(installed.temporary.iterdir()) == []


def test_other_tests_pay_nothing_and_see_no_cells(bench: Bench) -> None:
    (bench.folder / "test_own.py").write_text(
        "import sys\n\n\ndef test_own():\n    assert 'harness.workflow' not in sys.modules\n"
    )

    named, everything = bench.pytest("test_own.py"), bench.pytest(".")

    assert named.code == 0, named.output
    assert "1 passed" in named.output
    assert "1 passed" in everything.output


@cores
def test_a_matrix_elsewhere_has_node_ids_that_can_be_given_back(installed: Bench) -> None:
    elsewhere = installed.folder.parent / "elsewhere.yaml"
    shutil.move(installed.folder / "matrix.yaml", elsewhere)

    given = ["--rootdir", str(installed.folder), "--ep-matrix", str(elsewhere)]

    (found,) = installed.collected(*given, "-k", "copy/cpu-io")

    assert found == f"{elsewhere.as_posix()}::{OLDEST}::copy/cpu-io"
    assert installed.collected(*given, found) == [found]


@cores
def test_the_shipped_matrix_serves_a_folder_without_one(installed: Bench) -> None:
    (installed.folder / "matrix.yaml").unlink()

    (found,) = installed.collected("-k", "copy/cpu-io")

    assert found.endswith(f"matrix.yaml::{OLDEST}::copy/cpu-io")
