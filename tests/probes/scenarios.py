"""What the nine scenarios do not try: streams, misuse, allocators, graph ids, threads, state."""

from __future__ import annotations

import locale
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.host.host import FLOAT32, Host, Session, UnsupportedError
from harness.host.scenario import scenario
from harness.native.api import NativeCallError
from harness.native.handles import Scope
from harness.native.sessions import IoBinding
from scenarios.models import NEGATE, SHAPE
from scenarios.values import values, zeros
from tests.probes.models import ABS_NEGATE, ADD_ONE_TO, BRANCH, MOVES, WIDE, WIDE_SHAPE


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


class Captured:
    """A capturing session with bound device tensors."""

    def __init__(self, host: Host, model: Any, session: Session | None = None) -> None:
        self.host = host
        self.session = host.session(model, capture=True) if session is None else session
        self.allocator = host.device_allocator(self.session)
        self.x = host.device_tensor(self.allocator, zeros())
        self.y = host.empty_device_tensor(self.allocator, SHAPE)
        self.binding: IoBinding = self.session.io_binding()
        self.binding.bind_input("x", self.x)
        self.binding.bind_output("y", self.y)

    def run(self, x: Any, graph: int | None = None) -> Any:
        host = self.host
        host.write(self.x, x)
        host.write(self.y, zeros())
        run_bound(host, self.session, self.binding, graph)
        return host.read(self.y)


def run_bound(host: Host, session: Session, binding: IoBinding, graph: int | None) -> None:
    options = host.api.get("CreateRunOptions", "OrtRunOptions **")
    try:
        if graph is not None:
            host.api.call("AddRunConfigEntry", options, b"gpu_graph_id", str(graph).encode())
        host.api.call("RunWithBinding", session.handle.pointer, options, binding.handle.pointer)
    finally:
        host.api.plain("ReleaseRunOptions", options)


@scenario("probe/graph-ids", why="A replay is that of another graph, or of another binding.")
def graph_ids(host: Host) -> None:
    first = Captured(host, NEGATE)
    graphs = {
        1: first,
        2: Captured(host, NEGATE, first.session),
        3: Captured(host, NEGATE, first.session),
    }
    for i in host.iterations():
        for graph, captured in graphs.items():
            got = captured.run(values(i, salt=graph), graph)
            host.check(f"y of graph {graph}", -values(i, salt=graph), got)
    placed(host, first.session)


@scenario("probe/graph-skip", why="A run that asks for no capture is a replay.")
def graph_skip(host: Host) -> None:
    captured = Captured(host, NEGATE)
    other = Captured(host, NEGATE, captured.session)
    for i in host.iterations():
        host.check("y of the graph", -values(i), captured.run(values(i), 0))
        host.check("y without", -values(i, salt=1), other.run(values(i, salt=1), -1))
    placed(host, captured.session)


@scenario("probe/graph-release", why="A released graph is still replayed.")
def graph_release(host: Host) -> None:
    captured = Captured(host, NEGATE)
    for i in host.iterations():
        host.check("y", -values(i), captured.run(values(i)))
        host.api.call_at_level(
            27, "SessionReleaseCapturedGraph", captured.session.handle.pointer, 0
        )
        other = Captured(host, NEGATE, captured.session)
        host.check("y of a new binding", -values(i, salt=1), other.run(values(i, salt=1)))
        host.api.call_at_level(
            27, "SessionReleaseCapturedGraph", captured.session.handle.pointer, 0
        )
    placed(host, captured.session)


@scenario(
    "probe/graph-chain", why="A replay's intermediates were given to others, or its order is lost."
)
def graph_chain(host: Host) -> None:
    captured = Captured(host, ABS_NEGATE)
    for i in host.iterations():
        got = captured.run(-values(i))
        host.check("y", -values(i), got)
        # Whoever gets the memory of the graph's intermediate now would lose this to a replay.
        kept = [host.device_tensor(captured.allocator, values(i, salt=n)) for n in range(4)]
        host.check("y again", -values(i, salt=5), captured.run(-values(i, salt=5)))
        for n, tensor in enumerate(kept):
            host.check(f"another tensor {n}", values(i, salt=n), host.read(tensor))
            tensor.release()
    host.placed(ABS_NEGATE, captured.session, {"size": host.ep_name, "negate": host.ep_name})


@scenario("probe/graph-in-place", why="A replay is executed twice.")
def graph_in_place(host: Host) -> None:
    session = host.session(ADD_ONE_TO, capture=True)
    both = host.device_tensor(host.device_allocator(session), zeros())
    binding = session.io_binding()
    binding.bind_input("x", both)
    binding.bind_output("y", both)
    for i in host.iterations():
        host.write(both, values(i))
        binding.run()
        host.check("x + 1 in its place", values(i) + 1, host.read(both))
    host.placed(ADD_ONE_TO, session, {"add": host.ep_name})


@scenario("probe/graph-control-flow", why="Control flow is captured and answered wrongly.")
def graph_control_flow(host: Host) -> None:
    session = host.session(NEGATE)
    for i in host.iterations():
        try:
            captured = host.session(BRANCH, capture=True)
        except NativeCallError as error:
            truth(host, f"refused with a reason: {error.message}", "control flow" in error.message)
            continue
        # Accepted: then it must also be right.
        for n, which in enumerate((True, False, True, False)):
            x = values(i, salt=n)
            feeds = {
                "c": host.cpu_tensor(np.array(which)),
                "x": host.cpu_tensor(x),
            }
            fetched = captured.run(feeds, {"y": FLOAT32})["y"]
            host.check(f"branch {which}", -x if which else np.abs(x), host.read(fetched))
    placed(host, session)


@scenario("probe/branches", why="Control flow without capture is answered wrongly.")
def branches(host: Host) -> None:
    session = host.session(BRANCH)
    plain = host.session(NEGATE)
    for i in host.iterations():
        for which in (True, False):
            x = values(i)
            feeds = {"c": host.cpu_tensor(np.array(which)), "x": host.cpu_tensor(x)}
            fetched = session.run(feeds, {"y": FLOAT32})["y"]
            host.check(f"branch {which}", -x if which else np.abs(x), host.read(fetched))
    placed(host, plain)


@scenario("probe/threads", why="Independent sessions on four threads harm each other.")
def threads(host: Host) -> None:
    if host.mode != "concurrent":
        raise UnsupportedError("independent sessions at once", "the policy says serialized")
    run_in_threads(host)


@scenario("probe/threads-against-contract", why="The contract checker does not see an overlap.")
def threads_against_contract(host: Host) -> None:
    run_in_threads(host)


def run_in_threads(host: Host) -> None:
    count, runs = 4, 25
    sessions = [host.session(WIDE) for _ in range(count)]
    start = threading.Barrier(count)
    wrong: list[str] = []

    def work(n: int) -> None:
        try:
            with Scope() as scope:
                own = replace(host, scope=scope)
                for i in range(runs):
                    x = np.full(WIDE_SHAPE, 1 + i + 1000 * n, dtype=np.float32)
                    feed = own.cpu_tensor(x)
                    start.wait(timeout=5)
                    fetched = sessions[n].run({"x": feed}, {"y": FLOAT32})["y"]
                    if not np.array_equal(own.read(fetched), -x):
                        wrong.append(f"thread {n}, run {i}")
                    for tensor in (fetched, feed):
                        tensor.release()
        except Exception as error:  # noqa: BLE001 - whatever a thread met is told
            wrong.append(f"thread {n}: {error}")

    for _ in host.iterations():
        workers = [threading.Thread(target=work, args=(n,)) for n in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        truth(host, f"every thread was right ({wrong[:3]})", not wrong)
    host.placed(WIDE, sessions[0], {"negate": host.ep_name})


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
