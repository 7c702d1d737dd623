"""The faults file: what is in it, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import ConfigError
from harness.host.scenario import find_scenarios
from harness.selftest.faults import FAMILIES, Fault, check_faults, read_faults
from harness.selftest.planted import HOSTILE, OPTION
from tests.conftest import TOP
from tests.harness.selftest.samples import ROW, fault

SOURCE = TOP / "harness" / "reference_ep" / "src"
REASONS = ["version-check"]
VERSIONS = ["1.24.4", "1.26.0", "1.32.0"]


@pytest.fixture(scope="module")
def faults() -> tuple[Fault, ...]:
    return read_faults()


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "faults.yaml"
    path.write_text(yaml.safe_dump(list(rows)), encoding="utf-8")
    return path


def test_the_data_file_and_the_table_in_c_have_the_same_faults_in_the_same_order(
    faults: tuple[Fault, ...],
) -> None:
    header = (SOURCE / "device" / "faults.h").read_text(encoding="utf-8")
    table = re.findall(r'FAULT\((\w+), "([a-z0-9-]+)"\)', header)

    assert [name for _, name in table] == [fault.name for fault in faults]
    assert [identifier.replace("_", "-") for identifier, _ in table] == [f.name for f in faults]


def test_there_are_enough_that_break_something(faults: tuple[Fault, ...]) -> None:
    assert sum(not fault.contained for fault in faults) >= 60
    assert {fault.family for fault in faults} == set(FAMILIES)


def test_the_rows_stand_by_family(faults: tuple[Fault, ...]) -> None:
    order = list(dict.fromkeys(fault.family for fault in faults))

    assert [fault.family for fault in faults] == sorted(
        (fault.family for fault in faults), key=order.index
    )


def test_every_scenario_and_reason_that_a_row_names_exists(faults: tuple[Fault, ...]) -> None:
    check_faults(
        faults,
        scenarios=list(find_scenarios(["scenarios"])),
        rejections=REASONS,
        versions=VERSIONS,
    )


def test_the_hostile_ones_can_be_planted_for_one_session(faults: tuple[Fault, ...]) -> None:
    assert [fault.name for fault in faults if fault.family == "hostile"] == list(HOSTILE)
    header = (SOURCE / "device" / "faults.h").read_text(encoding="utf-8")
    assert f'fault_option = "{OPTION}"' in header


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"outcome": ["failed"]}, 'half-copied.outcome.0: Value error, "failed" is not an outcome'),
        ({"outcome": ["broken/wrong-result"]}, '"broken/wrong-result" is not an outcome'),
        ({"outcome": []}, "half-copied.outcome: List should have at least 1 item"),
        ({"family": "copying"}, "half-copied.family: Input should be 'copy', "),
        ({"cores": "1.26"}, "half-copied.cores: Value error, .* is not a version specifier"),
        ({"noticed_by": []}, "half-copied.noticed_by: List should have at least 1 item"),
        ({"notised_by": ["*"]}, "half-copied.notised_by: Extra inputs are not permitted"),
        ({"contained": True}, "half-copied: Value error, what is contained has the outcome"),
        ({"name": "Half Copied"}, "Half Copied.name: String should match pattern"),
        ({"what": None}, "half-copied.what: Input should be a valid string"),
    ],
)
def test_a_wrong_row_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    path = written(tmp_path, {**ROW, **changes})

    with pytest.raises(ConfigError, match=says) as caught:
        read_faults(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- name: [", "cannot be read"),
        ("name: half-copied", "the file: Input should be a valid list"),
        ("- half-copied", "row 1: Input should be a valid dictionary"),
    ],
)
def test_a_file_that_is_no_list_of_faults_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=says):
        read_faults(path)


def test_a_file_that_is_not_there_or_has_a_fault_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_faults(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="the fault half-copied stands there twice"):
        read_faults(written(tmp_path, ROW, ROW))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"noticed_by": ["copy/cpu-oi"]}, 'matches no scenario; perhaps you meant "copy/cpu-io"'),
        ({"outcome": ["failed/wrong-results"]}, 'half-copied: there is no reason "wrong-results"'),
        ({"cores": ">=1.33"}, 'no core of the matrix is ">=1.33"'),
    ],
)
def test_a_fault_that_nobody_can_notice_is_refused(changes: dict[str, Any], says: str) -> None:
    row = fault(**{"noticed_by": ["copy"], **changes})

    with pytest.raises(ConfigError, match=says):
        check_faults([row], scenarios=["copy/cpu-io"], rejections=REASONS, versions=VERSIONS)


def test_where_not_all_cores_are_known_a_fault_may_be_of_others() -> None:
    check_faults(
        [fault(cores=">=1.33", noticed_by=["copy"])],
        scenarios=["copy/cpu-io"],
        rejections=[],
        versions=None,
    )


@pytest.mark.parametrize(
    ("specifier", "there"), [("", VERSIONS), ("<1.26", ["1.24.4"]), ("==1.26.0", ["1.26.0"])]
)
def test_a_fault_occurs_on_the_cores_of_its_specifier(specifier: str, there: list[str]) -> None:
    assert [v for v in VERSIONS if fault(cores=specifier).can_occur(v)] == there


def test_only_what_must_hang_is_waited_for() -> None:
    assert fault(outcome=["failed/wrong-result", "hung/timeout"]).hangs
    assert not fault(outcome=["failed/wrong-result"]).hangs
