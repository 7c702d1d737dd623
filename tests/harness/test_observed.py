"""What the engine records of an attempt, and what it keeps of logs; scripts are the hosts."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import sys
from pathlib import Path

import pytest

import harness
import harness.execute
import harness.host_process
from harness.artifacts.python_packages import PythonPackage
from harness.config import PluginEntry
from harness.errors import RunFolderError
from harness.log_end import tail
from harness.outcome import settled
from harness.results import MappedFile, Observation
from tests.harness.artifacts.native_files import CORE_EXPORTS, elf
from tests.harness.samples import PLUGIN_SHA256
from tests.harness.scripted import Bench

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes are of POSIX")

A, B = "copy/a", "copy/b"
LOG = "open(one['log'], 'a').write"
FOLDER = "logs/1.30.0/serialized/copy"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench.prepare(monkeypatch, tmp_path)


def text(bench: Bench, observation: Observation) -> str:
    assert observation.log is not None
    return (bench.folder / "run" / observation.log).read_text()


def test_an_attempt_that_went_well_is_recorded_whole(bench: Bench) -> None:
    before = dt.datetime.now(dt.UTC)
    device = {
        "ep_name": "E", "ep_vendor": "", "hardware_type": "gpu", "hardware_vendor": "",
        "device_memory": True, "metadata": {"version": "1.2"},
    }  # fmt: skip
    ready = (
        "ready(core_version=core_version, plugin_sha256_before=sha, plugin_version='1.2',"
        f"ep_devices=[{device}])"
    )
    bench.run({"setup": ready}, scenarios=[A])
    after = dt.datetime.now(dt.UTC)

    (seen,) = bench.seen
    assert seen.report is not None
    assert (seen.report.scenario, seen.report.iterations_passed) == (A, 1)
    assert (seen.cell, seen.attempt) == ("1.30.0/serialized/copy/a", 1)
    assert (seen.host, seen.alone, seen.clean_end) == ("1.30.0-serialized-1", True, True)
    assert (seen.death, seen.infra, seen.setup_error, seen.no_device) == (None, None, None, False)
    assert (seen.teardown_errors, seen.left_behind, seen.log) == ([], [], None)
    assert seen.duration_s == 0.5
    # Written to the millisecond.
    started = dt.datetime.fromisoformat(seen.started)
    assert before - dt.timedelta(milliseconds=1) <= started <= after
    identity = seen.identity
    assert (identity.core_version, identity.ep_name) == ("1.30.0", "E")
    assert (identity.plugin_sha256_before, identity.plugin_sha256_after) == (PLUGIN_SHA256,) * 2
    assert identity.registration_name == "plugin"
    assert identity.plugin_version == "1.2"
    assert [one.model_dump() for one in identity.ep_devices] == [device]
    assert identity.mapped == [
        MappedFile(path=str(bench.folder / "1.30.0" / "libonnxruntime.so"), role="core"),
        MappedFile(path=str(bench.folder / "plugin.so"), role="plugin"),
    ]


def test_a_host_that_removes_its_own_folder_costs_nothing(bench: Bench) -> None:
    removes = "import shutil; shutil.rmtree(task['scratch']); passed()"

    assert bench.run({A: removes}, scenarios=[A, B]) == ["a1 in 1: passed ok", "b1 in 1: passed ok"]


def test_what_is_mapped_is_known_by_the_file_and_a_second_core_by_its_name(bench: Bench) -> None:
    # The same file under another name is no other core; what is no core is not told.
    core = bench.folder / "1.30.0" / "libonnxruntime.so"
    core.parent.mkdir()
    core.touch()
    link = bench.folder / "libonnxruntime.so.1"
    link.symlink_to(core)
    others = [
        "/x/libonnxruntime.so.1.24.4",
        "/x/libonnxruntime.1.24.4.dylib",
        "/x/ONNXRUNTIME.DLL",
        "/x/libonnxruntime_providers_shared.so",
        "/x/libc.so.6",
    ]
    bench.run({"end": f"torn_down(mapped={[str(link), *others]})"}, scenarios=[A])

    assert [(one.path, one.role) for one in bench.seen[0].identity.mapped] == [
        (str(link), "core"),
        *((path, "other-core") for path in others[:3]),
    ]


def test_a_second_core_is_known_by_what_it_exports_whatever_its_name(bench: Bench) -> None:
    folder = bench.folder / "mapped"
    folder.mkdir()
    (folder / "libmyrt.so").write_bytes(elf(exports=("OrtGetApiBase",)))
    (folder / "libuser.so").write_bytes(elf(exports=("Mine",), needed=("OrtGetApiBase",)))
    (folder / "notes.txt").write_bytes(b"OrtGetApiBase")
    (folder / "empty.so").touch()
    os.mkfifo(folder / "pipe.so")
    paths = [str(path) for path in sorted(folder.iterdir())] + ["/gone/lib.so", "[heap]"]
    bench.run({"end": f"torn_down(mapped={paths})"}, scenarios=[A])

    assert [(one.path, one.role) for one in bench.seen[0].identity.mapped] == [
        (str(folder / "libmyrt.so"), "other-core")
    ]


def test_trouble_at_the_end_of_a_host_is_recorded_of_each_of_its_cells(bench: Bench) -> None:
    end = (
        "torn_down(failures=['a', 'b']);"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    bench.run({"end": end}, scenarios=[A, B])

    for seen in bench.seen[:2]:
        assert seen.teardown_errors == ["a", "b"]
        assert len(seen.left_behind) == 1
        assert seen.clean_end
    assert bench.seen[2].left_behind == []


@posix
def test_a_death_is_recorded_of_the_cell_that_it_struck_alone(bench: Bench) -> None:
    script = f"{LOG}('the end'); box.iteration(0); box.enter('Run'); time.sleep(0.3); kill()"
    bench.run({B: script}, scenarios=[A, B])

    first, struck = bench.seen[:2]
    assert first.death is None
    assert not first.clean_end
    assert (first.identity.mapped, first.identity.plugin_sha256_after) == ([], None)
    assert struck.report is None
    assert struck.death is not None
    assert struck.death.model_dump() == {
        "how": "signal",
        "name": "SIGSEGV",
        "phase": "scenario",
        "iteration": 0,
        "last_call": "Run",
        "inside_call": True,
        "log_tail": "the end",
        "out_of_memory": False,
    }
    assert struck.log == f"{FOLDER}/b.log"
    # There is no report with a time of its own; the host's stands for it.
    assert 0.3 <= struck.duration_s < 60


@posix
def test_a_death_while_memory_ran_out_is_recorded_as_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = itertools.count()
    monkeypatch.setattr(harness.host_process, "killed_so_far", lambda: next(counts))
    bench.run({B: "kill()"}, scenarios=[A, B])

    assert [one.death.out_of_memory for one in bench.seen if one.death is not None] == [True]


@posix
@pytest.mark.parametrize("phase", ["scenario", "release"])
def test_a_death_after_the_report_and_before_the_next_is_that_of_the_same_cell(
    bench: Bench, phase: str
) -> None:
    script = f"passed(); box.at({phase!r}, name); box.leave(); kill()"
    bench.run({B: script}, scenarios=[A, B, "copy/c"])

    assert [(one.cell[-1], bool(one.death), bool(one.report)) for one in bench.seen[:2]] == [
        ("a", False, True),
        ("b", True, True),
    ]


@posix
def test_a_death_at_the_end_is_recorded_of_every_cell_with_the_log_of_the_host(
    bench: Bench,
) -> None:
    end = "torn_down(); box.at('exit'); os.write(2, b'at the end'); kill()"
    bench.run({A: f"{LOG}('mine'); passed()", "end": end}, scenarios=[A, B])

    for seen in bench.seen[:2]:
        assert seen.death is not None
        assert (seen.death.phase, seen.death.log_tail) == ("exit", "at the end")
    assert bench.seen[0].log == f"{FOLDER}/a.log"
    assert bench.seen[1].log == "logs/1.30.0/serialized/host-1.log"


@posix
def test_a_death_in_the_setup_is_recorded_of_every_cell(bench: Bench) -> None:
    bench.run({"setup": "kill()"}, {"setup": "kill()"}, scenarios=[A, B])

    deaths = [one.death for one in bench.seen]
    assert [one.phase for one in deaths if one] == ["register"] * 4


def test_what_a_refused_setup_told_is_recorded_of_every_cell(bench: Bench) -> None:
    bench.run({"setup": "setup_failed('no')"}, scenarios=[A, B])

    for seen in bench.seen:
        assert seen.setup_error is not None
        assert seen.setup_error.message == "no"
        assert (seen.report, seen.death, seen.clean_end) == (None, None, True)
        assert seen.identity.core_version == "1.30.0"
        assert seen.identity.plugin_sha256_before == PLUGIN_SHA256


def test_a_core_that_is_unusable_is_recorded_with_what_the_host_said(bench: Bench) -> None:
    bench.run({"setup": "say('core-unusable', message='bad'); leave()"}, scenarios=[A])

    assert bench.seen[0].infra == "core-unusable: bad"


def test_a_host_that_cannot_be_started_is_no_fault_of_the_plugin(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.host_process._LAUNCH", [str(bench.folder / "no such program")])
    bench.run(scenarios=[A])

    (seen,) = bench.seen
    assert seen.infra is not None
    assert seen.infra.startswith("host-start: the host process could not be started: ")
    assert (seen.death, seen.clean_end, seen.left_behind) == (None, False, [])
    assert seen.identity.core_version is None


def test_every_attempt_and_every_part_has_logs_of_its_own(bench: Bench) -> None:
    say = f"{LOG}(task['log'])"
    hosts = [{A: f"{say}; wrong()"}, {A: f"{say}; passed()"}]
    bench.run(*hosts, scenarios=[A], part="w1")

    seen = settled(bench.seen)
    assert [one.log for one in seen] == [f"{FOLDER}/a.log", f"{FOLDER}/a.2.log"]
    assert [one.host for one in seen] == ["1.30.0-serialized-w1-1", "1.30.0-serialized-w1-2"]
    logs = bench.folder / "run" / "logs" / "1.30.0" / "serialized"
    assert [text(bench, one) for one in seen] == [
        str(logs / f"host-w1-{number}.log") for number in (1, 2)
    ]


def test_names_that_no_system_takes_are_changed_in_paths(bench: Bench) -> None:
    name = 'copy/a[x=1,y:"2"]'
    bench.run({name: f"{LOG}('x'); passed()"}, scenarios=[name])

    assert bench.seen[0].log == f"{FOLDER}/a[x=1_y__2_].log"


KEPT = 1_000_000


@pytest.mark.parametrize(("size", "cut"), [(2 * KEPT + 64, 0), (2 * KEPT + 65, 65)])
def test_of_a_flooded_log_both_ends_are_kept(bench: Bench, size: int, cut: int) -> None:
    flood = f"{LOG}('<' * {KEPT} + '.' * {size - 2 * KEPT} + '>' * {KEPT}); passed()"
    bench.run({A: flood}, scenarios=[A])

    middle = f"\n… {cut} bytes cut here …\n" if cut else "." * (size - 2 * KEPT)
    assert text(bench, bench.seen[0]) == "<" * KEPT + middle + ">" * KEPT


@posix
def test_the_tail_of_a_death_is_the_end_of_its_log(bench: Bench) -> None:
    # 4000 bytes of it, which begin in the middle of a character.
    bench.run({A: f"{LOG}('é' * 2000 + 'x'); kill()"}, scenarios=[A])

    death = bench.seen[0].death
    assert death is not None
    assert death.log_tail == "\ufffd" + "é" * 1999 + "x"


@posix
def test_of_a_fatal_error_the_tail_holds_what_it_was_and_where_the_scenario_stood(
    bench: Bench,
) -> None:
    lines = [
        "before",
        "Fatal Python error: an earlier one",
        "Fatal Python error: Segmentation fault",
        "",
        "Current thread 0x1 (most recent call first):",
        '  File "<frozen runpy>", line 1 in run',
        *(f'  File "s.py", line {number} in f' for number in range(9)),
        "Extension modules: numpy",
        "after",
    ]
    bench.run({A: f"{LOG}({chr(10).join(lines)!r}); kill()"}, scenarios=[A])

    death = bench.seen[0].death
    assert death is not None
    # What was printed just before it may say why.
    assert death.log_tail.splitlines() == [*lines[:3], lines[4], *lines[6:10]]


@posix
def test_of_many_threads_the_stack_of_the_one_that_died_is_told(bench: Bench) -> None:
    other = [
        "Thread 0x2 (most recent call first):",
        *(f'  File "/x/site-packages/numpy/core.py", line {n} in wait' for n in range(20)),
        "",
    ]
    top = Path(harness.__file__).parents[1]
    lines = [
        *(f"line {n} of the plugin" for n in range(9)),
        "",
        "Fatal Python error: Aborted",
        "",
        *other * 9,
        "Current thread 0x1 (most recent call first):",
        f'  File "{top / "harness" / "native" / "sessions.py"}", line 3 in run',
        f'  File "{top / "scenarios" / "copy.py"}", line 2 in cpu_io',
        '  File "/x/site-packages/numpy/core.py", line 1 in call',
        "",
        *other,
        "Extension modules: numpy",
    ]
    whole = chr(10).join(lines)
    # Longer than what is kept of a log that ends otherwise.
    assert 4_000 < len(whole[whole.index("Fatal") :]) < 32_000
    bench.run({A: f"{LOG}({whole!r}); kill()"}, scenarios=[A])

    death = bench.seen[0].death
    assert death is not None
    assert death.log_tail.splitlines() == [
        "line 6 of the plugin",
        "line 7 of the plugin",
        "line 8 of the plugin",
        "Fatal Python error: Aborted",
        "Current thread 0x1 (most recent call first):",
        f'  File "{Path("harness", "native", "sessions.py")}", line 3 in run',
        f'  File "{Path("scenarios", "copy.py")}", line 2 in cpu_io',
        '  File "/x/site-packages/numpy/core.py", line 1 in call',
    ]


@posix
def test_of_a_thread_that_python_does_not_know_the_other_stacks_are_told(bench: Bench) -> None:
    lines = [
        "Fatal Python error: Aborted",
        "",
        "Thread 0x2 (most recent call first):",
        *(f'  File "s.py", line {n} in f' for n in range(2)),
        "",
        "Extension modules: numpy",
    ]
    bench.run({A: f"{LOG}({chr(10).join(lines)!r}); kill()"}, scenarios=[A])

    death = bench.seen[0].death
    assert death is not None
    assert death.log_tail.splitlines() == [lines[0], *lines[2:5]]


@posix
@pytest.mark.parametrize("after", [[], ["Extension modules: numpy", "after"]])
def test_of_a_short_stack_nothing_after_it_is_told(bench: Bench, after: list[str]) -> None:
    lines = ["Fatal Python error: Aborted", '  File "s.py"', *after]
    bench.run({A: f"{LOG}({chr(10).join(lines)!r}); kill()"}, scenarios=[A])

    death = bench.seen[0].death
    assert death is not None
    assert death.log_tail.splitlines() == lines[:2]


def test_a_log_that_cannot_be_made_is_the_run_folders_trouble_and_no_cells(
    bench: Bench,
) -> None:
    (bench.folder / "run").mkdir()
    (bench.folder / "run" / "logs").write_text("a file in the place of the folder")

    with pytest.raises(RunFolderError, match=r"cannot be written: [A-Z][a-z ]+\.") as caught:
        bench.run({A: "passed()"}, scenarios=[A])

    assert "--resume" in caught.value.hint
    # Nothing is recorded of what could not be tried, so that a later run tries it.
    assert bench.seen == []


@pytest.mark.parametrize("same", ["size", "time"])
def test_a_file_that_became_a_core_meanwhile_is_read_again(tmp_path: Path, same: str) -> None:
    file = tmp_path / "libsomething.so"
    core, other = elf(CORE_EXPORTS), elf(["A"])
    file.write_bytes(other.ljust(len(core) + (same == "time"), b"\0"))
    before = file.stat()
    assert not harness.execute._holds_a_core(str(file))

    file.write_bytes(core)
    if same == "time":
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        assert file.stat().st_size == before.st_size
    assert harness.execute._holds_a_core(str(file))


def tail_of(text: str, folder: Path) -> list[str]:
    log = folder / "log"
    log.write_text(text, encoding="utf-8")
    return tail(log).splitlines()


TOP_FOLDER = Path(harness.__file__).parents[1]
CALL = f'  File "{TOP_FOLDER / "harness" / "native" / "api.py"}", line 7 in call'
OF_PYTHON = '  File "/x/lib/threading.py", line 1 in run'


def frame(name: str, line: int) -> str:
    return f'  File "{TOP_FOLDER / "scenarios" / name}", line {line} in run'


def test_of_a_hang_the_tail_tells_where_threads_stand_in_native_calls(tmp_path: Path) -> None:
    lane = [CALL, CALL, frame("runs.py", 1), frame("copy.py", 2), OF_PYTHON]
    other = [CALL, frame("runs.py", 8), OF_PYTHON]
    threads = [lane, [OF_PYTHON, frame("none.py", 3)], other, lane, []]
    dump = [
        line
        for number, frames in enumerate(threads)
        for line in (f"Thread 0x{number} (most recent call first):", *frames, "")
    ]
    main = ["Current thread 0x9 (most recent call first):", frame("lanes.py", 5), OF_PYTHON]
    printed = ["", "the plugin waits", ""]

    def short(name: str, line: int) -> str:
        return f'  File "{Path("scenarios", name)}", line {line} in run'

    assert tail_of("\n".join([*printed, *dump, *main]), tmp_path) == [
        "the plugin waits",
        "2 threads (most recent call first):",
        short("runs.py", 1),
        short("copy.py", 2),
        "1 thread (most recent call first):",
        short("runs.py", 8),
        OF_PYTHON,
    ]


def test_of_a_hang_in_no_native_call_the_tail_tells_where_the_main_thread_stands(
    tmp_path: Path,
) -> None:
    main = [frame("s.py", number) for number in range(20)]
    dump = [
        "Thread 0x2 (most recent call first):",
        OF_PYTHON,
        "",
        "Current thread 0x1 (most recent call first):",
        '  File "<frozen runpy>", line 1 in run',
        *main,
    ]

    told = tail_of("\n".join(dump), tmp_path)
    assert told[0] == "1 thread (most recent call first):"
    assert len(told) == 8
    assert [line.split("line ")[1] for line in told[1:]] == [f"{n} in run" for n in range(7)]


def test_what_only_resembles_stacks_is_an_end_of_a_log_like_any_other(tmp_path: Path) -> None:
    for line in (
        "a Thread 0x2 (most recent call first):",
        "Thread 7 (most recent call first):",
        # No stack follows.
        "Thread 0x2 (most recent call first):",
    ):
        assert tail_of(f"{line}\nafter", tmp_path) == [line, "after"]
    assert tail(tmp_path / "none") == ""


@posix
def test_a_pipe_in_the_place_of_a_log_is_not_waited_for(bench: Bench) -> None:
    bench.run(
        {A: "os.unlink(one['log']); os.mkfifo(one['log']); os.write(2, b'host'); kill()"},
        scenarios=[A],
    )

    seen = bench.seen[0]
    assert seen.death is not None
    assert (seen.log, seen.death.log_tail) == ("logs/1.30.0/serialized/host-1.log", "host")


@posix
def test_without_any_log_that_can_be_read_a_death_is_told_all_the_same(bench: Bench) -> None:
    both = "[(os.unlink(log), os.mkfifo(log)) for log in (one['log'], task['log'])]"
    bench.run({A: f"{both}; kill()"}, scenarios=[A])

    seen = bench.seen[0]
    assert seen.death is not None
    assert (seen.log, seen.death.name, seen.death.log_tail) == (None, "SIGSEGV", "")


@pytest.mark.parametrize("known", [True, False])
def test_a_host_is_told_what_the_entry_says_of_the_plugin(bench: Bench, known: bool) -> None:
    entry = PluginEntry.model_validate(
        {
            "path": "p.so",
            "ep_name": "E",
            "device": {"type": "gpu", "index": 2},
            "options": {
                "always": {"a": "1"},
                "capture": {"c": "1"},
                "cpu_nodes": {"option": "n", "separator": ","},
            },
        }
    )
    kept = bench.folder / "job.json"
    bench.run(
        {A: f"open({str(kept)!r}, 'w').write(json.dumps(task)); passed()"},
        scenarios=[A],
        entry=entry if known else None,
        bare=[A] if known else [],
        shuffle=7 if known else None,
    )
    job = json.loads(kept.read_text())

    told = (job["ep_name"], job["device_type"], job["device_index"], job["options"])
    options = {"always": {"a": "1"}, "capture": {"c": "1"}, "cpu_nodes": ["n", ","]}
    nothing: dict[str, object] = {"always": {}, "capture": None, "cpu_nodes": None}
    assert told == (("E", "gpu", 2, options) if known else (None, None, 0, nothing))
    assert job["core"] == str(bench.folder / "1.30.0" / "libonnxruntime.so")
    assert job["plugin"] == str(bench.folder / "plugin.so")
    assert job["models"] == str(bench.folder / "models")
    assert job["scratch"] == str(bench.folder / "run" / "hosts" / "1.30.0-serialized-1")
    assert (job["kind"], job["shuffle"]) == (("bare", 7) if known else ("registered", None))
    assert (job["mode"], job["registration_name"]) == ("serialized", "plugin")
    assert job["setup_timeout_s"] == 20.0
    assert job["tasks"] == [
        {
            "scenario": A,
            "iterations": 1,
            "timeout_s": 20.0,
            "log": str(bench.folder / "run" / FOLDER / "a.log"),
        }
    ]
    assert not os.path.lexists(job["scratch"])


@pytest.mark.parametrize("there", [True, False])
def test_a_host_of_kind_python_has_the_core_of_the_package(bench: Bench, there: bool) -> None:
    folder = bench.folder / "package"
    package = (
        PythonPackage(folder, folder / "core.so")
        if there
        else PythonPackage(None, None, "no wheel")
    )
    kept = bench.folder / "job.json"
    bench.run(
        {A: f"open({str(kept)!r}, 'w').write(json.dumps(task)); passed()"},
        scenarios=[A],
        python={"1.30.0": package},
    )
    job = json.loads(kept.read_text())

    plain = bench.folder / "1.30.0" / "libonnxruntime.so"
    assert job["kind"] == "python"
    assert job["core"] == str(folder / "core.so" if there else plain)
    assert job["python_package"] == (str(folder) if there else None)
    assert job["python_lack"] == ("" if there else "no wheel")


def test_a_host_of_another_kind_has_the_plain_core_though_there_is_a_package(bench: Bench) -> None:
    folder = bench.folder / "package"
    kept = bench.folder / "job.json"
    bench.run(
        {A: f"open({str(kept)!r}, 'w').write(json.dumps(task)); passed()"},
        scenarios=[A],
        bare=[A],
        python={"1.30.0": PythonPackage(folder, folder / "core.so")},
    )

    assert json.loads(kept.read_text())["core"] == str(
        bench.folder / "1.30.0" / "libonnxruntime.so"
    )


def test_the_tokens_of_a_run_begin_with_a_mark_of_its_own(bench: Bench) -> None:
    kept = bench.folder / "tokens"
    note = f"print(task['token'], file=open({str(kept)!r}, 'a')); wrong()"
    for _ in range(2):
        bench.run({A: note}, {A: note}, scenarios=[A])
    marks = [line.rpartition("-")[0] for line in kept.read_text().split()]

    assert len(marks) == 4
    assert marks[0] == marks[1] != marks[2] == marks[3]
    assert all(len(mark) == 16 for mark in marks)


def test_a_failure_is_recorded_while_its_host_goes_on(bench: Bench) -> None:
    bench.run({A: "wrong()"}, scenarios=[A, B])

    early = bench.seen[0]
    assert (early.early, early.clean_end, early.alone, early.attempt) == (True, False, False, 1)
    assert (early.cell, early.host) == ("1.30.0/serialized/copy/a", "1.30.0-serialized-1")
    assert early.report is not None
    assert early.report.check_failure_count == 1
    assert (early.log, early.duration_s) == (f"{FOLDER}/a.log", 0.5)
    assert early.started == bench.seen[1].started
    # Once is enough of what went well, and of what its host then told whole.
    assert [one.early for one in bench.seen] == [True, False, False, False]
    assert bench.seen[1].report == early.report
