"""A process that outlives the engine for a moment, and ends what was left when that was killed.

A host watches for the end of the engine itself, which costs nothing, and cannot where its
interpreter is held up, as by a native call that keeps the interpreter lock or by the end of the
process. Nor does a host know of all processes that a plugin has started. The guardian does not
depend on any of them: it waits for the end of a pipe that the engine alone holds, and then ends
every process of the engine's hosts. An engine that ends in order says so first.

What it needs for that it imports then: it starts with every run, and nearly always for nothing.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

__all__ = ["guarded"]

_LAUNCH = [sys.executable, "-P", "-m", "harness.guardian"]
_ROUND_S = 0.1
# A host that was being started when the engine died appears in this time.
_QUIET_ROUNDS = 10
_LONGEST_S = 30.0
_SECONDS_TO_END = 5.0


@contextlib.contextmanager
def guarded(mark: str) -> Iterator[None]:
    """Have the hosts whose tokens begin with a mark ended, should this process be killed."""
    import subprocess

    from harness.containment import apart

    try:
        guardian = subprocess.Popen(
            [*_LAUNCH, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **apart(),
        )
    except OSError:
        # The hosts still watch for our end themselves; where nothing can be started, the first
        # of them says so.
        yield
        return
    try:
        yield
    finally:
        assert guardian.stdin is not None  # noqa: S101 - it was started with a pipe
        with contextlib.suppress(OSError):
            guardian.stdin.write(b"all ended\n")
            guardian.stdin.flush()
        with contextlib.suppress(OSError):
            guardian.stdin.close()
        try:
            guardian.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            # Somebody stopped it; it has nothing left to do.
            guardian.kill()
            guardian.wait()


def _guard(mark: str) -> None:
    if sys.stdin.buffer.read():
        return
    from harness.containment import end_marked

    deadline = time.monotonic() + _LONGEST_S
    quiet = 0
    while quiet < _QUIET_ROUNDS and time.monotonic() < deadline:
        quiet = 0 if end_marked(mark) else quiet + 1
        time.sleep(_ROUND_S)


if __name__ == "__main__":
    _guard(sys.argv[1])
