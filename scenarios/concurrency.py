"""Several threads: at once where the mode allows that, and in turn where it does not."""

from __future__ import annotations

from harness.host.host import Host
from harness.host.scenario import scenario
from scenarios.models import NEGATE
from scenarios.runs import negated, where_negated

__all__ = ["run_cpu_io"]

_LANES = 4


@scenario(
    "concurrency/run-cpu-io",
    why="Independent sessions that run at the same time take each other's values, or die.",
)
def run_cpu_io(host: Host) -> None:
    """Each lane runs a session of its own, with CPU feeds and fetches."""
    sessions = [host.session(NEGATE) for _ in range(_LANES)]
    for _ in host.iterations():
        host.together(lambda lane: negated(host, sessions[lane], salt=lane), _LANES)
    where_negated(host, sessions[0])
