"""Device memory: whose it is, what is in it, where it lies, and that it comes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.host.host import FLOAT32, Handle, Host, Session, Tensor, UnsupportedError
from harness.host.scenario import scenario
from scenarios.models import LARGE, MIN_CHAIN, NEGATE, NEGATE_LARGE, SHAPE
from scenarios.runs import another_device, grown, negated, rounds, where_negated
from scenarios.values import patterned, values, zeros

__all__ = [
    "after_anothers_release",
    "alignment",
    "dedicated_session",
    "devices_side_by_side",
    "dirty_bind_input",
    "live_buffers",
    "release_orders",
    "released_in_flight",
    "scratch_reuse",
    "session_leak",
    "statistics",
    "steady_memory",
    "zeroed",
]

Allocators = Callable[[Host, Session], Handle]

_ALLOCATORS: dict[str, Allocators] = {
    "session": lambda host, session: host.device_allocator(session),
    "environment": lambda host, _session: host.shared_allocator(),
}

_DIRTY_BUFFERS = 4
_UINT8: np.dtype[Any] = np.dtype(np.uint8)


@scenario(
    "allocation/dirty-bind-input",
    why="A reused buffer is cleared after BindInput wrote to it, or keeps what it held before.",
)
def dirty_bind_input(host: Host) -> None:
    """Fill, free and reuse device buffers, then bind a CPU value outside Run."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    binding = session.io_binding()
    result = host.empty_device_tensor(allocator, SHAPE)
    binding.bind_output("y", result)
    for i in host.iterations():
        dirt = [
            host.device_tensor(allocator, np.full(SHAPE, 9000 + i + n, dtype=np.float32))
            for n in range(_DIRTY_BUFFERS)
        ]
        for tensor in dirt:
            tensor.release()
        bound = host.cpu_tensor(values(i))
        binding.bind_input("x", bound)
        binding.run()
        host.check("y", -values(i), host.read(result))
        bound.release()
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "allocation/scratch-reuse",
    why="Scratch tensors of two kernels share a buffer while both are in use.",
)
def scratch_reuse(host: Host) -> None:
    """Two chained four-input Min nodes, which need scratch tensors in the kernel."""
    session = host.session(MIN_CHAIN)
    for i in host.iterations():
        arrays = _inputs(i)
        feeds = {name: host.cpu_tensor(array) for name, array in arrays.items()}
        fetched = session.run(feeds, {"y": FLOAT32})["y"]
        host.check("y", values(i), host.read(fetched))
        for tensor in (fetched, *feeds.values()):
            tensor.release()
    host.placed(MIN_CHAIN, session, dict.fromkeys(["first_min", "second_min"], host.ep_name))


def _inputs(iteration: int) -> dict[str, npt.NDArray[Any]]:
    """Seven inputs whose least value is `values(iteration)`, each element's in another input.

    The input that decides an element moves on with the iteration, so that no input can be
    ignored, or read from another's buffer, without a wrong result.
    """
    names = list(MIN_CHAIN.inputs)
    least = values(iteration).ravel()
    inputs = {name: least + np.float32(100 * (n + 1)) for n, name in enumerate(names)}
    for element in range(least.size):
        inputs[names[(element + iteration) % len(names)]][element] = least[element]
    return {name: array.reshape(SHAPE) for name, array in inputs.items()}


_BYTES = (1, 3, 24, 255, 256, 257, 4096, 70_001)


@scenario(
    "allocation/live-buffers",
    cases=_ALLOCATORS,
    why="Two buffers that are in use at the same time share memory.",
)
def live_buffers(host: Host, allocators: Allocators) -> None:
    """Twelve buffers of many sizes, the oldest three replaced in each iteration."""
    session = host.session(NEGATE)
    allocator = allocators(host, session)
    live: deque[tuple[Tensor, npt.NDArray[Any]]] = deque()
    made = 0
    for i in host.iterations():
        while len(live) > 9:
            live.popleft()[0].release()
        while len(live) < 12:
            array = patterned((_BYTES[made % len(_BYTES)],), i, np.uint8, salt=made)
            live.append((host.device_tensor(allocator, array), array))
            made += 1
        for n, (tensor, array) in enumerate(live):
            host.check(f"buffer {n}, of {array.size} bytes", array, host.read(tensor))
        _lie_apart(host, [tensor for tensor, _ in live])
    where_negated(host, session)


def _lie_apart(host: Host, tensors: Sequence[Tensor]) -> None:
    """Check addresses: that they differ, and where one can reckon with them, that ranges do."""
    ends = sorted((host.address(one), one.shape[0] * one.dtype.itemsize) for one in tensors)
    host.truth("every buffer has an address", ends[0][0] != 0)
    for (first, size), (second, _) in pairwise(ends):
        needed = size if host.promises.byte_addresses else 1
        host.truth(
            "no two buffers have a byte in common",
            first + needed <= second,
            f"{size} bytes at {first:#x} reach to {second:#x}",
        )


@scenario(
    "allocation/zeroed",
    cases=_ALLOCATORS,
    why="New memory that is said to be zero holds what its last owner left in it.",
)
def zeroed(host: Host, allocators: Allocators) -> None:
    """A buffer is filled and released, and one of that size asked for again, several at once."""
    session = host.session(NEGATE)
    host.promised("zeroed_memory")
    allocator = allocators(host, session)
    for i in host.iterations():
        for size in _BYTES:
            tensors = [host.empty_device_tensor(allocator, (size,), _UINT8) for _ in range(2)]
            for n, tensor in enumerate(tensors):
                what = f"new memory of {size} bytes"
                host.check(what, np.zeros(size, dtype=np.uint8), host.read(tensor))
                host.write(tensor, patterned((size,), i, np.uint8, salt=n))
            for tensor in tensors:
                tensor.release()
    where_negated(host, session)


@scenario(
    "allocation/alignment",
    cases=_ALLOCATORS,
    why="An address does not have the alignment that is promised.",
)
def alignment(host: Host, allocators: Allocators) -> None:
    """Buffers of sizes that are no multiple of it, several at once."""
    session = host.session(NEGATE)
    promised = host.promised("alignment")
    allocator = allocators(host, session)
    for i in host.iterations():
        sizes = [size + i for size in _BYTES]
        tensors = [host.empty_device_tensor(allocator, (size,), _UINT8) for size in sizes]
        for tensor in tensors:
            address = host.address(tensor)
            what = f"an address is a multiple of {promised}"
            host.truth(what, address % promised == 0, f"{address:#x}")
            tensor.release()
    where_negated(host, session)


@scenario(
    "allocation/dedicated-session",
    why="Memory of a session that never runs is used before that session has made it ready.",
)
def dedicated_session(host: Host) -> None:
    """One session only allocates; another runs with its memory, in and out."""
    allocator = host.device_allocator(host.session(NEGATE))
    session = host.session(NEGATE)
    for i in host.iterations():
        x = host.device_tensor(allocator, values(i))
        # Nothing but its allocation has happened to it when the other session writes to it.
        y = host.empty_device_tensor(allocator, SHAPE)
        session.run({"x": x}, {"y": y})
        host.check("y", -values(i), host.read(y))
        for tensor in (x, y):
            tensor.release()
    where_negated(host, session)


@scenario(
    "allocation/release-orders",
    why="The release of one buffer takes another's memory, in an order that nobody tried.",
)
def release_orders(host: Host) -> None:
    """Four buffers, released in all 24 orders; what is asked for between is written at once."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    orders = list(permutations(range(4)))
    for i in host.iterations():
        # Orders that lie far apart, so that few iterations meet many first and last ones.
        order = orders[7 * i % len(orders)]
        tensors = [host.device_tensor(allocator, values(i, salt=n)) for n in range(4)]
        new = []
        for place, n in enumerate(order):
            tensors[n].release()
            new.append(host.device_tensor(allocator, values(i, salt=10 + n)))
            for left in order[place + 1 :]:
                what = f"buffer {left} after {order[: place + 1]}"
                host.check(what, values(i, salt=left), host.read(tensors[left]))
        for n, tensor in zip(order, new, strict=True):
            host.check(f"the new buffer {n}", values(i, salt=10 + n), host.read(tensor))
            tensor.release()
    where_negated(host, session)


@scenario(
    "allocation/released-in-flight",
    why="A buffer has a new owner while a copy into it still waits on a stream.",
)
def released_in_flight(host: Host) -> None:
    """A buffer is released behind a copy on a stream; what comes next must not be written over."""
    session = host.session(NEGATE)
    allocator = host.shared_allocator()
    for i in host.iterations():
        stream = host.stream()
        source = host.cpu_tensor(values(i))
        first = host.empty_device_tensor(allocator, SHAPE)
        host.copy([source], [first], stream)
        first.release()
        second = host.device_tensor(allocator, values(i, salt=1))
        stream.release()
        host.check("the second owner's content", values(i, salt=1), host.read(second))
        for tensor in (second, source):
            tensor.release()
    where_negated(host, session)


@scenario(
    "allocation/statistics",
    why="What an allocator says of itself does not add up, or it is no number.",
)
def statistics(host: Host) -> None:
    """One buffer of a megabyte: the counts with it beside those before and after."""
    session = host.session(NEGATE)
    allocator = host.shared_allocator()
    size = 2**20
    for i in host.iterations():
        before = _counts(host, allocator)
        tensor = host.device_tensor(allocator, patterned((size,), i, np.uint8))
        during = _counts(host, allocator)
        tensor.release()
        after = _counts(host, allocator)
        host.truth("no count is negative", min(during.values()) >= 0, during)
        # An allocator may round a size up, and may not have every count.
        for name, least in (
            ("InUse", before.get("InUse", 0) + size),
            ("NumAllocs", before.get("NumAllocs", 0) + 1),
            ("MaxAllocSize", size),
            ("MaxInUse", during.get("InUse", 0)),
        ):
            if name in during:
                host.truth(f"{name} is {least} or more", during[name] >= least, during[name])
        if "InUse" in before:
            what = "InUse comes back to what it was"
            host.truth(what, after["InUse"] == before["InUse"], f"{before} became {after}")
    where_negated(host, session)


_COUNTS = ("InUse", "MaxAllocSize", "MaxInUse", "NumAllocs", "TotalAllocated")


def _counts(host: Host, allocator: Handle) -> Mapping[str, int]:
    """The counts among an allocator's statistics that ORT gave a name.

    Raises:
        UnsupportedError: it has none of them.
    """
    known = host.statistics(allocator)
    found = {name: known[name] for name in _COUNTS if name in known}
    if not found:
        raise UnsupportedError(f"one of {', '.join(_COUNTS)}", f"it has {', '.join(known)}")
    numbers = {}
    for name, text in found.items():
        with suppress(ValueError):
            numbers[name] = int(text)
    host.truth("every count is a number", numbers.keys() == found.keys(), found)
    return numbers


@dataclass(frozen=True)
class _Gauge:
    """A measure of memory in use."""

    read: Callable[[Host], int]
    may_grow: int
    """Bytes that it may grow by without a leak."""


def _in_use(host: Host) -> int:
    counts = _counts(host, host.shared_allocator())
    if "InUse" not in counts:
        raise UnsupportedError("an allocator's count InUse", f"it has {', '.join(counts)}")
    return counts["InUse"]


_GAUGES = {
    # The process's own allocators come to a plateau by steps.
    "process": _Gauge(lambda host: host.resident_bytes(), 4 * 2**20),
    "statistics": _Gauge(_in_use, 0),
}
_ROUNDS = 20
_ROUNDS_TO_FILL = 25
"""In so many rounds of four buffers, a pool that may keep some hundred of them has come to that."""


def _stays(host: Host, gauge: _Gauge, seen: Sequence[int], unsettled: int = 0) -> None:
    """Check that what was in use after each round did not grow, the unsettled ones left out."""
    more = grown(seen, unsettled)
    told = f"it grew by {more} bytes while it was looked at in {len(seen)} rounds"
    host.truth("the memory in use stays as it is", more <= gauge.may_grow, told)


@scenario(
    "allocation/steady-memory",
    cases=_GAUGES,
    why="What a Run or a tensor took does not come back: memory grows.",
)
def steady_memory(host: Host, gauge: _Gauge) -> None:
    """Two sessions run with new device tensors of 1 MB, again and again."""
    sessions = [host.session(NEGATE_LARGE) for _ in range(2)]
    allocators = [host.device_allocator(session) for session in sessions]
    seen = []
    for i in host.iterations():
        for _ in rounds(host, 2 * _ROUNDS):
            for n, (session, allocator) in enumerate(zip(sessions, allocators, strict=True)):
                array = patterned(LARGE, i, salt=n)
                x = host.device_tensor(allocator, array)
                y = host.empty_device_tensor(allocator, LARGE)
                session.run({"x": x}, {"y": y})
                host.check("y", -array, host.read(y))
                for tensor in (x, y):
                    tensor.release()
            seen.append(gauge.read(host))
    _stays(host, gauge, seen, _ROUNDS_TO_FILL)
    host.placed(NEGATE_LARGE, sessions[0], {"negate": host.ep_name})


@scenario(
    "allocation/session-leak",
    cases=_GAUGES,
    why="A session keeps memory when it is released.",
)
def session_leak(host: Host, gauge: _Gauge) -> None:
    """Sessions that come, run and go, beside one that stays."""
    staying = host.session(NEGATE)
    seen = []
    for _ in host.iterations():
        for _ in rounds(host, _ROUNDS):
            passing = host.session(NEGATE)
            negated(host, passing)
            passing.release()
            seen.append(gauge.read(host))
    _stays(host, gauge, seen)
    where_negated(host, staying)


@scenario(
    "allocation/devices-side-by-side",
    why="The second EP device of a kind takes the place of the first, or of its allocator.",
)
def devices_side_by_side(host: Host) -> None:
    """The shared allocators of two EP devices in turn, and a session on each."""
    first = host.session(NEGATE)
    devices = [host.device, another_device(host)]
    sessions = [first, host.session(NEGATE, device=devices[1])]
    allocators = [host.shared_allocator(device) for device in devices]
    for i in host.iterations():
        inputs = [host.device_tensor(one, values(i, salt=n)) for n, one in enumerate(allocators)]
        outputs = [host.device_tensor(one, zeros()) for one in allocators]
        for session, x, y in zip(sessions, inputs, outputs, strict=True):
            session.run({"x": x}, {"y": y})
        for n, (x, y) in enumerate(zip(inputs, outputs, strict=True)):
            host.check(f"x on device {n}", values(i, salt=n), host.read(x))
            host.check(f"y on device {n}", -values(i, salt=n), host.read(y))
        for tensor in (*inputs, *outputs):
            tensor.release()
    for session in sessions:
        where_negated(host, session)


@scenario(
    "allocation/after-anothers-release",
    why="An allocator gives nothing, or wrong memory, once another one was released.",
)
def after_anothers_release(host: Host) -> None:
    """The allocator of a session that stays, and the shared one, after a session has gone."""
    staying = host.session(NEGATE)
    allocators = [host.device_allocator(staying), host.shared_allocator()]
    kept = [host.device_tensor(allocator, zeros()) for allocator in allocators]
    for i in host.iterations():
        passing = host.session(NEGATE)
        allocator = host.device_allocator(passing)
        host.device_tensor(allocator, values(i)).release()
        for n, tensor in enumerate(kept):
            host.write(tensor, values(i, salt=n))
        allocator.release()
        passing.release()
        for n, (allocator, tensor) in enumerate(zip(allocators, kept, strict=True)):
            host.check(f"memory of before, {n}", values(i, salt=n), host.read(tensor))
            new = host.device_tensor(allocator, values(i, salt=2 + n))
            host.check(f"memory of after, {n}", values(i, salt=2 + n), host.read(new))
            new.release()
    where_negated(host, staying)
