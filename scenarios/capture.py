"""Graph capture: what a replay computes, for whom, and who drives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.host.host import CPU, Host, IoBinding, Session, Tensor, kernel_runs
from harness.host.model import Model
from harness.host.scenario import scenario
from scenarios.models import (
    ADD_AND_NEGATE,
    CHAIN,
    EITHER,
    LONG,
    NEGATE,
    NEGATE_AND_ADD,
    SHAPE,
    STEPS,
)
from scenarios.values import values, zeros

__all__ = [
    "after_failed_run",
    "beside_replay",
    "buffers_between",
    "control_flow",
    "cpu_io",
    "graph_ids",
    "idle_bind_input",
    "in_place",
    "node_on_cpu",
    "off_by_default",
    "order",
    "rebound",
    "rebound_same_graph",
    "release",
    "replay",
    "several_sessions",
    "skip",
]

_SKIP = -1
"""The graph id of a run that shall be neither captured nor a replay."""

_REPLAYED = 1
"""The graph id that one lane replays while the others do something else."""

_LANES = 4
_ROUNDS = 4
"""How often a lane does its work in an iteration: once is over before the next lane is awake."""


@dataclass(frozen=True)
class _Bound:
    """A session's inputs and its output `y`, bound to device tensors of their own."""

    host: Host
    binding: IoBinding
    inputs: Mapping[str, Tensor]
    y: Tensor

    def run(self, graph: int | None = None, **arrays: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What y holds after a run on new values, and held nothing of before."""
        for name, array in arrays.items():
            self.host.write(self.inputs[name], array)
        self.host.write(self.y, zeros())
        self.binding.run(graph)
        return self.host.read(self.y)


def _bound(host: Host, session: Session, model: Model = NEGATE) -> _Bound:
    allocator = host.device_allocator(session)
    binding = session.io_binding()
    inputs = {
        name: host.empty_device_tensor(allocator, shape) for name, shape in model.inputs.items()
    }
    y = host.empty_device_tensor(allocator, model.outputs["y"])
    for name, tensor in inputs.items():
        binding.bind_input(name, tensor)
    binding.bind_output("y", y)
    return _Bound(host, binding, inputs, y)


def _counted(host: Host, session: Session, runs: int, executing: int = 0) -> int:
    """Count how the runs of a session of `NEGATE` were executed, by its profile.

    A run that the host replays leaves no kernel event in ORT's profile; a run that executes the
    kernels, in the host or in a replay of the plugin's own, leaves one.

    Args:
        host: records the count.
        session: one with a profile.
        runs: how many runs it had.
        executing: as many of them must have executed the kernels in any host; they are not
            counted, so that what is counted does not depend on the iterations.

    Returns:
        How many runs executed the kernels.
    """
    profile = host.profile_of(NEGATE, session)
    executed = kernel_runs(profile, "negate")
    if executing:
        host.truth(f"{executing} runs executed the kernel", executed >= executing, executed)
    host.counted_capture(
        runs=runs - executing,
        kernel_runs=max(executed - executing, 0),
        host_replays=runs - max(executed, executing),
    )
    host.placed(NEGATE, session, {"negate": host.ep_name}, profile)
    return executed


@scenario(
    "capture/replay",
    why="A replay computes from the values of the capture, or does nothing.",
)
def replay(host: Host) -> None:
    """Capture on, input and output bound once, new values before every run."""
    session = host.session(NEGATE, capture=True, profile=True)
    bound = _bound(host, session)
    runs = 0
    for i in host.iterations():
        host.check("y", -values(i), bound.run(x=values(i)))
        runs += 1
    _counted(host, session, runs)


@scenario(
    "capture/off-by-default",
    why="A session that did not ask for graph capture is captured, and replayed.",
)
def off_by_default(host: Host) -> None:
    """No option for capture; naming a graph for a run turns nothing on."""
    session = host.session(NEGATE, profile=True)
    bound = _bound(host, session)
    runs = 0
    for i in host.iterations():
        for graph in (None, 1):
            x = values(i, salt=runs % 2)
            host.check(f"y of graph {graph}", -x, bound.run(graph, x=x))
            runs += 1
    executed = _counted(host, session, runs)
    host.truth("each run executed its kernel", executed == runs, f"{executed} of {runs} runs did")


@scenario(
    "capture/skip",
    why="A run that asks for no capture is captured, or is a replay.",
)
def skip(host: Host) -> None:
    """Between two runs of a graph, -1 on its tensors and on others."""
    session = host.session(NEGATE, capture=True, profile=True)
    captured, other = _bound(host, session), _bound(host, session)
    skipped = 0
    for i in host.iterations():
        host.check("y of the graph", -values(i), captured.run(x=values(i)))
        for salt, bound in enumerate((captured, other), start=1):
            x = values(i, salt)
            host.check(f"y without capture, {salt}", -x, bound.run(_SKIP, x=x))
            skipped += 1
    _counted(host, session, runs=skipped + skipped // 2, executing=skipped)


@scenario(
    "capture/graph-ids",
    why="A replay is that of another graph of its session.",
)
def graph_ids(host: Host) -> None:
    """Four graphs over four sets of tensors, one of them by the id of a run that names none."""
    session = host.session(NEGATE, capture=True, profile=True)
    graphs: dict[int | None, _Bound] = {id_: _bound(host, session) for id_ in (7, None, 3, 12)}
    runs = 0
    for i in host.iterations():
        for salt, (graph, bound) in enumerate(graphs.items()):
            x = values(i, salt)
            host.check(f"y of graph {graph}", -x, bound.run(graph, x=x))
            runs += 1
    _counted(host, session, runs, executing=len(graphs) - 1)


@scenario(
    "capture/several-sessions",
    why="A replay is that of another session's graph of the same id.",
)
def several_sessions(host: Host) -> None:
    """Three sessions of one model capture under one id and take turns, each first once."""
    sessions = [host.session(NEGATE, capture=True) for _ in range(3)]
    bounds = [_bound(host, session) for session in sessions]
    for i in host.iterations():
        for n in range(len(bounds)):
            at = (i + n) % len(bounds)
            x = values(i, salt=at)
            host.check(f"y of session {at}", -x, bounds[at].run(x=x))
    host.placed(NEGATE, sessions[0], {"negate": host.ep_name})


@scenario(
    "capture/cpu-io",
    why="A capturing session that is fed and fetched on the CPU gives wrong values.",
)
def cpu_io(host: Host) -> None:
    """CPU tensors for a run that is captured, and for one that asks for no capture.

    A replay that the host drives copies neither, whatever the plugin: that is not tried.
    """
    session = host.session(NEGATE, capture=True)
    for i in host.iterations():
        for salt, graph in enumerate((i, _SKIP)):
            x = values(i, salt)
            feed = host.cpu_tensor(x)
            into = host.cpu_tensor(zeros())
            session.run({"x": feed}, {"y": into}, graph)
            host.check(f"y of graph {graph}", -x, host.read(into))
            feed.release()
            into.release()
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "capture/idle-bind-input",
    why="A replay throws away, or overtakes, what was uploaded for an idle session.",
)
def idle_bind_input(host: Host) -> None:
    """BindInput of another session between the upload for a replay and the replay itself."""
    captured = _bound(host, host.session(NEGATE, capture=True))
    session = host.session(NEGATE)
    idle = _bound(host, session)
    for i in host.iterations():
        x, others = values(i), values(i, salt=1)
        host.write(captured.y, zeros())
        host.write(idle.y, zeros())
        host.write(captured.inputs["x"], x)
        feed = host.cpu_tensor(others)
        idle.binding.bind_input("x", feed)
        captured.binding.run()
        idle.binding.run()
        host.check("y of the replay", -x, host.read(captured.y))
        host.check("y of the idle session", -others, host.read(idle.y))
        feed.release()
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "capture/rebound",
    why="A graph that is captured with new tensors works on those of an older graph.",
)
def rebound(host: Host) -> None:
    """One binding: new tensors and a new graph in each iteration, then the one before again."""
    session = host.session(NEGATE, capture=True, profile=True)
    allocator = host.device_allocator(session)
    bound = _bound(host, session)
    tensors = [(bound.inputs["x"], bound.y)]
    runs = 0
    for i in host.iterations():
        tensors.append(
            (host.device_tensor(allocator, zeros()), host.device_tensor(allocator, zeros()))
        )
        newest = len(tensors) - 1
        for salt, graph in enumerate((newest, newest - 1, newest)):
            x, y = tensors[graph]
            bound.binding.bind_input("x", x)
            bound.binding.bind_output("y", y)
            host.write(x, values(i, salt))
            host.write(y, zeros())
            bound.binding.run(graph)
            runs += 1
            host.check(f"y of graph {graph}", -values(i, salt), host.read(y))
    _counted(host, session, runs, executing=len(tensors) - 1)


@scenario(
    "capture/rebound-same-graph",
    why="A graph is replayed with the input of one binding and the output of another.",
)
def rebound_same_graph(host: Host) -> None:
    """Two bindings in turn under one graph id, each for two runs.

    A replay that the host drives is told of no binding, so it goes by that of the capture; other
    replays may go by what is bound now. Neither may mix the two.
    """
    session = host.session(NEGATE, capture=True)
    bounds = [_bound(host, session) for _ in range(2)]
    for i in host.iterations():
        for n in range(4):
            xs = [values(i, salt=n), values(i, salt=n + 4)]
            for bound, x in zip(bounds, xs, strict=True):
                host.write(bound.inputs["x"], x)
                host.write(bound.y, zeros())
            bounds[n // 2].binding.run()
            got = [host.read(bound.y) for bound in bounds]
            whole = [np.array_equal(got[at], -xs[at]) and not got[1 - at].any() for at in range(2)]
            host.truth("one binding is gone by, and it alone", any(whole), got)
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "capture/buffers-between",
    cases={"bound": True, "cpu-io": False},
    why="A replay writes into memory that somebody else was given after the capture.",
)
def buffers_between(host: Host, on_device: bool) -> None:
    """Device tensors come and go between capture and replay, of the sizes that the graph uses.

    With bound tensors the graph's own memory are its intermediates, with CPU tensors also the
    copies of its input and output.
    """
    session = host.session(STEPS, capture=True)
    allocator = host.device_allocator(session)
    bound = _bound(host, session, STEPS)
    feed, into = host.cpu_tensor(values(0)), host.cpu_tensor(zeros())
    for i in host.iterations():
        # A graph of its own in each iteration, so that there is a capture before what follows.
        if on_device:
            host.check("y", _stepped(values(i)), bound.run(i, x=values(i)))
        else:
            session.run({"x": feed}, {"y": into}, i)
        kept = [host.device_tensor(allocator, values(i, salt=n)) for n in range(6)]
        kept.pop(i % 6).release()
        if on_device:
            host.check("y again", _stepped(values(i, salt=1)), bound.run(i, x=values(i, salt=1)))
        else:
            session.run({"x": feed}, {"y": into}, i)
        for n, tensor in enumerate(kept):
            salt = n + (n >= i % 6)
            host.check(f"another tensor, {salt}", values(i, salt), host.read(tensor))
            tensor.release()
    host.placed(STEPS, session, dict.fromkeys(_STEPS, host.ep_name))


_STEPS = ("double", "multiply", "subtract", "negate")


def _stepped(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    y: npt.NDArray[Any] = -((x + x) * x - x)
    return y


@scenario(
    "capture/order",
    why="A replay executes the nodes of a chain in another order, or not all of them.",
)
def order(host: Host) -> None:
    """Four nodes in a row, each of which needs the one before."""
    session = host.session(STEPS, capture=True)
    bound = _bound(host, session, STEPS)
    for i in host.iterations():
        host.check("y", _stepped(values(i)), bound.run(x=values(i)))
    host.placed(STEPS, session, dict.fromkeys(_STEPS, host.ep_name))


@scenario("capture/in-place", why="A replay executes its graph twice.")
def in_place(host: Host) -> None:
    """Input and output are one tensor, so that what a second execution computes is another.

    The run that captures is not looked at: it may stand for several, as ORT says.
    """
    session = host.session(ADD_AND_NEGATE, capture=True)
    allocator = host.device_allocator(session)
    both, by = (host.device_tensor(allocator, zeros()) for _ in range(2))
    binding = session.io_binding()
    binding.bind_input("x", both)
    binding.bind_input("by", by)
    binding.bind_output("y", both)
    binding.run()
    for i in host.iterations():
        host.write(both, values(i))
        host.write(by, values(i, salt=1))
        binding.run()
        host.check("y in the place of x", -(values(i) + values(i, salt=1)), host.read(both))
    host.placed(ADD_AND_NEGATE, session, dict.fromkeys(["add", "negate"], host.ep_name))


@scenario(
    "capture/release",
    why="A graph that was released is still replayed, or takes other graphs or tensors along.",
)
def release(host: Host) -> None:
    """Capture, replay, release; and under the same id once more with other tensors.

    Another graph stays.
    """
    session = host.session(NEGATE, capture=True, profile=True)
    *bounds, kept = (_bound(host, session) for _ in range(3))
    runs = captures = 0
    for i in host.iterations():
        for salt, bound in enumerate((*bounds, *bounds)):
            for again in (0, 4):
                x = values(i, salt + again)
                host.check(f"y of tensors {salt % 2}", -x, bound.run(x=x))
                runs += 1
            session.release_captured_graph(0)
            captures += 1
            host.check(f"what tensors {salt % 2} hold after it", -x, host.read(bound.y))
            x = values(i, salt + 8)
            host.check("y of the graph that stays", -x, kept.run(1, x=x))
            runs += 1
    _counted(host, session, runs, executing=captures)


@scenario(
    "capture/control-flow",
    why="A model with control flow is captured, and answers by the branch of the capture.",
)
def control_flow(host: Host) -> None:
    """An If is refused by a capturing session, or answered rightly; and rightly by another."""
    plain = host.session(EITHER, profile=True)
    asked = {"not captured": plain}
    refusal = host.refusal(
        lambda: asked.update(captured=host.session(EITHER, capture=True, profile=True))
    )
    host.truth("a refusal has a message", refusal is None or bool(refusal.message))
    tensors = {how: _tensors(host, session) for how, session in asked.items()}
    for i in host.iterations():
        for salt, doubled in enumerate((True, False, True)):
            choice = host.cpu_tensor(np.array(doubled))
            x = values(i, salt)
            due = x + x if doubled else x * x
            for how, session in asked.items():
                got = _run_on(host, session, *tensors[how], x, doubled=choice)
                host.check(f"y, {how}, doubled: {doubled}", due, got)
            choice.release()
    for session in asked.values():
        host.placed(EITHER, session, dict.fromkeys(["double", "square"], host.ep_name))


@scenario(
    "capture/node-on-cpu",
    why="A model with a node on the CPU EP is captured, and its replay leaves that node out.",
)
def node_on_cpu(host: Host) -> None:
    """A chain through the CPU is refused by a capturing session, or answered rightly."""
    plain = host.session(CHAIN, cpu_nodes=["on_cpu"], profile=True)
    asked = {"not captured": plain}
    refusal = host.refusal(
        lambda: asked.update(
            captured=host.session(CHAIN, cpu_nodes=["on_cpu"], capture=True, profile=True)
        )
    )
    host.truth("a refusal has a message", refusal is None or bool(refusal.message))
    tensors = {how: _tensors(host, session) for how, session in asked.items()}
    for i in host.iterations():
        for salt in range(2):
            x = values(i, salt)
            for how, session in asked.items():
                got = _run_on(host, session, *tensors[how], x)
                host.check(f"y, {how}", -(x + x) * x, got)
    for session in asked.values():
        host.placed(
            CHAIN,
            session,
            {"first_on_device": host.ep_name, "on_cpu": CPU, "last_on_device": host.ep_name},
        )


def _tensors(host: Host, session: Session) -> tuple[Tensor, Tensor]:
    """Two device tensors of a session: for x, and for y."""
    allocator = host.device_allocator(session)
    return host.empty_device_tensor(allocator, SHAPE), host.empty_device_tensor(allocator, SHAPE)


def _run_on(
    host: Host,
    session: Session,
    x: Tensor,
    y: Tensor,
    array: npt.NDArray[Any],
    **others: Tensor,
) -> npt.NDArray[Any]:
    """What y holds after a Run on a new x that binds nothing: each Run copies what it must."""
    host.write(x, array)
    host.write(y, zeros())
    session.run({"x": x, **others}, {"y": y})
    return host.read(y)


@scenario(
    "capture/after-failed-run",
    cases={"another-graph": False, "same-graph": True},
    why="A run that failed is taken for a capture, or spoils the graphs that there are.",
)
def after_failed_run(host: Host, same: bool) -> None:
    """A run whose second node fails, under an id that nothing was captured for.

    Then a graph that was captured before, or a run under the id of the failure: its capture, and
    a replay.
    """
    session = host.session(NEGATE_AND_ADD, capture=True)
    allocator = host.device_allocator(session)
    bound, failing = (_bound(host, session, NEGATE_AND_ADD) for _ in range(2))
    too_long = host.device_tensor(allocator, np.zeros((SHAPE[0] + 1, SHAPE[1]), dtype=np.float32))
    failing.binding.bind_input("by", too_long)
    for i in host.iterations():
        x, by = values(i), values(i, salt=1)
        if not same:
            host.check("y before", by - x, bound.run(0, x=x, by=by))
        host.refused("a run with rows that do not fit", partial(failing.binding.run, i + 1))
        for again in range(2):
            x, by = values(i, salt=2 + again), values(i, salt=1)
            got = bound.run(i + 1 if same else 0, x=x, by=by)
            host.check(f"y after, {again}", by - x, got)
    host.placed(NEGATE_AND_ADD, session, dict.fromkeys(["negate", "add"], host.ep_name))


def _skipped_run(host: Host, session: Session, _graph: int) -> Callable[[int], None]:
    """A run without capture."""
    bound = _bound(host, session, LONG)

    def beside(salt: int) -> None:
        x = values(host.record.iteration or 0, salt)
        host.check("y without capture", -x, bound.run(_SKIP, x=x))

    return beside


def _bind_input(host: Host, session: Session, _graph: int) -> Callable[[int], None]:
    """An input bound from the CPU, and a run without capture that reads it."""
    bound = _bound(host, session, LONG)

    def beside(salt: int) -> None:
        x = values(host.record.iteration or 0, salt)
        feed = host.cpu_tensor(x)
        bound.binding.bind_input("x", feed)
        host.check("y of what was bound", -x, bound.run(_SKIP))
        feed.release()

    return beside


def _allocate(host: Host, session: Session, _graph: int) -> Callable[[int], None]:
    """The session's allocator asked for, and two tensors of it."""

    def beside(salt: int) -> None:
        allocator = host.device_allocator(session)
        arrays = [values(host.record.iteration or 0, salt + n) for n in range(2)]
        tensors = [host.device_tensor(allocator, array) for array in arrays]
        for tensor, array in zip(tensors, arrays, strict=True):
            host.check("what was written", array, host.read(tensor))
        for tensor in tensors:
            tensor.release()
        allocator.release()

    return beside


def _release(host: Host, session: Session, graph: int) -> Callable[[int], None]:
    """The replayed graph released, and one of its own captured and released."""
    bound = _bound(host, session, LONG)

    def beside(salt: int) -> None:
        session.release_captured_graph(_REPLAYED)
        x = values(host.record.iteration or 0, salt)
        host.check(f"y of graph {graph}", -x, bound.run(graph, x=x))
        session.release_captured_graph(graph)

    return beside


@scenario(
    "capture/beside-replay",
    cases={
        "run": _skipped_run,
        "bind-input": _bind_input,
        "allocate": _allocate,
        "release": _release,
    },
    why="A replay and another operation on its session, from other threads, spoil each other.",
)
def beside_replay(
    host: Host, prepare: Callable[[Host, Session, int], Callable[[int], None]]
) -> None:
    """One lane replays, the others do something else with the same session.

    A host keeps them apart where the EP says that it does not support concurrent runs.
    """
    session = host.session(LONG, capture=True)
    captured = _bound(host, session, LONG)
    beside = [prepare(host, session, _REPLAYED + lane) for lane in range(1, _LANES)]
    # Captured in this thread, and replayed in others.
    x = values(0)
    host.check("y of the capture", -x, captured.run(_REPLAYED, x=x))

    # In turn, the lanes are at work side by side from their first call on.
    rounds = _ROUNDS if host.mode == "concurrent" else 2

    def work(lane: int) -> None:
        i = host.record.iteration or 0
        for n in range(rounds):
            salt = 4 * (n * _LANES + lane)
            # Another lane replays in each iteration, since the first to start is often ahead.
            other = (lane + i) % _LANES
            if other:
                beside[other - 1](salt)
            else:
                host.check(
                    "y of the replay", -values(i, salt), captured.run(_REPLAYED, x=values(i, salt))
                )

    for _ in host.iterations():
        host.together(work, _LANES)
    host.placed(LONG, session, {f"negate_{n}": host.ep_name for n in range(41)})
