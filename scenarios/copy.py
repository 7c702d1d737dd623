"""Copies between CPU and device memory, before, within, after and without a Run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import permutations

import numpy as np

from harness.host.host import (
    CPU,
    FLOAT32,
    Host,
    NativeCallError,
    Session,
    Tensor,
    UnsupportedError,
)
from harness.host.scenario import scenario
from scenarios.models import (
    CROSSING,
    NEGATE,
    NEGATE_AND_MOVE,
    SHAPE,
    TWO_BRANCHES,
    WEIGHTED,
    WEIGHTS,
)
from scenarios.runs import another_device, negated, rounds, where_negated
from scenarios.values import patterned, values, zeros

__all__ = [
    "after_a_rejected_copy",
    "after_a_rejected_stream",
    "batch",
    "cpu_io",
    "deferred_producer",
    "device_cpu_device",
    "element_types",
    "large",
    "mixed_directions",
    "mixed_inputs",
    "mixed_outputs",
    "no_way",
    "overlapping",
    "part_of_a_buffer",
    "round_trip",
    "shared_then_run",
    "sizes",
    "source_reused",
    "steady_time",
    "stream_order",
    "stream_then_run",
    "too_small",
    "weights",
]

_ORDERS = {"device-first": True, "cpu-first": False}

_SLOWER_S = 0.1
"""More than a busy machine adds to the shortest of five runs."""


@scenario("copy/cpu-io", why="A plain Run that feeds and fetches CPU tensors gives wrong values.")
def cpu_io(host: Host) -> None:
    """Feed a CPU tensor, fetch into one that ORT allocates."""
    session = host.session(NEGATE)
    for i in host.iterations():
        feed = host.cpu_tensor(values(i))
        fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
        host.check("y", -values(i), host.read(fetched))
        fetched.release()
        feed.release()
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "copy/mixed-inputs",
    cases=_ORDERS,
    why="A feed on the other side of the bus is copied too late, or not at all.",
)
def mixed_inputs(host: Host, device_first: bool) -> None:
    """Feed the CPU node a device tensor and the device node a CPU tensor in the same Run."""
    session = host.session(TWO_BRANCHES, cpu_nodes=["on_cpu"])
    allocator = host.device_allocator(session)
    for i in host.iterations():
        to_device, to_cpu = values(i), values(i, salt=1)
        feeds = {
            "device_in": host.cpu_tensor(to_device),
            "cpu_in": host.device_tensor(allocator, to_cpu),
        }
        fetches = {"device_out": FLOAT32, "cpu_out": FLOAT32}
        if not device_first:
            feeds = dict(reversed(feeds.items()))
            fetches = dict(reversed(fetches.items()))
        fetched = session.run(feeds, fetches)
        host.check("device_out", -to_device, host.read(fetched["device_out"]))
        host.check("cpu_out", -to_cpu, host.read(fetched["cpu_out"]))
        for tensor in (*fetched.values(), *feeds.values()):
            tensor.release()
    host.placed(TWO_BRANCHES, session, {"on_device": host.ep_name, "on_cpu": CPU})


@scenario(
    "copy/mixed-outputs",
    cases=_ORDERS,
    why="A result is fetched before the work that makes it was submitted: 0 where -1 was due.",
)
def mixed_outputs(host: Host, device_first: bool) -> None:
    """Fetch the device branch into a CPU tensor and the CPU branch into a device tensor."""
    session = host.session(TWO_BRANCHES, cpu_nodes=["on_cpu"])
    allocator = host.device_allocator(session)
    device_in = host.empty_device_tensor(allocator, values(0).shape)
    cpu_out = host.empty_device_tensor(allocator, values(0).shape)
    for i in host.iterations():
        on_device, on_cpu = values(i), values(i, salt=1)
        host.write(device_in, on_device)
        host.write(cpu_out, zeros())
        device_out = host.cpu_tensor(zeros())
        cpu_in = host.cpu_tensor(on_cpu)
        feeds = {"device_in": device_in, "cpu_in": cpu_in}
        fetches = {"device_out": device_out, "cpu_out": cpu_out}
        if not device_first:
            feeds = dict(reversed(feeds.items()))
            fetches = dict(reversed(fetches.items()))
        session.run(feeds, fetches)
        host.check("device_out", -on_device, host.read(device_out))
        host.check("cpu_out", -on_cpu, host.read(cpu_out))
        device_out.release()
        cpu_in.release()
    host.placed(TWO_BRANCHES, session, {"on_device": host.ep_name, "on_cpu": CPU})


@scenario(
    "copy/device-cpu-device",
    why="A value that crosses to the CPU EP and back within a Run is stale on either side.",
)
def device_cpu_device(host: Host) -> None:
    """One chain of five nodes: device, CPU, device, CPU, device."""
    session = host.session(CROSSING, cpu_nodes=["on_cpu", "again_on_cpu"])
    for i in host.iterations():
        x = values(i)
        feed = host.cpu_tensor(x)
        fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
        host.check("y", (x + x) * x + x, host.read(fetched))
        fetched.release()
        feed.release()
    on_device = ["first_on_device", "between_on_device", "last_on_device"]
    on_cpu = ["on_cpu", "again_on_cpu"]
    host.placed(
        CROSSING,
        session,
        {**dict.fromkeys(on_device, host.ep_name), **dict.fromkeys(on_cpu, CPU)},
    )


@scenario(
    "copy/round-trip",
    why="A copy to the device, within it or back from it loses what it should carry.",
)
def round_trip(host: Host) -> None:
    """Host to device, device to device, device to host, with nothing else between."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    first, second = (host.empty_device_tensor(allocator, SHAPE) for _ in range(2))
    for i in host.iterations():
        host.write(first, values(i))
        host.copy([first], [second])
        host.write(first, values(i, salt=1))
        host.check("the copy", values(i), host.read(second))
        host.check("what was copied, written anew", values(i, salt=1), host.read(first))
    where_negated(host, session)


@scenario(
    "copy/batch",
    cases={"without-stream": False, "on-stream": True},
    why="A batch of copies drops one, swaps two, or does some of them out of their order.",
)
def batch(host: Host, on_stream: bool) -> None:
    """Three batches of three pairs each, to, within and from the device, in every order."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    orders = list(permutations(range(3)))
    there, beside = ([host.empty_device_tensor(allocator, SHAPE) for _ in range(3)] for _ in "ab")
    for i in host.iterations():
        order, other = orders[i % 6], orders[(i + 1 + i // 6) % 6]
        sources = [host.cpu_tensor(values(i, salt=n)) for n in range(3)]
        back = [host.cpu_tensor(zeros()) for _ in range(3)]
        stream = host.stream() if on_stream else None
        host.copy(sources, [there[n] for n in order], stream)
        host.copy([there[n] for n in other], beside, stream)
        host.copy(beside, back, stream)
        if stream is not None:
            stream.release()
        for n in range(3):
            salt = order.index(other[n])
            host.check(f"pair {n} of {order} and {other}", values(i, salt), host.read(back[n]))
        for tensor in (*sources, *back):
            tensor.release()
    where_negated(host, session)


@scenario(
    "copy/mixed-directions",
    why="A batch to and from the device, which ORT refuses, is half done or spoils the next copy.",
)
def mixed_directions(host: Host) -> None:
    """ORT takes one direction a batch, before the plugin sees any of it."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    there, from_there = (host.empty_device_tensor(allocator, SHAPE) for _ in range(2))
    for i in host.iterations():
        host.write(there, values(i))
        host.write(from_there, values(i, salt=1))
        up, down = host.cpu_tensor(values(i, salt=2)), host.cpu_tensor(zeros())
        _refused(host, "a batch of two directions", [up, from_there], [there, down])
        host.check("the destination on the device", values(i), host.read(there))
        host.check("the destination on the CPU", zeros(), host.read(down))
        host.copy([up], [there])
        host.copy([from_there], [down])
        host.check("the device, one by one", values(i, salt=2), host.read(there))
        host.check("the CPU, one by one", values(i, salt=1), host.read(down))
        for tensor in (up, down):
            tensor.release()
    where_negated(host, session)


@scenario(
    "copy/stream-order",
    why="Copies on one stream are done in another order than that of their calls.",
)
def stream_order(host: Host) -> None:
    """A buffer is written, read and written again; each step needs the one before."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    first, second = (host.empty_device_tensor(allocator, SHAPE) for _ in range(2))
    for i in host.iterations():
        stream = host.stream()
        early, late = host.cpu_tensor(values(i)), host.cpu_tensor(values(i, salt=1))
        early_back, late_back = host.cpu_tensor(zeros()), host.cpu_tensor(zeros())
        host.copy([early], [first], stream)
        host.copy([first], [second], stream)
        host.copy([late], [first], stream)
        host.copy([second], [early_back], stream)
        host.copy([first], [late_back], stream)
        stream.release()
        host.check("what was written first", values(i), host.read(early_back))
        host.check("what was written last", values(i, salt=1), host.read(late_back))
        for tensor in (early, late, early_back, late_back):
            tensor.release()
    where_negated(host, session)


@scenario(
    "copy/source-reused",
    why="A copy on a stream reads its CPU source after the call, when that has changed.",
)
def source_reused(host: Host) -> None:
    """One CPU array is the source of two copies on a stream, changed after each call."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    destinations = [host.empty_device_tensor(allocator, SHAPE) for _ in range(2)]
    array = zeros()
    source = host.cpu_tensor(array)
    for i in host.iterations():
        stream = host.stream()
        back = [host.cpu_tensor(zeros()) for _ in destinations]
        for n, destination in enumerate(destinations):
            array[:] = values(i, salt=n)
            host.copy([source], [destination], stream)
        array[:] = -1
        host.copy(destinations, back, stream)
        stream.release()
        for n, tensor in enumerate(back):
            host.check(f"copy {n}", values(i, salt=n), host.read(tensor))
            tensor.release()
    where_negated(host, session)


@scenario(
    "copy/stream-then-run",
    why="A Run on a stream does not wait for the copies that were asked for on it before.",
)
def stream_then_run(host: Host) -> None:
    """Copy in, Run and copy out on one stream, with no wait between."""
    session = host.session(NEGATE)
    allocator = host.shared_allocator()
    x, y = (host.empty_device_tensor(allocator, SHAPE) for _ in range(2))
    for i in host.iterations():
        stream = host.stream()
        source, back = host.cpu_tensor(values(i)), host.cpu_tensor(zeros())
        host.copy([source], [x], stream)
        session.run({"x": x}, {"y": y}, stream=stream)
        host.copy([y], [back], stream)
        stream.release()
        host.check("y", -values(i), host.read(back))
        for tensor in (source, back):
            tensor.release()
    where_negated(host, session)


@scenario(
    "copy/shared-then-run",
    why="A Run reads an environment's buffer before the copy into it is done, or after the next.",
)
def shared_then_run(host: Host) -> None:
    """Two copies into one buffer of the shared allocator, each followed by a Run at once."""
    session = host.session(NEGATE)
    allocator = host.shared_allocator()
    x = host.empty_device_tensor(allocator, SHAPE)
    outputs = [host.device_tensor(allocator, zeros()) for _ in range(2)]
    for i in host.iterations():
        for n, y in enumerate(outputs):
            host.write(x, values(i, salt=n))
            session.run({"x": x}, {"y": y})
        for n, y in enumerate(outputs):
            host.check(f"y of run {n}", -values(i, salt=n), host.read(y))
    where_negated(host, session)


@scenario(
    "copy/deferred-producer",
    cases={name: name for name in NEGATE_AND_MOVE},
    why="A kernel that only moves elements copies before the work that makes them was executed.",
)
def deferred_producer(host: Host, name: str) -> None:
    """Neg, then a kernel that has nothing to compute, into two preallocated outputs."""
    model = NEGATE_AND_MOVE[name]
    shape = model.outputs["y"]
    session = host.session(model)
    allocator = host.device_allocator(session)
    x = host.empty_device_tensor(allocator, model.inputs["x"])
    outputs = {n: host.empty_device_tensor(allocator, s) for n, s in model.outputs.items()}
    for i in host.iterations():
        line = values(i).ravel()
        host.write(x, line)
        for tensor in outputs.values():
            host.write(tensor, np.zeros(tensor.shape, dtype=np.float32))
        session.run({"x": x}, outputs)
        host.check("y", -line.reshape(shape), host.read(outputs["y"]))
        host.check("negated", -line, host.read(outputs["negated"]))
    host.placed(model, session, {"negate": host.ep_name, "move": host.ep_name})


@scenario(
    "copy/weights",
    why="A model's weights do not reach the device, or it is those of another session that do.",
)
def weights(host: Host) -> None:
    """A session that stays, and one at a time beside it that has other weights than the last."""
    staying = host.session(WEIGHTED[0])
    for i in host.iterations():
        # What was freed by the last one holds the weights of another model.
        n = 1 + i % (len(WEIGHTED) - 1)
        passing = host.session(WEIGHTED[n])
        for salt in range(2):
            _weighted(host, staying, 0, salt)
            _weighted(host, passing, n, salt)
        if i == 0:
            host.placed(WEIGHTED[n], passing, {"scale": host.ep_name, "shift": host.ep_name})
        passing.release()
    host.placed(WEIGHTED[0], staying, {"scale": host.ep_name, "shift": host.ep_name})


def _weighted(host: Host, session: Session, n: int, salt: int) -> None:
    x = values(host.record.iteration or 0, salt)
    scale, bias = WEIGHTS[n]
    feed = host.cpu_tensor(x)
    fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
    host.check(f"y of model {n}", x * scale + bias, host.read(fetched))
    fetched.release()
    feed.release()


_SIZES = (0, 1, 2, 3, 4, 5, 63, 255, 256, 257, 1021, 4096, 65_537)


@scenario(
    "copy/sizes",
    why="A size that the device does not like is rounded, so that bytes are lost or run over.",
)
def sizes(host: Host) -> None:
    """Bytes from none at all to some pages, within the device and back; neighbours stay."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    for i in host.iterations():
        for size in _SIZES:
            there = host.device_tensor(allocator, patterned((size,), i, np.uint8))
            beside = host.device_tensor(allocator, patterned((size,), i, np.uint8, salt=1))
            guarded = np.full(size + 8, 255, dtype=np.uint8)
            back = host.cpu_tensor(guarded[:size])
            host.copy([there], [beside])
            host.copy([beside], [back])
            host.check(f"{size} bytes", patterned((size,), i, np.uint8), host.read(back))
            host.check("behind them", np.full(8, 255, dtype=np.uint8), guarded[size:])
            for tensor in (back, beside, there):
                tensor.release()
    where_negated(host, session)


@scenario(
    "copy/large",
    why="A copy that is larger than a staging buffer ends at the buffer's end.",
    timeout_s=120,
)
def large(host: Host) -> None:
    """64 MB there and back once, some more than 1 MB in every other iteration."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    for i in host.iterations():
        array = patterned((2**26 if i == 0 else 2**20 + 4093 * i,), i, np.uint8)
        tensor = host.device_tensor(allocator, array)
        host.check(f"{array.nbytes} bytes", array, host.read(tensor))
        tensor.release()
    where_negated(host, session)


_ELEMENT_TYPES = (
    *("float32", "float64", "float16", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


@scenario(
    "copy/element-types",
    why="A copy takes every element for one of four bytes.",
)
def element_types(host: Host) -> None:
    """Every element type there, within the device and back; no kernel is needed for that."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    shape = (5, 7)
    for i in host.iterations():
        for name in _ELEMENT_TYPES:
            array = patterned(shape, i, name)
            there = host.device_tensor(allocator, array)
            beside = host.empty_device_tensor(allocator, shape, array.dtype)
            host.copy([there], [beside])
            host.check(name, array, host.read(beside))
            for tensor in (beside, there):
                tensor.release()
    where_negated(host, session)


@scenario(
    "copy/part-of-a-buffer",
    why="A copy to or from the middle of a buffer goes to or from its start.",
)
def part_of_a_buffer(host: Host) -> None:
    """Parts of one buffer, written, copied to each other and read at their own places."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    whole = host.empty_device_tensor(allocator, (24,))
    parts = [host.part(whole, 6 * n, SHAPE) for n in range(4)]
    for i in host.iterations():
        host.write(whole, np.zeros(24, dtype=np.float32))
        host.write(parts[1], values(i))
        host.copy([parts[1]], [parts[3]])
        host.write(parts[2], values(i, salt=1))
        expected = [zeros(), values(i), values(i, salt=1), values(i)]
        host.check("the whole", np.concatenate([e.ravel() for e in expected]), host.read(whole))
        host.check("a part", values(i, salt=1), host.read(parts[2]))
    where_negated(host, session)


@scenario(
    "copy/too-small",
    cases={"to-device": (True, False), "to-cpu": (False, True), "on-device": (False, False)},
    why="A destination that is too small is overrun, ends the process, or is silently cut.",
)
def too_small(host: Host, ends_on_cpu: tuple[bool, bool]) -> None:
    """Six elements into two: an error with a message, and everything as it was."""
    source_on_cpu, destination_on_cpu = ends_on_cpu
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    for i in host.iterations():
        before = values(i, salt=1).ravel()
        # The room behind a CPU destination is ours too: what runs over it harms nobody.
        room = before.copy()
        source = (
            host.cpu_tensor(values(i))
            if source_on_cpu
            else host.device_tensor(allocator, values(i))
        )
        destination = (
            host.cpu_tensor(room[:2])
            if destination_on_cpu
            else host.device_tensor(allocator, before[:2])
        )
        _refused(host, "a destination that is too small", [source], [destination])
        host.check("what it held", before[:2], host.read(destination))
        host.check("what is behind it", before[2:], room[2:])
        for tensor in (destination, source):
            tensor.release()
    where_negated(host, session)


@scenario(
    "copy/overlapping",
    cases={"itself": 0, "shifted": 2},
    why="A copy onto its own source ends the process, or is taken for one that can be done.",
)
def overlapping(host: Host, shift: int) -> None:
    """A destination that is the source, or begins two elements into it: an error."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    whole = host.empty_device_tensor(allocator, (8,))
    source, destination = whole, whole
    if shift:
        source, destination = host.part(whole, 0, SHAPE), host.part(whole, shift, SHAPE)
    for i in host.iterations():
        before = patterned((8,), i)
        host.write(whole, before)
        _refused(host, "a destination on its own source", [source], [destination])
        host.check("what it held", before, host.read(whole))
    where_negated(host, session)


@scenario(
    "copy/no-way",
    cases={"to-elsewhere": True, "from-elsewhere": False},
    why="A copy between the device and memory of somebody else's is taken, and nothing is copied.",
)
def no_way(host: Host, there: bool) -> None:
    """The other end is said to be on a device that nobody drives."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    ours = host.empty_device_tensor(allocator, SHAPE)
    array = zeros()
    elsewhere = host.foreign_tensor(array)
    source, destination = (ours, elsewhere) if there else (elsewhere, ours)
    for i in host.iterations():
        host.write(ours, values(i))
        array[:] = values(i, salt=1)
        _refused(host, "a copy from one device to another", [source], [destination])
        host.check("the tensor on the device", values(i), host.read(ours))
        host.check("the tensor elsewhere", values(i, salt=1), array)
    where_negated(host, session)


@scenario(
    "copy/after-a-rejected-copy",
    why="An error of a copy is not over when it was reported: later Runs fail or wait.",
    timeout_s=20,
)
def after_a_rejected_copy(host: Host) -> None:
    """After each refusal a Run of that session, and one of a session that is made after one."""
    session = host.session(NEGATE)
    tensor = host.empty_device_tensor(host.device_allocator(session), SHAPE)
    other = None
    for _ in host.iterations():
        _must_refuse(host, tensor)
        negated(host, session)
        other = other or host.session(NEGATE)
        negated(host, other, salt=1)
    where_negated(host, session)


def _refused(
    host: Host, what: str, sources: Sequence[Tensor], destinations: Sequence[Tensor]
) -> None:
    host.refused(what, partial(host.copy, sources, destinations))


def _must_refuse(host: Host, tensor: Tensor) -> None:
    """Copy a tensor onto itself, for the sake of the error; that it is one, others check."""
    try:
        host.copy([tensor], [tensor])
    except NativeCallError:
        return
    raise UnsupportedError("a copy that the plugin refuses", "it takes one of a tensor onto itself")


@scenario(
    "copy/after-a-rejected-stream",
    why="A Run that was refused for its stream leaves the session, or another, unable to run.",
    timeout_s=20,
)
def after_a_rejected_stream(host: Host) -> None:
    """The stream of another EP device cannot stand for one of the session's own."""
    session, bystander = host.session(NEGATE), host.session(NEGATE)
    foreign = host.stream(another_device(host))
    own = host.stream()
    feed = host.cpu_tensor(zeros())
    for i in host.iterations():
        host.refused(
            "a stream of another device",
            lambda: session.run({"x": feed}, {"y": FLOAT32}, stream=foreign),
        )
        negated(host, session)
        negated(host, bystander, salt=1)
        x = host.cpu_tensor(values(i, salt=2))
        fetched = session.run({"x": x}, {"y": FLOAT32}, stream=own)["y"]
        host.check("y on a stream of its own device", -values(i, salt=2), host.read(fetched))
        for tensor in (fetched, x):
            tensor.release()
    where_negated(host, session)


@scenario(
    "copy/steady-time",
    why="Each Run takes longer than the one before.",
)
def steady_time(host: Host) -> None:
    """The shortest of the last runs beside the shortest of the first, for busy machines' sake."""
    session = host.session(NEGATE)
    times = []
    for _ in host.iterations():
        for _ in rounds(host, 20):
            began = time.perf_counter()
            negated(host, session)
            times.append(time.perf_counter() - began)
    first, last = min(times[:5]), min(times[-5:])
    slower = f"it took {1000 * first:.1f} ms, and {1000 * last:.1f} ms in the end"
    host.truth("a run takes no longer than before", last - first < _SLOWER_S, slower)
    where_negated(host, session)
