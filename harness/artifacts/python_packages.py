"""The Python packages of cores: the wheel of the same release that the running Python can import.

A core is the plain C library out of some wheel of a release, whichever Python that was built for.
Its package has a core of its own, built into an extension module, so it must fit the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from harness.artifacts.cache import Cache
from harness.artifacts.cores import Core
from harness.artifacts.index import WheelFile, listing
from harness.artifacts.network import Network
from harness.artifacts.obtaining import obtain_all
from harness.artifacts.progress import Progress, no_progress
from harness.artifacts.store import remember_hash, remembered_hash
from harness.artifacts.unpacked import obtain_unpacked
from harness.errors import HarnessError

__all__ = ["PythonPackage", "fitting_wheel", "python_packages"]

_THREADS = 4
_EXTENSION = "onnxruntime/capi/onnxruntime_pybind11_state"


@dataclass(frozen=True)
class PythonPackage:
    """The Python package of one core, unpacked, or why there is none.

    Args:
        folder: what holds the package, to be put on `sys.path`; None exactly where lack is told.
        core: the extension module in it, which is its core.
        lack: why there is none.
    """

    folder: Path | None
    core: Path | None
    lack: str = ""


def python_packages(
    cores: Sequence[Core], cache: Cache, *, refresh: bool = False, progress: Progress = no_progress
) -> dict[str, PythonPackage]:
    """The Python package of each core, by the core's id; fetched where it is not cached.

    Args:
        cores: those that could be had; only one out of a package index has a package.
        cache: where packages and the answers of the package index are kept.
        refresh: ask the package index again, and replace cached files that were changed.
        progress: told of every download.
    """
    network = Network()

    def obtain(core: Core) -> PythonPackage:
        if core.package is None:
            return PythonPackage(None, None, f"there is none for a core from {core.source}")
        try:
            return _obtain(core, core.package, cache, network, refresh, progress)
        except HarnessError as error:
            return PythonPackage(None, None, str(error))

    try:
        packages = obtain_all(obtain, cores, network, _THREADS)
    finally:
        network.close()
    return dict(zip([core.id for core in cores], packages, strict=True))


def fitting_wheel(wheels: Sequence[WheelFile]) -> WheelFile | None:
    """The wheel that the running interpreter would install; None if there is none for it."""
    ranks = {tag: rank for rank, tag in enumerate(sys_tags())}
    ranked = [
        (min(fits), wheel.file, wheel)
        for wheel in wheels
        if (fits := [ranks[tag] for tag in parse_wheel_filename(wheel.file)[3] if tag in ranks])
    ]
    return min(ranked)[2] if ranked else None


def _obtain(
    core: Core, package: str, cache: Cache, network: Network, refresh: bool, progress: Progress
) -> PythonPackage:
    offered = listing(package, cache, network, refresh=refresh)
    wheel = fitting_wheel(offered.wheels.get(core.version) or ())
    if wheel is None:
        return PythonPackage(
            None, None, f"{package} {core.version} has no wheel that this Python can import"
        )
    expected = wheel.sha256 or remembered_hash(cache, wheel)
    unpacked, found = obtain_unpacked(
        cache,
        expected,
        lambda path: network.download(wheel.url, path, name=wheel.file, progress=progress),
        name=wheel.file,
        vouched_by="the package index" if wheel.sha256 else "an earlier download",
        repair=refresh,
    )
    if expected is None:
        remember_hash(cache, wheel, found)
    extension = next((file for file in unpacked.files if file.startswith(_EXTENSION)), None)
    if extension is None:
        return PythonPackage(None, None, f"{wheel.file} has no {_EXTENSION}")
    return PythonPackage(unpacked.folder, unpacked.folder / extension)
