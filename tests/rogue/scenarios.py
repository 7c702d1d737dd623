from __future__ import annotations

import atexit
import ctypes
import locale
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.host.channel import Channel
from harness.host.host import CPU, Host, UnsupportedError
from harness.host.scenario import scenario
from harness.native.api import NativeCallError
from harness.native.handles import Handle
from scenarios.models import NEGATE
from scenarios.values import values


def _work(host: Host) -> None:
    session = host.session(NEGATE)
    for i in host.iterations():
        fetched = session.run({"x": host.cpu_tensor(values(i))}, {"y": values(0).dtype})["y"]
        host.check("y", -values(i), host.read(fetched))
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario("rogue/fine", why="Behaves.", cases={"1": 1, "2": 2, "3": 3})
def fine(host: Host, _case: int) -> None:
    _work(host)


@scenario("rogue/alone", why="Behaves, in a host of its own.", alone=True)
def alone(host: Host) -> None:
    _work(host)


@scenario(
    "rogue/left-alive",
    why="Leaves behind what says when it is released.",
    cases={"fine": True, "failing": False},
    ends_alive=True,
)
def left_alive(host: Host, well: bool) -> None:
    def told(_pointer: object) -> None:
        print("released", file=sys.stderr, flush=True)

    host.scope.own(Handle("thing", None, told))
    _work(host)
    if not well:
        raise NativeCallError("Run", "FAIL", "it did not come to its end")


@scenario("rogue/signal", why="A signal.", cases={"SIGSEGV": 11, "SIGKILL": 9, "SIGABRT": 6})
def dies(host: Host, number: int) -> None:
    session = host.session(NEGATE)
    for i in host.iterations():
        session.run({"x": host.cpu_tensor(values(i))}, {"y": values(0).dtype})
        if i == 1:
            os.kill(os.getpid(), number)


@scenario("rogue/null", why="A write to address 0.")
def null(host: Host) -> None:
    _work(host)
    ctypes.memset(0, 1, 1)


@scenario("rogue/exit", why="The process is ended from within.", cases={"0": 0, "7": 7})
def exits(_host: Host, status: int) -> None:
    os._exit(status)


@scenario("rogue/endless", why="Never returns.", timeout_s=1.0)
def endless(_host: Host) -> None:
    while True:
        time.sleep(1)


@scenario("rogue/at-exit", why="Dies when the process ends.")
def at_exit(host: Host) -> None:
    _work(host)
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)


@scenario("rogue/endless-at-exit", why="Never ends.")
def endless_at_exit(host: Host) -> None:
    _work(host)
    atexit.register(time.sleep, 1000)


@scenario("rogue/flood", why="Prints without end.")
def flood(host: Host) -> None:
    _work(host)
    for _ in range(64):
        os.write(2, b"x" * 1_000_000)
        os.write(1, b'{"event": "ended"}\n' * 1000)


@scenario("rogue/no-descriptors", why="All descriptors are closed.")
def no_descriptors(_host: Host) -> None:
    os.closerange(0, 1024)


@scenario("rogue/forged", why="Something else is written where the reports go.")
def forged(_host: Host) -> None:
    for descriptor in range(200, 210):
        try:
            os.write(descriptor, b'{"token": "guessed", "number": 3, "event": "torn-down"}\n')
        except OSError:
            continue


@scenario("rogue/child", why="A child process outlives the host.")
def child(host: Host) -> None:
    _work(host)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)


@scenario("rogue/forked", why="A forked child keeps the host's descriptors.")
def forked(host: Host) -> None:
    _work(host)
    if os.fork() == 0:
        time.sleep(600)


@scenario("rogue/wrong", why="A value is wrong in one iteration.")
def wrong(host: Host) -> None:
    session = host.session(NEGATE)
    for i in host.iterations():
        host.check("y", -values(i), values(i) if i == 1 else -values(i))
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario("rogue/misplaced", why="The right value from the wrong EP.")
def misplaced(host: Host) -> None:
    session = host.session(NEGATE)
    for i in host.iterations():
        host.check("y", -values(i), -values(i))
    host.placed(NEGATE, session, {"negate": CPU})


@scenario("rogue/unchecked", why="A scenario that checks nothing proves nothing.")
def unchecked(host: Host) -> None:
    session = host.session(NEGATE)
    for _ in host.iterations():
        pass
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario("rogue/raises", why="A mistake in the scenario itself.")
def raises(_host: Host) -> None:
    raise ZeroDivisionError("of the scenario")


@scenario("rogue/native-error", why="A native call fails.")
def native_error(host: Host) -> None:
    session = host.session(NEGATE)
    for i in host.iterations():
        session.run({"no such input": host.cpu_tensor(values(i))}, {"y": values(0).dtype})


@scenario("rogue/unsupported", why="The plugin lacks something.")
def unsupported(_host: Host) -> None:
    raise UnsupportedError("a thing", "there is none")


@scenario("rogue/newer-level", why="The core lacks an API level.")
def newer_level(host: Host) -> None:
    host.api.call_at_level(9999, "SessionReleaseCapturedGraph", None, 0)


@scenario("rogue/once", why="Fails in the first host and passes in the next.")
def once(host: Host) -> None:
    _work(host)
    flag = Path(os.environ["ROGUE_FLAG"])
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGSEGV)


@scenario("rogue/second-core", why="Another ORT is loaded beside the core.")
def second_core(host: Host) -> None:
    _work(host)
    ctypes.CDLL(os.environ["ROGUE_CORE"])


@scenario("rogue/changed-plugin", why="The plugin's file is written to while it is in use.")
def changed_plugin(host: Host) -> None:
    _work(host)
    file = Path(os.environ["ROGUE_PLUGIN"])
    changed = file.with_name("changed")
    changed.write_bytes(file.read_bytes() + b"more")
    changed.replace(file)


@scenario("rogue/later", why="A thread of the plugin dies after the scenario has ended.")
def later(host: Host) -> None:
    _work(host)
    threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGSEGV)).start()


@scenario("rogue/slow", why="Takes a while.")
def slow(host: Host) -> None:
    _work(host)
    time.sleep(1.0)


@scenario("rogue/sys-exit", why="The interpreter is ended from within.")
def sys_exit(_host: Host) -> None:
    sys.exit(0)


@scenario("rogue/threads", why="Dies in a thread of its own.")
def threads(host: Host) -> None:
    _work(host)
    thread = threading.Thread(target=os.abort)
    thread.start()
    thread.join()


@scenario("rogue/wiped", why="What the harness keeps for the host is removed, and then it dies.")
def wiped(host: Host) -> None:
    (host.scratch / "blackbox").write_bytes(b"")
    os.kill(os.getpid(), signal.SIGKILL)


def _upward() -> None:
    ctypes.CDLL("libm.so.6").fesetround(0x800)


def _flushing() -> None:
    # The control word of the SSE unit, as a library built with -ffast-math leaves it.
    libm = ctypes.CDLL("libm.so.6")
    environment = (ctypes.c_uint32 * 8)()
    libm.fegetenv(environment)
    environment[7] |= 0x8040
    libm.fesetenv(environment)


@scenario(
    "rogue/changes",
    why="The process's own state is changed.",
    cases={
        "folder": lambda: os.chdir("/usr"),
        "mask": lambda: os.umask(0o077),
        "locale": lambda: locale.setlocale(locale.LC_ALL, "C"),
        "rounding": _upward,
        "denormals": _flushing,
        "ignored-signal": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
        "caught-signal": lambda: signal.signal(signal.SIGUSR2, lambda *_: None),
    },
)
def changes(host: Host, change: Callable[[], object]) -> None:
    _work(host)
    change()


def _put_a_pipe_for(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@scenario("rogue/log-pipe", why="A pipe stands in the place of the log.")
def log_pipe(_host: Host) -> None:
    _put_a_pipe_for(Path(f"/proc/self/fd/{2}").readlink())
    os.kill(os.getpid(), signal.SIGSEGV)


@scenario("rogue/box-pipe", why="A pipe stands in the place of the black box.")
def box_pipe(host: Host) -> None:
    _put_a_pipe_for(host.scratch / "blackbox")
    os.kill(os.getpid(), signal.SIGSEGV)


class _UntellableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


@scenario(
    "rogue/raising",
    why="What a scenario raises is odd.",
    cases={
        "half-character": RuntimeError("\udcff"),
        "huge": RuntimeError("x" * 6_000_000),
        "untellable": _UntellableError(),
        "interrupt": KeyboardInterrupt(),
    },
)
def raising(_host: Host, error: BaseException) -> None:
    raise error


@scenario("rogue/wrong-once", why="A value is wrong in the first host and right in the next.")
def wrong_once(host: Host) -> None:
    flag = Path(os.environ["ROGUE_FLAG"])
    session = host.session(NEGATE)
    for i in host.iterations():
        host.check("y", -values(i), -values(i) if flag.exists() else values(i))
    flag.touch()
    host.placed(NEGATE, session, {"negate": host.ep_name})


def _stay_with_children() -> None:
    code = f"import time; time.sleep({os.environ['ROGUE_SECONDS']})"
    subprocess.Popen([sys.executable, "-c", code], env={})
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    ctypes.CDLL(None).pause()


def _exit_for_ever() -> None:
    libc = ctypes.CDLL(None)
    libc.__cxa_atexit(libc.pause, None, None)


@scenario(
    "rogue/held",
    why="The process is in a native call that never returns.",
    cases={
        "call": lambda: ctypes.CDLL(None).pause(),
        "interpreter-lock": lambda: ctypes.PyDLL(None).pause(),
        "children": _stay_with_children,
        "exit": _exit_for_ever,
    },
)
def held(host: Host, hold: Callable[[], object]) -> None:
    _work(host)
    Path(os.environ["ROGUE_FLAG"]).touch()
    hold()


@scenario("rogue/until-told", why="Waits, whenever it runs, until it is told to go on.")
def until_told(host: Host) -> None:
    _work(host)
    folder = Path(os.environ["ROGUE_FLAG"]).parent
    number = 1
    while (folder / f"waiting-{number}").exists():
        number += 1
    (folder / f"waiting-{number}").touch()
    while not (folder / f"go-{number}").exists():
        time.sleep(0.01)


@scenario("rogue/moved-between", why="Moves the process after it was looked at, and never else.")
def moved_between(host: Host) -> None:
    _work(host)
    send = Channel.send

    def moving(channel: Channel, event: str, **fields: Any) -> None:
        send(channel, event, **fields)
        if event == "ended":
            os.chdir(host.scratch)

    # As a thread might that waits for it.
    setattr(Channel, "send", moving)  # noqa: B010 - it is no attribute to assign to
