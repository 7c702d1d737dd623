"""The cores of a run: found, checked and cached, or with the reason why one could not be had."""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from harness.artifacts.archives import is_archive, version_in_name
from harness.artifacts.cache import Cache, hash_file
from harness.artifacts.index import WheelFile, fresh_listing, listing, read_listing
from harness.artifacts.installed import find_installed
from harness.artifacts.library import inspect_library, misfit, not_a_library
from harness.artifacts.lock import Lock, LockedWheel
from harness.artifacts.network import Network
from harness.artifacts.obtaining import obtain_all
from harness.artifacts.progress import Progress, no_progress
from harness.artifacts.releases import Release, pick_releases
from harness.artifacts.selection import Selection, parse_selectors
from harness.artifacts.store import (
    Supply,
    find_core_entry,
    obtain_core,
    remember_hash,
    remembered_hash,
)
from harness.artifacts.target import Target, current_target
from harness.config import CoreSource, Matrix
from harness.errors import ArtifactError, ConfigError, HarnessError, SelectionError

__all__ = [
    "Core",
    "ObtainedWheel",
    "Surroundings",
    "list_cores",
    "obtain_wheel",
    "resolve_cores",
]

_THREADS = 8
_ID_DIGITS = 8
_LISTED_VERSIONS = 40
_CORE_FUNCTION = "OrtGetApiBase"
_FETCH_HINT = '"ort-ep-matrix fetch" asks the package index anew.'


@dataclass(frozen=True)
class Core:
    """One official build of ORT, or why it could not be had.

    Args:
        id: the version where that is unique in the run, else "<version>@<8 digits of the sha256>".
        version: PEP 440.
        library: absolute path of the library; None exactly where error is not.
        sha256: of the library.
        source: where it came from, for people.
        error: what happened, where, and what to do.
        package: the distribution of a package index that brought it; None for any other source.
    """

    id: str
    version: str
    library: Path | None
    sha256: str | None
    source: str
    error: str | None
    package: str | None = None


@dataclass(frozen=True)
class Surroundings:
    """What every step of resolving needs."""

    base: Path
    cache: Cache
    target: Target
    network: Network
    lock: Lock | None = None
    refresh: bool = False
    progress: Progress = no_progress


@dataclass(frozen=True)
class ObtainedWheel:
    """A core out of a wheel, the wheel's real hash, and where it came from."""

    library: Path
    sha256: str
    wheel_sha256: str
    source: str


@dataclass(frozen=True)
class _Found:
    """A library that is there and was checked. The version is set where only now it was seen."""

    library: Path
    sha256: str
    source: str
    version: str | None = None


@dataclass(frozen=True)
class _Candidate:
    """A core that was asked for and is not yet there. Those of one origin are the same core."""

    version: Version
    origin: str
    source: str
    obtain: Callable[[], _Found]
    prerelease: bool = False
    pinned_only: bool = False
    package: str | None = None


def resolve_cores(
    matrix: Matrix,
    base: Path,
    cache: Cache,
    *,
    lock: Lock | None,
    selectors: Sequence[str] = (),
    refresh: bool = False,
    progress: Progress = no_progress,
    target: Target | None = None,
) -> list[Core]:
    """Find the cores of a run and bring those that are not there yet.

    What is cached is checked by hash and used; with all of them cached, nothing leaves the machine
    and pip is not started. A core that cannot be had stands in the answer with its error.

    With a lock, its releases are the releases: one that is in the matrix's range and not in the
    lock is not used, and a hash that differs from the lock is an error of that core.

    Args:
        matrix: says where cores come from.
        base: the folder that relative paths of the matrix start from.
        cache: where cores and the answers of the package index are kept.
        lock: the matrix's lock, if it has one.
        selectors: from the command line. Versions and specifiers choose among the matrix's cores
            before anything is downloaded. "installed" and paths add a core, and replace those of
            the matrix where no version or specifier stands beside them.
        refresh: ask the package index again, and replace cached cores that were changed.
        progress: told of every download.
        target: the platform; this one when left out.

    Returns:
        The cores, by version.

    Raises:
        SelectionError: a selector matches nothing, or there is no core at all.
        ConfigError: a source of the matrix names nothing, or its version cannot be told.
        ArtifactError: the package index did not answer and no earlier answer is remembered, or an
            archive of unknown version could not be had.
    """
    selection = parse_selectors(selectors)
    network = Network()
    around = Surroundings(base, cache, target or current_target(), network, lock, refresh, progress)
    try:
        candidates = _select(matrix, selection, around)
        cores = obtain_all(_obtain, candidates, network, _THREADS)
    finally:
        network.close()
    return _with_ids(cores)


def list_cores(
    matrix: Matrix,
    base: Path,
    cache: Cache,
    *,
    lock: Lock | None,
    selectors: Sequence[str] = (),
    target: Target | None = None,
) -> list[tuple[str, str]]:
    """The ids and versions of the cores that `resolve_cores` would give; none is fetched.

    Only where two share a version, and their libraries must tell them apart, are they obtained.

    Raises:
        HarnessError: as `resolve_cores`.
    """
    selection = parse_selectors(selectors)
    network = Network()
    around = Surroundings(
        base, cache, target or current_target(), network, lock, refresh=False, progress=no_progress
    )
    try:
        candidates = _select(matrix, selection, around)
        versions = sorted({each.version for each in candidates})
        if len(versions) == len(candidates):
            return [(str(version), str(version)) for version in versions]
        cores = obtain_all(_obtain, candidates, network, _THREADS)
        return [(core.id, core.version) for core in _with_ids(cores)]
    finally:
        network.close()


def obtain_wheel(
    wheel: WheelFile, around: Surroundings, *, locked: LockedWheel | None = None
) -> ObtainedWheel:
    """The core library of one wheel, cached or downloaded, its hashes checked.

    Args:
        wheel: as the index offers it.
        around: the cache, the platform, the network.
        locked: what the lock says of this wheel.

    Raises:
        ArtifactError: it cannot be had, or a hash differs.
    """
    expected = locked.sha256 if locked else wheel.sha256
    if locked and wheel.sha256 and wheel.sha256 != locked.sha256:
        raise ArtifactError(
            f"The package index publishes the sha256 {wheel.sha256} for {wheel.file}, but the lock "
            f"has {locked.sha256}.",
            'If the release was rightly replaced, "ort-ep-matrix lock" takes the new hash in.',
        )
    remembered = None if expected else remembered_hash(around.cache, wheel)
    if remembered and find_core_entry(around.cache, remembered):
        expected = remembered

    def supply(path: Path) -> str:
        if not wheel.url:
            raise ArtifactError(
                f"{wheel.file} has to be fetched, and no index could be asked where it lies.",
                'Check the connection, and where "pip config list" points.',
            )
        return around.network.download(wheel.url, path, name=wheel.file, progress=around.progress)

    stored, found = obtain_core(
        around.cache,
        expected,
        supply,
        around.target,
        name=wheel.file,
        vouched_by="the lock" if locked else "the package index",
        repair=around.refresh,
    )
    if expected is None:
        remember_hash(around.cache, wheel, found)
    if locked and locked.library and locked.library.sha256 != stored.sha256:
        raise ArtifactError(
            f"{stored.library} has the sha256 {stored.sha256}, but the lock has "
            f"{locked.library.sha256} for the library of {wheel.file}.",
            'It is not used. "ort-ep-matrix lock" takes the new hash in, if it is right.',
        )
    note = "" if wheel.sha256 or locked else " (the index publishes no sha256)"
    return ObtainedWheel(stored.library, stored.sha256, found, f"package index: {wheel.file}{note}")


def _select(matrix: Matrix, selection: Selection, around: Surroundings) -> list[_Candidate]:
    offered: list[_Candidate] = []
    if selection.takes_matrix:
        for source in matrix.cores:
            offered += _of_source(source, around, named=bool(selection.versions))
    chosen = [each for each in offered if not (each.prerelease or each.pinned_only)]
    if selection.versions:
        chosen = []
        for selector in selection.versions:
            matching = [
                each
                for each in offered
                if selector.matches(
                    each.version, prerelease=each.prerelease, yanked=each.pinned_only
                )
            ]
            if not matching:
                raise _no_match(selector.text, offered, around)
            chosen += matching
    for path in selection.paths:
        chosen.append(_named_path(path, around))
    if selection.installed:
        try:
            chosen.append(_installed(CoreSource(installed=True), around))
        except ArtifactError as error:
            raise SelectionError(
                f"--core installed names nothing: {error.message}", error.hint
            ) from None
    if not chosen:
        raise SelectionError(
            "There is no core: the matrix names none.",
            'Add one under "cores", or name one with --core.',
        )
    return list({each.origin: each for each in reversed(chosen)}.values())


def _no_match(text: str, offered: list[_Candidate], around: Surroundings) -> SelectionError:
    plain = {each.version for each in offered if not (each.prerelease or each.pinned_only)}
    known = [str(version) for version in sorted(plain)]
    if len(known) > _LISTED_VERSIONS:
        known = [*known[: _LISTED_VERSIONS // 2], "…", *known[-_LISTED_VERSIONS // 2 :]]
    hint = (
        'The lock decides what is known; "ort-ep-matrix lock" takes new releases in.'
        if around.lock
        else f"A newer release may be missing here: {_FETCH_HINT}"
    )
    return SelectionError(
        f'--core "{text}" matches no core of the matrix on {around.target}. Known: '
        f"{', '.join(known) or 'none'}.",
        f'{hint} What lies outside of "releases" in matrix.yaml is never asked for.',
    )


def _of_source(source: CoreSource, around: Surroundings, *, named: bool) -> list[_Candidate]:
    if source.releases is not None:
        found = _locked_releases(source, around) if around.lock else _releases(source, around)
        if not named and all(each.prerelease or each.pinned_only for each in found):
            raise ConfigError(
                f'cores: releases "{source.releases}" matches no release of {source.package} '
                + ("in the lock." if around.lock else f"for {around.target}."),
                '"ort-ep-matrix lock" takes new releases in.' if around.lock else _FETCH_HINT,
            )
        return found
    if source.archive is not None:
        return [_archive(source, around)]
    if source.path is not None:
        return [_path(source, around)]
    return [_installed(source, around)]


def _releases(source: CoreSource, around: Surroundings) -> list[_Candidate]:
    offered = listing(source.package, around.cache, around.network, refresh=around.refresh)
    picked = pick_releases(offered.wheels, source.releases or "", source.select, around.target)

    def obtain(release: Release) -> _Found:
        if release.wheel is None:
            raise _no_wheel(source.package, release, around.target)
        got = obtain_wheel(release.wheel, around)
        return _Found(got.library, got.sha256, got.source)

    return [_release_candidate(source, release, obtain) for release in picked]


def _locked_releases(source: CoreSource, around: Surroundings) -> list[_Candidate]:
    package = canonicalize_name(source.package)
    locked = around.lock.packages.get(package, {}) if around.lock else {}
    by_file = {wheel.file: wheel for release in locked.values() for wheel in release.wheels}
    # The lock knows no addresses: the same file may lie on another index tomorrow.
    wheels = {
        version: [WheelFile(file=w.file, url="", sha256=w.sha256) for w in release.wheels]
        for version, release in locked.items()
    }
    picked = pick_releases(wheels, source.releases or "", source.select, around.target)
    offer = _Offer(source.package, around)

    def obtain(release: Release) -> _Found:
        if release.wheel is None:
            raise ArtifactError(
                f"The lock has no wheel of {source.package} {release.version} for {around.target}.",
                'If the package index has one, "ort-ep-matrix lock" takes it in.',
            )
        vouched = by_file[release.wheel.file]
        cached = find_core_entry(around.cache, vouched.sha256) is not None
        wheel = offer.find(vouched.file, needed=not cached) or release.wheel
        got = obtain_wheel(wheel, around, locked=vouched)
        return _Found(got.library, got.sha256, got.source)

    # A locked release without a wheel for this platform is an error, not something to leave out.
    return [
        replace(_release_candidate(source, release, obtain), pinned_only=False)
        for release in picked
    ]


def _release_candidate(
    source: CoreSource, release: Release, obtain: Callable[[Release], _Found]
) -> _Candidate:
    file = release.wheel.file if release.wheel else f"{source.package} {release.version}"
    return _Candidate(
        release.version,
        file,
        f"package index: {file}",
        lambda: obtain(release),
        prerelease=release.prerelease,
        pinned_only=release.pinned_only,
        package=source.package,
    )


def _no_wheel(package: str, release: Release, target: Target) -> ArtifactError:
    return ArtifactError(
        f"{package} {release.version} has no wheel for {target} that this system can load.",
        "Give this core by archive or path, or leave it out.",
    )


class _Offer:
    """Where the index has the files of a lock; asked only for what the cache lacks."""

    def __init__(self, package: str, around: Surroundings) -> None:
        self._package = package
        self._around = around
        self._lock = threading.Lock()
        self._asked = False
        self._trouble: ArtifactError | None = None
        self._listing = read_listing(package, around.cache)

    def find(self, file: str, *, needed: bool) -> WheelFile | None:
        """The file as the index offers it.

        Args:
            file: name of the wheel.
            needed: ask the index if no earlier answer has the file. Otherwise it is looked up only
                to compare hashes.

        Raises:
            ArtifactError: it is needed, and the index does not answer or does not have it.
        """
        with self._lock:
            found = self._lookup(file)
            if not self._asked and (self._around.refresh or (needed and found is None)):
                self._asked = True
                self._ask()
                found = self._lookup(file)
            if found is None and needed:
                raise self._trouble or ArtifactError(
                    f"The package index does not have {file}, which the lock names.",
                    "Turn pip to the index that has it, or write the lock anew with "
                    '"ort-ep-matrix lock".',
                )
            return found

    def _ask(self) -> None:
        around = self._around
        try:
            self._listing = fresh_listing(self._package, around.cache, around.network)
        except ArtifactError as error:
            self._trouble = error

    def _lookup(self, file: str) -> WheelFile | None:
        wheels = self._listing.wheels.values() if self._listing else ()
        return next((wheel for group in wheels for wheel in group if wheel.file == file), None)


def _archive(source: CoreSource, around: Surroundings) -> _Candidate:
    location = source.archive or ""
    name = location.split("#")[0].rstrip("/").rpartition("/")[2]

    def download(path: Path) -> str:
        return around.network.download(location, path, name=name, progress=around.progress)

    remote = location.startswith("https://")
    supply = download if remote else _copying(around.base / Path(location).expanduser())
    return _archive_candidate(name, supply, source.sha256 or "", source.version, around)


def _copying(archive: Path) -> Supply:
    def supply(path: Path) -> str:
        try:
            shutil.copyfile(archive, path)
        except OSError as error:
            raise ArtifactError(
                f"The archive {archive} cannot be read: {error.strerror or error}.",
                "Correct its path in matrix.yaml; it starts from the folder of that file.",
            ) from None
        return hash_file(path)

    return supply


def _archive_candidate(
    name: str, supply: Supply, sha256: str, given: str | None, around: Surroundings
) -> _Candidate:
    def obtain() -> _Found:
        stored, _ = obtain_core(
            around.cache,
            sha256,
            supply,
            around.target,
            name=name,
            vouched_by="matrix.yaml",
            repair=around.refresh,
        )
        seen = given or _version_of(stored.library, name, stored.sha256, around)
        _check_core(stored.library, stored.sha256, around)
        return _Found(stored.library, stored.sha256, f"archive {name}", seen)

    cached = find_core_entry(around.cache, sha256)
    version = given or (around.target.version_in(cached.library.name) if cached else None)
    version = _valid(version) or _valid(version_in_name(name))
    if version is None:
        # It is worth a download to learn it before the user is asked for it.
        version = obtain().version
    if version is None:
        raise _unknown_version(f"The archive {name}")
    return _Candidate(Version(version), f"archive {sha256}", f"archive {name}", obtain)


def _named_path(path: Path, around: Surroundings) -> _Candidate:
    """A core that the user named by path: a library, a folder or an archive."""
    try:
        if path.is_file() and not_a_library(path) and is_archive(path):
            # The user named this very file, so its own hash is the one that it must have.
            return _archive_candidate(path.name, _copying(path), hash_file(path), None, around)
        return _path(CoreSource(path=str(path)), around)
    except ConfigError as error:
        raise SelectionError(
            error.message, "Put it into matrix.yaml with its version, or rename it."
        ) from None
    except (ArtifactError, OSError) as error:
        told = error.message if isinstance(error, ArtifactError) else f"{path}: {error}"
        raise SelectionError(
            told, "Name a core library, a folder that holds exactly one, or a release archive."
        ) from None


def _path(source: CoreSource, around: Surroundings) -> _Candidate:
    path = (around.base / Path(source.path or "").expanduser()).absolute()
    shown = f"path {path}"

    def obtain() -> _Found:
        library = _library_at(path, around.target)
        sha256 = _hash(library)
        if source.sha256 is not None and sha256 != source.sha256:
            raise ArtifactError(
                f"{library} has the sha256 {sha256}, but matrix.yaml says {source.sha256}.",
                "Put the right library there, or correct the hash.",
            )
        _check_core(library, sha256, around)
        return _Found(library, sha256, f"path {library}")

    try:
        library = _library_at(path, around.target)
        version = source.version or _version_of(library, path.name, None, around)
    except ArtifactError:
        if source.version is None:
            raise
        # Its cells are known, so they are explained one by one and the other cores still run.
        return _Candidate(Version(source.version), shown, shown, obtain)
    if version is None:
        raise _unknown_version(str(library))
    return _Candidate(Version(version), f"path {library}", shown, obtain)


def _installed(source: CoreSource, around: Surroundings) -> _Candidate:
    def obtain() -> _Found:
        found = find_installed(around.target)
        sha256 = _hash(found.library)
        if source.version is not None and Version(source.version) != Version(found.version):
            raise ArtifactError(
                f"{found.distribution} is installed, but matrix.yaml says {source.version}.",
                "Install that version, or correct matrix.yaml.",
            )
        if source.sha256 is not None and sha256 != source.sha256:
            raise ArtifactError(
                f"{found.library} has the sha256 {sha256}, but matrix.yaml says {source.sha256}.",
                "Install the right onnxruntime, or correct the hash.",
            )
        return _Found(found.library, sha256, f"installed: {found.distribution}")

    if source.version is not None:
        return _Candidate(Version(source.version), "installed", "installed", obtain)
    found = find_installed(around.target)
    return _Candidate(
        Version(found.version), "installed", f"installed: {found.distribution}", obtain
    )


def _library_at(path: Path, target: Target) -> Path:
    """The one core library at a path, links resolved."""
    if not path.exists():
        raise ArtifactError(f"There is no {path}.", "Correct the path of this core.")
    if path.is_file():
        return path.resolve()
    folders = [path, path / "lib", path / target.nuget_folder, path / "onnxruntime" / "capi"]
    found = {
        file.resolve()
        for folder in folders
        if folder.is_dir()
        for file in folder.iterdir()
        if file.is_file() and target.is_core_name(file.name)
    }
    if len(found) > 1:
        # Copies where links should be: an unpacked archive on a system without links.
        found = set({_hash(file): file for file in sorted(found, key=_name_length)}.values())
    if len(found) == 1:
        return found.pop()
    if not found:
        raise ArtifactError(
            f"{path} holds no core library ({target.core_name}).",
            f"It is looked for there, in lib, in {target.nuget_folder} and in onnxruntime/capi.",
        )
    raise ArtifactError(
        f"{path} holds more than one core library: {', '.join(sorted(map(str, found)))}.",
        "Name one of them.",
    )


def _name_length(path: Path) -> int:
    return len(path.name)


def _check_core(library: Path, sha256: str, around: Surroundings) -> None:
    """Refuse what is no core of this platform, before a host process trips over it."""
    reason = not_a_library(library)
    if reason is None:
        facts = inspect_library(library, sha256, around.cache)
        if facts is None:
            reason = "it is damaged"
        elif _CORE_FUNCTION not in facts.entry_points:
            reason = misfit(facts, around.target) or f"it does not export {_CORE_FUNCTION}"
        else:
            reason = misfit(facts, around.target)
    if reason is not None:
        raise ArtifactError(
            f"{library} is not an ORT core library for {around.target}: {reason}.",
            "Name the library, the folder or the archive of an official build for this platform.",
        )


def _version_of(library: Path, origin: str, sha256: str | None, around: Surroundings) -> str | None:
    """A core's version out of its file's name, its archive's or folder's, or the library."""
    folders = [parent.name for parent in library.parents][:3]
    names = [origin, *(name for name in folders if re.match(r"(?i)(.*\.)?onnxruntime", name))]
    written = [around.target.version_in(library.name), *map(version_in_name, names)]
    for version in map(_valid, written):
        if version is not None:
            return version
    if not_a_library(library) is not None:
        return None
    facts = inspect_library(library, sha256 or _hash(library), around.cache)
    return _valid(facts.version) if facts else None


def _valid(version: str | None) -> str | None:
    try:
        return str(Version(version)) if version else None
    except InvalidVersion:
        return None


def _unknown_version(what: str) -> ConfigError:
    return ConfigError(
        f"{what} does not tell its version.",
        'Add "version:" with it to this core in matrix.yaml.',
    )


def _hash(path: Path) -> str:
    try:
        return hash_file(path)
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be read: {error.strerror or error}.",
            "Give yourself the right to read it.",
        ) from None


def _obtain(candidate: _Candidate) -> Core:
    version = str(candidate.version)
    try:
        found = candidate.obtain()
    except HarnessError as error:
        return Core(version, version, None, None, candidate.source, str(error))
    seen = found.version or version
    return Core(seen, seen, found.library, found.sha256, found.source, None, candidate.package)


def _with_ids(cores: list[Core]) -> list[Core]:
    """Drop what is the same library twice, and tell apart what shares a version."""
    distinct = {(core.version, core.sha256 or core.source): core for core in cores}
    counts = Counter(core.version for core in distinct.values())
    named = [
        core if counts[core.version] == 1 else replace(core, id=f"{core.version}@{_digits(core)}")
        for core in distinct.values()
    ]
    return sorted(named, key=lambda core: (Version(core.version), core.id))


def _digits(core: Core) -> str:
    # A core that could not be had has no hash, and its cells need a name all the same.
    known = core.sha256 or hashlib.sha256(core.source.encode()).hexdigest()
    return known[:_ID_DIGITS]
