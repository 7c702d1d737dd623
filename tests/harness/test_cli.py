"""The command as a user has it: arguments, messages, exit codes, and what stands in run folders."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from harness import __version__
from harness.artifacts.cache import default_cache
from harness.artifacts.cores import Core
from harness.artifacts.plugins import Plugin
from harness.cli import main
from harness.containment import TOKEN_VARIABLE
from harness.host.blackbox import read_blackbox
from harness.matrix_file import load
from harness.results import Results
from tests.conftest import TOP, core

COMMAND = [sys.executable, "-c", "from harness.cli import main; main()"]
COMMANDS = ["run", "plan", "lock", "fetch", "scenarios", "policy", "judge", "selftest"]
QUICK = ("--scenario", "copy/cpu-io", "--iterations", "2")


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs the command in this process, which is quick; nothing here loads a core."""

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["ort-ep-matrix", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Ended(int(caught.value.code or 0), out, err)

    return run


@pytest.fixture
def shell(host_environment: Mapping[str, str], tmp_path: Path) -> Command:
    """Runs the command in a process and a folder of its own."""

    def run(*arguments: str, **environment: str) -> Ended:
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=tmp_path,
            env={**host_environment, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def results_in(folder: Path) -> Results:
    return Results.model_validate_json((folder / "results.json").read_bytes())


def matrix_in(folder: Path, change: Callable[[dict[str, Any]], None] = lambda m: None) -> Path:
    """The shipped matrix.yaml, changed; without its lock."""
    data = yaml.safe_load((TOP / "matrix.yaml").read_text(encoding="utf-8"))
    change(data)
    path = folder / "matrix.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits are of POSIX")

# --- arguments ---


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(cli: Command, command: str) -> None:
    ended = cli(command, "--help")

    assert ended.code == 0
    assert f"ort-ep-matrix {command}" in ended.out
    assert cli(command, "-h").out == ended.out


def test_the_help_names_every_command_and_the_exit_codes(cli: Command) -> None:
    ended = cli("--help")

    assert ended.code == 0
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", ended.out, re.MULTILINE)
    assert "Exit codes: 0" in ended.out
    assert cli("--version").out == f"ort-ep-matrix, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Usage"),
        (["rum"], "No such command"),
        (["run", "--cores", "1"], "No such option"),
        (["run", "--jobs", "0"], "--jobs"),
        (["run", "--iterations", "0"], "--iterations"),
        (["run", "--iterations", "many"], "--iterations"),
        (["run", "--mode", "parallel"], "--mode"),
        (["run", "--env", "NAME"], "NAME=VALUE"),
        (["run", "--env", "=x"], "NAME=VALUE"),
        (["run", "--scenario", "copi/cpu-io"], 'perhaps you meant "copy/cpu-io"'),
        (["plan", "--format", "gitlab"], "--format"),
        (["policy", "--plugin", "webgpu"], "--core"),
        (["policy", "--plugin", "no", "--core", "1.30.0"], "Entries: reference, webgpu"),
        (["policy", "--plugin", "webgpu", "--core", "one"], "one"),
        (["policy", "--plugin", "webgpu", "--core", "1.30.0", "--plugin-version", "x"], "x"),
        (["run", "--resume", "no/such/folder"], "does not exist"),
        (["run", "--resume", "docs"], "docs is not a run folder: there is no"),
        (["run", "--resume", "docs", "--core", "1.30.0"], "--core cannot be given with --resume"),
        (["run", "--resume", "docs", "--output", "x"], "--output cannot be given with --resume"),
        (["run", "--mode", "policy", "--resume", "docs"], "--mode cannot be given with --resume"),
        (["run", "--resume", "docs", "--env", "A=b"], "everything but --jobs is taken from the"),
        (["run", "--resume", "docs", "--jobs", "0"], "--jobs"),
        (["selftest", "--markdown", "no/such/page.md"], "there is no folder"),
        (["selftest", "--markdown", ""], "it is empty"),
        (["selftest", "--fault", "drop-seconds"], "`ort-ep-matrix selftest --list` lists them."),
        (["judge"], "FOLDER"),
        (["judge", "no/such/folder"], "does not exist"),
    ],
)
def test_what_the_user_typed_wrongly_is_told(
    cli: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(TOP)
    ended = cli(*arguments)

    assert ended.code == 2
    assert told in ended.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plugn: webgpu\n", r'matrix.yaml:1: unknown key "plugn"; perhaps you meant "plugin"\?'),
        ("cores: [\n", r"matrix.yaml:\d"),
        ("iterations: '20'\n", r"matrix.yaml:1: iterations"),
        (
            "expectations:\n  - {scenario: copy/cpu-oi, outcome: failed, why: w}\n",
            r'expectations\[0\]: scenario "copy/cpu-oi".*perhaps you meant "copy/cpu-io"',
        ),
    ],
)
@pytest.mark.parametrize("command", [["run"], ["plan"], ["scenarios"], ["fetch"]])
def test_a_matrix_that_is_wrong_is_told_with_its_line(
    cli: Command, tmp_path: Path, text: str, told: str, command: list[str]
) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text(text)
    ended = cli(*command, "--matrix", str(path))

    assert ended.code == 2
    assert re.search(told, ended.err)


def test_a_matrix_that_is_not_there_is_told(cli: Command, tmp_path: Path) -> None:
    ended = cli("scenarios", "--matrix", str(tmp_path / "none.yaml"))

    assert ended.code == 2
    assert "none.yaml" in ended.err
    assert "--matrix" in ended.err


def test_the_matrix_of_the_current_folder_is_taken(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("scenarios").code == 0
    (tmp_path / "matrix.yaml").write_text("plugn: x")
    assert cli("scenarios").code == 2


def test_the_scenarios_are_listed_with_their_why(cli: Command) -> None:
    listed = json.loads(cli("scenarios", "--json").out)
    lines = cli("scenarios").out.splitlines()

    assert len(listed) == len(lines) >= 9
    for one, line in zip(listed, lines, strict=True):
        assert line.split(maxsplit=1) == [one["name"], one["why"]]


# --- policy ---

BOTH = CONCURRENT, SERIALIZED = "concurrent", "serialized"


@pytest.mark.parametrize(
    ("core", "mode"),
    [
        ("1.24.4", SERIALIZED),
        ("1.25.0", SERIALIZED),
        ("1.26.0", SERIALIZED),
        ("1.27.1", SERIALIZED),
        ("1.28.0", SERIALIZED),
        ("1.28.2", SERIALIZED),
        ("1.28.3", CONCURRENT),
        ("1.28.9", CONCURRENT),
        ("1.29.0", SERIALIZED),
        ("1.29.1", SERIALIZED),
        ("1.29.9", SERIALIZED),
        ("1.30.0", SERIALIZED),
        ("1.30.1", CONCURRENT),
        ("1.31.0", CONCURRENT),
        ("1.31.1", CONCURRENT),
        ("1.32.0", CONCURRENT),
        ("1.30.1rc1", SERIALIZED),
        ("1.31.0rc1", SERIALIZED),
        ("1.31.0+cuda12", CONCURRENT),
    ],
)
def test_the_policy_by_command_on_both_sides_of_every_boundary(
    cli: Command, core: str, mode: str
) -> None:
    ask = ["policy", "--matrix", str(TOP / "matrix.yaml"), "--plugin", "webgpu", "--core", core]
    newer = json.loads(cli(*ask, "--plugin-version", "0.5.0", "--json").out)
    older = json.loads(cli(*ask, "--plugin-version", "0.4.0", "--json").out)
    unknown = json.loads(cli(*ask, "--json").out)
    legacy = ("--env", "ORT_WEBGPU_EP_FORCE_LEGACY=1")
    forced = json.loads(cli(*ask, "--plugin-version", "0.5.0", "--json", *legacy).out)

    assert newer["mode"] == mode
    assert newer["why"]
    assert older["mode"] == unknown["mode"] == forced["mode"] == SERIALIZED
    rejected = core == "1.26.0"
    for one in (newer, older, unknown, forced):
        assert (one["rejection"] is not None) == rejected
        assert not rejected or one["rejection"]["reason"] == "version-check"


def test_the_policy_is_told_to_people_too(cli: Command) -> None:
    ask = ["policy", "--matrix", str(TOP / "matrix.yaml"), "--plugin", "webgpu"]
    ended = cli(*ask, "--plugin-version", "0.5.0", "--core", "1.26.0")

    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].startswith("rejected by the core (version-check)")
    assert lines[1] == "mode: serialized"


def test_the_policy_is_asked_of_the_default_plugin_unless_one_is_named(
    cli: Command, tmp_path: Path
) -> None:
    rules = "policy: {rules: [{mode: concurrent, why: so I am told}]}"
    entry = f"plugins: {{mine: {{path: mine.so, {rules}}}}}"
    for text, code, told in (
        (f"plugin: mine\n{entry}\n", 0, "why:  so I am told"),
        (f"{entry}\n", 2, "No plugin was named"),
    ):
        (tmp_path / "matrix.yaml").write_text(text)
        ended = cli("policy", "--matrix", str(tmp_path / "matrix.yaml"), "--core", "1.30")
        assert (ended.code, told in ended.out + ended.err) == (code, True), ended


def test_the_faults_are_listed_and_nothing_is_done(cli: Command, tmp_path: Path) -> None:
    ended = cli("selftest", "--list", "--output", str(tmp_path / "out"))

    assert ended.code == 0
    lines = ended.out.splitlines()
    assert len(lines) == len({line.split()[0] for line in lines}) > 60
    assert any(line.split()[:2] == ["exit-in-run", "hostile"] for line in lines)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("value", "code"), [("1", 0), ("0", 0), ("", 0), ("2", 2), ("true", 2), (" 1", 2)]
)
def test_the_override_takes_its_three_values_and_no_other(
    cli: Command, value: str, code: int
) -> None:
    ended = cli(
        *("policy", "--matrix", str(TOP / "matrix.yaml"), "--plugin", "webgpu"),
        *("--plugin-version", "0.5.0", "--core", "1.31.0"),
        *("--env", f"ORT_WEBGPU_EP_FORCE_LEGACY={value}"),
    )

    assert ended.code == code
    if code:
        assert "ORT_WEBGPU_EP_FORCE_LEGACY" in ended.err
    else:
        assert ("mode: serialized" in ended.out) == (value == "1")


def test_a_lock_needs_a_matrix_to_stand_beside(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = cli("lock")

    assert ended.code == 2
    assert "matrix.yaml" in ended.err
    assert list(tmp_path.iterdir()) == []


# --- plans ---


@pytest.mark.cores
def test_a_plan_for_github_is_one_line_of_json_with_every_core(cli: Command) -> None:
    ended = cli("plan", "--matrix", str(TOP / "matrix.yaml"), "--format", "github")
    (line,) = ended.out.splitlines()
    include = json.loads(line)["include"]

    # As the policy of the reference plugin, the default, has it.
    before = ["1.24.4", "1.25.0", "1.25.1", "1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0"]
    assert [(job["core"], job["mode"]) for job in include] == [
        *((core, SERIALIZED) for core in before),
        *((core, mode) for core in ("1.31.0", "1.31.1", "1.32.0") for mode in BOTH),
    ]


@pytest.mark.cores
def test_a_plan_has_every_cell_of_the_selection(cli: Command) -> None:
    ended = cli(
        *("plan", "--matrix", str(TOP / "matrix.yaml"), "--core", ">=1.31"),
        *("--scenario", "copy/mixed-inputs", "--iterations", "7"),
    )
    cells = json.loads(ended.out)["cells"]

    assert ended.code == 0
    assert [cell["id"] for cell in cells] == [
        f"{core}/{mode}/copy/mixed-inputs[{order}]"
        for core in ("1.31.0", "1.31.1", "1.32.0")
        for mode in BOTH
        for order in ("device-first", "cpu-first")
    ]
    assert {cell["iterations"] for cell in cells} == {7}


@pytest.mark.cores
@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("core", ["9.9.9", ">2", "<1.24", "==1.27.1", "not a version"])
def test_a_selection_that_leaves_no_core_is_an_error(
    cli: Command, tmp_path: Path, command: str, core: str
) -> None:
    more = ("--output", str(tmp_path / "out")) if command == "run" else ()
    ended = cli(command, "--matrix", str(TOP / "matrix.yaml"), "--core", core, *more)

    assert ended.code == 2
    assert f'"{core}"' in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.cores
def test_concurrent_mode_cannot_be_had_against_the_override(cli: Command, tmp_path: Path) -> None:
    def known_to_all_versions(data: dict[str, Any]) -> None:
        del data["plugins"]["webgpu"]["policy"]["override"]["plugin"]

    ask = (
        *("plan", "--plugin", "webgpu", "--mode", "concurrent"),
        *("--env", "ORT_WEBGPU_EP_FORCE_LEGACY=1", "--matrix"),
    )
    # 0.4.0 does not know the variable.
    unknown = cli(*ask, str(TOP / "matrix.yaml"))
    known = cli(*ask, str(matrix_in(tmp_path, known_to_all_versions)))

    assert unknown.code == 0
    assert {cell["mode"] for cell in json.loads(unknown.out)["cells"]} == {CONCURRENT}
    assert known.code == 2
    assert "ORT_WEBGPU_EP_FORCE_LEGACY" in known.err


# --- plugins that are none ---


def built(folder: Path, name: str, source: str, *flags: str) -> Path:
    library = folder / name
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(library), "-xc", "-", *flags],
        input=source.encode(),
        check=True,
        cwd=folder,
    )
    return library


@pytest.mark.cores
def test_a_text_file_is_no_plugin(shell: Command, tmp_path: Path) -> None:
    (tmp_path / "plugin.so").write_text("hello, I am text\n")
    ended = shell("run", "--plugin", "./plugin.so", "--core", "1.32.0", "--output", "out")

    assert ended.code == 2
    assert "plugin.so is not a shared library" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.cores
def test_a_library_without_the_export_is_no_plugin(shell: Command, tmp_path: Path) -> None:
    library = built(tmp_path, "plugin.so", "int something_else(void) { return 0; }")
    ended = shell("run", "--plugin", str(library), "--core", "1.32.0")

    assert ended.code == 2
    assert "does not export CreateEpFactories" in ended.err
    assert "something_else" in ended.err


@pytest.mark.parametrize("name", ["missing.so", "./no/missing.so", "webgpuu"])
def test_a_plugin_that_is_not_there_is_told(cli: Command, name: str) -> None:
    ended = cli("run", "--matrix", str(TOP / "matrix.yaml"), "--plugin", name)

    assert ended.code == 2
    assert name in ended.err


@pytest.mark.cores
def test_a_plugin_that_lacks_a_library_fails_with_its_name_in_its_cells(
    shell: Command, tmp_path: Path
) -> None:
    built(tmp_path, "libneeded.so", "int needed(void) { return 0; }")
    built(
        tmp_path,
        "plugin.so",
        "int needed(void); void *CreateEpFactories(void) { needed(); return 0; }"
        "void *ReleaseEpFactory(void) { return 0; }",
        "-L.",
        "-lneeded",
    )
    (tmp_path / "libneeded.so").unlink()
    ended = shell("run", "--plugin", "./plugin.so", "--core", "1.32.0", *QUICK, "--output", "out")
    (cell,) = results_in(tmp_path / "out").cells

    assert ended.code == 1
    assert (cell.outcome, cell.reason) == ("failed", "missing-dependency")
    assert "libneeded.so" in cell.detail
    assert "libneeded.so" in cell.hint
    assert "libneeded.so" in ended.out


@pytest.mark.cores
def test_a_plugin_that_kills_the_process_at_registration_costs_its_cells(
    shell: Command, tmp_path: Path
) -> None:
    source = (
        "#include <signal.h>\n"
        "void *CreateEpFactories(void) { raise(SIGSEGV); return 0; }"
        "void *ReleaseEpFactory(void) { return 0; }"
    )
    library = built(tmp_path, "plugin.so", source)
    ended = shell("run", "--plugin", str(library), "--core", "1.32.0", *QUICK, "--output", "out")
    (cell,) = results_in(tmp_path / "out").cells

    assert ended.code == 1
    assert (cell.outcome, cell.reason) == ("crashed", "SIGSEGV")
    assert "in phase register, inside RegisterExecutionProviderLibrary" in cell.detail


@pytest.mark.cores
def test_a_plugin_without_a_device_is_the_machines_lack(shell: Command, tmp_path: Path) -> None:
    source = (
        "#include <stddef.h>\n"
        "void *CreateEpFactories(const char *n, const void *b, const void *l, void **f, size_t m,"
        " size_t *c) { *c = 0; return 0; }"
        "void *ReleaseEpFactory(void *f) { return 0; }"
    )
    library = built(tmp_path, "plugin.so", source)
    ended = shell("run", "--plugin", str(library), "--core", "1.32.0", *QUICK, "--output", "out")
    (cell,) = results_in(tmp_path / "out").cells

    assert (cell.outcome, cell.reason) == ("infra-error", "no-ep-device")
    assert ended.code == 3


# --- run folders ---


@pytest.mark.cores
@pytest.mark.parametrize("there", ["folder", "file", "below a file"])
def test_an_output_that_holds_something_is_refused(
    shell: Command, tmp_path: Path, there: str
) -> None:
    out = tmp_path / "out"
    if there == "folder":
        out.mkdir()
        (out / "x").touch()
    else:
        out.write_text("x")
    wanted = out / "below" if there == "below a file" else out
    ended = shell("run", "--core", "1.32.0", *QUICK, "--output", str(wanted))

    assert ended.code == (3 if there == "below a file" else 2)
    assert str(out) in ended.err
    assert out.is_dir() == (there == "folder")


@pytest.mark.cores
@pytest.mark.webgpu
@pytest.mark.parametrize("limit", [1_000, 3_000])
def test_a_full_disk_ends_the_run_with_a_message(
    host_environment: Mapping[str, str], tmp_path: Path, limit: int
) -> None:
    resource = pytest.importorskip("resource")
    # 1,000 bytes do not hold the record of the run, 3,000 do not hold what is observed.
    done = subprocess.run(
        [
            *(*COMMAND, "run", "--plugin", "webgpu", "--core", "1.32.0", *QUICK),
            *("--output", str(tmp_path / "out")),
        ],
        # Python would cut a cached module at the limit, too, and leave it to whoever comes next.
        env={**host_environment, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )

    assert done.returncode == 3
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("content", "code"), [(None, 2), ("{}", 3), ("not json", 3)])
def test_what_is_no_run_folder_cannot_be_judged(
    cli: Command, tmp_path: Path, content: str | None, code: int
) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
        (tmp_path / "observations.jsonl").touch()
    ended = cli("judge", "--matrix", str(TOP / "matrix.yaml"), str(tmp_path))

    assert ended.code == code
    assert str(tmp_path) in ended.err


# --- a run on three real cores, judged with expectations that change ---


@pytest.fixture(scope="module")
def kept(
    tmp_path_factory: pytest.TempPathFactory, host_environment: Mapping[str, str]
) -> tuple[Path, Ended]:
    folder = tmp_path_factory.mktemp("kept") / "out"
    done = subprocess.run(
        [
            *COMMAND,
            *("run", "--plugin", "webgpu"),
            *("--core", "1.24.4", "--core", "1.26.0", "--core", "1.32.0"),
            *("--scenario", "copy/cpu-io", "--scenario", "copy/mixed-inputs"),
            *("--scenario", "capture/replay"),
            *("--iterations", "3", "--jobs", "2", "--output", str(folder)),
        ],
        cwd=TOP,
        env={
            **host_environment,
            "COLUMNS": "200",
            "GITHUB_STEP_SUMMARY": str(folder.parent / "step.md"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return folder, Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def copied(kept: tuple[Path, Ended], tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept[0], tmp_path / "copied"))


@pytest.mark.cores
@pytest.mark.webgpu
def test_a_run_on_the_oldest_a_refusing_and_the_newest_core_is_as_expected(
    kept: tuple[Path, Ended],
) -> None:
    folder, ended = kept
    results = results_in(folder)

    assert (ended.code, ended.err) == (0, "")
    assert results.summary.outcomes == {"passed": 8, "rejected": 4}
    assert results.summary.verdicts == {"expected": 12}
    assert results.plugin.ep_name == "WebGpuExecutionProvider"
    for cell in results.cells:
        assert cell.reason == ("version-check" if cell.core == "1.26.0" else "ok")
        assert cell.log is not None
        assert (folder / cell.log).is_file()
    replays = {
        cell.core: cell.capture.host_replays for cell in results.cells if cell.capture is not None
    }
    assert replays == {"1.24.4": 0, "1.32.0": 2}
    assert {core.id: core.source != "" and core.sha256 is not None for core in results.cores} == {
        "1.24.4": True,
        "1.26.0": True,
        "1.32.0": True,
    }
    assert sorted(one.name for one in folder.iterdir()) == [
        ".lock",
        "junit.xml",
        "logs",
        "observations.jsonl",
        "results.json",
        "run.json",
        "summary.md",
    ]
    assert (folder.parent / "step.md").read_text() == (folder / "summary.md").read_text()


def without_rejection(data: dict[str, Any]) -> None:
    data["expectations"] = [one for one in data["expectations"] if one.get("core") != "==1.26.0"]


def with_outdated(data: dict[str, Any]) -> None:
    data["expectations"].append(
        {"core": "==1.32.0", "scenario": "copy/cpu-io", "outcome": "failed", "why": "It did once."}
    )


def with_wrong_counts(data: dict[str, Any]) -> None:
    (one,) = (
        one
        for one in data["expectations"]
        if (one.get("plugin"), one.get("core"), one.get("scenario"))
        == ("webgpu", ">=1.27", "capture/replay")
    )
    one["capture"] = {"kernel_runs": 3}


@pytest.mark.cores
@pytest.mark.webgpu
def test_judging_again_says_the_same_and_changes_nothing(
    cli: Command, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(TOP)
    before = {file: file.read_bytes() for file in copied.iterdir() if file.is_file()}
    ended = cli("judge", str(copied))

    assert ended.code == 0
    assert {file: file.read_bytes() for file in copied.iterdir() if file.is_file()} == before


@pytest.mark.cores
@pytest.mark.webgpu
def test_without_the_expectation_the_rejected_cells_are_named_first(
    cli: Command, copied: Path, tmp_path: Path
) -> None:
    ended = cli("judge", "--matrix", str(matrix_in(tmp_path, without_rejection)), str(copied))
    results = results_in(copied)
    off = [cell for cell in results.cells if cell.verdict != "expected"]
    told = ended.out.partition("NOT AS EXPECTED")[2]

    assert ended.code == results.summary.exit_code == 1
    assert {(cell.core, cell.outcome, cell.verdict) for cell in off} == {
        ("1.26.0", "rejected", "unexpected")
    }
    scenarios = {cell.scenario for cell in results.cells}
    assert {cell.scenario for cell in off} == scenarios
    assert told.strip().startswith(f"{len(scenarios)} cells")
    assert "version-check" in told
    assert "1.26.0" in told


@pytest.mark.cores
@pytest.mark.webgpu
def test_an_expectation_for_a_core_that_passes_is_outdated(
    cli: Command, copied: Path, tmp_path: Path
) -> None:
    ended = cli("judge", "--matrix", str(matrix_in(tmp_path, with_outdated)), str(copied))
    results = results_in(copied)

    assert ended.code == 1
    added = f"expectations[{len(load(TOP / 'matrix.yaml').matrix.expectations)}]"
    lines = (tmp_path / "matrix.yaml").read_text(encoding="utf-8").splitlines()
    end = next(i for i, text in enumerate(lines) if "It did once." in text)
    line = max(i for i, text in enumerate(lines[:end]) if text.lstrip().startswith("- ")) + 1
    assert [cell.id for cell in results.cells if cell.verdict == "improved"] == [
        "1.32.0/serialized/copy/cpu-io"
    ]
    assert results.summary.outdated_expectations == [
        f"line {line}: {added}: core ==1.32.0 scenario copy/cpu-io expects failed"
    ]
    assert "outdated" in ended.out
    assert added in ended.out


@pytest.mark.cores
@pytest.mark.webgpu
def test_counts_that_differ_are_unexpected(cli: Command, copied: Path, tmp_path: Path) -> None:
    ended = cli("judge", "--matrix", str(matrix_in(tmp_path, with_wrong_counts)), str(copied))
    off = [cell for cell in results_in(copied).cells if cell.verdict != "expected"]

    assert ended.code == 1
    assert [cell.id for cell in off] == ["1.32.0/serialized/capture/replay"]
    assert off[0].detail == "1 kernel runs and 2 host replays in 3 runs"


@pytest.mark.cores
@pytest.mark.webgpu
def test_a_run_folder_that_a_kill_cut_short_is_judged_as_incomplete(
    cli: Command, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(TOP)
    path = copied / "observations.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]) + lines[-3][:100])
    ended = cli("judge", str(copied))

    assert ended.code == 3
    assert results_in(copied).summary.outcomes["not-run"] == 3


# --- cores that are not what they should be ---


def flipped(library: Path) -> None:
    library.chmod(0o644)
    with library.open("r+b") as file:
        file.seek(library.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.cores
def test_a_flipped_byte_in_a_core_file_costs_that_core_alone(
    shell: Command, newest: Core, tmp_path: Path
) -> None:
    assert newest.library is not None
    copy = tmp_path / newest.library.name
    shutil.copyfile(newest.library, copy)
    digest = hashlib.sha256(copy.read_bytes()).hexdigest()
    flipped(copy)

    def change(data: dict[str, Any]) -> None:
        source = {"path": str(copy), "sha256": digest, "version": "1.32.0"}
        data["cores"] = [source, {"releases": "==1.24.4"}]
        data["expectations"] = []

    matrix_in(tmp_path, change)
    ended = shell("run", "--mode", "serialized", *QUICK, "--output", "out")
    old, new = results_in(tmp_path / "out").cells

    assert ended.code == 3
    assert (old.core, old.outcome, old.verdict) == ("1.24.4", "passed", "expected")
    assert (new.outcome, new.reason) == ("infra-error", "core-unavailable")
    assert digest in new.detail
    assert digest in ended.out.replace("\n", "").replace(" ", "")


@pytest.mark.cores
def test_a_flipped_byte_in_the_cache_is_seen_and_the_way_out_is_told(
    shell: Command, newest: Core, tmp_path: Path
) -> None:
    assert newest.library is not None
    real, cache = default_cache(), tmp_path / "cache"
    cache.mkdir()
    for name in ("listings", "inspections", "plugins"):
        (cache / name).symlink_to(real.root / name)
    shutil.copytree(newest.library.parent, cache / "cores" / newest.library.parent.name)
    flipped(cache / "cores" / newest.library.parent.name / newest.library.name)
    ended = shell(
        *("run", "--matrix", str(TOP / "matrix.yaml"), "--core", "1.32.0"),
        *("--mode", "serialized", *QUICK, "--output", "out"),
        ORT_EP_MATRIX_CACHE=str(cache),
    )
    (cell,) = results_in(tmp_path / "out").cells

    assert ended.code == 3
    assert (cell.outcome, cell.reason) == ("infra-error", "core-unavailable")
    assert "sha256" in cell.detail
    assert "ort-ep-matrix fetch" in cell.hint


@pytest.mark.cores
def test_a_core_of_another_version_than_it_is_said_to_be_is_a_failure(
    shell: Command, newest: Core, tmp_path: Path
) -> None:
    def change(data: dict[str, Any]) -> None:
        data["cores"] = [{"path": str(newest.library), "version": "1.31.7"}]
        data["expectations"] = []

    matrix_in(tmp_path, change)
    ended = shell("run", "--mode", "serialized", *QUICK, "--output", "out")

    (cell,) = results_in(tmp_path / "out").cells
    assert ended.code == 1
    assert (cell.outcome, cell.reason) == ("failed", "wrong-core")
    assert "the core says version 1.32.0, where 1.31.7 was asked for" in cell.detail


# --- plugins without an entry ---


@pytest.mark.cores
@pytest.mark.webgpu
@pytest.mark.parametrize("by", ["path", "requirement"])
def test_a_plugin_without_an_entry_is_driven_with_what_is_known(
    shell: Command, webgpu: Plugin, tmp_path: Path, by: str
) -> None:
    name = str(webgpu.library) if by == "path" else "onnxruntime-ep-webgpu==0.4.0"
    # It is not known how to turn capture on or to force nodes to the CPU.
    expected = {
        "copy/cpu-io": "passed",
        "copy/mixed-inputs[device-first]": "unsupported",
        "copy/mixed-inputs[cpu-first]": "unsupported",
        "copy/mixed-outputs[device-first]": "unsupported",
        "copy/mixed-outputs[cpu-first]": "unsupported",
        "copy/device-cpu-device": "unsupported",
        "allocation/dirty-bind-input": "passed",
        "allocation/scratch-reuse": "passed",
        "capture/replay": "unsupported",
    }
    ended = shell(
        *("run", "--plugin", name, "--core", "1.32.0", "--iterations", "2", "--output", "out"),
        *(part for scenario in expected for part in ("--scenario", scenario)),
        *("--env", "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1"),
    )
    results = results_in(tmp_path / "out")
    outcomes = {cell.scenario: cell.outcome for cell in results.cells}

    assert ended.code == 0
    assert results.plugin.ep_name == "WebGpuExecutionProvider"
    assert results.plugin.version == "0.4.0"
    assert outcomes == expected


@pytest.mark.cores
def test_the_printed_command_repeats_just_the_cell(shell: Command, tmp_path: Path) -> None:
    matrix = matrix_in(
        tmp_path,
        lambda data: data["expectations"].append(
            {"core": "==1.32.0", "scenario": "copy", "outcome": "hung", "why": "To see a command."}
        ),
    )
    first = shell(
        *("run", "--matrix", str(matrix), "--core", "1.32.0", "--scenario", "copy/mixed-inputs"),
        *("--iterations", "2", "--output", "out", "--env", "A=b c"),
    )
    (printed,) = re.findall(r"^ +repeat +(.*)$", first.out, re.MULTILINE)
    words = shlex.split(printed)
    again = shell(*words[1:], "--output", "again")

    assert first.code == again.code == 1
    assert words[0] == "ort-ep-matrix"
    (only,) = results_in(tmp_path / "again").cells
    assert only.id == "1.32.0/concurrent/copy/mixed-inputs[device-first]"
    assert only.iterations_planned == 2
    assert (
        words
        == shlex.split(only.repeat)
        == shlex.split(results_in(tmp_path / "out").cells[0].repeat)
    )


@pytest.mark.cores
def test_a_defect_of_a_core_is_as_expected_with_a_matrix_of_ones_own(
    shell: Command, tmp_path: Path
) -> None:
    own = tmp_path / "matrix.yaml"
    own.write_text(
        "plugin: mine\nplugins:\n  mine:\n    bundled: true\n"
        "    options: {capture: {reference.enable_graph_capture: '1'}}\n"
    )
    ended = shell(
        *("run", "--core", "1.31.1", "--core", "1.32.0", "--scenario", "python/refused-session"),
        *("--iterations", "2", "--output", "out"),
        # The package warns of its fall-back, which is no error of the scenario.
        *("--env", "PYTHONWARNINGS=error"),
    )
    seen = {(cell.core, cell.outcome, cell.verdict) for cell in results_in(tmp_path / "out").cells}

    assert ended.code == 0, ended.out
    assert seen == {("1.31.1", "failed", "expected"), ("1.32.0", "passed", "expected")}


@posix
@pytest.mark.cores
def test_who_was_started_with_ended_children_ignored_knows_how_hosts_end(
    host_environment: Mapping[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [*COMMAND, "run", "--core", "1.32.0", "--mode", "serialized", *QUICK, "--output", "out"],
        cwd=tmp_path,
        env=dict(host_environment),
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.cores
@pytest.mark.parametrize(
    "scenarios",
    [
        ("copy/after-a-rejected-stream", "concurrency/create-sessions"),
        ("python/register-again", "python/device-values", "python/io-binding"),
    ],
)
def test_scenarios_may_follow_each_other_in_any_order(
    shell: Command, tmp_path: Path, scenarios: tuple[str, ...]
) -> None:
    ended = shell(
        *("run", "--core", "1.24.4", "--core", "1.31.1", "--mode", "serialized", "--repeat", "2"),
        *("--iterations", "5", "--output", "out"),
        *(word for one in scenarios for word in ("--scenario", one)),
    )

    assert ended.code == 0, ended.out
    assert {cell.outcome for cell in results_in(tmp_path / "out").cells} == {"passed"}


@pytest.mark.cores
def test_a_separator_of_nodes_that_the_plugin_does_not_know_is_found(
    shell: Command, tmp_path: Path
) -> None:
    def comma(data: dict[str, Any]) -> None:
        data["plugins"]["reference"]["options"]["cpu_nodes"]["separator"] = ","

    matrix = matrix_in(tmp_path, comma)
    ended = shell(
        *("run", "--matrix", str(matrix), "--core", "1.32.0", "--iterations", "2"),
        *("--scenario", "copy/device-cpu-device", "--mode", "serialized", "--output", "out"),
    )
    (cell,) = results_in(tmp_path / "out").cells

    assert ended.code == 1
    assert (cell.outcome, cell.reason) == ("failed", "placement")
    assert "options.cpu_nodes" in cell.hint


@pytest.mark.cores
@pytest.mark.skipif(sys.platform == "win32", reason="their telemetry is another one there")
def test_official_cores_do_not_tell_of_their_use(shell: Command, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    # Without that variable they would leave files for it; where it is set they never do.
    settings = [f"TMPDIR={temporary}", "CI="]
    ended = shell(
        *("run", "--core", "1.29.0", "--core", "1.32.0", *QUICK, "--output", "out"),
        *(word for setting in settings for word in ("--env", setting)),
    )

    assert ended.code == 0, ended.out
    assert list(temporary.iterdir()) == []


@pytest.mark.cores
@pytest.mark.webgpu
def test_a_core_by_path_lacks_its_python_package_and_that_is_as_expected(
    shell: Command, tmp_path: Path
) -> None:
    # Of the second, another outcome is expected of every scenario, with a reason of its own.
    named = [("--core", str(core(version).library)) for version in ("1.32.0", "1.26.0")]
    ended = shell(
        *("run", "--matrix", str(matrix_in(tmp_path)), "--plugin", "webgpu"),
        *(word for one in named for word in one),
        *("--scenario", "python", "--output", str(tmp_path / "out")),
    )
    cells = results_in(tmp_path / "out").cells

    assert ended.code == 0, ended.out
    assert {cell.core for cell in cells} == {"1.26.0", "1.32.0"}
    assert {(cell.outcome, cell.verdict) for cell in cells} == {("unsupported", "expected")}


# --- interruptions ---


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[str]
    folder: Path

    def until_busy(self) -> psutil.Process:
        """Waits for the refused core to be done and the other one to be in its scenario."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            path = self.folder / "observations.jsonl"
            seen = read_blackbox(self.folder / "hosts" / "1.32.0-serialized-1" / "blackbox")
            if seen.iteration and path.read_bytes().count(b"\n"):
                ours = psutil.Process(self.process.pid).children(recursive=True)
                return next(one for one in ours if TOKEN_VARIABLE in one.environ())
            time.sleep(0.02)
        raise AssertionError("the run did not become busy")

    def end(self) -> Ended:
        out, err = self.process.communicate(timeout=30)
        assert "Traceback" not in err
        return Ended(self.process.returncode, out, err)


@pytest.fixture
def running(host_environment: Mapping[str, str], tmp_path: Path) -> Iterator[Running]:
    """A run whose first core is done at once and whose second takes minutes."""
    folder = tmp_path / "out"
    process = subprocess.Popen(
        [
            *COMMAND,
            *("run", "--plugin", "webgpu"),
            *("--core", "1.26.0", "--core", "1.32.0", "--jobs", "1", "--output", str(folder)),
            *("--scenario", "copy/cpu-io", "--iterations", "1000000"),
        ],
        cwd=TOP,
        env=dict(host_environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield Running(process, folder)
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.mark.cores
@pytest.mark.webgpu
@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_what_is_done_and_leaves_no_process(
    running: Running, number: signal.Signals
) -> None:
    host = running.until_busy()
    running.process.send_signal(number)
    began = time.monotonic()
    ended = running.end()
    done, cut = results_in(running.folder).cells

    assert ended.code == 3
    assert time.monotonic() - began < 10
    assert (done.outcome, done.verdict) == ("rejected", "expected")
    assert (cut.outcome, cut.reason, cut.verdict) == ("not-run", "interrupted", "unexpected")
    assert not host.is_running()
    assert not (running.folder / "hosts").exists()
    assert "not-run" in ended.out.lower()


@posix
@pytest.mark.cores
@pytest.mark.webgpu
def test_a_host_that_is_killed_from_outside_costs_its_cell_alone(running: Running) -> None:
    running.until_busy().kill()
    deadline = time.monotonic() + 30
    path = running.folder / "observations.jsonl"
    while path.read_bytes().count(b"SIGKILL") == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    # It is tried again alone; that try need not go on for minutes.
    running.process.send_signal(signal.SIGINT)
    ended = running.end()
    done, hit = results_in(running.folder).cells

    # What was seen counts, though it could not be seen again.
    assert ended.code == 1
    assert done.verdict == "expected"
    assert (hit.outcome, hit.reason, hit.verdict) == ("crashed", "SIGKILL", "unexpected")
    assert [attempt.reason for attempt in hit.attempts] == ["SIGKILL", "interrupted"]
    death = hit.attempts[0].death
    assert death is not None
    assert (death.how, death.phase) == ("signal", "scenario")
    assert death.iteration is not None


@pytest.mark.cores
@pytest.mark.webgpu
def test_an_engine_that_is_killed_leaves_no_host_and_a_folder_to_judge(
    running: Running, cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = running.until_busy()
    running.process.kill()
    running.process.wait()
    gone, _ = psutil.wait_procs([host], timeout=10)
    monkeypatch.chdir(TOP)
    ended = cli("judge", str(running.folder))

    assert gone or host.status() == psutil.STATUS_ZOMBIE
    assert ended.code == 3
    assert [cell.outcome for cell in results_in(running.folder).cells] == ["rejected", "not-run"]


def test_a_reader_that_has_gone_costs_no_traceback(host_environment: Mapping[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = subprocess.run(
            [*COMMAND, "scenarios"],
            env=dict(host_environment),
            cwd=TOP,
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert "Traceback" not in done.stderr
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["plan", "--plugin", "/" + "a" * 5000], 2, "there is nothing there"),
        (["plan", "--core", "a" * 5000], 2, "no path that exists"),
        (["plan", "--plugin", " "], 2, "it is empty"),
        (["run", "--output", ""], 2, "it is empty"),
        (["plan", "--plugin", "a\udcff"], 2, "not UTF-8 text"),
        (["plan", "--matrix", "/dev/zero"], 2, "it is no file"),
    ],
)
def test_odd_arguments_are_the_users_input(
    cli: Command, arguments: list[str], code: int, told: str
) -> None:
    ended = cli(*arguments)

    assert (ended.code, "Traceback" in ended.err) == (code, False)
    assert told in ended.err


def test_a_working_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = f"mkdir {gone} && cd {gone} && rmdir {gone} && {sys.executable} -m harness plan"
    ended = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert "working directory cannot be used" in ended.stderr
