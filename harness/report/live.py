"""Live progress while a run goes on: a table on a terminal, one line a core anywhere else."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.report.text import for_encoding, one_line
from harness.report.wording import count

__all__ = ["Progress", "live_progress"]

_REFRESH_S = 0.25

# What a console does that was closed, whose reader has gone (rich makes SystemExit of that), or
# whose encoding cannot say something. Progress is never worth a run.
_GONE = (OSError, ValueError, SystemExit)

_STYLES = {
    "passed": "green",
    "rejected": "cyan",
    "unsupported": "cyan",
    "failed": "red",
    "crashed": "bold red",
    "hung": "bold red",
    "not-run": "yellow",
    "infra-error": "yellow",
}


class _Core:
    """How far one core is. Guarded by the lock of its Progress."""

    def __init__(self, planned: int) -> None:
        self.planned = planned
        self.outcomes: dict[str, str] = {}
        self.running: dict[str, None] = {}
        self.tried: set[str] = set()
        self.begun: float | None = None
        self.ended: float | None = None

    def seconds(self, now: float) -> float:
        return 0.0 if self.begun is None else (self.ended or now) - self.begun


class Progress:
    """What a run tells of its cells; every method may be called from any thread.

    Telling costs two dictionary entries: a terminal is drawn by a thread of its own, at most
    four times a second, and only if something changed.
    """

    def __init__(self, console: Console, plan_cells: Mapping[str, int], *, plain: bool) -> None:
        self._console = console
        self._plain = plain
        self._lock = threading.Lock()
        # Lines come in the order of what they tell. Never waited for with the other lock held.
        self._printing = threading.Lock()
        self._cores = {core: _Core(planned) for core, planned in plan_cells.items() if planned}
        self._version = 0

    def started(self, core: str, cell_id: str) -> None:
        """A cell has begun; told again, it is tried again."""
        with self._lock:
            state = self._cores.setdefault(core, _Core(0))
            if state.begun is None:
                state.begun = time.monotonic()
            # A core's host does one thing at a time: what began before has ended or is over.
            state.running = {cell_id: None}
            state.tried.add(cell_id)
            self._version += 1

    def finished(self, core: str, cell_id: str, outcome: str) -> None:
        """A cell has an outcome; told again, the later one counts."""
        now = time.monotonic()
        with self._printing:
            with self._lock:
                state = self._cores.setdefault(core, _Core(0))
                state.running.pop(cell_id, None)
                state.outcomes[cell_id] = outcome
                self._version += 1
                whole = state.ended is None and len(state.outcomes) >= state.planned
                if whole:
                    state.ended = now
                    state.begun = now if state.begun is None else state.begun
                line = self._line(core, state, now) if whole and self._plain else None
            if line is not None:
                self._print(line)

    def _close(self) -> None:
        """In a pipe, say how far the cores came that did not end."""
        if not self._plain:
            return
        now = time.monotonic()
        with self._lock:
            lines = [
                self._line(core, state, now)
                for core, state in self._cores.items()
                if state.ended is None and state.begun is not None
            ]
            waiting = [
                core
                for core, state in self._cores.items()
                if state.ended is None and state.begun is None
            ]
        if waiting:
            lines.append(one_line(f"not begun: {', '.join(waiting)}", 300))
        for line in lines:
            self._print(line)

    def _line(self, core: str, state: _Core, now: float) -> str:
        ended = sum(1 for other in self._cores.values() if other.ended is not None)
        counts = ", ".join(
            f"{number} {outcome}" for outcome, number in Counter(state.outcomes.values()).items()
        )
        done = len(state.outcomes)
        cells = f"{done}" if done == state.planned else f"{done} of {state.planned}"
        noun = "cell" if done == state.planned == 1 else "cells"
        return one_line(
            f"core {core}: {cells} {noun}, {counts or 'none ended'}, "
            f"{state.seconds(now):.1f} s ({ended} of {count(len(self._cores), 'core')} done)",
            300,
        )

    def _print(self, line: str) -> None:
        with contextlib.suppress(*_GONE):
            safe = for_encoding(line, self._console.encoding)
            self._console.print(Text(safe), soft_wrap=True)

    def _draw(self, live: Live, stop: threading.Event) -> None:
        drawn: tuple[int, int] | None = None
        with contextlib.suppress(*_GONE):
            while not stop.wait(_REFRESH_S):
                with self._lock:
                    busy = any(state.running for state in self._cores.values())
                    # While cells run, their seconds are drawn anew once a second.
                    seen = (self._version, int(time.monotonic()) if busy else 0)
                if seen != drawn:
                    drawn = seen
                    live.refresh()

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 1), show_header=False, expand=False)
        table.add_column(no_wrap=True)
        table.add_column(width=12)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        # The only column that may shrink; its texts do not wrap.
        table.add_column()
        # One row is for the line that says what is not shown, one keeps the cursor's line free.
        room = max(self._console.height - 2, 1)
        now = time.monotonic()
        with self._lock:
            # What runs is what one wants to see; the rest follows where there is room.
            order = sorted(self._cores, key=lambda core: not self._cores[core].running)
            chosen = set(order[:room])
            for core, state in self._cores.items():
                if core in chosen:
                    table.add_row(*self._row(core, state, now))
            hidden = len(self._cores) - len(chosen)
            if hidden:
                done = sum(1 for state in self._cores.values() if state.ended is not None)
                table.add_row(
                    Text(f"+{hidden} cores"), "", "", "", Text(f"{count(done, 'core')} done")
                )
        return table

    def _row(self, core: str, state: _Core, now: float) -> tuple[Text | ProgressBar, ...]:
        # What was begun before the present one is behind us, though not yet believed.
        done = max(len(state.outcomes), len(state.tried) - len(state.running))
        told = Text(no_wrap=True, overflow="crop")
        for outcome, number in Counter(state.outcomes.values()).items():
            told.append(self._safe(f"{number} {outcome}", 40), style=_STYLES.get(outcome, ""))
            told.append("  ")
        running = ", ".join(
            cell.removeprefix(f"{core}/").partition("/")[2] for cell in state.running
        )
        told.append(self._safe(running, 200), style="dim")
        return (
            Text(self._safe(core, 24)),
            ProgressBar(total=max(state.planned, done, 1), completed=done, width=12),
            Text(f"{done}/{state.planned}"),
            Text(f"{state.seconds(now):.0f} s"),
            told,
        )

    def _safe(self, text: str, limit: int) -> str:
        return for_encoding(one_line(text, limit), self._console.encoding)


@contextlib.contextmanager
def live_progress(console: Console, plan_cells: Mapping[str, int]) -> Iterator[Progress]:
    """Show progress while the block runs; on a terminal the table goes away at its end.

    Whatever becomes of the console, the block and its exceptions are not touched.

    Args:
        console: where to. A table is drawn on an interactive terminal outside CI, which is
            known by the variable CI: there, colours may be forced though nobody watches.
        plan_cells: the number of cells planned for each core.

    Yields:
        What takes the news of cells.
    """
    plain = not console.is_interactive or bool(os.environ.get("CI"))
    progress = Progress(console, plan_cells, plain=plain)
    if plain:
        try:
            yield progress
        finally:
            progress._close()  # noqa: SLF001 - the two are one
        return
    live = Live(
        get_renderable=progress._table,  # noqa: SLF001 - the two are one
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    stop = threading.Event()
    thread = threading.Thread(
        target=progress._draw,  # noqa: SLF001 - the two are one
        args=(live, stop),
        name="live-progress",
        daemon=True,
    )
    shown = False
    with contextlib.suppress(*_GONE):
        live.start()
        shown = True
    if not shown:
        console.clear_live()
        yield progress
        return
    thread.start()
    try:
        yield progress
    finally:
        stop.set()
        thread.join()
        with contextlib.suppress(*_GONE):
            live.stop()
