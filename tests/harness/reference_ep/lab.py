"""Runs scenarios with the reference plugin through the engine, and says what came of each."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.artifacts.cache import default_cache
from harness.artifacts.cores import Core, resolve_cores
from harness.artifacts.lock import read_lock
from harness.artifacts.plugins import resolve_plugin
from harness.execute import Setting, execute, quiet
from harness.host.scenario import find_scenarios
from harness.judge import Case, judge
from harness.matrix_file import load
from harness.plan import make_plan
from harness.results import CellResult, CoreResult, Observation, PluginResult, RunInfo
from tests.conftest import TOP

__all__ = ["PROBES", "SCENARIOS", "Lab", "cores"]

SCENARIOS = "scenarios"
PROBES = "tests.probes"


def cores(versions: Sequence[str]) -> list[Core]:
    """The official cores of these versions, from the cache or fetched into it."""
    found = resolve_cores(
        load(TOP / "matrix.yaml").matrix,
        TOP,
        default_cache(),
        lock=read_lock(TOP / "matrix.lock.json"),
        selectors=list(versions),
    )
    assert [core.error for core in found] == [None] * len(versions)
    return found


@dataclass(frozen=True)
class Lab:
    """One built library, and a folder for what its runs leave."""

    library: Path
    folder: Path

    def matrix(self) -> Path:
        """A copy of the shipped `matrix.yaml` that names the library."""
        text = (TOP / "matrix.yaml").read_text(encoding="utf-8")
        assert text.count("bundled: true") == 1
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "matrix.yaml"
        path.write_text(text.replace("bundled: true", f"path: {self.library}"), encoding="utf-8")
        return path

    def run(
        self,
        cores: Sequence[Core],
        *,
        package: str = SCENARIOS,
        names: Iterable[str] | None = None,
        environment: Mapping[str, str] | None = None,
        iterations: int = 20,
        timeout_s: float = 30.0,
    ) -> dict[tuple[str, str], CellResult]:
        """The cells of scenarios of a package on some cores, by core and scenario."""
        loaded = load(self.matrix())
        plugin = resolve_plugin(loaded.matrix, self.folder, default_cache(), "reference")
        known = find_scenarios([package])
        user = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TOP), *sys.path])}
        plans = make_plan(
            loaded.matrix,
            cores=[(core.id, core.version) for core in cores],
            plugin_name=plugin.name,
            plugin_version=plugin.version,
            entry=plugin.entry,
            scenarios=[
                replace(known[name], timeout_s=timeout_s)
                for name in (known if names is None else names)
            ],
            iterations=iterations,
            environment=user,
            user_environment=environment or {},
        )
        # The policy's mode of each core; the one that the override forces comes after it.
        plans = tuple({plan.core: plan for plan in reversed(plans)}.values())[::-1]
        seen: list[Observation] = []
        folder = self.folder / "run"
        folder.mkdir(exist_ok=True)
        execute(
            plans,
            cores,
            Setting(
                plugin=plugin,
                rejections=loaded.matrix.rejections,
                scenario_packages=[package],
                setup_timeout_s=timeout_s,
                folder=folder,
                python_packages={},
                models=self.folder / "models",
                record=seen.append,
                progress=quiet,
                stop=threading.Event(),
            ),
            jobs=1,
        )
        case = Case(
            run=RunInfo(
                id="lab",
                started="",
                finished="",
                harness_version="",
                matrix_sha256="",
                platform="",
            ),
            plugin=PluginResult(
                name=plugin.name,
                version=plugin.version,
                library=str(plugin.library),
                sha256=plugin.sha256,
                ep_name=None,
                registration_name=plugin.registration_name,
            ),
            named_plugin=True,
            platform=sys.platform,
            cores=[
                CoreResult(
                    id=core.id,
                    version=core.version,
                    library=None,
                    sha256=None,
                    source="",
                    mode=plan.mode,
                    mode_rule="",
                    declared=plan.decision.mode,
                )
                for core, plan in zip(cores, plans, strict=True)
            ],
            cells=[cell for plan in plans for cell in plan.cells],
            observations=seen,
            whole=False,
        )
        results = judge(case, loaded.matrix, lambda cell: cell.id)
        return {(cell.core, cell.scenario): cell for cell in results.cells}
