"""A host process: loads one core and one plugin, runs scenarios, reports what was seen.

It takes one job, a line of JSON, from its standard input, and is started by the engine alone.
"""

from __future__ import annotations

import os

from harness.host.channel import open_channel

if __name__ == "__main__":
    # Before any other import: what they print must not reach the channel.
    channel = open_channel()
    # numpy would start a thread for every processor, for algebra that no scenario does. The
    # variable is taken back, since the plugin and what it loads must find the user's own.
    added = "OPENBLAS_NUM_THREADS" not in os.environ
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from harness.host.work import work

    if added:
        del os.environ["OPENBLAS_NUM_THREADS"]
    work(channel)
