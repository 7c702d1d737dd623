"""What is still to be tried of a cell, by what was recorded of it. Pure.

It is what the engine knows of its cells while it runs them, won back from a run folder. So a run
that was killed goes on by the rules of one that was not: a failure that nobody has repeated yet
is repeated alone, and stays a failure of that cell whatever comes after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from harness.outcome import CUT_OFF, NO_DEVICE, Finding, needs_repeat
from harness.results import Observation

__all__ = ["Remaining", "failed_in_setup", "remaining"]

Remaining = Literal["nothing", "alone", "together"]


def remaining(
    attempts: Sequence[tuple[Observation, Finding]],
    *,
    once: bool = False,
    device_seen: bool = False,
) -> Remaining:
    """What is still to be done with a cell.

    Args:
        attempts: what was seen of the cell in the order of its attempts, each with what it
            amounts to by itself; no early observations that a later one replaces.
        once: whether each cell is tried once and what is seen is believed.
        device_seen: whether another cell of the core showed that the machine has a device.

    Returns:
        `nothing` if the engine would not try it again; `alone` if a host of its own must show
        again what was seen; `together` if it may share a host with others.
    """
    # What was cut off or not confirmed says nothing; what came before it does.
    told = [(seen, finding) for seen, finding in attempts if finding.reason not in CUT_OFF]
    if not told:
        return "together"
    if once:
        return "nothing"
    *before, (seen, finding) = told
    if seen.alone and any(needs_repeat(one) for _, one in before):
        return "nothing"
    if needs_repeat(finding) and not failed_in_setup(seen):
        return "alone"
    if finding.reason == NO_DEVICE and device_seen and not seen.alone:
        return "alone"
    if needs_repeat(finding):
        # Nothing ran, and it was the same for all cells of the host: so is the next try.
        twice = [failed_in_setup(one) for one, _ in attempts[-2:]] == [True, True]
        return "nothing" if twice else "together"
    return "together" if seen.report is not None and not seen.clean_end else "nothing"


def failed_in_setup(seen: Observation) -> bool:
    """Whether an attempt failed before the host came to its first scenario."""
    if seen.report is not None or seen.infra is not None:
        return False
    return seen.setup_error is not None or (
        seen.death is not None and seen.death.phase in ("start", "load", "register")
    )
