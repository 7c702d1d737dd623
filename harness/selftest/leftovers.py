"""What a run leaves behind that it should not: processes, and files where none belong."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

__all__ = ["RUN", "left_files", "left_processes", "temporary_in", "unusual"]

RUN = "run"
"""The run folder, in the folder that is looked at."""

_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_NUMBER = re.compile(r"\d+")
_PARTS_OF_A_RUN = {
    "junit.xml",
    "logs",
    "observations.jsonl",
    "results.json",
    "run.json",
    "summary.md",
}


def temporary_in(folder: Path) -> dict[str, str]:
    """The environment of hosts whose temporary files go to a folder in this one, which is made.

    By that environment every process that such a host starts can be told from all others.
    """
    temporary = _temporary(folder)
    temporary.mkdir(parents=True)
    return dict.fromkeys(_VARIABLES, str(temporary))


def left_processes(folder: Path) -> list[str]:
    """The living processes with the environment of `temporary_in`: their names and ids."""
    return list(_left_processes(str(_temporary(folder))))


def _left_processes(temporary: str) -> Iterator[str]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get(_VARIABLES[0]) == temporary:
                yield f"process {process.name()} ({process.pid})"


def left_files(folder: Path) -> set[str]:
    """The temporary files, and what lies in the run folder and is no part of one.

    Args:
        folder: that of `temporary_in`, with the run folder beside.

    Returns:
        Their paths, relative to the folder.
    """
    folder = folder.absolute()
    strangers = (path for path in (folder / RUN).iterdir() if path.name not in _PARTS_OF_A_RUN)
    found = [*_temporary(folder).rglob("*"), *strangers]
    return {f"file {path.relative_to(folder)}" for path in found}


def unusual(left: Iterable[str], usual: Iterable[str]) -> list[str]:
    """What was left and is none of the usual, in order; a number in a name may be another one.

    Some cores leave a file in every process that has its id in its name.
    """
    known = {_NUMBER.sub("#", name) for name in usual}
    return sorted(name for name in left if _NUMBER.sub("#", name) not in known)


def _temporary(folder: Path) -> Path:
    return folder.absolute() / "temporary"
