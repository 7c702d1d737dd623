"""results.json: the whole of a run as one versioned value, and the way back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.errors import RunFolderError
from harness.report.atomic import write_atomic
from harness.report.grouping import ordered_cells
from harness.report.text import one_line
from harness.results import SCHEMA_VERSION, Results

__all__ = ["read_results", "write_results"]


def write_results(results: Results, path: Path) -> None:
    """Write results.json, atomically.

    Fields stand in the order of the schema and cells by core in the order of the run; counts are
    sorted by name. So two runs that saw the same differ only in times and ids. Lone
    surrogates, which UTF-8 has no bytes for, are written as visible escapes.

    Raises:
        RunFolderError: the file cannot be written.
    """
    data = results.model_dump(mode="python")
    data["cells"] = [cell.model_dump(mode="python") for cell in ordered_cells(results)]
    for counts in ("outcomes", "verdicts"):
        data["summary"][counts] = dict(sorted(data["summary"][counts].items()))
    text = json.dumps(data, indent=2, ensure_ascii=False)
    # Two backslashes: in JSON that is one, which makes the escape plain text and not a surrogate.
    text = re.sub("[\ud800-\udfff]", lambda match: f"\\\\u{ord(match[0]):04x}", text)
    write_atomic(path, (text + "\n").encode())


def read_results(path: Path) -> Results:
    """Read a results.json.

    Raises:
        RunFolderError: it is not there, is no JSON, has another schema version or other fields.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RunFolderError(
            f"{path} cannot be read: {error.strerror or error}.",
            "Name the folder of a run that has ended; results.json is written at its end.",
        ) from error
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RunFolderError(
            f"{path} is not JSON: {one_line(str(error), 200)}.",
            "The file was changed or cut off after the run. Run the matrix again.",
        ) from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise _wrong_version(path, data, version)
    try:
        return Results.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = one_line(".".join(str(part) for part in first["loc"]), 200)
        raise RunFolderError(
            f"{path} is not a results.json of schema version {SCHEMA_VERSION}: "
            f"{where}: {one_line(first['msg'], 200)}.",
            "The file was changed after the run. Run the matrix again.",
        ) from error


def _wrong_version(path: Path, data: Any, version: object) -> RunFolderError:
    run = data.get("run") if isinstance(data, dict) else None
    writer = run.get("harness_version") if isinstance(run, dict) else None
    if version is None:
        return RunFolderError(
            f"{path} has no schema_version, so it is not the results of a run.",
            "Name the results.json inside the folder of a run.",
        )
    by = f"ort-ep-matrix {one_line(str(writer), 60)}" if writer else "an unknown version"
    return RunFolderError(
        f"{path} has schema version {one_line(str(version), 60)} and was written by {by}; "
        f"this version reads schema version {SCHEMA_VERSION}.",
        "Read it with the version that wrote it, or run the matrix again with this one.",
    )
