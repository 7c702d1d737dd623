"""The plan of a run: from the model and a selection to the cells of every core. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from harness.config import Matrix, Mode, PluginEntry
from harness.errors import InputError, PolicyError, SelectionError
from harness.host.scenario import HostKind, Scenario, task_name
from harness.names import matches, suggestion
from harness.policy import Decision, decide, override_environment

__all__ = [
    "Cell",
    "CorePlan",
    "Selection",
    "WantedMode",
    "github_matrix",
    "make_plan",
    "plan_json",
    "select_scenarios",
]

WantedMode = Literal["serialized", "concurrent", "policy", "both"]


@dataclass(frozen=True)
class Cell:
    """One core, plugin, mode and scenario.

    Attributes:
        id: `<core id>/<mode>/<scenario>`, from the second repetition on with its number, as
            `#2`; unique in a run, since a run has one plugin.
        core: the core's id.
        plugin: the plugin's name.
        mode: how the harness drives the device.
        scenario: the full name, parameters included.
        timeout_s: seconds for all iterations together.
        iterations: how many.
        host: the kind of host that the scenario is given.
        repetition: which one of the whole scenario, from 1.
        alone: whether it shares a host with no other.
    """

    id: str
    core: str
    plugin: str
    mode: Mode
    scenario: str
    timeout_s: float
    iterations: int
    host: HostKind = "registered"
    repetition: int = 1
    alone: bool = False

    @property
    def task(self) -> str:
        """What a host calls it: the scenario, with the number of a later repetition."""
        return task_name(self.scenario, self.repetition)


@dataclass(frozen=True)
class Selection:
    """What the user asked for."""

    matrix: Path | None = None
    plugin: str | None = None
    cores: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    iterations: int | None = None
    mode: WantedMode = "policy"
    repeat: int = 1
    shuffle: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether it leaves nothing of the matrix out."""
        return not self.cores and not self.scenarios and self.mode == "policy"


@dataclass(frozen=True)
class CorePlan:
    """All that a run does with one core in one mode.

    Attributes:
        core: the core's id.
        version: the core's version.
        decision: what the policy says of this core and plugin.
        mode: how the harness drives the device: the decision's, or the one asked for.
        environment: of the core's host processes, complete. Kept out of `repr` and of every
            report, since the user's own environment may hold secrets.
        settings: the part of it that the harness sets on top of the base environment.
        cells: in the order in which they run.
        shuffle: the seed of the order of scenarios and iterations; none for their own order.
    """

    core: str
    version: str
    decision: Decision
    mode: Mode
    environment: Mapping[str, str] = field(repr=False, hash=False)
    settings: Mapping[str, str] = field(hash=False)
    cells: tuple[Cell, ...]
    shuffle: int | None = None


def make_plan(
    matrix: Matrix,
    *,
    cores: Sequence[tuple[str, str]],
    plugin_name: str,
    plugin_version: str | None,
    entry: PluginEntry | None,
    scenarios: Sequence[Scenario],
    scenario_globs: Sequence[str] = (),
    iterations: int | None = None,
    mode: WantedMode = "policy",
    repeat: int = 1,
    shuffle: int | None = None,
    environment: Mapping[str, str],
    user_environment: Mapping[str, str],
) -> tuple[CorePlan, ...]:
    """Lay out every cell of a run.

    Where the policy says concurrent and the plugin has a variable that forces serialized mode,
    the core's cells are planned in that mode, too.

    A host's environment is made of five layers, the later over the earlier: the matrix's
    `environment`, the plugin entry's, the base environment, `user_environment`, and what the
    policy's override needs. The base wins over the entry because it is the user's own shell: an
    entry holds what a plugin needs where nobody has said otherwise.

    Args:
        matrix: the validated model.
        cores: id and version of each core, in the order of the run; ids are unique.
        plugin_name: names the plugin in cells.
        plugin_version: the plugin's version; none if it is unknown.
        entry: what `matrix.yaml` says of the plugin; none for a bare path or requirement.
        scenarios: every scenario that there is.
        scenario_globs: names, families or globs; all scenarios without one.
        iterations: in place of the matrix's own number.
        mode: the mode for all cores, `both` of them, or `policy` for each core's own.
        repeat: how often each scenario is run as a whole.
        shuffle: a seed: scenarios and iterations run in a random order that it decides.
        environment: the base environment, complete. Names compare exactly: where the platform
            ignores case, the caller brings both environments to one case.
        user_environment: what the user set for this run.

    Returns:
        One plan for each core, two for a core that is driven in both modes.

    Raises:
        SelectionError: there is no core or no scenario, or a glob of the selection or of the
            matrix's `scenarios` matches nothing.
        PolicyError: the environment holds a value that the policy does not know, or forces
            serialized where concurrent was asked for.
        InputError: a version is none, or iterations is below 1.
        ValueError: two cores share an id.
    """
    if not cores:
        raise SelectionError(
            "No core is selected.",
            'Give --core a specifier such as ">=1.24.4", or list sources under cores in '
            "matrix.yaml.",
        )
    if len({core for core, _ in cores}) != len(cores):
        raise ValueError("two cores of a plan share an id")
    count = matrix.iterations if iterations is None else iterations
    if count < 1:
        raise InputError(f"{count} iterations are too few.", "Ask for 1 or more.")
    names = [one.name for one in scenarios]
    by_name = {one.name: one for one in scenarios}
    timeouts = _timeouts(matrix, scenarios)
    selected = select_scenarios(names, scenario_globs)

    base = {
        **matrix.environment,
        **(entry.environment if entry else {}),
        **environment,
        **user_environment,
    }
    plans = []
    for core, version in cores:
        decision = decide(
            entry.policy if entry else None,
            matrix.core_checks,
            core=version,
            plugin_version=plugin_version,
            environment=base,
        )
        if mode in ("concurrent", "both") and decision.override is not None:
            raise PolicyError(
                f"Concurrent mode was asked for, and {decision.override} forces "
                f"{decision.mode} mode.",
                "Take the variable away, from the environment or from --env.",
            )

        def forced(wanted: Mode, decided: Decision = decision) -> dict[str, str]:
            return override_environment(
                entry.policy if entry else None,
                plugin_version=plugin_version,
                wanted=wanted,
                decided=decided,
            )

        for used in _modes(mode, decision.mode, can_be_forced=bool(forced("serialized"))):
            full = {**base, **forced(used)}
            cells = [
                Cell(
                    id=f"{core}/{used}/{task_name(name, repetition)}",
                    core=core,
                    plugin=plugin_name,
                    mode=used,
                    scenario=name,
                    timeout_s=timeouts[name],
                    iterations=count,
                    host=by_name[name].host,
                    repetition=repetition,
                    alone=by_name[name].alone,
                )
                for repetition in range(1, repeat + 1)
                for name in selected
            ]
            if shuffle is not None:
                random.Random(f"{shuffle}/{core}/{used}").shuffle(cells)  # noqa: S311 - an order
            settings = {
                name: value
                for name, value in full.items()
                if environment.get(name) != value or name in user_environment
            }
            plans.append(
                CorePlan(core, version, decision, used, full, settings, tuple(cells), shuffle)
            )
    return tuple(plans)


def select_scenarios(names: Sequence[str], globs: Sequence[str]) -> tuple[str, ...]:
    """The scenarios that any of the globs matches, in the order of the names.

    Args:
        names: the full names of every scenario.
        globs: names, families or globs; all scenarios without one.

    Returns:
        At least one name.

    Raises:
        SelectionError: there is no scenario, or a glob matches none.
    """
    if not names:
        raise SelectionError("There is no scenario to run.")
    for glob in globs:
        _check_glob(glob, names, f'--scenario "{glob}"')
    if not globs:
        return tuple(names)
    return tuple(name for name in names if any(matches(glob, name) for glob in globs))


def github_matrix(plans: Sequence[CorePlan]) -> str:
    """The plan as the matrix of a GitHub Actions job: one job for each core and mode.

    Args:
        plans: the plans of the cores.

    Returns:
        One line of JSON, `{"include": [{"core": ..., "mode": ...}, ...]}`.
    """
    include = [{"core": plan.core, "mode": plan.mode} for plan in plans]
    return json.dumps({"include": include})


def plan_json(plans: Sequence[CorePlan]) -> str:
    """The plan as JSON, for people and programs.

    Args:
        plans: the plan of each core.

    Returns:
        An object with `cores` (what was decided for each, and why) and `cells`. Of the
        environment it holds only what the harness sets on top of the base.
    """
    cores = [
        {
            "core": plan.core,
            "version": plan.version,
            "mode": plan.mode,
            "environment": dict(plan.settings),
            "decision": asdict(plan.decision),
        }
        for plan in plans
    ]
    cells = [asdict(cell) for plan in plans for cell in plan.cells]
    return json.dumps({"schema_version": 1, "cores": cores, "cells": cells}, indent=2)


def _modes(wanted: WantedMode, decided: Mode, *, can_be_forced: bool) -> list[Mode]:
    """The modes in which a core is driven, the one that was asked for first."""
    if wanted == "both":
        return ["concurrent", "serialized"]
    if wanted != "policy":
        return [wanted]
    forced: list[Mode] = ["serialized"] if can_be_forced else []
    return [decided, *forced]


def _timeouts(matrix: Matrix, scenarios: Sequence[Scenario]) -> dict[str, float]:
    names = [one.name for one in scenarios]
    timeouts = {
        one.name: matrix.timeout_s if one.timeout_s is None else one.timeout_s for one in scenarios
    }
    for glob, settings in matrix.scenarios.items():
        _check_glob(glob, names, f'"{glob}" under scenarios in matrix.yaml')
        timeouts.update((name, settings.timeout_s) for name in names if matches(glob, name))
    return timeouts


def _check_glob(glob: str, names: Sequence[str], what: str) -> None:
    if any(matches(glob, name) for name in names):
        return
    close = suggestion(glob, names)
    families = sorted({name.partition("/")[0] for name in names})
    raise SelectionError(
        f"{what} matches no scenario" + (f'; perhaps you meant "{close}"?' if close else "."),
        f"{'Family' if len(families) == 1 else 'Families'}: {', '.join(families)}. "
        "`ort-ep-matrix scenarios` lists all names.",
    )
