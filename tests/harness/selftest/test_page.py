"""docs/selftest.md is in step with faults.yaml: made anew by the command when that changes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from packaging.version import Version

from harness.artifacts.cores import Core
from harness.host.scenario import find_scenarios
from harness.selftest.faults import FAMILIES, Fault, read_faults
from harness.selftest.planting import sites
from tests.conftest import TOP
from tests.harness.selftest.samples import core, fault
from tests.harness.selftest.test_report import rows

PAGE = (TOP / "docs" / "selftest.md").read_text(encoding="utf-8")
FAULTS = read_faults()
HINT = "run: ort-ep-matrix selftest --markdown docs/selftest.md"


@pytest.fixture(scope="module")
def table() -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in rows(PAGE) if row}


@pytest.fixture(scope="module")
def versions() -> list[str]:
    (line,) = re.findall(r"^- reference [\d.]+ on the cores (.*)\.$", PAGE, re.MULTILINE)
    return [str(Version(text)) for text in line.split(", ")]


def test_it_has_the_rows_of_the_file_and_no_other(table: dict[str, list[str]]) -> None:
    families = {"family", "fault", "all", *FAMILIES}

    assert [name for name in table if name not in families] == [f.name for f in FAULTS], HINT


def test_a_row_says_what_the_file_does(table: dict[str, list[str]], versions: list[str]) -> None:
    known = list(find_scenarios(["scenarios"]))
    cores = [core(version) for version in versions]

    stale = [one.name for one in FAULTS if not in_step(one, table.get(one.name), cores, known)]

    assert stale == [], HINT


def in_step(
    fault: Fault, row: list[str] | None, cores: Sequence[Core], known: Sequence[str]
) -> bool:
    if row is None:
        return False
    what, stands_for, planted, noticed, outcomes = row
    there = [site.core.version for site in sites([fault], cores, everywhere=False)]
    by_whom = noticed.split(", ")
    return (
        (what, stands_for) == (fault.what, fault.stands_for)
        and planted.split(", ") == there
        and set(outcomes.split(", ")) <= set(fault.outcome)
        and (
            by_whom == ["contained"]
            if fault.contained
            else all(name in known and fault.must_be_noticed_by(name) for name in by_whom)
        )
    )


def test_a_row_that_is_not_in_step_is_seen() -> None:
    one = fault(noticed_by=["copy/a", "copy/b"])
    cores, known = [core("1.24.4"), core("1.32.0")], ["copy/a", "copy/b", "copy/c"]
    right = [one.what, one.stands_for, "1.24.4, 1.32.0", "copy/a, copy/b", "failed/wrong-result"]
    wrong = [
        ["Something else.", *right[1:]],
        [right[0], "Something else.", *right[2:]],
        [*right[:2], "1.24.4", *right[3:]],
        [*right[:3], "copy/c", right[4]],
        [*right[:3], "contained", right[4]],
        [*right[:4], "failed/native-error"],
    ]

    assert in_step(one, right, cores, known)
    assert [in_step(one, row, cores, known) for row in (None, *wrong)] == [False] * 7
    # The scenario is gone.
    assert not in_step(one, right, cores, ["copy/a"])


def test_all_was_found_and_nothing_else(table: dict[str, list[str]]) -> None:
    faults, planted, detected, contained, otherwise, missed, untried = map(int, table["all"])

    assert faults == len(FAULTS)
    assert faults - sum(fault.contained for fault in FAULTS) >= 60
    assert planted == detected + contained
    assert (otherwise, missed, untried) == (0, 0, 0)
    (false, cells) = re.findall(r"(\d+) false alarms in (\d+) cells", PAGE)[0]
    assert (int(false), int(cells) >= 1000) == (0, True)
    assert " 0 of " in PAGE
    assert PAGE.count("left behind: 0.") == 1


def test_the_versions_are_those_of_the_range(versions: list[str]) -> None:
    assert versions == sorted(versions, key=Version)
    assert len(versions) >= 11
