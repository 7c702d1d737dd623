"""What a scenario is, and how the engine and a host find the scenarios of a module.

A scenario module holds plain functions under `@scenario(...)`. Nothing is registered anywhere:
`scenarios_in` looks at what a module holds.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "HostKind",
    "Scenario",
    "ScenarioGroup",
    "find_scenarios",
    "scenario",
    "scenario_packages",
    "task_name",
    "task_scenario",
]

ENTRY_POINTS = "ort_ep_matrix.scenarios"

HostKind = Literal["registered", "bare", "python"]
"""What a host has done before its scenarios: `registered` the plugin; or, `bare`, only loaded the
core, so that a scenario registers the plugin itself; or registered it in the core's own `python`
package instead of the C API."""


@dataclass(frozen=True)
class Scenario:
    """One named thing to try."""

    name: str
    """`family/name` or `family/name[parameter]`."""
    why: str
    """The defect that it exists for."""
    function: Callable[[Any], None]
    """Is given what its kind of host is: a `Host`, a `BareHost` or a `PythonHost`."""
    timeout_s: float | None = None
    """For all iterations together; none leaves it to the matrix."""
    host: HostKind = "registered"
    alone: bool = False
    """Has a host of its own, since it may spoil the process for others by design."""
    ends_alive: bool = False
    """Nothing is released after it: the process ends with everything alive. Such a one is alone."""

    @property
    def family(self) -> str:
        """The part before the slash."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class ScenarioGroup:
    """What the decorator leaves in place of the function: one scenario a case."""

    scenarios: tuple[Scenario, ...]


def scenario(
    name: str,
    *,
    why: str,
    cases: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
    host: HostKind = "registered",
    alone: bool = False,
    ends_alive: bool = False,
) -> Callable[[Callable[..., None]], ScenarioGroup]:
    """Make a function a scenario, or several that differ in one argument.

    Args:
        name: `family/name`.
        why: the defect that it exists for, in a line.
        cases: the parameter in brackets to the second argument of the function.
        timeout_s: seconds for all iterations together.
        host: the kind of host that it is given.
        alone: whether it has a host of its own, since it may spoil the process by design.
        ends_alive: whether the process ends after it with everything alive that it created, the
            registration and the environment; it has a host of its own then.
    """

    def one(name: str, function: Callable[..., None]) -> Scenario:
        return Scenario(name, why, function, timeout_s, host, alone or ends_alive, ends_alive)

    def decorate(function: Callable[..., None]) -> ScenarioGroup:
        if cases is None:
            return ScenarioGroup((one(name, function),))
        return ScenarioGroup(
            tuple(one(f"{name}[{case}]", _with(function, value)) for case, value in cases.items())
        )

    return decorate


def _with(function: Callable[..., None], value: Any) -> Callable[[Any], None]:
    def bound(host: Any) -> None:
        function(host, value)

    return bound


def task_name(scenario: str, repetition: int) -> str:
    """What a repetition of a scenario is called, from 1: the first by the scenario's own name."""
    return scenario if repetition == 1 else f"{scenario}#{repetition}"


def task_scenario(task: str) -> str:
    """The name of the scenario that a task repeats."""
    return task.partition("#")[0]


def scenario_packages() -> list[str]:
    """The names of the packages that bring scenarios, by the entry points of what is installed."""
    from importlib.metadata import entry_points

    points = entry_points(group=ENTRY_POINTS)
    return sorted({point.value for point in points})


def find_scenarios(packages: Iterable[str]) -> dict[str, Scenario]:
    """All scenarios of the packages and their modules, by name, in the order of their source.

    Raises:
        ValueError: two scenarios have the same name.
    """
    found: dict[str, Scenario] = {}
    for package in packages:
        for module in _modules(package):
            for value in vars(module).values():
                if not isinstance(value, ScenarioGroup):
                    continue
                for one in value.scenarios:
                    known = found.setdefault(one.name, one)
                    if known is not one:
                        raise ValueError(f'two scenarios are called "{one.name}"')
    return found


def _modules(package: str) -> list[ModuleType]:
    root = importlib.import_module(package)
    names = [m.name for m in pkgutil.iter_modules(getattr(root, "__path__", []))]
    return [root, *(importlib.import_module(f"{package}.{name}") for name in sorted(names))]
