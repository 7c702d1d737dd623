"""From registration to the end: what a plugin leaves behind, and what it takes along."""

from __future__ import annotations

from harness.host.bare import BareHost, Scope
from harness.host.scenario import scenario
from scenarios.models import NEGATE
from scenarios.runs import negated, where_negated

__all__ = ["register_again"]


@scenario(
    "lifecycle/register-again",
    host="bare",
    why="A library that was unregistered once cannot be registered again, or offers no device.",
)
def register_again(host: BareHost) -> None:
    """Register, use and unregister, in one environment after another."""
    for _ in host.iterations():
        env = host.environment()
        registration = host.register(env)
        host.truth("it offers an EP device", registration.device is not None)
        if registration.device is not None:
            with Scope() as scope:
                driven = host.on(registration, scope)
                session = driven.session(NEGATE)
                negated(driven, session)
                if host.record.iteration == 0:
                    where_negated(driven, session)
        registration.unregister()
        env.release()
