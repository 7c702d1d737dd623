"""The sentences that several report formats share; pure.

What comes from outside is put in as it is: each format makes it safe in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from harness.report.grouping import Cause, death_of
from harness.results import AttemptResult, CellResult, Results

__all__ = [
    "attempts_text",
    "count",
    "example_text",
    "exit_meaning",
    "headline",
    "seconds_of",
    "summary_text",
    "undescribed",
]

_EXIT_MEANINGS: Mapping[int, str] = {
    0: "all as expected",
    1: "something is not as expected",
    2: "the input needs a change",
    3: "infrastructure failed or the run is not complete",
}


def count(number: int, noun: str) -> str:
    """A number with its noun in singular or plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def headline(cause: Cause) -> str:
    """What a cause is, in a few words, the verdict first where it is no plain failure."""
    reason = f" ({cause.reason})" if cause.reason else ""
    if cause.verdict == "flaky":
        then = cause.example.outcome
        return f"FLAKY: {cause.outcome}{reason}, then {then} when repeated alone"
    if cause.verdict == "improved":
        return f"IMPROVED: {cause.outcome}{reason}"
    if cause.outcome == "passed":
        return f"PASSED, but not as expected{reason}"
    return f"{cause.outcome.upper()}{reason}"


def example_text(cell: CellResult) -> str:
    """Which cell it is; for a death also the iteration and the last native call."""
    parts = [f"core {cell.core}, plugin {cell.plugin}, {cell.mode}, {cell.scenario}"]
    death = death_of(cell)
    if death is not None:
        parts.append(f"host ended in phase {death.phase} ({death.name})")
        if death.iteration is not None:
            parts.append(f"iteration {death.iteration} (counted from 0)")
        if death.last_call is not None:
            parts.append(f"{'inside' if death.inside_call else 'after'} {death.last_call}")
    return ", ".join(parts)


def attempts_text(cell: CellResult) -> str:
    """How each attempt at the cell ended."""
    return "; ".join(_attempt(attempt) for attempt in cell.attempts)


def exit_meaning(code: int) -> str:
    """What an exit code of the command says."""
    return _EXIT_MEANINGS.get(code, "unknown")


def seconds_of(results: Results) -> float | None:
    """Seconds of wall time from the run's start to its finish; none if they are no times."""
    try:
        started = datetime.fromisoformat(results.run.started)
        finished = datetime.fromisoformat(results.run.finished)
        return max((finished - started).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None


def summary_text(results: Results) -> str:
    """The whole run in one line: cells, outcomes, verdicts, seconds and the exit code."""
    summary = results.summary
    parts = [
        f"{count(summary.cells, 'cell')}: {_counts(summary.outcomes)}",
        _counts(summary.verdicts),
    ]
    if summary.outdated_expectations or summary.unmatched_expectations:
        wrong = len(summary.outdated_expectations) + len(summary.unmatched_expectations)
        parts.append(f"{count(wrong, 'expectation')} to correct")
    seconds = seconds_of(results)
    if seconds is not None:
        resumed = len(results.run.resumed)
        parts.append(f"{seconds:.1f} s" + (f", resumed {count(resumed, 'time')}" * bool(resumed)))
    parts.append(f"exit {summary.exit_code} ({exit_meaning(summary.exit_code)})")
    return "; ".join(part for part in parts if part)


def undescribed(results: Results) -> str:
    """What a run of a plugin lacks that no entry of matrix.yaml describes; empty if one does."""
    unable = sum(cell.outcome == "unsupported" for cell in results.cells)
    if results.plugin.described or not unable:
        return ""
    return (
        f"No entry of matrix.yaml describes this plugin, so the harness knows none of its options "
        f"and promises, and {count(unable, 'cell')} could not be tried. Write an entry that names "
        "them."
    )


def _attempt(attempt: AttemptResult) -> str:
    alone = "alone in a fresh host: " if attempt.alone else ""
    reason = f" ({attempt.reason})" if attempt.reason else ""
    return f"{alone}{attempt.outcome}{reason}"


def _counts(counts: Mapping[str, int]) -> str:
    shown = sorted((item for item in counts.items() if item[1]), key=lambda item: -item[1])
    return ", ".join(f"{number} {name}" for name, number in shown)
