import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import harness
from harness.errors import ConfigError
from harness.matrix_file import load
from harness.results import (
    AttemptResult,
    Capture,
    CellResult,
    CoreResult,
    Death,
    Placement,
    PluginResult,
    Results,
    RunInfo,
    Summary,
)
from harness.schemas import main, matrix_schema, results_schema

ROOT = Path(__file__).parents[2]
RESOURCES = Path(harness.__file__).parent / "resources"
MATRIX = jsonschema.Draft202012Validator(matrix_schema())
RESULTS = jsonschema.Draft202012Validator(results_schema())


def problems(validator: jsonschema.Draft202012Validator, value: Any) -> list[str]:
    return [error.message for error in validator.iter_errors(value)]


@pytest.mark.parametrize(
    ("file", "schema"),
    [("matrix.schema.json", matrix_schema()), ("results.schema.json", results_schema())],
)
def test_the_shipped_file_is_current(file: str, schema: dict[str, Any]) -> None:
    shipped = json.loads((RESOURCES / file).read_text(encoding="utf-8"))
    assert shipped == schema, "run: python -m harness.schemas"


def test_the_command_writes_what_is_shipped(tmp_path: Path) -> None:
    main(tmp_path)
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert written == {
        name: (RESOURCES / name).read_bytes()
        for name in ("matrix.schema.json", "results.schema.json")
    }


@pytest.mark.parametrize("schema", [matrix_schema(), results_schema()])
def test_a_schema_is_one_of_its_own_dialect_and_has_no_id(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "$id" not in schema
    assert schema["title"].endswith("of ort-ep-matrix")


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, model in {"(top)": schema, **schema["$defs"]}.items():
        for key, value in model.get("properties", {}).items():
            yield f"{name}.{key}", value


def test_every_key_of_the_matrix_has_a_description() -> None:
    found = dict(properties(matrix_schema()))
    assert len(found) > 60
    assert [name for name, value in found.items() if not value.get("description")] == []


@pytest.mark.parametrize("file", ["matrix.yaml", "harness/resources/defaults.yaml"])
def test_the_shipped_yaml_validates(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert problems(MATRIX, yaml.safe_load(text)) == []


SHA = "a" * 64
PLUGIN = "plugins: {a: {path: x, "


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("{}", True),
        ("cores: [{releases: '>1'}]", True),
        ("cores: [{installed: true}]", True),
        ("cores: [{releases: '>1', installed: false, path: null}]", True),
        (f"cores: [{{archive: a, sha256: {SHA}}}]", True),
        ("plugins: {a: {requirement: b, path: null}}", True),
        ("plugins: {a: {bundled: true}}", True),
        ("plugins: {a: {requirement: b, bundled: false}}", True),
        (PLUGIN + "environment: {A: ''}}}", True),
        ("expectations: [{outcome: [passed, crashed], why: w}]", True),
        ("expectations: [{outcome: passed, reason: r, why: w}]", True),
        ("expectations: [{capture: {kernel_runs: 1}, why: w}]", True),
        ("timeout_s: 60", True),
        ("timeout_s: 0.5", True),
        ("core: []", False),
        ("cores: [{}]", False),
        ("cores: [{installed: false}]", False),
        ("cores: [{releases: '>1', path: x}]", False),
        ("cores: [{archive: a}]", False),
        ("cores: [{archive: a, sha256: null}]", False),
        ("cores: [{path: a, sha256: '00'}]", False),
        ("cores: [{path: ''}]", False),
        ("cores: [{releases: 1.3}]", False),
        ("plugins: {a: {}}", False),
        ("plugins: {a: {requirement: b, path: c}}", False),
        ("plugins: {a: {bundled: false}}", False),
        ("plugins: {a: {path: b, bundled: true}}", False),
        ("plugins: {a b: {path: c}}", False),
        (PLUGIN + "environment: {'A=': ''}}}", False),
        (PLUGIN + "environment: {A: 1}}}", False),
        (PLUGIN + "policy: {rules: [{mode: parallel, why: w}]}}}", False),
        (PLUGIN + "policy: {override: {variable: X, forces: {}, why: w}}}}", False),
        (PLUGIN + "policy: {override: {variable: X, forces: {'1': concurrent}, why: w}}}}", False),
        ("expectations: [{why: w}]", False),
        ("expectations: [{outcome: passed}]", False),
        ("expectations: [{outcome: pased, why: w}]", False),
        ("expectations: [{outcome: [], why: w}]", False),
        ("expectations: [{capture: {}, why: w}]", False),
        ("expectations: [{capture: {kernel_runs: 1}, reason: r, why: w}]", False),
        ("iterations: 0", False),
        ("iterations: '3'", False),
        ("timeout_s: 0", False),
        ("scenarios: {copy: {}}", False),
    ],
)
def test_the_schema_and_the_model_agree(tmp_path: Path, text: str, good: bool) -> None:
    file = tmp_path / "matrix.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        load(file)
        loads = True
    except ConfigError:
        loads = False
    assert loads == good
    assert (problems(MATRIX, yaml.safe_load(text)) == []) == good


@pytest.fixture
def results() -> Results:
    cell = CellResult(
        id="1.32.0/serialized/capture/replay",
        core="1.32.0",
        plugin="webgpu",
        mode="serialized",
        scenario="capture/replay",
        outcome="crashed",
        reason="signal",
        verdict="unexpected",
        expected="passed",
        iterations_planned=20,
        iterations_passed=3,
        duration_s=0.25,
        detail="SIGSEGV in iteration 3",
        placement=[Placement(node="n", expected="E", got=None)],
        capture=Capture(runs=3, kernel_runs=1, host_replays=2),
        attempts=[
            AttemptResult(
                attempt=1,
                outcome="crashed",
                reason="signal",
                detail="",
                alone=False,
                host="h1",
                duration_s=0.25,
                death=Death(how="signal", name="SIGSEGV", phase="scenario"),
            )
        ],
    )
    return Results(
        run=RunInfo(
            id="r",
            started="2026-01-01T00:00:00Z",
            finished="2026-01-01T00:00:01Z",
            harness_version="0.1",
            matrix_sha256=SHA,
            platform="linux",
        ),
        plugin=PluginResult(
            name="webgpu",
            version=None,
            library="p.so",
            sha256=SHA,
            ep_name=None,
            registration_name="webgpu",
        ),
        cores=[
            CoreResult(
                id="1.32.0",
                version="1.32.0",
                library=None,
                sha256=None,
                source="index",
                mode="serialized",
                mode_rule="rules[0]",
                declared="serialized",
            )
        ],
        cells=[cell],
        summary=Summary(cells=1, outcomes={"crashed": 1}, verdicts={"unexpected": 1}, exit_code=1),
    )


def test_results_that_are_written_validate_and_read_back(results: Results) -> None:
    text = results.model_dump_json()
    assert problems(RESULTS, json.loads(text)) == []
    assert Results.model_validate_json(text) == results


@pytest.mark.parametrize("key", ["schema_version", "run", "plugin", "cores", "cells", "summary"])
def test_results_without_a_part_do_not_validate(results: Results, key: str) -> None:
    data = json.loads(results.model_dump_json())
    del data[key]
    assert problems(RESULTS, data) == [f"'{key}' is a required property"]


def test_a_wrong_outcome_an_unknown_key_and_another_version_do_not_validate(
    results: Results,
) -> None:
    data = json.loads(results.model_dump_json())
    for change in ({"outcome": "fine"}, {"colour": "red"}, {"mode": "parallel"}):
        damaged = copy.deepcopy(data)
        damaged["cells"][0].update(change)
        assert len(problems(RESULTS, damaged)) == 1
    assert len(problems(RESULTS, {**data, "schema_version": 2})) == 1
