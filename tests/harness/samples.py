"""Observations, cells and cases made by hand, as a run of one plugin leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.config import Matrix
from harness.judge import Case, judge
from harness.plan import Cell
from harness.results import (
    Capture,
    CellResult,
    CoreResult,
    Death,
    HostIdentity,
    MappedFile,
    NativeError,
    Observation,
    Placement,
    PluginResult,
    Results,
    RunInfo,
    ScenarioReport,
)

__all__ = [
    "PLUGIN_SHA256",
    "REPLAYS",
    "case",
    "cell",
    "death",
    "identity",
    "judged",
    "matrix",
    "native_error",
    "observation",
    "only",
    "report",
]

PLUGIN_SHA256 = "ab" * 32
REPLAYS = Capture(runs=20, kernel_runs=1, host_replays=19)


def identity(core: str = "1.30.0", **changes: Any) -> HostIdentity:
    values: dict[str, Any] = {
        "core_version": core,
        "mapped": [
            MappedFile(path="/cores/libonnxruntime.so", role="core"),
            MappedFile(path="/plugins/libplugin.so", role="plugin"),
        ],
        "plugin_sha256_before": PLUGIN_SHA256,
        "plugin_sha256_after": PLUGIN_SHA256,
        "ep_name": "ThePluginEp",
        "registration_name": "plugin",
    }
    return HostIdentity(**{**values, **changes})


def report(scenario: str = "copy/a", **changes: Any) -> ScenarioReport:
    """A report of a pass, with changes; of what was cut short no iteration has passed."""
    cut_short = changes.get("unsupported") or changes.get("error")
    values: dict[str, Any] = {
        "scenario": scenario,
        "iterations_planned": 20,
        "iterations_passed": 0 if cut_short else 20,
        "checks": 20,
        "check_failures": [],
        "check_failure_count": 0,
        "placement": [Placement(node="n", expected="ThePluginEp", got="ThePluginEp")],
        "duration_s": 0.1,
    }
    return ScenarioReport(**{**values, **changes})


def native_error(**changes: Any) -> NativeError:
    values: dict[str, Any] = {
        "kind": "native",
        "function": "Run",
        "code": "FAIL",
        "message": "it went wrong",
    }
    return NativeError(**{**values, **changes})


def death(
    phase: str = "scenario", how: str = "signal", name: str = "SIGSEGV", **more: Any
) -> Death:
    return Death.model_validate({"how": how, "name": name, "phase": phase, **more})


def observation(cell_id: str = "1.30.0/serialized/copy/a", **changes: Any) -> Observation:
    core, _, scenario = cell_id.split("/", 2)
    values: dict[str, Any] = {
        "cell": cell_id,
        "attempt": 1,
        "alone": False,
        "host": f"{core}-1",
        "report": report(scenario),
        "identity": identity(core),
        "clean_end": True,
        "started": "2026-01-01T00:00:00.000+00:00",
        "duration_s": 0.1,
    }
    values.update(changes)
    if values.get("death") is not None:
        values["clean_end"] = False
    return Observation(**values)


def cell(core: str = "1.30.0", scenario: str = "copy/a", plugin: str = "webgpu") -> Cell:
    return Cell(f"{core}/serialized/{scenario}", core, plugin, "serialized", scenario, 60.0, 20)


def case(
    cells: Sequence[Cell],
    observations: Sequence[Observation],
    *,
    described: bool = True,
    **changes: Any,
) -> Case:
    values: dict[str, Any] = {
        "run": RunInfo(
            id="run",
            started="2026-01-01T00:00:00.000+00:00",
            finished="2026-01-01T00:01:00.000+00:00",
            harness_version="0",
            matrix_sha256="",
            platform="",
        ),
        "plugin": PluginResult(
            name="webgpu",
            version="0.4.0",
            library="/plugins/libplugin.so",
            sha256=PLUGIN_SHA256,
            ep_name=None,
            registration_name="plugin",
            described=described,
        ),
        "platform": "linux",
        "cores": [
            CoreResult(
                id=core,
                version=core,
                library="/cores/libonnxruntime.so",
                sha256=None,
                source="",
                mode="serialized",
                mode_rule="",
                declared="serialized",
            )
            for core in dict.fromkeys(one.core for one in cells)
        ],
        "cells": list(cells),
        "observations": list(observations),
        "whole": True,
    }
    return Case(**{**values, **changes})


def matrix(*expectations: dict[str, Any], **more: Any) -> Matrix:
    whole = [{"why": "because", **one} for one in expectations]
    return Matrix.model_validate({"expectations": whole, **more})


def judged(
    cells: Sequence[Cell],
    observations: Sequence[Observation],
    *expectations: dict[str, Any],
    **changes: Any,
) -> Results:
    return judge(
        case(cells, observations, **changes), matrix(*expectations), lambda one: f"repeat {one.id}"
    )


def only(observations: Sequence[Observation], *expectations: dict[str, Any]) -> CellResult:
    """The result of one cell."""
    (result,) = judged([cell()], observations, *expectations).cells
    return result
