"""The scenarios as a page of documentation: the defect that each exists for, family by family."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from harness.host.scenario import HostKind, Scenario

__all__ = ["scenario_page"]

_HOSTS: dict[HostKind, str] = {
    "registered": "",
    "bare": "registers the plugin itself",
    "python": "in the core's own Python package",
}


def scenario_page(scenarios: Iterable[Scenario]) -> str:
    """Markdown, ending in a line end.

    Args:
        scenarios: in the order of the page; those of a family together.
    """
    listed = list(scenarios)
    lines = [
        "# The scenarios",
        "",
        f"{len(listed)} scenarios, each with the defect that it exists for. This page is made by",
        "`ort-ep-matrix scenarios --markdown`;",
        "[Writing a scenario](writing-a-scenario.md) says how to add one.",
    ]
    for family, members in groupby(listed, key=lambda one: one.family):
        lines += ["", f"## {family}", "", "| scenario | the defect that it exists for | |"]
        lines.append("|---|---|---|")
        lines += [
            f"| `{one.name}` | {one.why.replace('|', chr(92) + '|')} | {_host(one)} |"
            for one in members
        ]
    return "\n".join(lines) + "\n"


def _host(scenario: Scenario) -> str:
    """What is special about the host of a scenario; empty if nothing is."""
    own = "in a host of its own" if scenario.alone else ""
    left = "which ends with everything alive" if scenario.ends_alive else ""
    return ", ".join(filter(None, [_HOSTS[scenario.host], own, left]))
