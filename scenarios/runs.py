"""Runs that more than one family needs."""

from __future__ import annotations

from collections.abc import Sequence

from harness.host.bare import BareHost, Registration, Scope
from harness.host.host import FLOAT32, Array, EpDevice, Host, Session, UnsupportedError
from scenarios.models import CHAIN, NEGATE, SHAPE
from scenarios.values import values, zeros

__all__ = [
    "Bound",
    "another_device",
    "chained",
    "grown",
    "negated",
    "offered",
    "rounds",
    "where_chained",
    "where_negated",
]


class Bound:
    """A session of one input `x` and one output `y`, bound to device tensors of its own."""

    def __init__(self, host: Host, session: Session) -> None:
        allocator = host.device_allocator(session)
        self._host = host
        self._x = host.device_tensor(allocator, zeros())
        self._y = host.empty_device_tensor(allocator, SHAPE)
        self._binding = session.io_binding()
        self._binding.bind_input("x", self._x)
        self._binding.bind_output("y", self._y)

    def run(self, x: Array, graph: int | None = None) -> Array:
        """Write the input and something else into the output, run, and read the output."""
        self._host.write(self._x, x)
        self._host.write(self._y, zeros())
        self._binding.run(graph)
        return self._host.read(self._y)


def another_device(host: Host) -> EpDevice:
    """An EP device of the plugin beside the driven one.

    Raises:
        UnsupportedError: it offers no other.
    """
    for device in host.devices:
        if device.pointer != host.device.pointer:
            return device
    raise UnsupportedError("a second EP device of the EP", "the plugin offers one")


def rounds(host: Host, least: int) -> range:
    """The rounds of one iteration, so many that all iterations together have at least so many."""
    return range(-(-least // host.iteration_count))


def grown(seen: Sequence[int], unsettled: int = 0) -> int:
    """By how much a measure grew that was taken after each round, for what stays that way.

    The first fifth does not count, since caches are filled in it, and the most of the quarter
    behind it is held against the least of the last quarter: what comes back is no growth.

    Args:
        seen: the measures, in their order.
        unsettled: so many of the first do not count, if that is more than a fifth.

    Returns:
        The growth, negative if it became less.
    """
    settled = seen[max(unsettled, len(seen) // 5) :]
    few = max(1, len(settled) // 4)
    return min(settled[-few:]) - max(settled[:few])


def negated(host: Host, session: Session, salt: int = 0) -> None:
    """One Run of `NEGATE` that feeds and fetches CPU tensors, checked."""
    x = values(host.record.iteration or 0, salt)
    feed = host.cpu_tensor(x)
    fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
    host.check("y", -x, host.read(fetched))
    fetched.release()
    feed.release()


def chained(host: Host, session: Session, salt: int = 0) -> None:
    """One Run of `CHAIN` that feeds and fetches CPU tensors, checked."""
    x = values(host.record.iteration or 0, salt)
    feed = host.cpu_tensor(x)
    fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
    host.check("y", -(x + x) * x, host.read(fetched))
    fetched.release()
    feed.release()


def offered(host: BareHost, registration: Registration, scope: Scope | None = None) -> Host:
    """The host that drives the EP device of a registration, which must offer one."""
    found = registration.device is not None
    host.truth("the registration offers an EP device", found, "none that fits")
    return host.on(registration, scope)


def where_negated(host: Host, session: Session) -> None:
    """State that the node of `NEGATE` ran on the plugin's EP."""
    host.placed(NEGATE, session, {"negate": host.ep_name})


def where_chained(host: Host, session: Session) -> None:
    """State that all nodes of `CHAIN` ran on the plugin's EP."""
    nodes = ("first_on_device", "on_cpu", "last_on_device")
    host.placed(CHAIN, session, dict.fromkeys(nodes, host.ep_name))
