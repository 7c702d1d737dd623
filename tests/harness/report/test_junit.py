from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from harness.errors import RunFolderError
from harness.report.junit import write_junit
from harness.results import CellResult, Results
from tests.harness.report import samples
from tests.harness.report.strategies import hostile_text


def written(results: Results, folder: Path) -> ET.Element:
    path = folder / "junit.xml"
    write_junit(results, path)
    return ET.parse(path).getroot()


def properties(element: ET.Element) -> dict[str | None, str | None]:
    return {p.get("name"): p.get("value") for p in element.findall("properties/property")}


def test_expected_outcomes_are_passed_test_cases_and_none_is_skipped(tmp_path: Path) -> None:
    root = written(samples.real_run(), tmp_path)
    cases = root.findall("testsuite/testcase")
    assert len(cases) == 99
    assert [suite.get("name") for suite in root] == list(samples.CORES)
    assert root.findall(".//failure") + root.findall(".//error") + root.findall(".//skipped") == []
    for key, value in (("tests", "99"), ("failures", "0"), ("errors", "0"), ("skipped", "0")):
        assert root.get(key) == value


def test_an_expected_rejection_says_what_it_was_and_why(tmp_path: Path) -> None:
    root = written(samples.real_run(), tmp_path)
    cases = root.findall("testsuite[@name='1.26.0']/testcase")
    assert len(cases) == 9
    for case in cases:
        assert properties(case)["outcome"] == "rejected"
        assert properties(case)["reason"] == "version-check"
        said = case.findtext("system-out") or ""
        assert said.startswith("rejected (version-check), as expected.")
        assert "ORT 1.26.0 takes an ort_version_supported of 1 to 26" in said


def test_a_test_case_is_named_by_plugin_core_family_scenario_and_mode(tmp_path: Path) -> None:
    case = written(samples.real_run(), tmp_path)[0].findall("testcase")[1]
    assert case.get("classname") == "webgpu.1.24.4.copy"
    assert case.get("name") == "mixed-inputs[device-first][serialized]"
    assert float(case.get("time") or "nan") == 0.05
    assert properties(case)["log"] == "logs/1.24.4/copy-mixed-inputs[device-first].log"


def test_what_was_not_expected_is_a_failure_or_an_error_by_outcome(tmp_path: Path) -> None:
    run = samples.everything_wrong()
    root = written(run, tmp_path)
    failures = Counter(f.get("type") for f in root.findall(".//failure"))
    # Two crashes and the flaky cell share the reason "signal"; the improved one passed, "ok".
    assert failures == {
        "signal": 3, "timeout": 1, "wrong-value": 2, "no-capture": 1, "ok": 1,
        "outdated": 1, "unmatched": 1,
    }  # fmt: skip
    assert Counter(e.get("type") for e in root.findall(".//error")) == {"core-unavailable": 9}
    assert (root.get("failures"), root.get("errors"), root.get("tests")) == ("10", "9", "101")


def test_the_counts_of_each_suite_are_those_of_its_cells(tmp_path: Path) -> None:
    run = samples.everything_wrong()
    for suite in written(run, tmp_path):
        if suite.get("name") == "expectations":
            assert suite.get("tests") == suite.get("failures") == "2"
            continue
        cells = [cell for cell in run.cells if cell.core == suite.get("name")]
        broken = [c for c in cells if c.outcome == "infra-error"]
        wrong = [c for c in cells if c.verdict != "expected" and c not in broken]
        assert suite.get("tests") == str(len(cells))
        assert suite.get("failures") == str(len(wrong))
        assert suite.get("errors") == str(len(broken))


def test_an_unexpected_not_run_is_an_error(tmp_path: Path) -> None:
    run = samples.change(
        samples.real_run(),
        lambda c: samples.infra_error(c).model_copy(update={"outcome": "not-run"}),
        core="1.24.4",
        scenario="copy/cpu-io",
    )
    assert len(written(run, tmp_path).findall(".//error")) == 1


def test_a_crash_says_where_it_was_and_how_to_repeat_it(tmp_path: Path) -> None:
    text = written(samples.crash_everywhere(), tmp_path).findtext(".//failure") or ""
    assert "inside Run" in text
    assert "repeat: ort-ep-matrix run --plugin webgpu --core '==1.24.4'" in text
    assert "| Fatal Python error: Segmentation fault" in text


def test_suites_carry_the_identity_of_core_and_plugin(tmp_path: Path) -> None:
    facts = properties(written(samples.real_run(), tmp_path)[0])
    assert facts["core_sha256"] == "cd" * 32
    assert facts["plugin_version"] == "0.4.0"
    assert facts["mode"] == "serialized"


def test_capture_counts_are_properties(tmp_path: Path) -> None:
    root = written(samples.real_run(), tmp_path)
    replays = {
        suite.get("name"): properties(suite.findall("testcase")[8]).get("capture_host_replays")
        for suite in root
    }
    assert replays["1.25.1"] == "0"
    assert replays["1.27.0"] == "19"
    assert replays["1.26.0"] is None


def test_counts_of_lanes_are_properties(tmp_path: Path) -> None:
    root = written(samples.lanes_in_two_modes(), tmp_path)
    seen = {suite.get("name"): properties(suite.findall("testcase")[5]) for suite in root}
    assert (seen["1.31.1"]["overlap_calls"], seen["1.31.1"]["overlap_overlapped"]) == ("400", "2")
    assert (seen["1.24.4"]["overlap_calls"], seen["1.24.4"]["overlap_overlapped"]) == ("100", "0")
    assert "overlap_calls" not in seen["1.27.0"]


@given(text=hostile_text())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_it_is_valid_xml_with_all_cells_whatever_a_plugin_says(text: str, tmp_path: Path) -> None:
    def say(cell: CellResult) -> CellResult:
        return samples.hostile(cell).model_copy(
            update={
                "detail": text, "hint": text, "expected": text, "reason": text, "log": text,
                "repeat": text, "scenario": text + cell.scenario, "plugin": text, "id": text,
            }
        )  # fmt: skip

    root = written(samples.change(samples.real_run(), say, core="1.29.0"), tmp_path)
    assert len(root.findall("testsuite/testcase")) == 99
    assert len(root.findall(".//failure")) == 9


def test_a_time_that_is_no_number_of_seconds_counts_as_none(tmp_path: Path) -> None:
    run = samples.change(
        samples.real_run(), lambda c: c.model_copy(update={"duration_s": float("inf")})
    )
    assert written(run, tmp_path)[0].get("time") in ("0", "0.0")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="cannot be written") as caught:
        write_junit(samples.real_run(), tmp_path / "missing" / "junit.xml")
    assert "folder exists" in caught.value.hint
