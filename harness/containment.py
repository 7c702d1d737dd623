"""Starts host processes so that they can be ended with everything that they started.

A host leads a session of its own, and its environment carries a token that its children inherit.
What is left after its end is found by descent, by that session and by that token.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

__all__ = [
    "TOKEN_VARIABLE",
    "apart",
    "ask_for_stacks",
    "await_children",
    "end_marked",
    "end_tree",
    "exit_name",
    "start",
]

TOKEN_VARIABLE = "ORT_EP_MATRIX_HOST"  # noqa: S105 - the name of a variable

# What Windows answers for the exceptions that kill a process (NTSTATUS).
_WINDOWS_DEATHS = {
    0xC0000005: "ACCESS_VIOLATION",
    0xC0000017: "NO_MEMORY",
    0xC000001D: "ILLEGAL_INSTRUCTION",
    0xC0000094: "INTEGER_DIVIDE_BY_ZERO",
    0xC00000FD: "STACK_OVERFLOW",
    0xC0000135: "DLL_NOT_FOUND",
    0xC0000142: "DLL_INIT_FAILED",
    0xC0000374: "HEAP_CORRUPTION",
    0xC0000409: "STACK_BUFFER_OVERRUN",
}
# Programs end with small numbers; what lies above is better known in hexadecimal digits.
_WINDOWS_STATUSES = 0x10000
# CREATE_NEW_PROCESS_GROUP, which `subprocess` has on Windows alone.
_WINDOWS_NEW_PROCESS_GROUP = 0x200
_SECONDS_TO_DIE = 5.0
_SECONDS_TO_TELL = 0.3
_SECONDS_TO_FOLLOW = 1.0
_POLL_S = 0.005
# A process that is being ended can still start others.
_ROUNDS = 5


def start(
    command: list[str], environment: Mapping[str, str], errors: Path, folder: Path
) -> subprocess.Popen[bytes]:
    """Start a host with pipes as its standard input and output.

    Args:
        command: what to run.
        environment: the whole environment of the process.
        errors: a file that takes what it writes to its standard error at first.
        folder: its working directory.

    Raises:
        OSError: the system cannot start it.
    """
    with errors.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(environment),
            cwd=folder,
            **apart(),
        )


def await_children() -> None:
    """Have the system keep how children ended, where whoever started us had it forget that.

    An ignored SIGCHLD is inherited, and every end would read as status 0. For the main thread.
    """
    if sys.platform != "win32" and signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def apart(platform: str = sys.platform) -> dict[str, Any]:
    """What starts a process out of the terminal's reach: it gets no Ctrl-C."""
    if platform == "win32":
        return {"creationflags": _WINDOWS_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def ask_for_stacks(process: subprocess.Popen[bytes]) -> None:
    """Have a host that hangs write its Python stacks into its log, where the system can ask."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        process.send_signal(signal.SIGUSR1)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_SECONDS_TO_TELL)


def exit_name(returncode: int, platform: str = sys.platform) -> tuple[str, bool]:
    """The name of how a process ended, and whether a signal or a system exception killed it."""
    if platform == "win32":
        code = returncode & 0xFFFFFFFF
        if code < _WINDOWS_STATUSES:
            return f"exit status {code}", False
        return _WINDOWS_DEATHS.get(code, f"exit status 0x{code:08X}"), code >= 0xC0000000
    if returncode < 0:
        try:
            return signal.Signals(-returncode).name, True
        except ValueError:
            return f"signal {-returncode}", True
    return f"exit status {returncode}", False


def end_tree(process: subprocess.Popen[bytes], token: str) -> list[str]:
    """Kill a host and everything that descends from it, is of its session or carries its token.

    What ends by itself soon after a host that has ended is not counted among the survivors.

    Returns:
        The names and ids of the processes that had to be ended besides the host itself.
    """
    descendants: list[psutil.Process] = []
    if process.poll() is None:
        with contextlib.suppress(psutil.Error):
            descendants = psutil.Process(process.pid).children(recursive=True)
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
    elif _relatives(process.pid, token):
        follow = time.monotonic() + _SECONDS_TO_FOLLOW
        while _relatives(process.pid, token) and time.monotonic() < follow:
            time.sleep(_POLL_S)
    _stop_group(process.pid)
    names: dict[int, str] = {}
    doomed = {*descendants, *_relatives(process.pid, token)}
    for _ in range(_ROUNDS):
        if not doomed:
            break
        for survivor in doomed:
            with contextlib.suppress(psutil.Error, OSError):
                if _lives(survivor):
                    names.setdefault(survivor.pid, f"{survivor.name()} ({survivor.pid})")
                survivor.kill()
        deadline = time.monotonic() + _SECONDS_TO_DIE
        while any(map(_lives, doomed)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        doomed = set(_relatives(process.pid, token))
    return sorted(names.values())


def _stop_group(host: int) -> None:  # pragma: no mutate block
    """Stop what is left of a host's process group, so that nothing starts itself anew unseen.

    Of a process that forks and ends many times a second, a list of processes may show none.
    """
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        os.killpg(host, signal.SIGSTOP)


# A changed one would find, and end, every process of the machine; so would a changed `_relatives`.
def end_marked(mark: str) -> int:  # pragma: no mutate block
    """Kill every host whose token begins with a mark, with its session and its descendants.

    For one who is not the parent of those hosts, and looks after them when that was killed.

    Returns:
        How many processes were found.
    """
    doomed: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            token = process.environ().get(TOKEN_VARIABLE)
            if token is not None and token.startswith(mark) and _lives(process):
                doomed.add(process)
                doomed.update(process.children(recursive=True))
                doomed.update(_relatives(process.pid, token))
    for process in doomed:
        with contextlib.suppress(psutil.Error, OSError):
            process.kill()
    return len(doomed)


def _lives(process: psutil.Process) -> bool:
    # A dead process whose parent does not ask for its status can do no more harm.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def _relatives(host: int, token: str) -> list[psutil.Process]:  # pragma: no mutate block
    """The living processes of a host's session, and those whose environment has its token."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == host:
                continue
            ours = (
                _session(process.pid) == host or process.environ().get(TOKEN_VARIABLE, "") == token
            )
            if ours and _lives(process):
                found.append(process)
    return found


def _session(pid: int) -> int | None:
    return None if sys.platform == "win32" else os.getsid(pid)
