"""A host process: loads one core and one plugin, runs scenarios, reports what was seen.

It takes one job, a line of JSON, from its standard input, and is started by the engine alone.
"""

from __future__ import annotations

import sys

from harness.host.channel import open_channel
from harness.host.lean import lean_numpy

if __name__ == "__main__":
    # Before any other import: what they print must not reach the channel.
    channel = open_channel()
    with lean_numpy():
        from harness.host.work import work

    sys.exit(work(channel))
