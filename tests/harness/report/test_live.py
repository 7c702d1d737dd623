from __future__ import annotations

import io
import re
import threading
import time
from typing import IO, Any

import pytest
from rich.console import Console

from harness.report.live import Progress, live_progress
from tests.harness.report import samples

PLAN = dict.fromkeys(samples.CORES, 9)


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def terminal(file: IO[str], *, height: int = 25, width: int = 80) -> Console:
    return Console(
        file=file, force_terminal=True, force_interactive=True, width=width, height=height,
        color_system=None, legacy_windows=False,
    )  # fmt: skip


def last_frame(out: io.StringIO) -> list[str]:
    return re.split(r"\x1b\[(?:2K|\?25l)", out.getvalue())[-1].splitlines()


def run_core(progress: Progress, core: str, outcome: str = "passed") -> None:
    for scenario in samples.SCENARIOS:
        cell = f"{core}/webgpu/serialized/{scenario}"
        progress.started(core, cell)
        progress.finished(core, cell, outcome)


def test_a_pipe_gets_one_line_for_each_core_that_ended() -> None:
    out = io.StringIO()
    with live_progress(Console(file=out, width=60), PLAN) as progress:
        for core in samples.CORES:
            run_core(progress, core, "rejected" if core == "1.26.0" else "passed")
    lines = out.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0].startswith("core 1.24.4: 9 cells, 9 passed, 0.")
    assert lines[3].startswith("core 1.26.0: 9 cells, 9 rejected, ")
    assert lines[10].endswith("(11 of 11 cores done)")


def test_of_one_core_is_told_as_of_one() -> None:
    out = io.StringIO()
    with live_progress(Console(file=out, width=60), {"1.24.4": len(samples.SCENARIOS)}) as progress:
        run_core(progress, "1.24.4")
    assert out.getvalue().splitlines()[0].endswith("(1 of 1 core done)")


def test_a_run_that_is_broken_off_says_how_far_it_came_and_keeps_its_exception() -> None:
    out = io.StringIO()

    def broken_off() -> None:
        with live_progress(Console(file=out), {"1.24.4": 9, "1.25.0": 9}) as progress:
            progress.started("1.24.4", "a")
            progress.finished("1.24.4", "a", "failed")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert out.getvalue().startswith("core 1.24.4: 1 of 9 cells, 1 failed, ")
    assert out.getvalue().endswith("not begun: 1.25.0\n")


def test_a_cell_that_is_tried_again_counts_once_with_its_last_outcome() -> None:
    out = io.StringIO()
    with live_progress(Console(file=out), {"1.24.4": 1}) as progress:
        progress.started("1.24.4", "a")
        progress.finished("1.24.4", "a", "crashed")
        progress.started("1.24.4", "a")
        progress.finished("1.24.4", "a", "passed")
    assert len(out.getvalue().splitlines()) == 1


def test_ci_gets_lines_even_where_colours_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    out = io.StringIO()
    with live_progress(terminal(out), {"1.24.4": 9}) as progress:
        run_core(progress, "1.24.4")
    assert len(out.getvalue().splitlines()) == 1


def test_a_terminal_shows_a_row_for_each_core_with_counts_and_what_runs() -> None:
    out = io.StringIO()
    with live_progress(terminal(out), PLAN) as progress:
        run_core(progress, "1.24.4")
        progress.started("1.25.0", "1.25.0/serialized/capture/replay")
        time.sleep(0.4)
        last = last_frame(out)
    rows = last
    assert [row.split()[0] for row in rows] == list(samples.CORES)
    assert rows[0].split()[2:] == ["9/9", "0", "s", "9", "passed"]
    assert rows[1].rstrip().endswith("0 s  capture/replay")
    assert all(len(row) <= 80 for row in rows)
    assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h") == 1


def test_a_low_terminal_shows_the_cores_that_run_and_counts_the_others() -> None:
    out = io.StringIO()
    with live_progress(terminal(out, height=6), PLAN) as progress:
        run_core(progress, "1.24.4")
        progress.started("1.32.0", "1.32.0/serialized/capture/replay")
        time.sleep(0.4)
        last = last_frame(out)
    assert len(last) == 5
    assert any("1.32.0" in row and "capture/replay" in row for row in last)
    assert "+7 cores" in last[-1]
    assert "1 core done" in last[-1]


def test_names_are_never_interpreted() -> None:
    for out, console in (
        (a := io.StringIO(), Console(file=a)),
        (b := io.StringIO(), terminal(b)),
    ):
        with live_progress(console, {"[red]\x1b[2Jx": 2}) as progress:
            progress.started("[red]\x1b[2Jx", "[bold]\x1b]0;title\x07\n")
            progress.finished("[red]\x1b[2Jx", "one", "[blink]\x1b[5m")
            time.sleep(0.3)
        assert "[red]\\x1b[2Jx" in out.getvalue()
        assert "\x1b[2J" not in out.getvalue()
        assert "\x1b]0" not in out.getvalue()


def test_many_threads_lose_no_news() -> None:
    out = io.StringIO()
    with live_progress(Console(file=out, width=200), PLAN) as progress:
        threads = [threading.Thread(target=run_core, args=(progress, core)) for core in PLAN]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = out.getvalue().splitlines()
    assert sorted(line.split(":")[0] for line in lines) == [f"core {c}" for c in samples.CORES]
    assert all("9 cells, 9 passed" in line for line in lines)


class SlowAtFirst(Console):
    """A console whose first line waits until it is let through."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(file=file, width=200)
        self.reached, self.let_through = threading.Event(), threading.Event()

    def print(self, *texts: Any, **more: Any) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self.let_through.wait(20)
        super().print(*texts, **more)


def test_lines_come_in_the_order_in_which_cores_ended() -> None:
    out = io.StringIO()
    console = SlowAtFirst(out)
    first, second = list(PLAN)[:2]
    plan = {core: PLAN[core] for core in (first, second)}
    with live_progress(console, plan) as progress:
        threads = [
            threading.Thread(target=run_core, args=(progress, core)) for core in (first, second)
        ]
        threads[0].start()
        assert console.reached.wait(20)
        threads[1].start()
        # Time enough for a line that would not wait.
        threads[1].join(0.3)
        console.let_through.set()
        for thread in threads:
            thread.join()

    lines = out.getvalue().splitlines()
    assert [line[line.index("(") :] for line in lines] == [
        "(1 of 2 cores done)",
        "(2 of 2 cores done)",
    ]


@pytest.mark.parametrize("interactive", [True, False])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_console_that_is_closed_does_not_touch_the_run(interactive: bool, when: str) -> None:
    out = io.StringIO()
    console = terminal(out) if interactive else Console(file=out)
    if when == "before":
        out.close()
    with live_progress(console, PLAN) as progress:
        run_core(progress, "1.24.4")
        out.close()
        run_core(progress, "1.25.0")
        time.sleep(0.3)
    assert not any(thread.name == "live-progress" for thread in threading.enumerate())


def test_an_ascii_terminal_is_enough() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="strict", write_through=True)
    with live_progress(terminal(out), {"kärn": 2}) as progress:
        progress.started("kärn", "ä" * 100)
        progress.finished("kärn", "b", "passed")
        time.sleep(0.3)
    assert b"k\\xe4rn" in raw.getvalue()
    assert b"1 passed" in raw.getvalue()


@pytest.mark.parametrize("interactive", [True, False])
def test_two_thousand_cells_cost_less_than_a_tenth_of_a_second(interactive: bool) -> None:
    out = io.StringIO()
    console = terminal(out, height=40, width=120) if interactive else Console(file=out)
    plan = {str(core): 200 for core in range(10)}
    begun = time.process_time()
    with live_progress(console, plan) as progress:
        for cell in range(200):
            for core in plan:
                progress.started(core, str(cell))
                progress.finished(core, str(cell), "passed")
    assert time.process_time() - begun < 0.1


def test_a_terminal_is_drawn_at_most_four_times_a_second() -> None:
    out = io.StringIO()
    begun = time.monotonic()
    with live_progress(terminal(out), {"core-x": 10_000}) as progress:
        cell = 0
        while time.monotonic() - begun < 1.0:
            progress.started("core-x", str(cell))
            progress.finished("core-x", str(cell), "passed")
            cell += 1
            time.sleep(0.001)
    # Once more at the end, to take the table away.
    assert 2 <= out.getvalue().count("core-x") <= 4 * (time.monotonic() - begun) + 2
