"""Writing `matrix.lock.json`: asking the package index now, so that later runs need not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from harness.artifacts.cache import Cache, write_bytes
from harness.artifacts.cores import ObtainedWheel, Surroundings, obtain_wheel
from harness.artifacts.index import WheelFile, fresh_listing
from harness.artifacts.lock import Lock, LockedLibrary, LockedRelease, LockedWheel, read_lock
from harness.artifacts.network import Network
from harness.artifacts.obtaining import obtain_all
from harness.artifacts.progress import Progress, no_progress
from harness.artifacts.releases import Release, pick_releases, wheel_per_platform
from harness.artifacts.selection import pins
from harness.artifacts.target import Target, current_target
from harness.config import CoreSource, Matrix
from harness.errors import ArtifactError, ConfigError

__all__ = ["write_lock"]

_THREADS = 8


def write_lock(
    matrix: Matrix,
    base: Path,
    cache: Cache,
    path: Path,
    progress: Progress = no_progress,
    *,
    target: Target | None = None,
) -> Lock:
    """Lock all releases in a matrix's ranges, and bring this platform's cores for their hashes.

    What an earlier lock knows of other platforms' libraries stays, where the wheel is the same.
    Every release in a range is locked, also where the matrix takes the newest of each minor alone:
    which one that is depends on the platform.

    Args:
        matrix: says which releases.
        base: the folder of matrix.yaml.
        cache: where the cores go.
        path: of the lock; replaced whole, and only when everything could be had.
        progress: told of every download.
        target: the platform; this one when left out.

    Raises:
        ConfigError: the matrix takes no releases from a package index, or none is in a range.
        ArtifactError: the index did not answer, or a core could not be had.
    """
    sources = [source for source in matrix.cores if source.releases is not None]
    if not sources:
        raise ConfigError(
            "There is nothing to lock: the matrix takes no releases from a package index.",
            "Archives are held to the sha256 that matrix.yaml gives.",
        )
    network = Network()
    around = Surroundings(
        base, cache, target or current_target(), network, refresh=True, progress=progress
    )
    try:
        packages: dict[str, dict[str, LockedRelease]] = {}
        for source in sources:
            locked = _lock_source(source, around, _known_libraries(path))
            packages.setdefault(canonicalize_name(source.package), {}).update(locked)
    finally:
        network.close()
    lock = Lock(packages=packages)
    write_bytes(path, (lock.model_dump_json(indent=2, exclude_none=True) + "\n").encode())
    return lock


def _lock_source(
    source: CoreSource, around: Surroundings, known: dict[tuple[str, str], LockedLibrary]
) -> dict[str, LockedRelease]:
    wheels = fresh_listing(source.package, around.cache, around.network).wheels
    specifier = source.releases or ""
    used = [
        release
        for release in pick_releases(wheels, specifier, source.select, around.target)
        if release.plain
    ]
    obtained = _obtain(used, around)
    pinned = pins(SpecifierSet(specifier))
    locked: dict[str, LockedRelease] = {}
    for release in pick_releases(wheels, specifier, "all", around.target):
        version = str(release.version)
        # A withdrawn wheel counts where the matrix names its version, as everywhere.
        offered = [wheel for wheel in wheels[version] if pinned or not wheel.yanked]
        chosen = [_lock_wheel(wheel, obtained, known) for wheel in wheel_per_platform(offered)]
        held = tuple(wheel for wheel in chosen if wheel is not None)
        if held and not release.prerelease:
            locked[version] = LockedRelease(wheels=held)
    if not locked:
        raise ConfigError(
            f'cores: releases "{specifier}" matches no release of {source.package}.',
            "Widen the range; the lock was left as it was.",
        )
    return locked


def _obtain(releases: Sequence[Release], around: Surroundings) -> dict[str, ObtainedWheel]:
    """The cores of this platform, by the file name of their wheel."""
    wheels = [release.wheel for release in releases if release.wheel is not None]
    troubles: list[ArtifactError] = []

    def obtain(wheel: WheelFile) -> ObtainedWheel | None:
        try:
            return obtain_wheel(wheel, around)
        except ArtifactError as error:
            troubles.append(error)
            return None

    got = obtain_all(obtain, wheels, around.network, _THREADS)
    if troubles:
        raise ArtifactError(
            "The lock was not written: " + " ".join(error.message for error in troubles),
            troubles[0].hint,
        )
    return {wheel.file: core for wheel, core in zip(wheels, got, strict=True) if core is not None}


def _lock_wheel(
    wheel: WheelFile,
    obtained: dict[str, ObtainedWheel],
    known: dict[tuple[str, str], LockedLibrary],
) -> LockedWheel | None:
    core = obtained.get(wheel.file)
    if core is not None:
        library = LockedLibrary(name=core.library.name, sha256=core.sha256)
        return LockedWheel(file=wheel.file, sha256=core.wheel_sha256, library=library)
    if wheel.sha256 is None:
        # Nothing vouches for another platform's wheel that was neither hashed nor fetched.
        return None
    return LockedWheel(
        file=wheel.file, sha256=wheel.sha256, library=known.get((wheel.file, wheel.sha256))
    )


def _known_libraries(path: Path) -> dict[tuple[str, str], LockedLibrary]:
    try:
        earlier = read_lock(path)
    except ConfigError:
        # It is about to be replaced, which is what its message would ask for.
        return {}
    releases = earlier.packages.values() if earlier else ()
    return {
        (wheel.file, wheel.sha256): wheel.library
        for package in releases
        for release in package.values()
        for wheel in release.wheels
        if wheel.library is not None
    }
