"""Hosts that misbehave from their first byte on; a script stands in for `harness.host`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

import harness.host_process
from harness.containment import TOKEN_VARIABLE
from harness.host_process import HostJob, HostRun, HostTask, run_host
from tests.harness.scripted import put_in_place

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")

ALL = ("copy/a", "copy/b")
SETUP_FAILED = (
    "job(); say('setup-failed', core_version='1', plugin_sha256_before=None,"
    " error=dict(kind='native', function='f', code='FAIL', message='m'))"
)


Runner = Callable[..., HostRun]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runner:
    def with_script(
        script: str,
        *,
        limit: float = 20.0,
        setup_limit: float | None = None,
        environment: Mapping[str, str] | None = None,
        tasks: tuple[str, ...] = ALL,
        **more: Any,
    ) -> HostRun:
        put_in_place(monkeypatch, script, tmp_path / "host.py")
        job = HostJob(
            name="1.30.0-serialized-1",
            core=tmp_path / "core.so",
            plugin=tmp_path / "plugin.so",
            registration_name="plugin",
            ep_name=None,
            device_type=None,
            device_index=0,
            python_package=None,
            python_lack="",
            kind="registered",
            mode="serialized",
            shuffle=None,
            options={"always": {}, "capture": None, "cpu_nodes": None},
            promises={},
            environment={**os.environ, **(environment or {})},
            scenario_packages=["scenarios"],
            tasks=[
                HostTask(f"1.30.0/serialized/{name}", name, 1, limit, tmp_path / f"{n}.log")
                for n, name in enumerate(tasks)
            ],
            setup_timeout_s=limit if setup_limit is None else setup_limit,
            models=tmp_path / "models",
            scratch=tmp_path / "scratch",
            log=tmp_path / "logs" / "host.log",
        )
        return run_host(job, **more)

    return with_script


def how(run: HostRun) -> str:
    assert run.end is not None
    return run.end.how


def test_a_host_that_says_all_and_ends_has_ended_clean(run: Runner) -> None:
    told: list[str] = []
    seen = run(
        "job(); ready(); work('copy/a', 'copy/b'); torn_down()",
        on_start=told.append,
    )

    assert told == ["copy/a", "copy/b"]
    assert seen.end is not None
    assert seen.end.clean
    assert seen.end.left_behind == ()
    assert list(seen.reports) == ["copy/a", "copy/b"]
    assert seen.reports["copy/a"].duration_s == 0.5
    assert seen.running is None
    assert seen.ready is not None
    assert seen.torn_down is not None
    assert seen.torn_down.mapped == ["/a"]


@pytest.mark.parametrize(("after", "ran_out"), [(3, False), (4, True)])
def test_a_host_in_whose_time_memory_ran_out_says_so(
    run: Runner, monkeypatch: pytest.MonkeyPatch, after: int, ran_out: bool
) -> None:
    counts = iter([3, after])
    monkeypatch.setattr(harness.host_process, "killed_so_far", lambda: next(counts))
    seen = run("job(); ready(); work('copy/a', 'copy/b'); torn_down()")

    assert seen.end is not None
    assert (seen.end.how, seen.end.out_of_memory) == ("clean", ran_out)


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_a_host_is_ended_before_others_when_memory_runs_out(run: Runner, tmp_path: Path) -> None:
    told = tmp_path / "told"
    run(f"job(); open({str(told)!r}, 'w').write(open('/proc/self/oom_score_adj').read())")

    assert told.read_text() == "1000\n"


def test_a_host_is_told_everything_of_its_job(run: Runner, tmp_path: Path) -> None:
    run("open('job.json', 'w').write(json.dumps(job()))")

    job = json.loads((tmp_path / "scratch" / "job.json").read_text())
    expected = {
        "log": str(tmp_path / "logs" / "host.log"),
        "blackbox": str(tmp_path / "scratch" / "blackbox"),
        "setup_timeout_s": 20.0,
        "scenario_packages": ["scenarios"],
        "core": str(tmp_path / "core.so"),
        "plugin": str(tmp_path / "plugin.so"),
        "registration_name": "plugin",
        "ep_name": None,
        "device_type": None,
        "device_index": 0,
        "kind": "registered",
        "mode": "serialized",
        "shuffle": None,
        "options": {"always": {}, "capture": None, "cpu_nodes": None},
        "models": str(tmp_path / "models"),
        "scratch": str(tmp_path / "scratch"),
        "tasks": [
            {
                "scenario": name,
                "iterations": 1,
                "timeout_s": 20.0,
                "log": str(tmp_path / f"{number}.log"),
            }
            for number, name in enumerate(["copy/a", "copy/b"])
        ],
        "promises": {},
        "python_lack": "",
        "python_package": None,
    }
    assert {key: job[key] for key in expected} == expected
    assert len(job["token"]) == 32


def test_what_a_host_says_of_its_setup_is_kept(run: Runner) -> None:
    ready = run("job(); ready(plugin_version='7')").ready
    unusable = run("job(); say('core-unusable', message='no')")
    failed = run(SETUP_FAILED)

    assert ready is not None
    assert (ready.core_version, ready.ep_name, ready.plugin_version) == ("1.30.0", "E", "7")
    assert (unusable.core_unusable, unusable.ready, unusable.setup_failed) == ("no", None, None)
    assert failed.setup_failed is not None
    assert failed.setup_failed.error.message == "m"
    assert (failed.core_unusable, failed.ready) == (None, None)


def test_half_a_character_in_what_a_host_says_is_replaced(run: Runner) -> None:
    # As Python tells of a file name in another encoding.
    seen = run("job(); say('core-unusable', message='caf' + chr(0xDCE9) + ' \u00e9')")

    assert seen.core_unusable == "caf? \u00e9"


@pytest.mark.parametrize(
    "script",
    [
        "job(); ready(ep_name=None)",
        "job(); say('core-unusable', message='no')",
        SETUP_FAILED,
    ],
)
def test_a_host_that_could_not_be_set_up_ends_clean_too(run: Runner, script: str) -> None:
    assert how(run(script)) == "clean"


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("", "exit status 0"),
        ("job(); ready(); work('copy/a', 'copy/b'); os._exit(0)", "exit status 0"),
        # An exit handler of the plugin's that ends the process in the place of the host.
        ("job(); ready(); work('copy/a', 'copy/b'); torn_down(); os._exit(0)", "exit status 0"),
        ("job(); ready(); say('started', scenario='copy/a'); os._exit(0)", "exit status 0"),
        ("job(); ready(); work('copy/a', 'copy/b'); torn_down(); os._exit(3)", "exit status 3"),
        ("raise ValueError", "exit status 1"),
    ],
)
def test_an_end_without_all_or_with_a_status_is_an_exit(
    run: Runner, script: str, name: str
) -> None:
    seen = run(script)

    assert seen.end is not None
    assert (seen.end.how, seen.end.name, seen.end.clean) == ("exit", name, False)


def test_the_status_of_a_good_end_is_no_good_end_by_itself(run: Runner) -> None:
    assert how(run("job(); ready(); work('copy/a', 'copy/b')")) == "exit"


@posix
def test_a_death_is_named_by_its_signal_and_what_was_running(run: Runner) -> None:
    seen = run("""
job(); ready(); work('copy/a')
box = BlackBox(__import__('pathlib').Path(task['blackbox']))
box.at('scenario', 'copy/b'); box.iteration(4); box.enter('Run')
say('started', scenario='copy/b')
os.kill(os.getpid(), signal.SIGKILL)
""")

    assert seen.end is not None
    assert (seen.end.how, seen.end.name) == ("signal", "SIGKILL")
    assert seen.running == "copy/b"
    last = seen.end.last
    assert (last.phase, last.scenario, last.iteration, last.call, last.inside_call) == (
        "scenario",
        "copy/b",
        4,
        "Run",
        True,
    )


@posix
def test_a_line_that_a_death_tore_does_not_hide_the_death(run: Runner) -> None:
    seen = run("job(); ready(); os.write(1, b'{'); os.kill(os.getpid(), signal.SIGKILL)")

    assert seen.end is not None
    assert (seen.end.how, seen.end.name) == ("signal", "SIGKILL")


@posix
@pytest.mark.parametrize(
    "overwrite",
    ["open(task['blackbox'], 'wb').close()", "BlackBox(Path(task['blackbox'])).at('load')"],
    ids=["wiped", "put back"],
)
def test_a_black_box_that_was_overwritten_does_not_move_a_death_to_the_start(
    run: Runner, overwrite: str
) -> None:
    kill = "os.kill(os.getpid(), signal.SIGSEGV)"
    wiped = f"job(); ready(); {overwrite};"
    scenario = run(f"{wiped} say('started', scenario='copy/a'); {kill}")
    register = run(f"{wiped} {kill}")
    at_exit = run(f"{wiped} work('copy/a'); torn_down(); {kill}")

    phases = [one.end.last.phase for one in (scenario, register, at_exit) if one.end]
    assert phases == ["scenario", "register", "exit"]


_REFUSED = (
    "say('setup-failed', core_version='', plugin_sha256_before=None,"
    "error=dict(kind='native', function='F', code='', message=''))"
)
NONSENSE = {
    "garbage": "os.write(1, b'garbage\\n')",
    "binary": "os.write(1, bytes(range(256)) + b'\\n')",
    "an empty line": "os.write(1, b'\\n')",
    "a number": "os.write(1, b'7\\n')",
    "a list": "os.write(1, b'[]\\n')",
    "deep": "os.write(1, b'[' * 60000 + b'\\n')",
    "a huge number": "os.write(1, b'9' * 60000 + b'\\n')",
    "no event": "say(None); os.write(1, b'{}\\n')",
    "another token": "say('ready', token='guessed')",
    "no token": 'os.write(1, b\'{"number": 0, "event": "ready"}\\n\')',
    "another number": "number = 1; ready()",
    "a number twice": "ready(); number = 0; work('copy/a')",
    "a missing field": "say('ready')",
    "a field too many": "ready(more=1)",
    "a wrong type": "ready(ep_devices=7)",
    "an unknown event": "say('finished')",
    "ready twice": "ready(); ready()",
    "a start before ready": "work('copy/a')",
    "an end before a start": "ready(); ended('copy/a')",
    "a start within another": "ready(); say('started', scenario='copy/a');"
    "say('started', scenario='copy/b')",
    "the end of another": "ready(); say('started', scenario='copy/a'); ended('copy/b')",
    "a scenario that is not in the job": "ready(); say('started', scenario='copy/z')",
    "a scenario that is no text": "ready(); say('started', scenario=[1])",
    "a scenario twice": "ready(); work('copy/a', 'copy/a')",
    "no report": "ready(); say('started', scenario='copy/a'); say('ended')",
    "torn down in the middle": "ready(); say('started', scenario='copy/a'); torn_down()",
    "a scenario after the teardown": "ready(); torn_down(); work('copy/a')",
    "torn down twice": "ready(); torn_down(); torn_down()",
    "setup-failed twice": f"{_REFUSED}; {_REFUSED}",
    "core-unusable after setup-failed": f"{_REFUSED}; say('core-unusable', message='')",
    "setup-failed after core-unusable": f"say('core-unusable', message=''); {_REFUSED}",
    "core-unusable after ready": "ready(); say('core-unusable', message='')",
    "setup-failed after ready": "ready(); say('setup-failed', core_version='', error=None)",
}


@pytest.mark.parametrize("script", NONSENSE.values(), ids=NONSENSE)
def test_what_is_not_the_hosts_next_message_ends_it(run: Runner, script: str) -> None:
    seen = run(f"job(); {script}; time.sleep(60)")

    assert how(seen) == "channel"
    assert "copy/b" not in seen.reports


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("os.write(1, b'garbage\\n')", r"a message that is not the host's: b'garbage\n'"),
        (
            "os.write(1, b'x' * 99 + b'\\n')",
            "a message that is not the host's: b'" + "x" * 80 + "'",
        ),
        ("say('finished')", "a message that makes no sense: 'finished' at this point"),
        (
            "ready(); say('started', scenario='copy/z')",
            "a message that makes no sense: the host started 'copy/z'",
        ),
        (
            "ready(); say('started', scenario='copy/a'); ended('copy/b')",
            "a message that makes no sense: 'copy/b' ended while 'copy/a' ran",
        ),
        (
            "ready(); say('started', scenario='copy/a'); ended('copy/a', iterations_planned=2)",
            "a message that makes no sense: 2 iterations were not asked for",
        ),
        ("say('ready')", "a message that makes no sense: Field required"),
        (
            "os.close(1)",
            "the host's channel was closed while its process went on",
        ),
    ],
)
def test_what_was_wrong_with_the_channel_is_told(run: Runner, script: str, name: str) -> None:
    seen = run(f"job(); {script}; time.sleep(60)")

    assert seen.end is not None
    assert (seen.end.how, seen.end.name) == ("channel", name)


def test_a_line_without_end_does_not_fill_the_memory(run: Runner) -> None:
    before = psutil.Process().memory_info().rss
    seen = run("job()\nwhile True: os.write(1, b'x' * 60000)")

    assert how(seen) == "channel"
    assert psutil.Process().memory_info().rss - before < 300e6


def test_a_host_that_never_speaks_is_ended_at_its_time(run: Runner) -> None:
    began = time.monotonic()
    seen = run("job(); time.sleep(60)", limit=0.3)

    assert seen.end is not None
    assert (seen.end.how, seen.end.name) == ("hang", "no end after 0.3 s")
    assert seen.end.last.phase == "start"
    assert time.monotonic() - began < 10


def test_a_host_that_never_reads_its_job_is_ended_at_its_time(run: Runner) -> None:
    # More than a pipe takes at once.
    many = tuple(f"copy/{n}" for n in range(2000))

    assert how(run("time.sleep(60)", limit=0.3, tasks=many)) == "hang"


@pytest.mark.parametrize(
    ("script", "limits", "name"),
    [
        ("job()", (30, 0.3), "no end after 0.3 s"),
        ("job(); ready(); say('started', scenario='copy/a')", (0.3, 30), "no end after 0.3 s"),
        ("job(); ready(); work('copy/a')", (30, 0.3), "no end after 0.3 s"),
        ("job(); ready(); work(*'copy/a copy/b'.split()); torn_down()", (30, 0.4), "0.4 s"),
    ],
)
def test_a_scenario_and_what_is_between_have_limits_of_their_own(
    run: Runner, script: str, limits: tuple[float, float], name: str
) -> None:
    seen = run(f"{script}; time.sleep(60)", limit=limits[0], setup_limit=limits[1])

    assert seen.end is not None
    assert seen.end.how == "hang"
    assert name in seen.end.name


def test_time_in_which_the_engine_itself_was_stopped_is_not_the_hosts(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = harness.host_process._next_line
    slept: list[float] = []

    def stopped_once(*args: Any) -> bytes | None:
        line = listen(*args)
        if line == b"" and not slept:
            slept.append(4.0)
            time.sleep(slept[0])
        return line

    monkeypatch.setattr(harness.host_process, "_next_line", stopped_once)
    seen = run(
        "job(); ready(); say('started', scenario='copy/a'); time.sleep(4.5); ended('copy/a');"
        "work('copy/b'); torn_down()",
        limit=3.0,
        setup_limit=20.0,
    )

    assert slept
    assert how(seen) == "clean"


def test_time_in_which_the_engine_was_stopped_is_not_that_of_a_host_that_ends(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = subprocess.Popen.wait
    slept: list[float] = []

    def stopped_once(process: subprocess.Popen[Any], timeout: float | None = None) -> int:
        if not slept:
            slept.append(4.0)
            time.sleep(slept[0])
            raise subprocess.TimeoutExpired("the host", timeout or 0.0)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", stopped_once)
    seen = run(
        "job(); ready(); work('copy/a', 'copy/b'); torn_down(); os.close(1); time.sleep(4.5)",
        limit=3.0,
        setup_limit=3.0,
    )

    assert slept
    assert how(seen) == "clean"


def test_a_limit_runs_out_by_all_time_but_that_in_which_nobody_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [100.0]
    monkeypatch.setattr("harness.host_process.time.monotonic", lambda: clock[0])
    limit = harness.host_process._Limit(10.0)

    def left_after(seconds: float) -> float:
        clock[0] += seconds
        return limit.left_s()

    assert (limit.seconds, left_after(0.0), left_after(0.25)) == (10.0, 10.0, 9.75)
    # A round takes a quarter of a second; up to one more is a busy machine and no stop.
    assert left_after(1.25) == 8.5
    assert left_after(4.25) == 8.25
    assert left_after(1.0) == 7.25
    for _ in range(7):
        limit_left = left_after(1.0)
    assert limit_left == 0.25
    assert (left_after(0.25), left_after(0.25)) == (0.0, 0.0)


@posix
def test_a_stopped_host_is_ended_at_its_time(run: Runner) -> None:
    seen = run(
        "job(); ready(); say('started', scenario='copy/a'); os.kill(os.getpid(), signal.SIGSTOP)",
        limit=0.3,
        setup_limit=20.0,
    )

    assert how(seen) == "hang"
    assert seen.running == "copy/a"


def test_each_scenario_has_the_whole_of_its_time(run: Runner) -> None:
    seen = run(
        "job(); ready()\nfor n in 'ab':\n"
        " say('started', scenario='copy/' + n); time.sleep(1.6); ended('copy/' + n)\n"
        "torn_down()",
        limit=3.0,
        setup_limit=20.0,
    )

    assert how(seen) == "clean"


def test_a_channel_that_is_closed_while_the_host_goes_on_is_not_waited_for(run: Runner) -> None:
    began = time.monotonic()
    seen = run("job(); ready(); say('started', scenario='copy/a'); os.close(1); time.sleep(60)")

    assert how(seen) == "channel"
    assert time.monotonic() - began < 10


def test_a_host_that_has_said_all_has_its_whole_time_to_end(run: Runner) -> None:
    # Longer than the moment that one gets whose channel is closed before its time.
    seen = run(
        "job(); ready(); work('copy/a', 'copy/b'); torn_down(); os.close(1); time.sleep(1.5)"
    )

    assert how(seen) == "clean"


def test_a_host_that_has_said_all_and_never_ends_is_a_hang(run: Runner) -> None:
    work = "job(); ready(); work('copy/a', 'copy/b'); torn_down();"

    assert how(run(f"{work} time.sleep(60)", limit=0.3)) == "hang"
    assert how(run(f"{work} os.close(1); time.sleep(60)", limit=0.3)) == "hang"


@posix
def test_a_host_is_asked_where_it_stands_when_it_hangs_and_only_then(
    run: Runner, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    listen = f"signal.signal(signal.SIGUSR1, lambda *_: Path({str(asked)!r}).touch());"
    begin = f"{listen} job(); ready(); say('started', scenario='copy/a');"

    assert how(run(f"{begin} os.write(1, b'garbage\\n'); time.sleep(60)")) == "channel"
    assert not asked.exists()
    assert how(run(f"{begin} time.sleep(60)", limit=0.5, setup_limit=20.0)) == "hang"
    assert asked.exists()


def test_a_child_that_holds_the_channel_open_does_not_hold_the_run(run: Runner) -> None:
    began = time.monotonic()
    seen = run(
        "job(); ready(); work('copy/a', 'copy/b'); torn_down();"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdout=1)"
    )

    assert seen.end is not None
    assert seen.end.clean
    assert len(seen.end.left_behind) == 1
    assert time.monotonic() - began < 10


@posix
def test_a_hidden_process_that_holds_the_channel_is_told_and_not_waited_for(
    run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(harness.host_process, "_STREAM_END_S", 0.5)
    told = tmp_path / "pid"
    # Nothing that it could be known by is left of it.
    hide = (
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdout=1,"
        f" env={{}}, start_new_session=True); open({str(told)!r}, 'w').write(str(p.pid));"
    )
    began = time.monotonic()
    seen = run(f"job(); ready(); {hide} work('copy/a', 'copy/b'); torn_down()")
    hidden = psutil.Process(int(told.read_text()))
    try:
        assert hidden.is_running()
        assert seen.end is not None
        assert seen.end.clean
        (left,) = seen.end.left_behind
        assert "could not be found" in left
        assert time.monotonic() - began < 30
    finally:
        hidden.kill()


@pytest.mark.parametrize(
    "script",
    [
        "time.sleep(60)",
        "ready(); say('started', scenario='copy/a'); time.sleep(60)",
        "ready(); work('copy/a', 'copy/b'); torn_down(); os.close(1); time.sleep(60)",
        "ready(); say('started', scenario='copy/a'); os.close(1); time.sleep(60)",
    ],
)
def test_an_interruption_ends_a_host_at_once(run: Runner, script: str) -> None:
    stop = threading.Event()
    threading.Timer(0.4, stop.set).start()
    began = time.monotonic()
    seen = run(f"job(); {script}", stop=stop)

    assert seen.end is not None
    assert (seen.end.how, seen.end.name) == ("stopped", "the run was interrupted")
    assert time.monotonic() - began < 5
    assert not carriers()


def test_a_run_that_was_stopped_before_starts_nothing_that_stays(run: Runner) -> None:
    stop = threading.Event()
    stop.set()

    assert how(run("job(); time.sleep(60)", stop=stop)) == "stopped"
    assert not carriers()


def test_a_missing_interpreter_is_not_the_plugins_fault(
    run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no such python"))
    seen = run("")

    assert seen.end is None
    assert seen.infra is not None
    assert "could not be started" in seen.infra
    assert "no such python" in seen.infra


def test_what_raises_in_the_engine_ends_the_host(run: Runner) -> None:
    def fail(_scenario: str) -> None:
        raise RuntimeError("of the engine")

    with pytest.raises(RuntimeError, match="of the engine"):
        run("job(); ready(); say('started', scenario='copy/a'); time.sleep(60)", on_start=fail)
    assert not carriers()


def test_what_is_printed_to_errors_is_in_the_log(run: Runner, tmp_path: Path) -> None:
    run("os.write(2, b'oh no')")

    assert (tmp_path / "logs" / "host.log").read_bytes() == b"oh no"


def test_hosts_have_tokens_that_differ(run: Runner, tmp_path: Path) -> None:
    tokens = set()
    for _ in range(2):
        run(f"print(job()['token'], os.environ['{TOKEN_VARIABLE}'], file=open('t', 'w'))")
        first, second = (tmp_path / "scratch" / "t").read_text().split()
        assert first == second
        tokens.add(first)

    assert len(tokens) == 2


@posix
def test_an_interruption_of_the_terminal_does_not_reach_a_host(run: Runner, tmp_path: Path) -> None:
    # A terminal interrupts the process group in front; the engine then ends its hosts itself.
    run("print(os.getpgid(0), os.getsid(0), os.getpid(), file=open('ids', 'w'))")
    group, session, pid = (tmp_path / "scratch" / "ids").read_text().split()

    assert group == session == pid
    assert int(group) != os.getpgid(0)


def carriers() -> list[psutil.Process]:
    """The hosts, and what they started, of this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if TOKEN_VARIABLE in process.environ():
                found.append(process)
        except psutil.Error:
            continue
    return found
