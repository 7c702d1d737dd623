"""What was seen of concurrent driving beside what the policy says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from markdown_it import MarkdownIt

from harness.audit import CoreAudit, audit_of
from harness.config import PolicyRule
from harness.report.audit_report import audit_page, audit_text, write_audit
from harness.report.junit import write_audit_junit
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
    declared: str,
    *outcomes: tuple[str, str, Death | None],
    core: str = "1.31.0",
    version: str | None = "0.5.0",
) -> Results:
    run = real_run()
    return run.model_copy(
        update={
            "plugin": run.plugin.model_copy(update={"version": version}),
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


def together(*runs: Results) -> Results:
    """The cores of several runs as those of one."""
    cores = [core for run in runs for core in run.cores]
    cells = [one for run in runs for one in run.cells]
    return runs[0].model_copy(update={"cores": cores, "cells": cells})


def only(results: Results) -> CoreAudit:
    (one,) = audit_of(results).cores
    return one


def control(results: Results, *outcomes: tuple[str, str]) -> Results:
    """A run with the same cells driven serialized."""
    cells = [
        one.model_copy(
            update={"id": f"s{one.id}", "mode": "serialized", "outcome": outcome, "reason": reason}
        )
        for one, (outcome, reason) in zip(results.cells, outcomes, strict=True)
    ]
    return results.model_copy(update={"cells": [*results.cells, *cells]})


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
            "not counted: rejected in 2: version-check",
            3,
        ),
        (
            "concurrent",
            [("not-run", "no-overlap", None), PASS],
            "consistent",
            "1 of 1 clean; not counted: not-run in 1: no-overlap",
            0,
        ),
        (
            "concurrent",
            [("not-run", "interrupted", None), PASS],
            "consistent",
            "1 of 1 clean; not counted: not-run in 1: interrupted",
            3,
        ),
        (
            "concurrent",
            [("infra-error", "core-missing", None), CRASH],
            "contradicted",
            "0 of 1 clean; died in 1: SIGSEGV in Run; not counted: infra-error in 1: core-missing",
            1,
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
    results = audited(declared, *outcomes)
    one = only(results)

    assert (one.declared, one.standing, one.observed) == (declared, standing, observed)
    assert audit_of(results).exit_code == code


def test_cells_are_named_by_what_happened_in_them() -> None:
    hang = ("hung", "timeout", death("hang", "no end after 9 s"))
    one = only(
        audited("serialized", PASS, hang, CRASH, ("unsupported", "unsupported", None), CRASH)
    )
    named = "1.31.0/concurrent/concurrency/a#{}".format

    assert one.clean == (named(1),)
    assert [(seen.verb, seen.what, seen.cells) for seen in one.troubles] == [
        ("died", "SIGSEGV in Run", (named(3), named(5))),
        ("hung", "in Run", (named(2),)),
    ]
    assert [seen.cells for seen in one.silent] == [(named(4),)]
    assert one.tried == 4


def test_a_line_tells_of_each_verb_what_was_most_frequent() -> None:
    abort = ("crashed", "SIGABRT", death(name="SIGABRT", call="CopyTensors"))
    wrong = ("failed", "wrong-result", None)

    assert only(audited("serialized", abort, CRASH, wrong, CRASH)).observed == (
        "0 of 4 clean; died in 3: SIGSEGV in Run and otherwise; failed in 1: wrong-result"
    )


def test_the_most_frequent_troubles_are_shown_and_the_rest_is_counted() -> None:
    kinds = [("failed", f"reason-{n:02}", None) for n in range(15)]
    results = audited("concurrent", *kinds, kinds[14])
    audit = audit_of(results)

    for text in (audit_text(audit, results), audit_page(audit, results)):
        shown = [n for n in range(15) if f"reason-{n:02}" in text]
        assert shown == [*range(11), 14]
        assert "3 more that differ, with 3 cells" in text


def test_only_a_contradiction_calls_for_a_rule_and_the_rule_is_a_valid_one() -> None:
    others = [
        audited("serialized", CRASH, core="1.24.4"),
        audited("serialized", PASS, core="1.25.0"),
        audited("concurrent", PASS, core="1.31.0"),
    ]
    wrong = audited("concurrent", CRASH, PASS, core="1.30.1")

    assert audit_of(together(*others)).proposed_rules == ""
    (rule,) = yaml.safe_load(audit_of(together(*others, wrong)).proposed_rules)
    valid = PolicyRule.model_validate(rule)
    assert (valid.core, valid.plugin, valid.mode) == ("==1.30.1", "==0.5.0", "serialized")
    assert valid.why == "Driven concurrently: 1 of 2 clean; died in 1: SIGSEGV in Run."
    for version in (None, 'no "version"'):
        unnamed = audited("concurrent", CRASH, version=version)
        (rule,) = yaml.safe_load(audit_of(unnamed).proposed_rules)
        assert "plugin" not in rule


def test_the_text_says_what_a_standing_means_and_what_would_mend_it() -> None:
    results = audited("concurrent", CRASH, PASS)
    text = audit_text(audit_of(results), results)

    assert "1.31.0  declared concurrent  CONTRADICTED  1 of 2 clean; died in 1" in text
    assert "contradicted: declared concurrent, and it broke." in text
    assert "consistent:" not in text
    assert "not counted:" not in text
    assert '        - core: "==1.31.0"' in text
    assert text.splitlines()[-1] == "exit 1 (the policy is contradicted)"


def test_the_text_says_where_it_broke_and_how_to_repeat_it() -> None:
    runs = [audited("serialized", CRASH, PASS, core=core) for core in ("1.24.4", "1.25.0")]
    results = together(*runs)
    cells = [
        one.model_copy(update={"repeat": f"again {one.id}", "detail": f"what {one.core} said"})
        for one in results.cells
    ]
    results = results.model_copy(update={"cells": cells})
    lines = audit_text(audit_of(results), results).splitlines()

    start = lines.index("died: SIGSEGV in Run, 2 cells")
    assert lines[start + 1 : start + 4] == [
        "    where   all 2 cores: concurrency/a",
        "    what    such as: what 1.24.4 said",
        "    repeat  again 1.24.4/concurrent/concurrency/a#1",
    ]


def test_what_a_plugin_wrote_cannot_colour_the_text() -> None:
    results = audited("concurrent", ("crashed", "x", death("signal", "\x1b[31mred")))

    assert "\x1b" not in audit_text(audit_of(results), results)


@pytest.fixture
def hostile() -> Results:
    evil = "\x1b[31mred ` | </script> \ud800"
    results = audited("concurrent", ("crashed", "x", death("signal", evil)), PASS)
    plugin = results.plugin.model_copy(update={"name": evil, "version": evil})
    return results.model_copy(update={"plugin": plugin})


def test_the_page_of_a_ci_step_holds_the_table_and_no_markup_of_a_plugin(hostile: Results) -> None:
    page = audit_page(audit_of(hostile), hostile)

    assert {char for char in page if not char.isprintable()} == {"\n"}
    kinds = {token.type for token in MarkdownIt("commonmark", {"html": True}).parse(page)}
    assert "html_block" not in kinds
    assert "| `1.31.0` | concurrent | ❌ contradicted |" in page
    assert page.startswith("## ❌ Audit of the policy for ")
    fine = audited("concurrent", PASS)
    assert audit_page(audit_of(fine), fine).startswith("## ✅ Audit of the policy for `webgpu`")


def test_audit_json_tells_all_of_it(hostile: Results, tmp_path: Path) -> None:
    audit = audit_of(hostile)
    write_audit(audit, hostile, tmp_path / "audit.json")
    told = json.loads((tmp_path / "audit.json").read_bytes())

    assert told["schema_version"] == 1
    assert (told["plugin"], told["exit_code"]) == (hostile.plugin.name, 1)
    (core,) = told["cores"]
    assert (core["core"], core["standing"], core["complete"]) == ("1.31.0", "contradicted", True)
    assert core["clean"] == [hostile.cells[1].id]
    assert core["troubles"][0]["cells"] == [hostile.cells[0].id]


@pytest.mark.parametrize(
    ("outcomes", "kind"),
    [
        ([PASS], None),
        ([CRASH, PASS], "failure"),
        ([("not-run", "interrupted", None), PASS], "error"),
        ([("rejected", "version-check", None)], None),
    ],
)
def test_junit_fails_where_the_policy_is_contradicted(
    outcomes: list[Any], kind: str | None, tmp_path: Path
) -> None:
    results = audited("concurrent", *outcomes)
    write_audit_junit(audit_of(results), results, tmp_path / "junit.xml")
    (case,) = ET.parse(tmp_path / "junit.xml").getroot().iter("testcase")

    assert case.get("name") == "1.31.0 declared concurrent"
    assert [child.tag for child in case if child.tag in ("failure", "error", "skipped")] == (
        [] if kind is None else [kind]
    )
    told = case[0].text if kind is None else case[0].get("message")
    assert told == f"{only(results).standing}: {only(results).observed}"


def test_a_pass_without_lanes_says_nothing() -> None:
    results = audited("concurrent", PASS)
    (one,) = results.cells
    alone = results.model_copy(update={"cells": [one.model_copy(update={"overlap": None})]})

    seen = only(alone)

    assert (seen.standing, seen.observed) == (
        "unknown",
        "not counted: passed in 1: in one thread",
    )
    assert audit_of(alone).exit_code == 3


def of_two_scenarios(*outcomes: tuple[str, str, Death | None]) -> Results:
    """A run of concurrency/a and concurrency/b, in turn."""
    results = audited("concurrent", *outcomes)
    cells = [
        one.model_copy(
            update={"scenario": f"concurrency/{'ab'[place % 2]}", "repetition": place // 2 + 1}
        )
        for place, one in enumerate(results.cells)
    ]
    return results.model_copy(update={"cells": cells})


def test_what_breaks_serialized_as_well_says_nothing_of_the_policy() -> None:
    broken = of_two_scenarios(("failed", "wrong-result", None), CRASH)
    both = control(broken, ("failed", "wrong-result"), ("passed", "ok"))

    seen = only(both)

    assert seen.standing == "contradicted"
    assert seen.observed == (
        "0 of 1 clean; died in 1: SIGSEGV in Run; not counted: broken in 1: serialized as well"
    )
    first = both.model_copy(update={"cells": both.cells[::2]})
    assert only(first).standing == "unknown"


def test_what_breaks_now_and_then_in_either_mode_contradicts_nothing() -> None:
    # The third repetition broke concurrently and passed serialized, the second the other way.
    broken = of_two_scenarios(PASS, PASS, PASS, PASS, CRASH, PASS)
    fine = ("passed", "ok")
    both = control(broken, fine, fine, ("crashed", "SIGSEGV"), fine, fine, fine)

    seen = only(both)

    assert seen.standing == "consistent"
    assert seen.observed == "5 of 5 clean; not counted: broken in 1: serialized as well"
    assert audit_of(both).exit_code == 0


def test_what_was_not_tried_serialized_is_no_contradiction() -> None:
    broken = of_two_scenarios(CRASH, PASS)
    both = control(broken, ("not-run", "interrupted"), ("passed", "ok"))

    seen = only(both)

    assert (seen.standing, seen.complete) == ("consistent", False)
    assert seen.observed == "1 of 1 clean; not counted: broken in 1: but not tried serialized"
    assert audit_of(both).exit_code == 3
