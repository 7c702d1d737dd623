"""What driving every core concurrently showed, beside what the policy says of it; pure.

The policy is a claim about other people's code. An audit runs the concurrency scenarios on every
core in concurrent mode, each cell in a host of its own, and lays what happened beside the claim.
The same cells are run serialized: what breaks in that mode, too, says nothing of the policy.
A death disproves a claim of concurrent mode. Clean cells prove none: the race may need another
device, another driver, or more luck.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.config import Mode
from harness.results import CellResult, CoreResult, Results

__all__ = ["CoreAudit", "Standing", "audit_exit_code", "audit_of", "proposed_rules"]

Standing = Literal["contradicted", "confirmed", "consistent", "unproved", "unknown"]
"""How what was seen stands to what the policy declares:

* contradicted: declared concurrent, and it was not clean
* confirmed: declared serialized, and concurrent driving was not clean
* consistent: declared concurrent, and all was clean
* unproved: declared serialized, and all was clean: the rule may be stricter than need be
* unknown: the core refused the plugin, nothing overlapped, or nothing could be tried
"""

_SAYS_NOTHING = ("rejected", "unsupported", "not-run", "infra-error")


@dataclass(frozen=True)
class CoreAudit:
    """One core of an audit.

    Attributes:
        core: its id.
        version: its version.
        declared: the mode that the policy says.
        rule: the rule that says so.
        tried: cells that say something of concurrent driving.
        clean: those among them that passed.
        troubles: what happened in the others, such as ("died", "SIGSEGV in Run"), with counts, the
            most frequent first.
        silent: outcome and reason of the cells that say nothing, with counts.
        standing: what that means for the policy.
    """

    core: str
    version: str
    declared: Mode
    rule: str
    tried: int
    clean: int
    troubles: tuple[tuple[tuple[str, str], int], ...]
    silent: tuple[tuple[tuple[str, str], int], ...]
    standing: Standing

    @property
    def observed(self) -> str:
        """What was seen, in a line."""
        parts = []
        if self.tried:
            parts.append(f"{self.clean} of {self.tried} clean")
        parts += [f"{verb} in {number}: {what}" for (verb, what), number in self.troubles]
        parts += [f"{verb} in {number}: {what}" for (verb, what), number in self.silent]
        return "; ".join(parts) or "no cells"


def audit_of(results: Results) -> tuple[CoreAudit, ...]:
    """The audit of a run that drove every core concurrently, core by core."""
    return tuple(
        _core(core, [cell for cell in results.cells if cell.core == core.id])
        for core in results.cores
    )


def audit_exit_code(audits: Sequence[CoreAudit]) -> int:
    """1 if the policy is contradicted; else 3 if nothing at all could be learnt; else 0."""
    if any(one.standing == "contradicted" for one in audits):
        return 1
    return 0 if any(one.tried for one in audits) else 3


def proposed_rules(audits: Sequence[CoreAudit], plugin_version: str | None) -> str:
    """Lines for `policy.rules` of the plugin's entry, to stand before the rules that are there.

    Only what was disproved calls for a rule; empty if nothing was.

    Args:
        audits: the cores.
        plugin_version: the version that was tried; a rule holds for that one alone.
    """
    lines = []
    for one in audits:
        if one.standing != "contradicted":
            continue
        lines.append(f'- core: "=={one.version}"')
        if plugin_version is not None:
            lines.append(f'  plugin: "=={plugin_version}"')
        lines += ["  mode: serialized", "  why: >-", f"    Driven concurrently: {one.observed}."]
    return "\n".join(lines)


def _core(core: CoreResult, cells: Sequence[CellResult]) -> CoreAudit:
    broken_anyway = {
        (cell.scenario, cell.repetition)
        for cell in cells
        if cell.mode == "serialized" and cell.outcome not in ("passed", *_SAYS_NOTHING)
    }
    tried = [cell for cell in cells if cell.mode == "concurrent"]
    unheard = {cell.id: why for cell in tried if (why := _silence(cell, broken_anyway))}
    telling = [cell for cell in tried if cell.id not in unheard]
    troubles = Counter(_trouble(cell) for cell in telling if cell.outcome != "passed")
    silent = Counter(unheard.values())
    clean = len(telling) - troubles.total()
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
        tried=len(telling),
        clean=clean,
        troubles=tuple(troubles.most_common()),
        silent=tuple(silent.most_common()),
        standing=standing,
    )


def _silence(cell: CellResult, broken_anyway: Container[tuple[str, int]]) -> tuple[str, str] | None:
    """Why a cell says nothing of concurrent driving; none if it does."""
    if cell.outcome in _SAYS_NOTHING:
        return cell.outcome, cell.reason
    if cell.outcome == "passed" and cell.overlap is None:
        return "passed", "in one thread"
    if (cell.scenario, cell.repetition) in broken_anyway:
        return "broken", "serialized as well"
    return None


def _trouble(cell: CellResult) -> tuple[str, str]:
    """What happened in a cell, without what differs between equal troubles."""
    death = next((one.death for one in cell.attempts if one.death is not None), None)
    if death is None:
        return cell.outcome, cell.reason
    where = f"{'in' if death.inside_call else 'after'} {death.last_call or death.phase}"
    return ("hung", where) if death.how == "hang" else ("died", f"{death.name} {where}")
