"""Copies between CPU and device memory, before, within and after a Run."""

from __future__ import annotations

from harness.host.host import CPU, FLOAT32, Host
from harness.host.scenario import scenario
from scenarios.models import CHAIN, NEGATE, TWO_BRANCHES
from scenarios.values import values, zeros

__all__ = ["cpu_io", "device_cpu_device", "mixed_inputs", "mixed_outputs"]

_ORDERS = {"device-first": True, "cpu-first": False}


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
    """One chain of three nodes: device, CPU, device."""
    session = host.session(CHAIN, cpu_nodes=["on_cpu"])
    for i in host.iterations():
        x = values(i)
        feed = host.cpu_tensor(x)
        fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
        host.check("y", -(x + x) * x, host.read(fetched))
        fetched.release()
        feed.release()
    host.placed(
        CHAIN,
        session,
        {"first_on_device": host.ep_name, "on_cpu": CPU, "last_on_device": host.ep_name},
    )
