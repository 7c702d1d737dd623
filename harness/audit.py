"""What driving every core concurrently showed, beside what the policy says of it; pure.

The policy is a claim about other people's code. An audit runs the concurrency scenarios on every
core in concurrent mode, each cell in a host of its own, and lays what happened beside the claim.
The same cells are run serialized: what breaks in that mode, too, says nothing of the policy.
A death disproves a claim of concurrent mode. Clean cells prove none: the race may need another
device, another driver, or more luck.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from packaging.version import Version

from harness.config import Mode
from harness.outcome import INFRASTRUCTURE, NO_OVERLAP
from harness.results import CellResult, CoreResult, Results

__all__ = ["Audit", "CoreAudit", "Happening", "Standing", "audit_of"]

Standing = Literal["contradicted", "confirmed", "consistent", "unproved", "unknown"]
"""How what was seen stands to what the policy declares:

* contradicted: declared concurrent, and it was not clean
* confirmed: declared serialized, and concurrent driving was not clean
* consistent: declared concurrent, and all was clean
* unproved: declared serialized, and all was clean: the rule may be stricter than need be
* unknown: the core refused the plugin, nothing overlapped, or nothing could be tried
"""

_SAYS_NOTHING = ("rejected", "unsupported", *INFRASTRUCTURE)


@dataclass(frozen=True)
class Happening:
    """What happened alike in cells of one core.

    Attributes:
        verb: such as "died", "failed" or "unsupported".
        what: such as "SIGSEGV in Run", or a reason code.
        cells: the ids of the cells, in the order of the run.
    """

    verb: str
    what: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class CoreAudit:
    """One core of an audit.

    Attributes:
        core: its id.
        version: its version.
        declared: the mode that the policy says.
        rule: the rule that says so.
        standing: what was seen means for the policy.
        clean: the ids of the cells that were driven concurrently and passed.
        troubles: what happened in those that did not pass, the most frequent first.
        silent: what happened in the cells that say nothing of concurrent driving.
        complete: whether every cell was tried.
    """

    core: str
    version: str
    declared: Mode
    rule: str
    standing: Standing
    clean: tuple[str, ...]
    troubles: tuple[Happening, ...]
    silent: tuple[Happening, ...]
    complete: bool

    @property
    def tried(self) -> int:
        """How many cells say something of concurrent driving."""
        return len(self.clean) + sum(len(one.cells) for one in self.troubles)

    @property
    def observed(self) -> str:
        """What was seen, in a line: first of the cells that tell, then of those that do not."""
        parts = []
        if self.tried:
            parts.append(f"{len(self.clean)} of {self.tried} clean")
        parts += _by_verb(self.troubles)
        if self.silent:
            parts.append(f"not counted: {', '.join(_by_verb(self.silent))}")
        return "; ".join(parts) or "no cells"


@dataclass(frozen=True)
class Audit:
    """What an audit of one plugin showed.

    Attributes:
        cores: core by core.
        proposed_rules: lines of YAML for `policy.rules` of the plugin's entry, to stand before
            those that are there; empty if nothing was disproved, since only that calls for a rule.
        exit_code: 1 if the policy is contradicted; else 3 if not all was tried or nothing at all
            could be learnt; else 0.
    """

    cores: tuple[CoreAudit, ...]
    proposed_rules: str
    exit_code: int


def audit_of(results: Results) -> Audit:
    """The audit of a run that drove every core in both modes."""
    cores = tuple(
        _core(core, [cell for cell in results.cells if cell.core == core.id])
        for core in results.cores
    )
    version = results.plugin.version or results.plugin.version_seen
    return Audit(cores, _proposed_rules(cores, version), _exit_code(cores))


def _exit_code(cores: Sequence[CoreAudit]) -> int:
    if any(one.standing == "contradicted" for one in cores):
        return 1
    return 0 if any(one.tried for one in cores) and all(one.complete for one in cores) else 3


def _proposed_rules(cores: Sequence[CoreAudit], plugin_version: str | None) -> str:
    """A rule for each core that was contradicted; for the version that was tried alone."""
    lines = []
    for one in cores:
        if one.standing != "contradicted":
            continue
        lines.append(f'- core: "=={one.version}"')
        if plugin_version is not None and _is_version(plugin_version):
            lines.append(f'  plugin: "=={plugin_version}"')
        lines += ["  mode: serialized", "  why: >-", f"    Driven concurrently: {one.observed}."]
    return "\n".join(lines)


def _is_version(text: str) -> bool:
    """Whether it is one: what an EP device says of its version may be any text."""
    try:
        Version(text)
    except ValueError:  # InvalidVersion is one; so is a number of too many digits
        return False
    return True


def _core(core: CoreResult, cells: Sequence[CellResult]) -> CoreAudit:
    # Repetitions of the two modes are no pairs: what breaks now and then breaks in either.
    broken_anyway = {
        cell.scenario
        for cell in cells
        if cell.mode == "serialized" and cell.outcome not in ("passed", *_SAYS_NOTHING)
    }
    untried = {
        cell.scenario for cell in cells if cell.mode == "serialized" and _was_not_tried(cell)
    }
    tried = [cell for cell in cells if cell.mode == "concurrent"]
    unheard = {cell.id: why for cell in tried if (why := _silence(cell, broken_anyway, untried))}
    telling = [cell for cell in tried if cell.id not in unheard]
    clean = tuple(cell.id for cell in telling if cell.outcome == "passed")
    troubles = _alike({cell.id: _trouble(cell) for cell in telling if cell.outcome != "passed"})
    if not telling:
        standing: Standing = "unknown"
    elif core.declared == "concurrent":
        standing = "contradicted" if troubles else "consistent"
    else:
        standing = "confirmed" if troubles else "unproved"
    return CoreAudit(
        core=core.id,
        version=core.version,
        declared=core.declared,
        rule=core.mode_rule,
        standing=standing,
        clean=clean,
        troubles=troubles,
        silent=_alike(unheard),
        complete=not any(_was_not_tried(cell) for cell in cells),
    )


def _by_verb(happenings: Sequence[Happening]) -> list[str]:
    """Happenings by verb, each with what was most frequent."""
    verbs: dict[str, list[Happening]] = {}
    for one in happenings:
        verbs.setdefault(one.verb, []).append(one)
    return [
        f"{verb} in {sum(len(one.cells) for one in alike)}: {alike[0].what}"
        + " and otherwise" * (len(alike) > 1)
        for verb, alike in verbs.items()
    ]


def _alike(said: Mapping[str, tuple[str, str]]) -> tuple[Happening, ...]:
    """Cells by what happened in them, the most frequent first."""
    cells: dict[tuple[str, str], list[str]] = {}
    for cell, happened in said.items():
        cells.setdefault(happened, []).append(cell)
    found = [Happening(verb, what, tuple(ids)) for (verb, what), ids in cells.items()]
    return tuple(sorted(found, key=lambda one: -len(one.cells)))


def _was_not_tried(cell: CellResult) -> bool:
    # That lanes never met was tried, and is no fault of the machine.
    return cell.outcome in INFRASTRUCTURE and cell.reason != NO_OVERLAP


def _silence(
    cell: CellResult,
    broken_anyway: Container[str],
    untried: Container[str],
) -> tuple[str, str] | None:
    """Why a cell says nothing of concurrent driving; none if it does.

    Args:
        cell: one that was driven concurrently.
        broken_anyway: scenarios that broke when they were driven serialized, be it once.
        untried: those that were not tried serialized as often as they should have been.
    """
    if cell.outcome in _SAYS_NOTHING:
        return cell.outcome, cell.reason
    if cell.outcome == "passed":
        return ("passed", "in one thread") if cell.overlap is None else None
    if cell.scenario in broken_anyway:
        return "broken", "serialized as well"
    if cell.scenario in untried:
        return "broken", "but not tried serialized"
    return None


def _trouble(cell: CellResult) -> tuple[str, str]:
    """What happened in a cell, without what differs between equal troubles."""
    death = next((one.death for one in cell.attempts if one.death is not None), None)
    if death is None:
        return cell.outcome, cell.reason
    where = f"{'in' if death.inside_call else 'after'} {death.last_call or death.phase}"
    return ("hung", where) if death.how == "hang" else ("died", f"{death.name} {where}")
