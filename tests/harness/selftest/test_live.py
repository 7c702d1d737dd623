"""Progress of a selftest, in a pipe and on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.selftest.live import live_steps

GROUPS = {"copy": 2, "whole runs": 1}


def test_in_a_pipe_a_group_is_told_when_it_is_done() -> None:
    out = io.StringIO()
    with live_steps(Console(file=out, width=80), GROUPS) as steps:
        steps.finished("copy", "a on 1.24.4", "detected")
        assert out.getvalue() == ""
        steps.finished("whole runs", "1.24.4", "as expected")
        steps.finished("copy", "b on 1.24.4", "missed")

    assert out.getvalue() == "whole runs: 1 as expected\ncopy: 1 detected, 1 missed\n"


def test_on_a_terminal_one_line_tells_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, force_interactive=True)
    with live_steps(console, GROUPS) as steps:
        steps.finished("copy", "a[x] on 1.24.4", "detected")
        steps.finished("whole runs", "1.24.4", "as expected")

    assert "2/3" in out.getvalue()
    assert "copy: a[x]" in out.getvalue() or "whole runs: 1.24.4" in out.getvalue()


def test_ci_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, force_interactive=True)
    with live_steps(console, {"copy": 1}) as steps:
        steps.finished("copy", "a", "detected")

    assert out.getvalue() == "copy: 1 detected\n"


def test_a_reader_that_has_gone_costs_nothing() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80)
    out.close()
    with live_steps(console, {"copy": 1}) as steps:
        steps.finished("copy", "a", "detected")
