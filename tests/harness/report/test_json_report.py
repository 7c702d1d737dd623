from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from harness.errors import RunFolderError
from harness.report.json_report import read_results, write_results
from harness.results import Results
from tests.harness.report import samples
from tests.harness.report.strategies import hostile_text


@pytest.mark.parametrize(
    "make", [samples.real_run, samples.everything_wrong, samples.crash_everywhere]
)
def test_what_was_written_is_read_back_the_same(
    make: Callable[[], Results], tmp_path: Path
) -> None:
    path = tmp_path / "results.json"
    write_results(make(), path)
    assert read_results(path) == make()


def test_the_order_in_which_cores_ended_does_not_show(tmp_path: Path) -> None:
    run = samples.everything_wrong()
    by_scenario = run.model_copy(
        update={
            "cells": sorted(run.cells, key=lambda cell: samples.SCENARIOS.index(cell.scenario)),
            "summary": run.summary.model_copy(
                update={"outcomes": dict(reversed(run.summary.outcomes.items()))}
            ),
        }
    )
    write_results(run, tmp_path / "a.json")
    write_results(by_scenario, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_the_keys_are_those_of_the_interface(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results(samples.real_run(), path)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert list(data) == ["schema_version", "run", "plugin", "cores", "cells", "summary"]
    assert data["schema_version"] == 1
    replays = [c["capture"]["host_replays"] for c in data["cells"] if c["capture"]]
    assert replays == [0, 0, 0, 19, 19, 19, 19, 19, 19, 19]


@given(text=hostile_text())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_hostile_text_survives_but_for_lone_surrogates_as_escapes(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.json"
    run = samples.change(
        samples.real_run(),
        lambda cell: samples.failed(cell).model_copy(update={"detail": text}),
        core="1.29.0",
    )
    write_results(run, path)
    path.read_bytes().decode("utf-8")
    said = next(c.detail for c in read_results(path).cells if c.core == "1.29.0")
    assert said == "".join(
        f"\\u{ord(char):04x}" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text
    )


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.mkdir()
    (path / "keep").write_text("old")
    with pytest.raises(RunFolderError, match="cannot be written"):
        write_results(samples.real_run(), path)
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]
    assert (path / "keep").read_text() == "old"


def test_an_older_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("old")
    write_results(samples.real_run(), path)
    assert len(read_results(path).cells) == 99
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            b'{"schema_version": 7, "run": {"harness_version": "9.1"}}',
            "has schema version 7 and was written by ort-ep-matrix 9.1",
        ),
        (b'{"schema_version": 7}', "was written by an unknown version"),
        (b'{"schema_version": true}', "has schema version True"),
        (b'{"cells": []}', "has no schema_version"),
        (b"[]", "has no schema_version"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 200_000, "is not JSON"),
        (b'{"schema_version": 1}', "is not a results.json of schema version 1: run: "),
    ],
)
def test_a_file_that_cannot_be_read_says_why_and_what_to_do(
    content: bytes, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(RunFolderError) as caught:
        read_results(path)
    assert says in caught.value.message
    assert caught.value.hint


def test_a_run_folder_without_results_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="cannot be read") as caught:
        read_results(tmp_path / "results.json")
    assert "a run that has ended" in caught.value.hint
