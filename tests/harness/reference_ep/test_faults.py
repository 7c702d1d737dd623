"""Every fault is declared twice alike, and noticed by a scenario that its row names."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from harness.artifacts.cores import Core
from harness.host.scenario import find_scenarios
from harness.names import matches
from tests.conftest import TOP
from tests.harness.reference_ep.lab import PROBES, SCENARIOS, Lab, cores

FOLDER = TOP / "harness" / "reference_ep"
ROWS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "faults.yaml").read_text(encoding="utf-8"))
FAMILIES = {
    "copy",
    "allocation",
    "capture",
    "placement",
    "version",
    "lifecycle",
    "hostile",
    "concurrency",
}
KNOWN = {package: list(find_scenarios([package])) for package in (SCENARIOS, PROBES)}
VERSIONS = ["1.32.0", "1.28.0", "1.26.0", "1.24.4"]


def test_the_data_file_and_the_table_in_c_have_the_same_faults_in_the_same_order() -> None:
    header = (FOLDER / "src" / "device" / "faults.h").read_text(encoding="utf-8")
    table = re.findall(r'FAULT\((\w+), "([a-z0-9-]+)"\)', header)

    assert [name for _, name in table] == [row["name"] for row in ROWS]
    assert [identifier.replace("_", "-") for identifier, _ in table] == [r["name"] for r in ROWS]


def test_every_row_is_whole() -> None:
    assert len({row["name"] for row in ROWS}) == len(ROWS) >= 60
    for row in ROWS:
        assert row.keys() - {"cores", "contained"} == {
            "name",
            "family",
            "what",
            "stands_for",
            "noticed_by",
            "outcome",
        }
        assert row["family"] in FAMILIES
        assert row["noticed_by"], row["name"]
        assert row["outcome"], row["name"]
        SpecifierSet(row.get("cores", ""))


def test_every_scenario_that_a_row_names_exists() -> None:
    known = [name for names in KNOWN.values() for name in names]
    for row in ROWS:
        for glob in row["noticed_by"]:
            assert any(matches(glob, name) for name in known), (row["name"], glob)


@pytest.fixture(scope="module")
def by_version() -> dict[str, Core]:
    return {str(core.version): core for core in cores(VERSIONS)}


@pytest.mark.cores
@pytest.mark.faults
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_fault_is_noticed_with_an_outcome_that_its_row_names(
    row: dict[str, Any], lab: Lab, by_version: dict[str, Core]
) -> None:
    where = SpecifierSet(row.get("cores", ""))
    version = next(version for version in VERSIONS if version in where)
    package, scenario = next(
        (package, name)
        for glob in row["noticed_by"]
        for package, names in KNOWN.items()
        for name in names
        if matches(glob, name)
    )

    # Slowing down takes its time; whatever hangs shall not.
    slow = row["name"] == "runs-slow-down"
    ((_, cell),) = lab.run(
        [by_version[version]],
        package=package,
        names=[scenario],
        environment={"ORT_REFERENCE_EP_FAULT": row["name"]},
        iterations=20 if package == SCENARIOS else 3,
        timeout_s=30 if slow else 4,
    ).items()

    if row.get("contained"):
        assert (cell.outcome, cell.verdict) == ("passed", "expected"), cell.detail
        return
    assert cell.verdict != "expected", f"{scenario} on {version} noticed nothing"
    assert f"{cell.outcome}/{cell.reason}" in row["outcome"], cell.detail
