"""Faults and cells made by hand, as a faults file and a run leave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.artifacts.cores import Core
from harness.results import AttemptResult, CellResult
from harness.selftest.faults import Fault

__all__ = ["ROW", "attempt", "cell", "contained", "core", "fault"]

ROW: dict[str, Any] = {
    "name": "half-copied",
    "family": "copy",
    "what": "Half of it is copied.",
    "stands_for": "A copy is whole.",
    "noticed_by": ["copy/a", "copy/b"],
    "outcome": ["failed/wrong-result", "crashed/SIGSEGV"],
}


def fault(**changes: Any) -> Fault:
    return Fault.model_validate({**ROW, **changes})


def contained() -> Fault:
    return fault(name="chatty", outcome=["passed/ok"], contained=True)


def core(version: str, name: str | None = None) -> Core:
    return Core(
        id=name or version,
        version=version,
        library=Path("/cores/libonnxruntime.so"),
        sha256="ab" * 32,
        source="",
        error=None,
    )


def attempt(outcome: str = "failed", reason: str = "wrong-result") -> AttemptResult:
    return AttemptResult.model_validate(
        {
            "attempt": 1,
            "outcome": outcome,
            "reason": reason,
            "detail": "",
            "alone": True,
            "host": "1.30.0-1",
            "duration_s": 0.1,
        }
    )


def cell(
    outcome: str = "failed/wrong-result",
    scenario: str = "copy/a",
    verdict: str = "unexpected",
    **changes: Any,
) -> CellResult:
    name, _, reason = outcome.partition("/")
    values: dict[str, Any] = {
        "id": f"1.30.0/serialized/{scenario}",
        "core": "1.30.0",
        "plugin": "reference",
        "mode": "serialized",
        "scenario": scenario,
        "outcome": name,
        "reason": reason,
        "verdict": verdict,
        "expected": "passed",
        "iterations_planned": 20,
        "iterations_passed": 0,
        "duration_s": 0.1,
        "detail": "it was wrong",
        "placement": [],
        "attempts": [],
    }
    return CellResult.model_validate({**values, **changes})
