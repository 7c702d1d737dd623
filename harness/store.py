"""The run folder: everything seen in a run, written as it is seen, and read again for judging.

run.json             what was planned: run, plugin, cores, cells
observations.jsonl   one line an attempt at a cell, appended at once
logs/                what hosts and plugins printed
hosts/               what hosts need for themselves, while they run
.lock                held by the process that runs in the folder
results.json, junit.xml, summary.md   made from these by `harness.judge`
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.artifacts.python_packages import PythonPackage
from harness.errors import InputError, RunFolderError
from harness.files import open_regular
from harness.judge import Case
from harness.plan import Cell, Selection
from harness.report.atomic import clear_partial_reports
from harness.results import CoreResult, Observation, PluginResult, RunInfo

__all__ = [
    "RunRecord",
    "case_of",
    "clear_leftovers",
    "create_folder",
    "hold",
    "read_case",
    "recorder",
    "write_record",
]

_RECORD, _OBSERVATIONS, _HOSTS, _LOCK = "run.json", "observations.jsonl", "hosts", ".lock"
_NEW_RECORD = f"{_RECORD}.new"
_OPTION = "--output"


class RunRecord(BaseModel):
    """What was known of a run before its first cell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    run: RunInfo
    plugin: PluginResult
    platform: str
    cores: list[CoreResult]
    cells: list[Cell]
    whole: bool
    repeat: dict[str, str]
    """Cell id to the command that repeats it."""
    selection: Selection | None = None
    """What the user asked for; none in a run of a version that could not go on with it."""
    once_alone: bool = False
    """Whether each cell is tried once, in a host of its own, and believed."""
    python_packages: dict[str, PythonPackage] = Field(default_factory=dict)
    """By the core's id, of the cores that have cells of kind `python`."""


def create_folder(output: Path | None, plugin_name: str, *, option: str = _OPTION) -> Path:
    """The new folder of a run.

    Args:
        output: the folder that the user wants; `reports/<time>-<plugin>` if none.
        plugin_name: names the folder then.
        option: what the user names the folder with, for messages.

    Raises:
        InputError: the user's folder holds something already.
        RunFolderError: it cannot be made.
    """
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S")
    safe = re.sub(r"[^\w.+-]", "_", plugin_name)
    folders = (
        [output]
        if output is not None
        else [
            Path("reports", f"{stamp}-{safe}{suffix}")
            for suffix in ("", *(f"-{n}" for n in range(2, 100)))
        ]
    )
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=output is not None)
            _check_empty(folder, option)
        except FileExistsError:
            if output is not None:
                raise InputError(f"{folder} is a file, not a folder.") from None
            continue
        except OSError as error:
            raise RunFolderError(
                f"The run folder {folder} cannot be made: {error.strerror}.",
                f"Name another one with {option}.",
            ) from None
        return folder.resolve()
    raise RunFolderError("There are too many run folders of this second in reports/.")


def _check_empty(folder: Path, option: str = _OPTION) -> None:
    if any(one.name != _LOCK for one in folder.iterdir()):
        resume = f"`ort-ep-matrix run --resume {folder}` goes on with the run in it."
        raise InputError(
            f"{folder} is not empty, and results of two runs must not mix.",
            f"Name a new folder with {option}, or remove that one."
            + (f" {resume}" if (folder / _RECORD).is_file() else ""),
        )


@contextlib.contextmanager
def hold(folder: Path, *, new: bool = False) -> Iterator[None]:
    """Keep a run folder to this process for as long as something may run in it.

    The system lets go of it when the process ends, however that comes about.

    Args:
        folder: the run folder.
        new: whether the run begins, so that there must be nothing in it.

    Raises:
        InputError: another process holds it, or it is not empty where it should be.
        RunFolderError: it cannot be written to.
    """
    lock = FileLock(folder / _LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"Another process is running in {folder}.",
            "Wait for its end, or end it.",
        ) from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        if new:
            _check_empty(folder)
        yield
    finally:
        lock.release()


def clear_leftovers(folder: Path) -> None:
    """Remove what a killed process had in a run folder for itself; the caller holds the folder."""
    shutil.rmtree(folder / _HOSTS, ignore_errors=True)
    with contextlib.suppress(OSError):
        (folder / _NEW_RECORD).unlink(missing_ok=True)
    clear_partial_reports(folder)


def _unwritable(folder: Path, error: OSError) -> RunFolderError:
    return RunFolderError(
        f"The run folder {folder} cannot be written to: {error.strerror or error}.",
        "Check that it may be written to, and that its disk has space.",
    )


def write_record(folder: Path, record: RunRecord) -> None:
    """Write what is planned, before anything is executed, and again when all of it was.

    Raises:
        RunFolderError: the folder cannot be written to.
    """
    new = folder / _NEW_RECORD
    try:
        (folder / _OBSERVATIONS).touch()
        # In one step, since the record is what makes everything else readable.
        new.write_text(record.model_dump_json(indent=1), encoding="utf-8")
        new.replace(folder / _RECORD)
    except OSError as error:
        raise _unwritable(folder, error) from None


def recorder(folder: Path) -> Callable[[Observation], None]:
    """A function that appends an observation; it may be called from any thread.

    A torn last line is removed first: what follows it would become a part of it.

    The function raises a RunFolderError when it cannot write, and from then on whenever it is
    called.
    """
    lock = threading.Lock()
    path = folder / _OBSERVATIONS
    failure: RunFolderError | None = None
    try:
        _remove_torn_line(path)
    except OSError as error:
        raise _unwritable(folder, error) from None

    def record(observation: Observation) -> None:
        nonlocal failure
        # Half a character, should one come so far, is written as an escape and read again.
        line = json.dumps(observation.model_dump()).encode() + b"\n"
        with lock:
            # What a kill or a full disk leaves is whole lines, and at most one torn last one.
            if failure is not None:
                raise failure
            try:
                with path.open("ab", buffering=0) as file:
                    while line:
                        line = line[file.write(line) :]
            except OSError as error:
                failure = RunFolderError(
                    f"{path} cannot be written: {error.strerror or error}.",
                    "What was seen until then is kept. Free space; `ort-ep-matrix run --resume` "
                    "goes on with a run.",
                )
                raise failure from None

    return record


def _remove_torn_line(path: Path) -> None:
    with os.fdopen(open_regular(path, os.O_RDWR), "r+b") as file:
        whole = file.read().rpartition(b"\n")
        file.truncate(len(whole[0]) + len(whole[1]))


def read_case(folder: Path) -> tuple[Case, RunRecord]:
    """Everything that a run folder holds, for judging. A torn last line is left out.

    It may be read while something runs in it.

    Raises:
        InputError: it is no run folder.
        RunFolderError: it cannot be read, or comes from another version of the harness.
    """
    try:
        record = RunRecord.model_validate_json(_content(folder / _RECORD))
        raw = _content(folder / _OBSERVATIONS)
    except FileNotFoundError as error:
        raise InputError(
            f"{folder} is not a run folder: there is no {error.filename}.",
            "A run names its folder in its last line.",
        ) from None
    except OSError as error:
        raise RunFolderError(
            f"{folder} cannot be read: {error.strerror}: {error.filename}."
        ) from None
    except ValidationError as error:
        raise RunFolderError(
            f"{folder / _RECORD} cannot be read: {error.errors()[0]['msg']}.",
            "It may come from another version of ort-ep-matrix.",
        ) from None
    observations = []
    # What follows the last line's end is torn, or nothing.
    for number, line in enumerate(raw.split(b"\n")[:-1]):
        try:
            observations.append(Observation.model_validate(json.loads(line)))
        except (ValueError, RecursionError):
            raise RunFolderError(
                f"{folder / _OBSERVATIONS}, line {number + 1}, is not an observation.",
                "The file was changed after the run, or comes from another version of "
                "ort-ep-matrix.",
            ) from None
    _check(folder, record, observations)
    return case_of(record, observations), record


def _check(folder: Path, record: RunRecord, observations: Sequence[Observation]) -> None:
    """A run folder that does not fit together was changed, and nothing can be said of it."""
    cells = {cell.id: cell for cell in record.cells}
    cores = {core.id for core in record.cores}
    if not cells or len(cells) != len(record.cells):
        wrong = "it plans no cell" if not cells else "it plans a cell twice"
    elif any(cell.core not in cores for cell in record.cells):
        wrong = "a cell is of a core that it does not have"
    elif any(one.cell not in cells for one in observations):
        wrong = "something was seen of a cell that it does not plan"
    elif any(not _fits(one, cells[one.cell]) for one in observations):
        wrong = "a report is not that of its cell"
    else:
        return
    raise RunFolderError(
        f"The run folder {folder} does not fit together: {wrong}.",
        "It was changed after the run. Run the matrix again.",
    )


def _content(path: Path) -> bytes:
    """What a file holds; a pipe in its place would be waited for."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read()


def _fits(observation: Observation, cell: Cell) -> bool:
    report = observation.report
    return report is None or (
        report.scenario == cell.task and report.iterations_planned == cell.iterations
    )


def case_of(record: RunRecord, observations: Sequence[Observation]) -> Case:
    """What was planned and what was seen, for judging."""
    return Case(
        run=record.run,
        plugin=record.plugin,
        platform=record.platform,
        cores=record.cores,
        cells=record.cells,
        observations=observations,
        whole=record.whole,
    )
