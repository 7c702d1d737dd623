"""Graph capture: what a replay computes, and who drives it."""

from __future__ import annotations

from harness.host.host import Host, kernel_runs
from harness.host.scenario import scenario
from scenarios.models import NEGATE, SHAPE
from scenarios.values import values, zeros

__all__ = ["replay"]


@scenario(
    "capture/replay",
    why="A replay computes from the values of the capture, or does nothing.",
)
def replay(host: Host) -> None:
    """Capture on, input and output bound once, new values before every run.

    A run that the host replays leaves no kernel event in ORT's profile; a run that executes the
    kernels, in the host or in a replay of the plugin's own, leaves one.
    """
    session = host.session(NEGATE, capture=True, profile=True)
    allocator = host.device_allocator(session)
    bound_in = host.device_tensor(allocator, zeros())
    bound_out = host.empty_device_tensor(allocator, SHAPE)
    binding = session.io_binding()
    binding.bind_input("x", bound_in)
    binding.bind_output("y", bound_out)
    runs = 0
    for i in host.iterations():
        host.write(bound_in, values(i))
        host.write(bound_out, zeros())
        binding.run()
        runs += 1
        host.check("y", -values(i), host.read(bound_out))
    profile = host.profile_of(NEGATE, session)
    executed = kernel_runs(profile, "negate")
    host.counted_capture(runs=runs, kernel_runs=executed, host_replays=runs - executed)
    host.placed(NEGATE, session, {"negate": host.ep_name}, profile)
