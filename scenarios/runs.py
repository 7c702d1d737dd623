"""Runs that more than one family needs."""

from __future__ import annotations

from harness.host.host import FLOAT32, Host, Session
from scenarios.models import NEGATE
from scenarios.values import values

__all__ = ["negated", "where_negated"]


def negated(host: Host, session: Session, salt: int = 0) -> None:
    """One Run of `NEGATE` that feeds and fetches CPU tensors, checked."""
    x = values(host.record.iteration or 0, salt)
    feed = host.cpu_tensor(x)
    fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
    host.check("y", -x, host.read(fetched))
    fetched.release()
    feed.release()


def where_negated(host: Host, session: Session) -> None:
    """State that the node of `NEGATE` ran on the plugin's EP."""
    host.placed(NEGATE, session, {"negate": host.ep_name})
