"""The audit of a policy: a line a core, what contradicts it, and what it cannot prove."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from harness.audit import CoreAudit, Standing, proposed_rules
from harness.report.text import one_line
from harness.results import Results

__all__ = ["audit_text"]

_MEANS: dict[Standing, str] = {
    "contradicted": "declared concurrent, and it broke. One death is enough: the policy is wrong.",
    "confirmed": "declared serialized, and driven concurrently it broke.",
    "consistent": "declared concurrent, and nothing broke. That is no proof: a race may need "
    "another device, another driver, more threads or more luck. With more --repeat it says more.",
    "unproved": "declared serialized, and nothing broke here. The policy is safe as it is; whether "
    "the plugin may be driven concurrently is for those to say who know its code.",
    "unknown": "nothing was tried that could tell, for instance since the core refuses the plugin.",
}
_WIDTH = 100


def audit_text(audits: Sequence[CoreAudit], results: Results) -> str:
    """The audit for people, as lines of plain text that no plugin can colour.

    Args:
        audits: the cores.
        results: the run that they were made from.
    """
    plugin = results.plugin
    version = plugin.version or plugin.version_seen
    name = one_line(plugin.name, 60)
    lines = [f"plugin    {name} {version or '(version unknown)'}, driven concurrently", ""]
    cores = [one_line(one.core, 40) for one in audits]
    width = max((len(core) for core in cores), default=0)
    for core, one in zip(cores, audits, strict=True):
        standing = one.standing.upper() if one.standing == "contradicted" else one.standing
        head = f"{core:<{width}}  declared {one.declared:<10}  {standing:<12}  "
        lines += textwrap.wrap(
            one_line(one.observed, 2_000),
            _WIDTH,
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
        )
    lines.append("")
    for standing in dict.fromkeys(one.standing for one in audits):
        lines += textwrap.wrap(f"{standing}: {_MEANS[standing]}", _WIDTH, subsequent_indent="    ")
    rules = proposed_rules(audits, version)
    if rules:
        lines += [
            "",
            f"First under policy.rules of {name} in matrix.yaml, these make it true:",
        ]
        lines += ["", *(textwrap.indent(_kept(line), "        ") for line in rules.splitlines())]
    return "\n".join(lines)


def _kept(line: str) -> str:
    """A line with its indentation, and nothing in it that a terminal would obey."""
    text = line.lstrip(" ")
    return line[: len(line) - len(text)] + one_line(text, 2_000)
