"""The main job on real input: the WebGPU plugin on eleven official cores, as facts have it."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

pytestmark = [pytest.mark.cores, pytest.mark.webgpu]

COMMAND = [sys.executable, "-m", "harness", "run", "--plugin", "webgpu"]
CORES = [
    "1.24.4",
    "1.25.0",
    "1.25.1",
    "1.26.0",
    "1.27.0",
    "1.28.0",
    "1.29.0",
    "1.30.0",
    "1.31.0",
    "1.31.1",
    "1.32.0",
]
SCENARIOS = {
    "copy/cpu-io",
    "copy/mixed-inputs[device-first]",
    "copy/mixed-inputs[cpu-first]",
    "copy/mixed-outputs[device-first]",
    "copy/mixed-outputs[cpu-first]",
    "copy/device-cpu-device",
    "allocation/dirty-bind-input",
    "allocation/scratch-reuse",
    "capture/replay",
}
CHOSEN = [word for name in sorted(SCENARIOS) for word in ("--scenario", name)]


@pytest.fixture(scope="module")
def run_folder(
    host_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("run") / "folder"
    ended = subprocess.run(
        [*COMMAND, *CHOSEN, "--output", str(folder)],
        env=dict(host_environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


@pytest.fixture(scope="module")
def results(run_folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run_folder / "results.json").read_text())
    return loaded


def test_every_cell_is_as_measured(results: dict[str, Any]) -> None:
    cells = {(cell["core"], cell["scenario"]): cell for cell in results["cells"]}

    assert set(cells) == {(core, scenario) for core in CORES for scenario in SCENARIOS}
    for (core, _), cell in cells.items():
        ends = cell["outcome"], cell["reason"], cell["iterations_passed"]
        assert ends == (
            ("rejected", "version-check", 0) if core == "1.26.0" else ("passed", "ok", 20)
        ), cell
        assert cell["verdict"] == "expected"
        assert cell["mode"] == "serialized"
        assert len(cell["attempts"]) == 1


def test_replays_are_driven_by_the_host_from_1_27_on(results: dict[str, Any]) -> None:
    counted = {
        cell["core"]: cell["capture"]
        for cell in results["cells"]
        if cell["scenario"] == "capture/replay"
    }

    for core in ("1.24.4", "1.25.0", "1.25.1"):
        assert counted[core] == {"runs": 20, "kernel_runs": 20, "host_replays": 0}
    assert counted["1.26.0"] is None
    for core in CORES[4:]:
        assert counted[core] == {"runs": 20, "kernel_runs": 1, "host_replays": 19}


def test_every_node_ran_where_it_should(results: dict[str, Any]) -> None:
    for cell in results["cells"]:
        if cell["outcome"] != "passed":
            continue
        assert cell["placement"]
        for node in cell["placement"]:
            assert node["got"] == node["expected"]
            on_cpu = node["node"] in ("on_cpu", "again_on_cpu")
            assert node["got"] == ("CPUExecutionProvider" if on_cpu else "WebGpuExecutionProvider")


def test_identity_is_what_was_seen(results: dict[str, Any], run_folder: Path) -> None:
    plugin = results["plugin"]
    assert (plugin["name"], plugin["version"]) == ("webgpu", "0.4.0")
    assert plugin["ep_name"] == "WebGpuExecutionProvider"
    libraries = {core["version"]: core["library"] for core in results["cores"]}
    lines = (run_folder / "observations.jsonl").read_text().splitlines()
    assert len(lines) == 99
    for line in lines:
        seen = json.loads(line)
        core = seen["cell"].partition("/")[0]
        identity = seen["identity"]
        assert identity["core_version"] == core
        assert {f["role"]: f["path"] for f in identity["mapped"]} == {
            "core": libraries[core],
            "plugin": plugin["library"],
        }
        assert identity["plugin_sha256_before"] == plugin["sha256"]
        assert identity["plugin_sha256_after"] == plugin["sha256"]
        assert seen["clean_end"]


def test_the_reports_agree(results: dict[str, Any], run_folder: Path) -> None:
    assert results["summary"]["outcomes"] == {"passed": 90, "rejected": 9}
    assert results["summary"]["verdicts"] == {"expected": 99}
    schema = Path(__file__).parent.parent / "harness" / "resources" / "results.schema.json"
    jsonschema.validate(results, json.loads(schema.read_text()))
    suites = ET.parse(run_folder / "junit.xml").getroot()
    cases = list(suites.iter("testcase"))
    assert len(cases) == 99
    assert not list(suites.iter("failure")) + list(suites.iter("error"))
    for cell in results["cells"]:
        assert (run_folder / cell["log"]).is_file()
    assert not (run_folder / "hosts").exists()
