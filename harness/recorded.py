"""What a recorded run was made of, found again unchanged, so that the run can go on.

Nothing is resolved anew: another release, plugin or matrix would make it another run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness import __version__
from harness.artifacts.cache import Cache, hash_file
from harness.artifacts.cores import Core
from harness.artifacts.plugins import Plugin
from harness.artifacts.python_packages import PythonPackage, python_packages
from harness.config import Matrix
from harness.errors import InputError
from harness.plan import Cell, CorePlan
from harness.results import CoreResult, PluginResult, RunInfo

__all__ = ["cores_again", "matrix_again", "packages_again", "plans_again", "plugin_again"]

_ANEW = "Put back what it was, or start a new run."


def matrix_again(run: RunInfo) -> Path:
    """The matrix of the run.

    Raises:
        InputError: it is not there or was changed, or the run is of another harness.
    """
    if run.harness_version != __version__:
        raise InputError(
            f"The run was begun by ort-ep-matrix {run.harness_version}, and this is {__version__}.",
            "Go on with that version, or start a new run.",
        )
    path = Path(run.matrix)
    _unchanged(path, run.matrix_sha256, "matrix.yaml")
    return path


def plugin_again(seen: PluginResult, matrix: Matrix) -> Plugin:
    """The plugin of the run.

    Args:
        seen: what was recorded of it.
        matrix: the matrix of the run.

    Raises:
        InputError: its file is not there or was changed.
    """
    library = Path(seen.library)
    _unchanged(library, seen.sha256, "plugin")
    return Plugin(
        name=seen.name,
        version=seen.version,
        library=library,
        sha256=seen.sha256,
        registration_name=seen.registration_name,
        source="",
        entry=matrix.plugins[seen.name] if seen.described else None,
    )


def cores_again(seen: Sequence[CoreResult]) -> list[Core]:
    """The cores of the run; one that could not be had then is not looked for now.

    Raises:
        InputError: a library is not there or was changed.
    """
    for core in seen:
        if core.library is not None:
            _unchanged(Path(core.library), core.sha256, f"library of core {core.id}")
    return [
        Core(
            id=core.id,
            version=core.version,
            library=Path(core.library) if core.library else None,
            sha256=core.sha256,
            source=core.source,
            error=core.error,
            package=core.package,
        )
        for core in seen
    ]


def packages_again(
    seen: Mapping[str, PythonPackage], cores: Sequence[Core], cache: Cache
) -> Mapping[str, PythonPackage]:
    """The Python packages of the run; where there was none then, there is none now.

    Args:
        seen: what was recorded of them, by the core's id.
        cores: the cores of the run.
        cache: where they are.

    Raises:
        InputError: one of them is another one now, or cannot be had any more.
    """
    wanted = [core for core in cores if core.id in seen and seen[core.id].folder is not None]
    again = python_packages(wanted, cache)
    for core, found in again.items():
        if found != seen[core]:
            raise InputError(
                f"The Python package of core {core} is not the one of the run any more"
                + (f": {found.lack}." if found.lack else "."),
                _ANEW,
            )
    return {**seen, **again}


def plans_again(plans: Sequence[CorePlan], cells: Sequence[Cell]) -> list[CorePlan]:
    """The plans with just the cells of the run.

    Args:
        plans: laid out now, as they were then.
        cells: the cells of the run.

    Raises:
        InputError: one of them is not laid out any more, or is another one.
    """
    now = {cell.id: cell for plan in plans for cell in plan.cells}
    for cell in cells:
        if now.get(cell.id) != cell:
            changed = "is another one now" if cell.id in now else "would not be planned now"
            raise InputError(
                f"The cell {cell.id} of the run {changed}.",
                "The installed scenarios or an environment variable that the policy asks for "
                f"have changed. {_ANEW}",
            )
    wanted = {cell.id for cell in cells}
    return [
        replace(plan, cells=tuple(cell for cell in plan.cells if cell.id in wanted))
        for plan in plans
    ]


def _unchanged(path: Path, sha256: str | None, what: str) -> None:
    try:
        digest = hash_file(path)
    except OSError as error:
        raise InputError(
            f"The {what} of the run, {path}, cannot be read: {error.strerror or error}.",
            f"{_ANEW} Cores and plugins of the cache come back with `ort-ep-matrix fetch`.",
        ) from None
    if digest != sha256:
        raise InputError(
            f"The {what} of the run, {path}, was changed since, and results of two must not mix.",
            _ANEW,
        )
