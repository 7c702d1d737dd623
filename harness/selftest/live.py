"""Progress of a selftest: one line on a terminal, a line a finished group anywhere else."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from harness.report.text import for_encoding, one_line

__all__ = ["Steps", "live_steps"]

_LONGEST = 60
# What a console does that was closed or whose reader has gone.
_GONE = (OSError, ValueError, SystemExit)


class Steps:
    """Takes the news of steps that stand in groups; every method may be called by any thread."""

    def __init__(self, console: Console, groups: Mapping[str, int], bar: Bar | None) -> None:
        self._console = console
        self._groups = groups
        self._done: Counter[str] = Counter()
        self._outcomes: dict[str, Counter[str]] = {}
        self._lock = threading.Lock()
        self._bar = bar
        self._task = bar.add_task("", total=sum(groups.values())) if bar else None

    def finished(self, group: str, step: str, outcome: str) -> None:
        """A step of a group has ended."""
        with self._lock:
            self._done[group] += 1
            counts = self._outcomes.setdefault(group, Counter())
            counts[outcome] += 1
            whole = self._done[group] == self._groups[group]
        with contextlib.suppress(*_GONE):
            if self._bar is not None and self._task is not None:
                text = for_encoding(one_line(f"{group}: {step}", _LONGEST), self._console.encoding)
                # Plain, since a bracket in a name is no markup.
                self._bar.update(self._task, advance=1, description=text.replace("[", r"\["))
            elif whole:
                told = ", ".join(f"{number} {name}" for name, number in counts.items())
                line = one_line(f"{group}: {told}", 300)
                self._console.print(
                    Text(for_encoding(line, self._console.encoding)), soft_wrap=True
                )


@contextlib.contextmanager
def live_steps(console: Console, groups: Mapping[str, int]) -> Iterator[Steps]:
    """Show progress while the block runs.

    Args:
        console: where to. A bar is drawn on an interactive terminal outside CI.
        groups: the number of steps of each group.
    """
    if not console.is_interactive or os.environ.get("CI"):
        yield Steps(console, groups, None)
        return
    bar = Bar(
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bar:
        yield Steps(console, groups, bar)
