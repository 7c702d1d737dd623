"""What a scenario is, and how the engine and a host find the scenarios of a module.

A scenario module holds plain functions under `@scenario(...)`. Nothing is registered anywhere:
`scenarios_in` looks at what a module holds.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from types import ModuleType

    from harness.host.host import Host

__all__ = ["Model", "Scenario", "ScenarioGroup", "find_scenarios", "scenario", "scenario_packages"]

ENTRY_POINTS = "ort_ep_matrix.scenarios"


@dataclass(frozen=True)
class Scenario:
    """One named thing to try."""

    name: str
    """`family/name` or `family/name[parameter]`."""
    why: str
    """The defect that it exists for."""
    function: Callable[[Host], None]
    timeout_s: float | None = None
    """For all iterations together; none leaves it to the matrix."""

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
) -> Callable[[Callable[..., None]], ScenarioGroup]:
    """Make a function a scenario, or several that differ in one argument.

    Args:
        name: `family/name`.
        why: the defect that it exists for, in a line.
        cases: the parameter in brackets to the second argument of the function.
        timeout_s: seconds for all iterations together.
    """

    def decorate(function: Callable[..., None]) -> ScenarioGroup:
        if cases is None:
            return ScenarioGroup((Scenario(name, why, function, timeout_s),))
        return ScenarioGroup(
            tuple(
                Scenario(f"{name}[{case}]", why, _with(function, value), timeout_s)
                for case, value in cases.items()
            )
        )

    return decorate


def _with(function: Callable[..., None], value: Any) -> Callable[[Host], None]:
    def bound(host: Host) -> None:
        function(host, value)

    return bound


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


@dataclass(frozen=True)
class Model:
    """An ONNX model of a scenario: float32 tensors of fixed shapes.

    It is built once, by the `onnx` package, and then read from a cache, since importing that
    package would cost a host more time than most scenarios.
    """

    name: str
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    build: Callable[[Model], bytes]

    def load(self, cache: Path) -> bytes:
        """Its bytes, from the cache or newly built into it.

        Args:
            cache: a folder; files in it are named by the source that builds them.
        """
        source = Path(cast(FunctionType, self.build).__code__.co_filename)
        key = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
        path = cache / f"{self.name}-{key}.onnx"
        try:
            return path.read_bytes()
        except FileNotFoundError:
            pass
        built = self.build(self)
        cache.mkdir(parents=True, exist_ok=True)
        # Hosts that start together may build the same model: each writes its own file whole.
        handle, temporary = tempfile.mkstemp(dir=cache, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(built)
        Path(temporary).replace(path)
        return built
