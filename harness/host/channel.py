"""The way from a host process to the engine, out of the plugin's reach as far as that can be.

A host is started with its standard output as the channel and its standard input as the job and
a sign of the engine's life. Before anything else is loaded, both are moved to high descriptors
that no child inherits, and what prints from then on goes to log files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

__all__ = ["Channel", "log_to", "open_channel"]

_OUT_OF_REACH = 200


class Channel:
    """Sends numbered messages that carry the host's token, one JSON line each."""

    def __init__(self, job_descriptor: int, report_descriptor: int) -> None:
        self._job = os.fdopen(job_descriptor, "rb")
        self._report = report_descriptor
        self._sent = 0
        self._token = ""

    def receive_job(self) -> dict[str, Any]:
        """Wait for the job, and from then on watch for the end of the engine."""
        job: dict[str, Any] = json.loads(self._job.readline())
        self._token = job["token"]
        threading.Thread(target=self._end_with_engine, daemon=True).start()
        return job

    def send(self, event: str, **fields: Any) -> None:
        """Send a message; if the channel is gone, end the process."""
        message = {"token": self._token, "number": self._sent, "event": event, **fields}
        # Half a character, which a path or an error may hold, is none for the engine.
        data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            while data:
                data = data[os.write(self._report, data) :]
        except OSError:
            # Nobody hears us any more; the engine sees the missing end and says so.
            os._exit(70)
        self._sent += 1

    def _end_with_engine(self) -> None:
        try:
            self._job.read()
        except (OSError, ValueError):
            return
        if sys.platform != "win32" and os.getpgrp() == os.getpid():
            # With what the plugin has started, as far as that did not leave the group.
            os.killpg(0, signal.SIGKILL)
        os._exit(71)


def open_channel() -> Channel:
    """Move the channel out of reach; standard input then reads nothing, output goes to errors."""
    job, report = _move(0), _move(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return Channel(job, report)


def log_to(path: Path) -> None:
    """Send what this process prints, from whatever code, to a file that the engine has made."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        log = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        # Whatever was put in its place: what is printed goes where it went before.
        return
    for standard in (1, 2):
        os.dup2(log, standard)
    if log not in (1, 2):
        os.close(log)


def _move(descriptor: int) -> int:
    if sys.platform == "win32":
        moved = os.dup(descriptor)
        os.set_inheritable(moved, False)  # noqa: FBT003 - the system's signature
        return moved
    import fcntl
    import resource

    # As far up as the limit on descriptors lets it.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    least = _OUT_OF_REACH if most == resource.RLIM_INFINITY else min(_OUT_OF_REACH, most // 2)
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
