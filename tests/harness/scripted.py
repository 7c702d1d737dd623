"""What a script needs in order to stand in for `harness.host`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import harness.host_process
from tests.conftest import TOP

__all__ = ["put_in_place"]

_PRELUDE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, {top!r})
from harness.host.blackbox import BlackBox
def job():
    global task
    task = json.loads(sys.stdin.readline())
    return task
number = 0
def say(event, token=None, at=None, **fields):
    global number
    message = {{"token": task["token"] if token is None else token,
               "number": number if at is None else at, "event": event, **fields}}
    os.write(1, json.dumps(message).encode() + b"\\n")
    number += 1
def ready(**changes):
    say("ready", **{{**dict(core_version="1.30.0", plugin_sha256_before=None, ep_devices=[],
                          ep_name="E", plugin_version=None), **changes}})
def ended(name, **changes):
    say("ended", report={{**dict(scenario=name, iterations_planned=1, iterations_passed=1, checks=1,
        check_failures=[], check_failure_count=0, placement=[], duration_s=0.5), **changes}})
def torn_down(**changes):
    say("torn-down", **{{**dict(failures=[], mapped=["/a"], plugin_sha256_after=None), **changes}})
def work(*names):
    for name in names:
        say("started", scenario=name)
        ended(name)
"""


def put_in_place(monkeypatch: pytest.MonkeyPatch, script: str, file: Path) -> None:
    """Have the engine start a script, written to a file, as its hosts."""
    file.write_text(_PRELUDE.format(top=str(TOP)) + script)
    monkeypatch.setattr(harness.host_process, "_LAUNCH", [sys.executable, "-S", str(file)])
