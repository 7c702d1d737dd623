from __future__ import annotations

# The library is built once a session for all who use it.
from tests.harness.reference_ep.conftest import builds, library

__all__ = ["builds", "library"]
