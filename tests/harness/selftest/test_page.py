"""docs/selftest.md is in step with faults.yaml: made anew by the command when that changes."""

from __future__ import annotations

import re

import pytest
from packaging.version import Version

from harness.host.scenario import find_scenarios
from harness.selftest.faults import FAMILIES, Fault, read_faults
from harness.selftest.planting import sites
from tests.conftest import TOP
from tests.harness.selftest.samples import core
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


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_row_says_what_the_file_does(
    fault: Fault, table: dict[str, list[str]], versions: list[str]
) -> None:
    what, stands_for, planted, noticed, outcomes = table[fault.name]
    known = list(find_scenarios(["scenarios", "tests.probes"]))

    assert (what, stands_for) == (fault.what, fault.stands_for), HINT
    there = sites([fault], [core(version) for version in versions], everywhere=False)
    assert planted.split(", ") == [site.core.version for site in there], HINT
    assert set(outcomes.split(", ")) <= set(fault.outcome), HINT
    if fault.contained:
        assert noticed == "contained"
        return
    for name in noticed.split(", "):
        assert name in known, HINT
        assert fault.must_be_noticed_by(name), HINT


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
