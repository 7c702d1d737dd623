from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import harness.containment
from harness.containment import TOKEN_VARIABLE, apart, ask_for_stacks, end_tree, exit_name, start
from tests.conftest import TOP

posix = pytest.mark.skipif(sys.platform == "win32", reason="sessions and signals are of POSIX")


@pytest.mark.parametrize(
    ("status", "platform", "name", "killed"),
    [
        (0, "linux", "exit status 0", False),
        (7, "linux", "exit status 7", False),
        (255, "darwin", "exit status 255", False),
        (-11, "linux", "SIGSEGV", True),
        (-9, "linux", "SIGKILL", True),
        (-6, "linux", "SIGABRT", True),
        (-4, "linux", "SIGILL", True),
        (-8, "linux", "SIGFPE", True),
        (-999, "linux", "signal 999", True),
        (0, "win32", "exit status 0", False),
        (7, "win32", "exit status 7", False),
        (0xFFFF, "win32", "exit status 65535", False),
        (0x10000, "win32", "exit status 0x00010000", False),
        (0xBFFFFFFF, "win32", "exit status 0xBFFFFFFF", False),
        (0xC0000000, "win32", "exit status 0xC0000000", True),
        (0xC0000005, "win32", "ACCESS_VIOLATION", True),
        (0xC0000005 - 2**32, "win32", "ACCESS_VIOLATION", True),
        (0xC00000FD, "win32", "STACK_OVERFLOW", True),
        (0xC0000409, "win32", "STACK_BUFFER_OVERRUN", True),
        (0xC0000374, "win32", "HEAP_CORRUPTION", True),
        (0xC0000006, "win32", "exit status 0xC0000006", True),
        (0x40010004, "win32", "exit status 0x40010004", False),
        (-1, "win32", "exit status 0xFFFFFFFF", True),
    ],
)
def test_an_end_has_the_name_that_the_platform_gives_it(
    status: int, platform: str, name: str, killed: bool
) -> None:
    assert exit_name(status, platform) == (name, killed)


def test_a_process_is_started_out_of_the_terminals_reach_on_every_platform() -> None:
    assert apart("win32") == {"creationflags": 0x00000200}
    assert apart("linux") == apart("darwin") == {"start_new_session": True}


@posix
@pytest.mark.parametrize(
    ("before", "after"),
    [("SIG_IGN", "SIG_DFL"), ("SIG_DFL", "SIG_DFL"), ("default_int_handler",) * 2],
)
def test_an_end_of_children_that_is_ignored_is_ignored_no_more(before: str, after: str) -> None:
    code = (
        "import signal\n"
        "from harness.containment import await_children\n"
        f"signal.signal(signal.SIGCHLD, signal.{before})\n"
        "await_children()\n"
        f"print(signal.getsignal(signal.SIGCHLD) == signal.{after})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=True
    )

    assert done.stdout == "True\n"


@pytest.fixture
def token() -> Iterator[str]:
    mark = secrets.token_hex(16)
    yield mark
    for process in psutil.process_iter():
        try:
            if process.environ().get(TOKEN_VARIABLE) == mark:
                process.kill()
        except (psutil.Error, OSError):
            continue


def started(code: str, token: str, folder: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A process that runs the code, and the ids that it writes in its first line."""
    process = start(
        [sys.executable, "-c", code],
        {**os.environ, TOKEN_VARIABLE: token},
        folder / "errors.log",
        folder,
    )
    assert process.stdout is not None
    return process, [int(word) for word in process.stdout.readline().split()]


def ended(process: subprocess.Popen[bytes], token: str) -> list[str]:
    names = end_tree(process, token)
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
    return names


def alive(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found


def test_a_started_process_has_the_folder_the_environment_and_the_log(
    tmp_path: Path, token: str
) -> None:
    code = (
        f"import os, sys; print(os.getpid(), flush=True); sys.stderr.write(os.getcwd() + ' ' +"
        f" os.environ['{TOKEN_VARIABLE}']); sys.exit(3)"
    )
    process, (pid,) = started(code, token, tmp_path)

    assert process.wait(10) == 3
    assert ended(process, token) == []
    assert process.pid == pid
    assert (tmp_path / "errors.log").read_text() == f"{tmp_path.resolve()} {token}"


def test_a_missing_program_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no such program"):
        start([str(tmp_path / "no such program")], {}, tmp_path / "log", tmp_path)


# Each prints the ids of what it started, then waits.
SLEEP = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], %s)"
CHILD = f"import os, subprocess, sys, time; p = {SLEEP}; print(p.pid, flush=True);"
GRANDCHILD = """
import os, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.write(write, b"%d\\n" % os.getpid())
        time.sleep(600)
    os._exit(0)
print(int(os.read(read, 99)), flush=True)
"""


def test_a_living_process_is_ended_with_its_children(tmp_path: Path, token: str) -> None:
    process, pids = started(CHILD % "" + "time.sleep(600)", token, tmp_path)

    began = time.monotonic()
    names = ended(process, token)

    # It waits for their end, and no longer.
    assert time.monotonic() - began < 5
    assert process.returncode is not None
    assert [name.partition("(")[2] for name in names] == [f"{pids[0]})"]
    assert alive(pids) == []


def test_a_child_that_outlives_its_parent_is_found(tmp_path: Path, token: str) -> None:
    process, pids = started(CHILD % "", token, tmp_path)
    process.wait(10)

    assert len(ended(process, token)) == 1
    assert alive(pids) == []


@posix
@pytest.mark.parametrize("after", ["time.sleep(600)", ""])
def test_an_orphan_in_another_session_is_ended(tmp_path: Path, token: str, after: str) -> None:
    process, pids = started(GRANDCHILD + after, token, tmp_path)
    if not after:
        process.wait(10)

    assert len(ended(process, token)) == 1
    assert alive(pids) == []


@posix
@pytest.mark.parametrize("after", ["time.sleep(600)", ""])
def test_a_child_that_took_its_environment_off_is_ended(
    tmp_path: Path, token: str, after: str
) -> None:
    process, pids = started(CHILD % "env={}" + after, token, tmp_path)
    if not after:
        process.wait(10)

    assert len(ended(process, token)) == 1
    assert alive(pids) == []


# Each of its processes lives for a moment, so that a list of processes may miss it.
HOPPING = """
import os, sys, time
print(os.getpid(), flush=True)
if os.fork() == 0:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
    os._exit(0)
"""


@posix
def test_a_process_that_forks_and_ends_all_the_time_is_ended(tmp_path: Path, token: str) -> None:
    def hopping() -> bool:
        found = False
        for process in psutil.process_iter():
            try:
                found |= process.environ().get(TOKEN_VARIABLE) == token
            except (psutil.Error, OSError):
                continue
        return found

    process, _ = started(HOPPING, token, tmp_path)
    assert process.wait(10) == 0
    names = ended(process, token)

    # The parent of the moment may be there beside its child.
    assert 1 <= len(names) <= 2
    # Three looks, of which each alone may miss it.
    assert not any(hopping() for _ in range(3))


@posix
def test_descendants_that_took_off_all_that_they_are_known_by_are_ended_with_their_parent(
    tmp_path: Path, token: str
) -> None:
    code = (
        "import subprocess, sys, time\n"
        "apart = dict(env={}, start_new_session=True, stdout=subprocess.PIPE)\n"
        "child = (\n"
        "    'import subprocess, sys, time;'\n"
        '    \' p = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],\'\n'
        "    ' env={}, start_new_session=True); print(p.pid, flush=True); time.sleep(600)')\n"
        "p = subprocess.Popen([sys.executable, '-c', child], **apart)\n"
        "print(p.pid, int(p.stdout.readline()), flush=True); time.sleep(600)"
    )
    process, pids = started(code, token, tmp_path)

    assert len(pids) == 2
    assert len(ended(process, token)) == 2
    assert alive(pids) == []


SHORT = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(0.3)'], %s)"


@posix
@pytest.mark.parametrize("kept", ["env={}", "start_new_session=True"])
def test_what_ends_by_itself_soon_after_its_host_is_no_survivor(
    tmp_path: Path, token: str, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than a busy machine needs.
    monkeypatch.setattr(harness.containment, "_SECONDS_TO_FOLLOW", 60.0)
    code = f"import subprocess, sys; p = {SHORT % kept}; print(p.pid, flush=True)"
    process, pids = started(code, token, tmp_path)
    process.wait(10)

    assert ended(process, token) == []
    assert alive(pids) == []


@posix
def test_a_host_is_asked_for_its_stacks_and_given_a_moment_to_tell_them(
    tmp_path: Path, token: str
) -> None:
    code = (
        "import faulthandler, os, signal, sys, time\n"
        "faulthandler.register(signal.SIGUSR1, sys.stderr)\n"
        "print(os.getpid(), flush=True); time.sleep(600)"
    )
    process, _ = started(code, token, tmp_path)
    began = time.monotonic()
    ask_for_stacks(process)

    assert time.monotonic() - began >= 0.3
    assert process.poll() is None
    assert "most recent call first" in (tmp_path / "errors.log").read_text()
    ended(process, token)


@posix
def test_a_host_that_the_asking_ends_is_not_waited_for(tmp_path: Path, token: str) -> None:
    process, _ = started(
        "import os, time; print(os.getpid(), flush=True); time.sleep(600)", token, tmp_path
    )
    ask_for_stacks(process)

    assert process.wait(10) == -signal.SIGUSR1
    ask_for_stacks(process)
    assert ended(process, token) == []


@posix
def test_a_child_that_is_dead_and_not_awaited_is_no_survivor(tmp_path: Path, token: str) -> None:
    # The host lives on while its child is a zombie: dead, and in the table of processes.
    process, (child,) = started(
        "import subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', ''], stdout=subprocess.PIPE);"
        "child.stdout.read(); print(child.pid, flush=True); time.sleep(60)",
        token,
        tmp_path,
    )
    while psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.005)

    assert ended(process, token) == []


@posix
def test_a_stopped_process_and_its_stopped_child_are_ended(tmp_path: Path, token: str) -> None:
    process, pids = started(CHILD % "" + "time.sleep(600)", token, tmp_path)
    for pid in (*pids, process.pid):
        os.kill(pid, signal.SIGSTOP)

    assert len(ended(process, token)) == 1
    assert alive([*pids, process.pid]) == []
    assert process.returncode == -signal.SIGKILL


@posix
def test_a_process_that_takes_no_signal_is_ended(tmp_path: Path, token: str) -> None:
    code = (
        "import os, signal, time\n"
        "for n in range(1, 32):\n"
        "    if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\n"
        "print(os.getpid(), flush=True); time.sleep(600)"
    )
    process, _ = started(code, token, tmp_path)

    assert ended(process, token) == []
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("code", ["", "time.sleep(600)"], ids=["ended", "living"])
def test_a_process_of_another_host_is_left_alone(tmp_path: Path, token: str, code: str) -> None:
    other_token = secrets.token_hex(16)
    other, _ = started(
        "import os, time; print(os.getpid(), flush=True); time.sleep(600)", other_token, tmp_path
    )
    process, _ = started(
        f"import os, time; print(os.getpid(), flush=True); {code}", token, tmp_path
    )
    if not code:
        process.wait(10)

    assert ended(process, token) == []
    assert other.poll() is None
    ended(other, other_token)


def test_ending_what_has_ended_changes_nothing_and_is_quick(tmp_path: Path, token: str) -> None:
    process, _ = started("import os; print(os.getpid(), flush=True)", token, tmp_path)
    process.wait(10)
    began = time.monotonic()

    assert end_tree(process, token) == []
    assert ended(process, token) == []
    assert process.returncode == 0
    assert time.monotonic() - began < 5
