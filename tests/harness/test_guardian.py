"""What is left when a process that has hosts is killed, and when it ends in order."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.containment import TOKEN_VARIABLE, end_marked
from tests.conftest import TOP
from tests.harness.test_containment import alive

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")

# It has two hosts: one that no end of a pipe reaches, and one that has a child without token and
# a child that left its session.
ENGINE = """
import os, signal, subprocess, sys, time
from pathlib import Path
from harness.containment import TOKEN_VARIABLE, start
from harness.guardian import guarded
mark, folder, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
parent = '''
import os, subprocess, time
print(os.getpid(), *(subprocess.Popen({!r}, **rest).pid for rest in
    (dict(env=dict()), dict(start_new_session=True))), flush=True)
time.sleep(600)
'''.format(sleeper)
with guarded(mark):
    hosts = [
        start(command, {**os.environ, TOKEN_VARIABLE: mark + str(n)}, folder / "log", folder)
        for n, command in enumerate((sleeper, [sys.executable, "-c", parent]))
    ]
    print(hosts[0].pid, hosts[1].stdout.readline().decode(), flush=True)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stopped":
        import psutil
        (guardian,) = [one for one in psutil.Process().children() if mark == one.cmdline()[-1]]
        guardian.suspend()
"""


@pytest.fixture
def mark() -> Iterator[str]:
    mark = secrets.token_hex(8)
    yield mark
    end_marked(mark)


@pytest.fixture
def engine(mark: str, tmp_path: Path) -> Callable[[str], list[int]]:
    """Runs the engine to its end; gives the ids of its hosts and of their children."""

    def run(how: str) -> list[int]:
        done = subprocess.run(
            [sys.executable, "-c", ENGINE, mark, str(tmp_path), how],
            stdout=subprocess.PIPE,
            cwd=TOP,
            env={**os.environ, "PYTHONPATH": str(TOP)},
            check=False,
        )
        assert done.returncode == (-signal.SIGKILL if how == "killed" else 0)
        return [int(word) for word in done.stdout.split()]

    return run


def guardians(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.cmdline()[-2:] == ["harness.guardian", mark]:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_a_killed_engine_leaves_no_host_no_child_and_no_guardian(
    engine: Callable[[str], list[int]], mark: str
) -> None:
    pids = engine("killed")
    deadline = time.monotonic() + 30
    while (alive(pids) or guardians(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert len(pids) == 4
    assert alive(pids) == []
    assert guardians(mark) == []


def test_an_engine_that_ends_in_order_takes_its_guardian_along_and_nothing_is_ended(
    engine: Callable[[str], list[int]], mark: str
) -> None:
    pids = engine("in order")

    assert guardians(mark) == []
    assert alive(pids) == pids
    # Besides the tokens, what descends from them and is of their sessions.
    assert end_marked(mark) == 4


def test_a_guardian_that_somebody_stopped_does_not_hold_up_the_end(
    engine: Callable[[str], list[int]], mark: str
) -> None:
    began = time.monotonic()
    engine("stopped")

    assert time.monotonic() - began < 30
    assert guardians(mark) == []


def test_only_what_has_the_mark_is_ended(mark: str) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, TOKEN_VARIABLE: f"x{mark}"},
    )
    try:
        assert end_marked(mark) == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
