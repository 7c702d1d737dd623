"""What was seen of concurrent driving beside what the policy says."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from harness.audit import CoreAudit, audit_exit_code, audit_of, proposed_rules
from harness.config import PolicyRule
from harness.report.audit_report import audit_text
from harness.results import AttemptResult, CellResult, CoreResult, Death, Results
from tests.harness.report.samples import real_run


def death(how: str = "signal", name: str = "SIGSEGV", call: str | None = "Run") -> Death:
    return Death.model_validate(
        {
            "how": how,
            "name": name,
            "phase": "scenario",
            "last_call": call,
            "inside_call": call is not None,
        }
    )


def cell(core: str, number: int, outcome: str, reason: str, died: Death | None) -> CellResult:
    attempt = AttemptResult.model_validate(
        {
            "attempt": 1,
            "outcome": outcome,
            "reason": reason,
            "detail": "",
            "alone": True,
            "host": "h",
            "duration_s": 0.1,
            "death": died,
        }
    )
    return CellResult.model_validate(
        {
            "id": f"{core}/concurrent/concurrency/a#{number}",
            "core": core,
            "plugin": "p",
            "mode": "concurrent",
            "scenario": "concurrency/a",
            "repetition": number,
            "outcome": outcome,
            "reason": reason,
            "verdict": "expected",
            "expected": "",
            "iterations_planned": 20,
            "iterations_passed": 20,
            "duration_s": 0.1,
            "detail": "",
            "placement": [],
            "attempts": [attempt],
            "overlap": {"free": True, "calls": 9, "overlapped": 3} if reason == "ok" else None,
        }
    )


def audited(
    declared: str, *outcomes: tuple[str, str, Death | None], core: str = "1.31.0"
) -> Results:
    return real_run().model_copy(
        update={
            "cores": [
                CoreResult.model_validate(
                    {
                        "id": core,
                        "version": core,
                        "library": None,
                        "sha256": None,
                        "source": "",
                        "mode": "concurrent",
                        "mode_rule": "rules[2]",
                        "declared": declared,
                    }
                )
            ],
            "cells": [cell(core, n, *one) for n, one in enumerate(outcomes, 1)],
        }
    )


def only(results: Results) -> CoreAudit:
    (one,) = audit_of(results)
    return one


PASS = ("passed", "ok", None)
CRASH = ("crashed", "SIGSEGV", death())


@pytest.mark.parametrize(
    ("declared", "outcomes", "standing", "observed", "code"),
    [
        ("serialized", [PASS] * 20, "unproved", "20 of 20 clean", 0),
        ("concurrent", [PASS] * 20, "consistent", "20 of 20 clean", 0),
        (
            "concurrent",
            [PASS] * 17 + [CRASH] * 3,
            "contradicted",
            "17 of 20 clean; died in 3: SIGSEGV in Run",
            1,
        ),
        (
            "serialized",
            [CRASH, PASS, ("hung", "timeout", death("hang", "no end after 9 s"))],
            "confirmed",
            "1 of 3 clean; died in 1: SIGSEGV in Run; hung in 1: in Run",
            0,
        ),
        (
            "concurrent",
            [("failed", "wrong-result", None), PASS],
            "contradicted",
            "1 of 2 clean; failed in 1: wrong-result",
            1,
        ),
        (
            "concurrent",
            [("rejected", "version-check", None)] * 2,
            "unknown",
            "rejected in 2: version-check",
            3,
        ),
        (
            "concurrent",
            [("not-run", "no-overlap", None), PASS],
            "consistent",
            "1 of 1 clean; not-run in 1: no-overlap",
            0,
        ),
        (
            "serialized",
            [("crashed", "SIGABRT", death("signal", "SIGABRT", None))],
            "confirmed",
            "0 of 1 clean; died in 1: SIGABRT after scenario",
            0,
        ),
        ("concurrent", [], "unknown", "no cells", 3),
    ],
)
def test_what_was_seen_stands_beside_what_was_declared(
    declared: str, outcomes: list[Any], standing: str, observed: str, code: int
) -> None:
    one = only(audited(declared, *outcomes))

    assert (one.declared, one.standing, one.observed) == (declared, standing, observed)
    assert audit_exit_code([one]) == code


def test_only_a_contradiction_calls_for_a_rule_and_the_rule_is_a_valid_one() -> None:
    wrong = only(audited("concurrent", CRASH, PASS, core="1.30.1"))
    others = [
        only(audited("serialized", CRASH)),
        only(audited("serialized", PASS)),
        only(audited("concurrent", PASS)),
    ]

    assert proposed_rules(others, "0.5.0") == ""
    (rule,) = yaml.safe_load(proposed_rules([*others, wrong], "0.5.0"))
    valid = PolicyRule.model_validate(rule)
    assert (valid.core, valid.plugin, valid.mode) == ("==1.30.1", "==0.5.0", "serialized")
    assert valid.why == "Driven concurrently: 1 of 2 clean; died in 1: SIGSEGV in Run."
    (rule,) = yaml.safe_load(proposed_rules([wrong], None))
    assert "plugin" not in rule


def test_the_text_says_what_a_standing_means_and_what_would_mend_it() -> None:
    results = audited("concurrent", CRASH, PASS)
    text = audit_text(audit_of(results), results)

    assert "1.31.0  declared concurrent  CONTRADICTED  1 of 2 clean; died in 1" in text
    assert "contradicted: declared concurrent, and it broke." in text
    assert "consistent:" not in text
    assert '        - core: "==1.31.0"' in text


def test_what_a_plugin_wrote_cannot_colour_the_text() -> None:
    results = audited("concurrent", ("crashed", "x", death("signal", "\x1b[31mred")))

    assert "\x1b" not in audit_text(audit_of(results), results)


def test_a_pass_without_lanes_says_nothing() -> None:
    results = audited("concurrent", PASS)
    (one,) = results.cells
    alone = results.model_copy(update={"cells": [one.model_copy(update={"overlap": None})]})

    seen = only(alone)

    assert (seen.standing, seen.observed) == ("unknown", "passed in 1: in one thread")
    assert audit_exit_code([seen]) == 3


def test_what_breaks_serialized_as_well_says_nothing_of_the_policy() -> None:
    results = audited("concurrent", ("failed", "wrong-result", None), CRASH)
    control = [
        one.model_copy(update={"id": f"s{one.id}", "mode": "serialized", "outcome": outcome})
        for one, outcome in zip(results.cells, ["failed", "passed"], strict=True)
    ]
    both = results.model_copy(update={"cells": [*results.cells, *control]})

    seen = only(both)

    assert seen.standing == "contradicted"
    assert seen.observed == (
        "0 of 1 clean; died in 1: SIGSEGV in Run; broken in 1: serialized as well"
    )
    assert only(both.model_copy(update={"cells": both.cells[::2]})).standing == "unknown"
