"""Which cells were not as expected, grouped by cause, worst first; pure.

Cells share a cause when verdict, outcome and reason are the same and their details differ only in
numbers, addresses and the cell's own names. So one fault that shows on every core and in
every scenario is told once, with the places where it showed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.config import Mode, Outcome
from harness.results import AttemptResult, CellResult, Death, Results, Verdict

__all__ = [
    "Cause",
    "capture_lines",
    "causes",
    "core_names",
    "death_of",
    "expected_causes",
    "mode_lines",
    "modes_text",
    "ordered_cells",
    "overlap_lines",
    "places",
    "scenario_names",
    "shown_log",
    "shown_outcome",
    "shown_reason",
    "signature",
    "worse",
]

# Worst first. A pass that is not as expected (its capture counts differ) follows the failures:
# the plugin did something else than was written down.
_WORST_FIRST: tuple[Outcome, ...] = (
    "crashed",
    "hung",
    "failed",
    "passed",
    "rejected",
    "unsupported",
    "infra-error",
    "not-run",
)
_VERDICTS: tuple[Verdict, ...] = ("unexpected", "flaky", "improved", "expected")

# Long enough for any message with its numbers; what differs only beyond it is one cause.
_SIGNATURE_LENGTH = 4000

# Up to so many exceptions, "all but" reads better than a list.
_FEW = 2


@dataclass(frozen=True)
class Cause:
    """Cells that share a cause.

    Attributes:
        verdict: the verdict of all of them.
        outcome: the outcome that they are ordered by, see `shown_outcome`.
        reason: the reason code of all of them, see `shown_reason`.
        cells: in the order of the run; the first one is the example that is shown.
    """

    verdict: Verdict
    outcome: Outcome
    reason: str
    cells: tuple[CellResult, ...]

    @property
    def example(self) -> CellResult:
        """The cell whose detail, log and command stand for all."""
        return self.cells[0]


def causes(results: Results) -> tuple[Cause, ...]:
    """Everything that was not as expected, grouped by cause, worst first.

    Among equals the cause with more cells comes first, then the one that was seen first.
    Whatever improved comes last.
    """
    found = _group(
        (cell for cell in ordered_cells(results) if cell.verdict != "expected"),
        with_expected=False,
    )
    return tuple(
        sorted(
            found,
            key=lambda cause: (
                cause.verdict == "improved",
                _WORST_FIRST.index(cause.outcome),
                _VERDICTS.index(cause.verdict),
                -len(cause.cells),
            ),
        )
    )


def expected_causes(results: Results) -> tuple[Cause, ...]:
    """What was expected and is no pass, grouped by outcome, reason and expectation."""
    found = _group(
        (
            cell
            for cell in ordered_cells(results)
            if cell.verdict == "expected" and cell.outcome != "passed"
        ),
        with_expected=True,
    )
    return tuple(sorted(found, key=lambda cause: _WORST_FIRST.index(cause.outcome)))


def shown_outcome(cell: CellResult) -> Outcome:
    """The outcome to show: the cell's own, for a flaky cell the worst that was seen of it."""
    attempt = _worst_attempt(cell)
    return cell.outcome if attempt is None else attempt.outcome


def shown_reason(cell: CellResult) -> str:
    """The reason code that goes with `shown_outcome`."""
    attempt = _worst_attempt(cell)
    return cell.reason if attempt is None else attempt.reason


def shown_log(cell: CellResult) -> str | None:
    """The log, relative to the run folder, in which `shown_outcome` can be seen."""
    attempt = _worst_attempt(cell)
    return cell.log if attempt is None or attempt.log is None else attempt.log


def worse(one: CellResult, other: CellResult) -> CellResult:
    """Which of two cells is worse: less expected, or of a worse outcome; the first if neither."""

    def rank(cell: CellResult) -> tuple[int, int]:
        return _VERDICTS.index(cell.verdict), _WORST_FIRST.index(shown_outcome(cell))

    return min(one, other, key=rank)


def signature(cell: CellResult) -> str:
    """The cell's detail without what may differ between equal causes."""
    detail = cell.detail[:_SIGNATURE_LENGTH]
    for own in (cell.id, cell.scenario, cell.plugin, cell.core):
        # A name that is part of a longer word is left alone: a plugin may well be called "ep".
        detail = re.sub(rf"(?<!\w){re.escape(own)}(?!\w)", "#", detail) if own else detail
    detail = re.sub(r"0[xX][0-9a-fA-F]+|\b(?=[a-f]*\d)[0-9a-f]{8,}\b", "#", detail)
    detail = re.sub(r"[-+]?\d+(?:\.\d+)*(?:[eE][-+]?\d+)?", "#", detail)
    return " ".join(detail.split())


def death_of(cell: CellResult) -> Death | None:
    """The death to show: that of the last attempt that ended in one."""
    return next((a.death for a in reversed(cell.attempts) if a.death is not None), None)


def core_names(results: Results) -> tuple[str, ...]:
    """The ids of the run's cores, in their order; those that only cells name come last."""
    named = [core.id for core in results.cores] + [cell.core for cell in results.cells]
    return tuple(dict.fromkeys(named))


def scenario_names(results: Results) -> tuple[str, ...]:
    """The scenarios of the run, in the order in which its cells name them; sorted if shuffled."""
    names = tuple(dict.fromkeys(cell.scenario for cell in ordered_cells(results)))
    return names if results.run.shuffle is None else tuple(sorted(names))


def ordered_cells(results: Results) -> tuple[CellResult, ...]:
    """The cells by core in the order of the run; cells of one core keep their order."""
    position = {name: index for index, name in enumerate(core_names(results))}
    return tuple(sorted(results.cells, key=lambda cell: position[cell.core]))


def places(cells: Iterable[CellResult], results: Results) -> tuple[str, ...]:
    """Where cells are, compactly: lines such as ``1.27.0 to 1.32.0: all 9 scenarios``."""
    chosen = tuple(cells)
    cores, scenarios = core_names(results), scenario_names(results)
    by_core: dict[str, dict[str, None]] = {}
    by_scenario: dict[str, dict[str, None]] = {}
    for cell in chosen:
        by_core.setdefault(cell.core, {})[cell.scenario] = None
        by_scenario.setdefault(cell.scenario, {})[cell.core] = None
    core_first = _merged(by_core)
    scenario_first = _merged(by_scenario)
    if len(core_first) <= len(scenario_first):
        pairs = core_first
    else:
        pairs = [(names, wheres) for wheres, names in scenario_first]
    return tuple(
        f"{_cores_text(some_cores, cores)}: {_scenarios_text(some_scenarios, scenarios)}"
        for some_cores, some_scenarios in pairs
    )


def capture_lines(results: Results) -> tuple[str, ...]:
    """What capturing sessions did, a line for each of what cells counted alike."""
    counted: dict[str, list[CellResult]] = {}
    for cell in ordered_cells(results):
        if cell.capture is not None:
            seen = cell.capture
            text = (
                f"{seen.kernel_runs} of {seen.runs} runs executed the kernels, "
                f"{seen.host_replays} host replays"
            )
            counted.setdefault(text, []).append(cell)
    return tuple(f"{text}: {'; '.join(places(cells, results))}" for text, cells in counted.items())


def overlap_lines(results: Results) -> tuple[str, ...]:
    """How much the lanes of scenarios really overlapped, a line for each mode that had lanes."""
    every = core_names(results)
    lines = []
    for free in (True, False):
        seen = [
            (cell, cell.overlap)
            for cell in ordered_cells(results)
            if cell.overlap is not None and cell.overlap.free is free
        ]
        if not seen:
            continue
        calls = sum(overlap.calls for _, overlap in seen)
        met = sum(overlap.overlapped for _, overlap in seen)
        if free:
            cell, least = min(seen, key=lambda one: _share(one[1].overlapped, one[1].calls))
            text = (
                f"{_share(met, calls):.0%} of {calls} native calls of lanes began inside another "
                f"lane's; least {_share(least.overlapped, least.calls):.1%}, in {cell.scenario} "
                f"on {cell.core}"
            )
        else:
            text = f"{calls} native calls of lanes, one at a time as serialized mode wants"
        cores = list(dict.fromkeys(cell.core for cell, _ in seen))
        lines.append(f"{_cores_text(cores, every)}: {text}")
    return tuple(lines)


def mode_lines(results: Results) -> tuple[str, ...]:
    """The mode of each core and why, a line for each of what was decided alike."""
    decided: dict[str, list[str]] = {}
    for core in results.cores:
        decided.setdefault(f"{core.mode}: {core.mode_rule}", []).append(core.id)
    every = core_names(results)
    return tuple(f"{_cores_text(ids, every)}: {text}" for text, ids in decided.items())


def modes_text(cells: Sequence[CellResult], results: Results) -> str:
    """In which modes the cells of a cause show it, where others of the run are in another mode.

    Empty where that tells nothing: no core was driven in two modes, or the same scenarios have
    other troubles in the other one.
    """
    every = {(cell.core, cell.scenario, cell.repetition, cell.mode): cell for cell in results.cells}
    modes = {cell.mode for cell in cells}
    if len(modes) > 1:
        return "both"
    (mode,) = modes
    other: Mode = "serialized" if mode == "concurrent" else "concurrent"
    twins = [every.get((cell.core, cell.scenario, cell.repetition, other)) for cell in cells]
    if not all(twin is not None and twin.outcome == "passed" for twin in twins):
        return ""
    same = "the same cell passed" if len(cells) == 1 else f"the same {len(cells)} cells passed"
    return f"{mode} alone; {other}, {same}"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _worst_attempt(cell: CellResult) -> AttemptResult | None:
    """The attempt that makes a cell flaky; none for any other cell."""
    if cell.verdict != "flaky":
        return None
    bad = (attempt for attempt in cell.attempts if attempt.outcome != "passed")
    return min(bad, key=lambda attempt: _WORST_FIRST.index(attempt.outcome), default=None)


def _group(cells: Iterable[CellResult], *, with_expected: bool) -> list[Cause]:
    groups: dict[tuple[Verdict, Outcome, str, str], list[CellResult]] = {}
    for cell in cells:
        same = cell.expected if with_expected else signature(cell)
        key = (cell.verdict, shown_outcome(cell), shown_reason(cell), same)
        groups.setdefault(key, []).append(cell)
    return [
        Cause(verdict, outcome, reason, tuple(members))
        for (verdict, outcome, reason, _), members in groups.items()
    ]


def _merged(sets: dict[str, dict[str, None]]) -> list[tuple[list[str], list[str]]]:
    """Keys that have the same members, with those members."""
    merged: dict[frozenset[str], tuple[list[str], list[str]]] = {}
    for key, members in sets.items():
        merged.setdefault(frozenset(members), ([], list(members)))[0].append(key)
    return list(merged.values())


def _cores_text(some: Sequence[str], every: Sequence[str]) -> str:
    if len(some) == len(every) > 1:
        return f"all {len(every)} cores"
    positions = sorted(every.index(name) for name in some)
    spans: list[list[int]] = []
    for position in positions:
        if spans and position == spans[-1][-1] + 1:
            spans[-1].append(position)
        else:
            spans.append([position])
    if len(spans) > 2 and len(every) - len(some) <= _FEW:
        others = [name for name in every if name not in some]
        return f"all {len(every)} cores but {', '.join(others)}"
    parts = []
    for span in spans:
        if len(span) > 2:
            parts.append(f"{every[span[0]]} to {every[span[-1]]}")
        else:
            parts.extend(every[position] for position in span)
    return ", ".join(parts)


def _scenarios_text(some: Sequence[str], every: Sequence[str]) -> str:
    if len(some) == len(every) > 1:
        return f"all {len(every)} scenarios"
    others = [name for name in every if name not in some]
    if len(others) <= _FEW < len(some):
        return f"all {len(every)} scenarios but {', '.join(others)}"
    members: dict[str, list[str]] = {}
    for name in every:
        members.setdefault(name.partition("/")[0], []).append(name)
    parts: list[str] = []
    for family, names in members.items():
        hit = [name for name in names if name in some]
        if len(hit) == len(names) > 1:
            parts.append(f"{family}/* (all {len(names)})")
        else:
            parts.extend(hit)
    return ", ".join(parts)
