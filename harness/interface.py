"""What the commands show, and how they are interrupted."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from harness.artifacts.cores import Core
from harness.artifacts.lock import Lock
from harness.artifacts.plugins import Plugin
from harness.artifacts.progress import Progress as DownloadProgress
from harness.policy import Decision
from harness.report.audit_report import audit_text
from harness.report.live import Progress as LiveProgress
from harness.report.live import live_progress
from harness.report.terminal import render
from harness.report.wording import count
from harness.workflow import Judged

__all__ = [
    "console",
    "describe_decision",
    "describe_lock",
    "downloads",
    "endings",
    "show",
    "show_fetched",
    "side_by_side",
    "stop_on_signal",
    "watch",
    "watch_rest",
]


def console() -> Console:
    """The console of the process."""
    # A width of 0, which some terminals and tools say, would leave nothing of a report.
    width = os.environ.get("COLUMNS", "")
    unusable = width.lstrip("+-").isdigit() and int(width) <= 0
    return Console(highlight=False, width=80 if unusable else None)


def side_by_side() -> int:
    """How many cores are driven at the same time unless the user says it.

    Half as many again as there are processors: a host waits for its device, at the release of
    its last session above all, about a third of its time.
    """
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return processors + (processors + 1) // 2


@contextlib.contextmanager
def downloads(console: Console) -> Iterator[DownloadProgress]:
    """A progress bar a download; nothing is drawn while there is none."""
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        transient=True,
    )
    shown = _Bars(bars)
    try:
        yield shown
    finally:
        shown.stop()


class _Bars:
    """Download progress drawn by rich, from the first download on."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def started(self, name: str, total_bytes: int | None) -> None:
        with self._lock:
            if not self._tasks:
                self._bars.start()
            task = self._tasks.get(name)
            if task is None:
                self._tasks[name] = self._bars.add_task(_short(name), total=total_bytes)
            else:
                self._bars.reset(task, total=total_bytes)

    def advanced(self, name: str, count_bytes: int) -> None:
        self._bars.advance(self._tasks[name], count_bytes)

    def finished(self, name: str) -> None:
        self._bars.update(self._tasks[name], visible=False)

    def stop(self) -> None:
        if self._tasks:
            self._bars.stop()


def _short(name: str) -> str:
    """A wheel by name and version; its tags would leave a narrow terminal no room for a bar."""
    parts = name.split("-")
    return " ".join(parts[:2]) if name.endswith(".whl") else name


def endings() -> list[signal.Signals]:
    """The signals by which a person or a system ends a program, as far as there are any here."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


@contextlib.contextmanager
def stop_on_signal(stop: threading.Event) -> Iterator[None]:
    """The first interruption ends the run in order; a second one ends it at once."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, interrupt) for number in endings()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def watch(console: Console, counts: Mapping[str, int]) -> Iterator[LiveProgress]:
    """Live progress of a run."""
    with live_progress(console, counts) as live:
        yield live


@contextlib.contextmanager
def watch_rest(console: Console, counts: Mapping[str, int]) -> Iterator[LiveProgress]:
    """Live progress of a run that goes on, with a line on how much of it is left."""
    cells, cores = count(sum(counts.values()), "cell"), count(len(counts), "core")
    console.print(f"Going on: {cells} on {cores} left.", markup=False)
    with live_progress(console, counts) as live:
        yield live


def show(judged: Judged, console: Console, folder: Path) -> int:
    """The report of a run or of an audit; its exit code."""
    if judged.audit is None:
        render(judged.results, console, folder)
    else:
        console.print(audit_text(judged.audit, judged.results), markup=False, soft_wrap=True)
        console.print(f"run folder {folder}", markup=False, soft_wrap=True)
    summary_file = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary_file:
        try:
            with open(summary_file, "a", encoding="utf-8") as file:  # noqa: PTH123 - append
                file.write((folder / "summary.md").read_text(encoding="utf-8"))
        except OSError as error:
            # The run is what it is, whether or not the page of the CI step can be written.
            sys.stderr.write(f"The step summary {summary_file} was not written: {error}\n")
    return judged.exit_code


def show_fetched(plugin: Plugin, cores: Sequence[Core], console: Console) -> int:
    """What was fetched; 0, or 3 if a core could not be had."""
    lines = [f"plugin {plugin.name} {plugin.version or ''}: {plugin.library}"]
    lines += [f"core {core.id}: {core.library or core.error}" for core in cores]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    return 3 if any(core.error for core in cores) else 0


def describe_lock(lock: Lock) -> str:
    """A line on what a lock holds."""
    releases = sum(len(versions) for versions in lock.packages.values())
    return f"{releases} releases locked"


def describe_decision(decision: Decision, *, as_json: bool) -> str:
    """A policy decision for people, or as JSON."""
    if as_json:
        return json.dumps(dataclasses.asdict(decision), indent=2)
    lines = []
    if decision.rejection:
        lines.append(
            f"rejected by the core ({decision.rejection.reason}): {decision.rejection.why}"
        )
    lines += [f"mode: {decision.mode}", f"rule: {decision.rule}", f"why:  {decision.why}"]
    if decision.link:
        lines.append(f"link: {decision.link}")
    if decision.override:
        lines.append(f"override: {decision.override}")
    return "\n".join(lines)
