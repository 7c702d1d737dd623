"""What a selftest came to, in the terminal and as the page of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from harness.report.text import for_encoding, one_line, visible
from harness.report.wording import count, exit_meaning
from harness.results import CellResult
from harness.selftest.faults import Fault
from harness.selftest.proof import Proof
from harness.selftest.scoring import SCORES, Planting, tallies

__all__ = ["faults_text", "render_page", "show_proof"]

_HEADING = ("family", "faults", "planted", *SCORES)
_MEANINGS = {
    "otherwise": "noticed, but by no scenario of its row, or with another outcome",
    "missed": "every scenario was as expected",
    "untried": "not seen, because of the machine or an interruption",
}
_MOST = 50


def show_proof(proof: Proof, console: Console) -> None:
    """Print what was planted, found and missed by family, and every false alarm by name."""

    def line(text: str = "", style: str = "") -> None:
        console.print(Text(for_encoding(text, console.encoding), style=style), soft_wrap=True)

    for row in _table(proof):
        line(row)
    line()
    for text in _problems(proof):
        line(visible(text), "red")
    for text in _sentences(proof):
        line(visible(text))
    code = proof.exit_code
    line(
        f"{'OK' if code == 0 else 'NOT OK'}  {proof.seconds:.0f} s; exit {code} "
        f"({exit_meaning(code)}); everything is kept in {visible(str(proof.folder))}",
        "green" if code == 0 else "bold red",
    )


def faults_text(faults: Sequence[Fault]) -> str:
    """A line a fault: its name, its family and what the plugin does."""
    name = max(len(one.name) for one in faults)
    family = max(len(one.family) for one in faults)
    return "\n".join(f"{one.name:<{name}}  {one.family:<{family}}  {one.what}" for one in faults)


def render_page(proof: Proof) -> str:
    """The same as a page of Markdown: a table of the families, and a row for each fault."""
    return "\n".join(_page(proof)) + "\n"


def _page(proof: Proof) -> Iterator[str]:
    yield "# What the harness finds"
    yield ""
    yield (
        "Made by `ort-ep-matrix selftest --markdown docs/selftest.md`. Each fault of the "
        "[reference plugin](../harness/reference_ep/README.md) is planted on the oldest, a middle "
        "and the newest core, as far as it can occur there; where it can occur on none of these, "
        "on another. A scenario that must notice it runs first; only where that one does not, the "
        "others do. Then single sessions of whole runs have a hostile fault, and last the plugin "
        "runs without any."
    )
    yield ""
    yield from _marked(_HEADING, _counts(proof))
    yield ""
    yield (
        "`detected`: a scenario that must notice the fault reports an outcome that its row in "
        "`faults.yaml` demands; `passed/ok` is one whose values are right and whose capture is not "
        "as expected. `contained`: the harness must not mind the fault, and does not. "
        + " ".join(f"`{name}`: {meaning}." for name, meaning in _MEANINGS.items())
    )
    yield ""
    yield f"- {_plain(proof.plugin)} on the cores {', '.join(proof.versions)}."
    yield from (f"- {_plain(text)}" for text in (*_problems(proof), *_sentences(proof)))
    for family, faults in _by_family(proof).items():
        yield ""
        yield f"## {family.capitalize()}"
        yield ""
        yield from _marked(
            ["fault", "what the plugin does", "stands for", "planted on", "noticed by", "as"],
            [_row(fault, plantings) for fault, plantings in faults],
        )


def _row(fault: Fault, plantings: Sequence[Planting]) -> list[str]:
    def distinct(texts: Sequence[str]) -> str:
        return ", ".join(f"`{text}`" for text in dict.fromkeys(texts) if text)

    seen = [one for one in plantings if one.score in ("detected", "otherwise")]
    scores = [one.score for one in plantings]
    noticed = distinct([one.scenario for one in seen])
    if fault.contained and set(scores) == {"contained"}:
        noticed = "contained"
    missed = [one.core for one in plantings if one.score in ("missed", "untried")]
    if missed:
        noticed = "; ".join(filter(None, [noticed, f"**not on {', '.join(missed)}**"]))
    return [
        f"`{fault.name}`",
        _plain(fault.what),
        _plain(fault.stands_for),
        ", ".join(one.core for one in plantings),
        noticed,
        distinct([one.outcome for one in plantings if one.score not in ("missed", "untried")]),
    ]


def _by_family(proof: Proof) -> dict[str, list[tuple[Fault, list[Planting]]]]:
    found: dict[str, dict[str, list[Planting]]] = {}
    for one in proof.plantings:
        found.setdefault(one.fault.family, {}).setdefault(one.fault.name, []).append(one)
    return {
        family: [(plantings[0].fault, plantings) for plantings in faults.values()]
        for family, faults in found.items()
    }


def _counts(proof: Proof) -> list[list[str]]:
    rows: dict[str, list[int]] = {
        one.family: [one.faults, one.planted, *(one.scores.get(name, 0) for name in SCORES)]
        for one in tallies(proof.plantings)
    }
    rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    return [[name, *map(str, numbers)] for name, numbers in rows.items()]


def _table(proof: Proof) -> Iterator[str]:
    """The table of the families for a terminal."""
    for row in (_HEADING, *_counts(proof)):
        yield f"{row[0]:<12}" + "".join(f"{cell:>11}" for cell in row[1:])


def _marked(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{' --- |' * len(heading)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _problems(proof: Proof) -> Iterator[str]:
    """A line for everything that is not as it should be, within reason."""
    found = list(_all_problems(proof))
    yield from found[:_MOST]
    if len(found) > _MOST:
        yield f"and {len(found) - _MOST} more"


def _all_problems(proof: Proof) -> Iterator[str]:
    yield from _not_found(proof.plantings)
    for beside in proof.neighbours:
        for cell in beside.spoilt:
            yield f"SPOILT by a fault of another cell: {_told(cell)}"
        for cell in beside.other_outcome:
            yield f"OTHER OUTCOME than the fault demands: {_told(cell)}"
        for what in beside.left_behind:
            yield f"LEFT BEHIND on {beside.core}: {what}"
    for round_ in proof.rounds:
        for cell in round_.alarms:
            yield f"FALSE ALARM: {_told(cell)}, in {round_.folder.name}"
        for text in round_.expectations:
            yield f"FALSE ALARM: {text} does not hold, in {round_.folder.name}"


def _not_found(plantings: Sequence[Planting]) -> Iterator[str]:
    """A line for each fault that was not found as its row demands, and way in which it was not."""
    alike: dict[tuple[str, ...], list[Planting]] = {}
    for one in plantings:
        if one.score in _MEANINGS:
            alike.setdefault((one.score, one.fault.name, one.scenario, one.outcome), []).append(one)
    for (score, name, scenario, outcome), same in alike.items():
        cores = ", ".join(one.core for one in same)
        due = " or ".join(same[0].fault.outcome)
        told = ": ".join(filter(None, [scenario, outcome, same[0].detail]))
        yield f"{score.upper()} {name} on {cores} (due: {due}): {one_line(told, 300)}"


def _told(cell: CellResult) -> str:
    return one_line(
        f"{cell.id}: {cell.outcome} ({cell.reason}), {cell.verdict}: {cell.detail}", 300
    )


def _sentences(proof: Proof) -> Iterator[str]:
    if proof.elsewhere:
        names = ", ".join(fault.name for fault in proof.elsewhere)
        yield f"Can occur on none of the selected cores: {names}."
    if proof.neighbours:
        planted = sum(one.planted for one in proof.neighbours)
        others = sum(one.others for one in proof.neighbours)
        spoilt = sum(len(one.spoilt) for one in proof.neighbours)
        left = sum(len(one.left_behind) for one in proof.neighbours)
        yield (
            f"{count(planted, 'session')} with a hostile fault in "
            f"{count(len(proof.neighbours), 'whole run')}: {spoilt} of "
            f"{count(others, 'other cell')} spoilt; processes and files left behind: {left}."
        )
    if proof.planned_rounds:
        yield (
            f"The conforming plugin on {count(len(proof.versions), 'core')}, "
            f"{proof.versions[0]} to {proof.versions[-1]}: {count(proof.alarms, 'false alarm')} in "
            f"{count(proof.conforming_cells, 'cell')} of {count(len(proof.rounds), 'round')}."
        )
    else:
        yield (
            "The plugin was not run without a fault, so nothing is known of false alarms: --cells "
            "or --rounds asks for it."
        )


def _plain(text: str) -> str:
    """Text of a table or a list, in which nothing is Markdown by accident."""
    return re.sub(r"([\\`*_|<>\[\]#])", r"\\\1", text)
