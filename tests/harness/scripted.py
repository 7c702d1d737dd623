"""Scripts that stand in for `harness.host`, and the engine on top of them, without a core."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import harness.host_process
from harness.artifacts.cores import Core
from harness.artifacts.plugins import Plugin
from harness.artifacts.python_packages import PythonPackage
from harness.config import PluginEntry, Rejection
from harness.execute import Progress, Setting, execute, unfinished
from harness.host.scenario import task_name
from harness.outcome import AskedFor, classify, settled
from harness.plan import Cell, CorePlan
from harness.policy import Decision
from harness.results import Observation
from tests.conftest import TOP
from tests.harness.samples import PLUGIN_SHA256

__all__ = ["Bench", "Host", "put_in_place"]

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
def leave(): sys.exit(task["farewell"] if "task" in globals() else 0)
def ready(**changes):
    say("ready", **{{**dict(core_version="1.30.0", plugin_sha256_before=None, ep_devices=[],
                          ep_name="E", plugin_version=None), **changes}})
def ended(name, **changes):
    done = 0 if "unsupported" in changes or "error" in changes else 1
    say("ended", report={{**dict(scenario=name, iterations_planned=1, iterations_passed=done,
        checks=1, check_failures=[], check_failure_count=0, placement=[], duration_s=0.5),
        **changes}})
def torn_down(**changes):
    say("torn-down", **{{**dict(failures=[], mapped=["/a"], plugin_sha256_after=None), **changes}})
def work(*names):
    for name in names:
        say("started", scenario=name)
        ended(name)
"""


def put_in_place(monkeypatch: pytest.MonkeyPatch, script: str, file: Path) -> None:
    """Have the engine start a script, written to a file, as its hosts."""
    file.write_text(f"{_PRELUDE.format(top=str(TOP))}{script}\nleave()\n")
    monkeypatch.setattr(harness.host_process, "_LAUNCH", [sys.executable, "-S", str(file)])


# HOSTS holds what each host of a core does, one after another: code by scenario, and for `setup`
# and `end`. What is not in it goes well.
_HOST = """
job()
numbers = task["log"].rpartition("host-")[2].removesuffix(".log").split("-")
hosts = json.loads(os.environ["HOSTS"])
mine = dict([*enumerate(hosts, 1)]).get(int(numbers[-1]), {})
box = BlackBox(Path(task["blackbox"]))
box.at("register")
sha, core_version = "ab" * 32, Path(task["core"]).parent.name
def kill(): os.kill(os.getpid(), signal.SIGSEGV)
def passed(**changes):
    ended(name, **{**dict(placement=[dict(node="n", expected="E", got="E")]), **changes})
def wrong(): passed(iterations_passed=0, check_failure_count=1)
def setup_failed(message):
    say("setup-failed", core_version=core_version, plugin_sha256_before=sha,
        error=dict(kind="native", function="Register", code="FAIL", message=message))
    leave()
exec(mine.get("setup", "ready(core_version=core_version, plugin_sha256_before=sha)"))
for one in task["tasks"]:
    name = one["scenario"]
    box.at("scenario", name)
    say("started", scenario=name)
    exec(mine.get(name, "passed()"))
box.at("teardown")
exec(mine.get("end", "torn_down(mapped=[task['core'], task['plugin']], plugin_sha256_after=sha)"))
"""
Host = Mapping[str, str]
"""What one host does."""
_REJECTIONS = [Rejection(reason="refused", function="Register", message="no", why="w")]


@dataclass
class Bench:
    """One execution of the engine, and all that it told."""

    folder: Path
    stop: threading.Event = field(default_factory=threading.Event)
    seen: list[Observation] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    """What progress was told of scenarios: `started`, or the outcome with which they finished."""
    no_device: Sequence[str] = ()
    """Messages by which the plugin says that it has no device."""
    left: list[str] = field(default_factory=list)
    """What the engine had said was to be tried."""

    def run(
        self,
        *hosts: Host,
        scenarios: Sequence[str] = ("copy/a", "copy/b", "copy/c"),
        cores: Sequence[str] = ("1.30.0",),
        unavailable: Sequence[str] = (),
        part: str = "",
        entry: PluginEntry | None = None,
        bare: Sequence[str] = (),
        python: Mapping[str, PythonPackage] | None = None,
        repetitions: int = 1,
        shuffle: int | None = None,
        alone: Sequence[str] = (),
        once_alone: bool = False,
        goes_on: bool = False,
    ) -> list[str]:
        """Run the scenarios on hosts that do as they are told; returns what `tried` does.

        Where it goes on, what was recorded before counts, and is told first.
        """
        self.no_device = entry.no_device.messages if entry and entry.no_device else ()
        plugin = Plugin(
            name="plugin",
            version=None,
            library=self.folder / "plugin.so",
            sha256=PLUGIN_SHA256,
            registration_name="plugin",
            source="",
            entry=entry,
        )
        environment = {**os.environ, "HOSTS": json.dumps(hosts)}
        plans = [
            CorePlan(
                core=core,
                version=core,
                decision=Decision("serialized", "", ""),
                mode="serialized",
                environment=environment,
                settings={},
                cells=tuple(
                    Cell(
                        id=f"{core}/serialized/{task_name(name, number)}",
                        core=core,
                        plugin="plugin",
                        mode="serialized",
                        scenario=name,
                        timeout_s=20.0,
                        iterations=1,
                        host="bare" if name in bare else "python" if python else "registered",
                        repetition=number,
                        alone=name in alone,
                    )
                    for number in range(1, repetitions + 1)
                    for name in scenarios
                ),
                shuffle=shuffle,
            )
            for core in cores
        ]
        setting = Setting(
            plugin=plugin,
            rejections=_REJECTIONS,
            scenario_packages=[],
            setup_timeout_s=20.0,
            folder=self.folder / "run",
            models=self.folder / "models",
            python_packages=python or {},
            record=self.record,
            progress=Progress(self.started, self.finished),
            stop=self.stop,
            once_alone=once_alone,
            part=part,
        )
        found = [
            Core(
                id=core,
                version=core,
                library=None if core in unavailable else self.folder / core / "libonnxruntime.so",
                sha256=None,
                source="",
                error="no network" if core in unavailable else None,
            )
            for core in cores
        ]
        before = list(self.seen) if goes_on else []
        left = unfinished(plans, found, setting, before)
        execute(plans, found, setting, jobs=1, before=before)
        self.left = [cell.id.rpartition("/")[2] for plan in left for cell in plan.cells]
        return self.tried

    def record(self, observation: Observation) -> None:
        self.seen.append(observation)

    def started(self, core: str, cell_id: str) -> None:
        assert cell_id.startswith(core)
        self.told.append((cell_id.rpartition("/")[2], "started"))

    def finished(self, core: str, cell_id: str, outcome: str) -> None:
        assert cell_id.startswith(core)
        self.told.append((cell_id.rpartition("/")[2], outcome))

    @property
    def tried(self) -> list[str]:
        """Every attempt in order: scenario and its number, number of the host, outcome."""
        lines = []
        for one in settled(self.seen):
            core = one.cell.partition("/")[0]
            finding = classify(one, AskedFor(core, PLUGIN_SHA256, self.no_device), _REJECTIONS)
            host = one.host.partition("-serialized-")[2] or "none"
            alone = " alone" if one.alone else ""
            name = one.cell.rpartition("/")[2]
            lines.append(
                f"{name}{one.attempt} in {host}{alone}: {finding.outcome} {finding.reason}"
            )
        return lines

    @property
    def ends(self) -> dict[str, str]:
        """With which outcome progress was told that each scenario is finished: once."""
        ends = [one for one in self.told if one[1] != "started"]
        assert len(ends) == len(dict(ends))
        return dict(ends)

    @classmethod
    def prepare(cls, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Bench:
        """A bench whose hosts are scripts."""
        put_in_place(monkeypatch, _HOST, folder / "host.py")
        return cls(folder)
