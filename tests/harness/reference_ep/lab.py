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
from harness.host.scenario import find_scenarios
from harness.matrix_file import load
from harness.plan import CorePlan, WantedMode
from harness.results import CellResult
from harness.selftest.planting import limited, unwatched
from harness.workflow import Selection, execute_run, judge_run, plan_on, prepare
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
        mode: WantedMode = "policy",
    ) -> dict[tuple[str, str], CellResult]:
        """The cells of scenarios of a package on some cores, by core and scenario.

        Each core is driven in one mode: what the policy says, or what is asked for.
        """
        ground = limited(prepare(self.matrix(), [SCENARIOS, PROBES]), timeout_s)
        selection = Selection(
            plugin="reference",
            cores=tuple(core.id for core in cores),
            scenarios=tuple(find_scenarios([package]) if names is None else names),
            iterations=iterations,
            mode=mode,
            environment={
                "PYTHONPATH": os.pathsep.join([str(TOP), *sys.path]),
                **(environment or {}),
            },
        )
        planned = plan_on(ground, selection)
        plans: dict[str, CorePlan] = {}
        for plan in planned.plans:
            plans.setdefault(plan.core, plan)
        folder = execute_run(
            replace(planned, plans=list(plans.values())),
            output=self.folder / f"run-{sum(1 for _ in self.folder.iterdir())}",
            jobs=1,
            watch=unwatched,
            stop=threading.Event(),
        )
        results = judge_run(folder, ground.loaded).results
        return {(cell.core, cell.scenario): cell for cell in results.cells}
