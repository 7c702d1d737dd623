"""What the nine scenarios do not try: streams, misuse, allocators, threads, state."""

from __future__ import annotations

import locale
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.host.host import FLOAT32, Host, Session
from harness.host.scenario import scenario
from harness.native.api import NativeCallError
from scenarios.models import NEGATE
from scenarios.values import values
from tests.probes.models import MOVES


def placed(host: Host, session: Session) -> None:
    host.placed(NEGATE, session, {"negate": host.ep_name})


def plain_run(host: Host, session: Session, salt: int = 0) -> None:
    x = values(host.record.iteration or 0, salt)
    feed = host.cpu_tensor(x)
    fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
    host.check("y", -x, host.read(fetched))
    fetched.release()
    feed.release()


def truth(host: Host, what: str, holds: bool) -> None:
    host.check(what, np.array(1), np.array(int(holds)))


def refused(host: Host, what: str, action: Callable[[], object], words: str) -> None:
    try:
        action()
    except NativeCallError as error:
        truth(host, f"{what} is refused with a reason ({error.message})", words in error.message)
    else:
        truth(host, f"{what} is refused", holds=False)


@scenario("probe/moves", why="A kernel that moves elements, or broadcasts, puts them wrong.")
def moves(host: Host) -> None:
    session = host.session(MOVES)
    for i in host.iterations():
        feed = host.cpu_tensor(values(i))
        fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
        host.check("y", (values(i).T.ravel() - 1) ** 2, host.read(fetched))
    host.placed(
        MOVES,
        session,
        dict.fromkeys(["turn", "line_up", "subtract", "square"], host.ep_name),
    )


@scenario("probe/process-state", why="A plugin changes the process that it is a guest in.")
def process_state(host: Host) -> None:
    def state() -> dict[str, Any]:
        return {
            "directory": str(Path.cwd()),
            "locale": locale.setlocale(locale.LC_ALL),
            "handlers": [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)],
            # 1 + 2 ** -60 in float64, rounded up, is more than 1.
            "rounding": float(np.float64(1.0) + np.float64(2.0**-60)),
        }

    session = host.session(NEGATE)
    before = state()
    for _ in host.iterations():
        plain_run(host, session)
        after = state()
        truth(host, f"{before} became {after}", before == after)
    placed(host, session)
