"""The plugin of a run: found by entry name, path or requirement, and checked to be one."""

from __future__ import annotations

import difflib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from harness.artifacts.bundled import reference_library
from harness.artifacts.cache import Cache, hash_file
from harness.artifacts.index import (
    Listing,
    PackageNotFoundError,
    WheelFile,
    best_wheel,
    listing,
)
from harness.artifacts.library import Library, inspect_library, misfit, not_a_library
from harness.artifacts.network import Network
from harness.artifacts.progress import Progress, no_progress
from harness.artifacts.selection import pins
from harness.artifacts.store import Supply, remember_hash, remembered_hash
from harness.artifacts.target import Target, current_target
from harness.artifacts.unpacked import UnpackedWheel, obtain_unpacked
from harness.config import Matrix, PluginEntry
from harness.errors import ConfigError, PluginError
from harness.files import existing_path
from harness.matrix_file import load
from harness.quoting import shown

__all__ = ["Plugin", "resolve_plugin"]

_CREATE = "CreateEpFactories"
_RELEASE = "ReleaseEpFactory"
_CORE_FUNCTION = "OrtGetApiBase"
_LIBRARY_FILE = re.compile(r"\.(so(\.\d+)*|dylib|dll)$", re.IGNORECASE)
_LISTED_NAMES = 8
_FETCH_HINT = '"ort-ep-matrix fetch" asks the package index anew.'


@dataclass(frozen=True)
class Plugin:
    """One plugin EP library, and what is known of it before it is loaded.

    Args:
        name: of its entry, or out of the file's or the requirement's name.
        version: of its wheel or its entry; None where neither tells.
        library: absolute, links resolved.
        sha256: of the library.
        registration_name: what it is registered under.
        source: where it came from, for people.
        entry: what matrix.yaml says of it; None for a bare path or requirement.
    """

    name: str
    version: str | None
    library: Path
    sha256: str
    registration_name: str
    source: str
    entry: PluginEntry | None


@dataclass(frozen=True)
class _Around:
    cache: Cache
    target: Target
    network: Network
    refresh: bool
    progress: Progress


@dataclass(frozen=True)
class _Found:
    name: str
    version: str | None
    library: Path
    sha256: str
    source: str


def resolve_plugin(
    matrix: Matrix,
    base: Path,
    cache: Cache,
    text: str | None,
    *,
    refresh: bool = False,
    progress: Progress = no_progress,
    target: Target | None = None,
    shipped: Path | None = None,
) -> Plugin:
    """Find the plugin of a run, fetch it if need be, and see that it is a plugin library.

    An entry's name wins over a path, and a path that exists over a requirement; write ./NAME for a
    file with the name of an entry. A wheel file counts as a path. A bare requirement for the
    distribution of an entry is still bare: what the entry says does not apply to it. It must have a
    version or an address: what it brings is loaded as native code, and a name alone may be a
    stranger's.

    Args:
        matrix: has the entries.
        base: the folder that relative paths of the matrix start from.
        cache: where plugins and the answers of the package index are kept.
        text: what the user asked for; None takes the matrix's own plugin.
        refresh: ask the package index again, and replace cached files that were changed.
        progress: told of a download.
        target: the platform; this one when left out.
        shipped: the matrix that comes with the package; a name that is an entry there and not in
            the matrix in use is told so.

    Raises:
        PluginError: there is no such plugin, or it is no plugin library for this platform.
        ArtifactError: it could not be fetched, or what is cached was changed.
    """
    asked = matrix.plugin if text is None else text.strip()
    if text is not None and not asked:
        raise PluginError("--plugin names nothing: it is empty.", _entries(matrix))
    if not asked:
        raise PluginError(
            "No plugin was named, and the matrix has no default one.",
            'Name one with --plugin, or set "plugin:" in matrix.yaml.',
        )
    network = Network()
    around = _Around(cache, target or current_target(), network, refresh, progress)
    try:
        entry = matrix.plugins.get(asked)
        if entry is not None:
            found = _of_entry(asked, entry, base, around)
            name = asked
        else:
            found = _bare(asked, matrix, shipped, around)
            name = found.name
    finally:
        network.close()
    registration = entry.registration_name if entry else None
    return Plugin(
        name,
        found.version,
        found.library,
        found.sha256,
        registration or name,
        found.source,
        entry,
    )


def _of_entry(name: str, entry: PluginEntry, base: Path, around: _Around) -> _Found:
    if entry.requirement is not None:
        return _of_requirement(Requirement(entry.requirement), around)
    path = reference_library() if entry.bundled else base / Path(entry.path or "").expanduser()
    try:
        found = _of_path(path, around)
    except PluginError as error:
        raise PluginError(f'The plugin "{name}": {error.message}', error.hint) from None
    version = entry.version or found.version
    source = f"bundled {path}" if entry.bundled else found.source
    return _Found(found.name, version, found.library, found.sha256, source)


def _bare(text: str, matrix: Matrix, shipped: Path | None, around: _Around) -> _Found:
    path = existing_path(text)
    if path is not None:
        return _of_path(path, around)
    close = difflib.get_close_matches(text, matrix.plugins, n=1, cutoff=0.6)
    perhaps = f'Perhaps you meant the entry "{close[0]}"?' if close else _entries(matrix)
    if _looks_like_path(text):
        raise PluginError(
            f'--plugin "{shown(text)}" was taken for a path, and there is nothing there.',
            perhaps,
        )
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        raise PluginError(
            f'--plugin "{text}" is no entry of the matrix, no path that exists, and no requirement '
            'such as "name==1.0".',
            perhaps,
        ) from None
    if not requirement.specifier and not requirement.url:
        # A name that is an entry elsewhere must not bring a stranger's package into a process.
        raise PluginError(
            f'--plugin "{text}" is no entry of the matrix and no path that exists.',
            _in_shipped(text, shipped)
            or f"{perhaps} To take it for a requirement, give a version: "
            f'"{requirement.name}==1.0".',
        )
    try:
        return _of_requirement(requirement, around)
    except PackageNotFoundError as error:
        raise PluginError(
            f'--plugin "{text}" was taken for a requirement. {error.message}', perhaps
        ) from None


def _in_shipped(name: str, shipped: Path | None) -> str:
    """The hint where a name is an entry of the shipped matrix alone."""
    try:
        known = shipped is not None and name in load(shipped).matrix.plugins
    except ConfigError:
        return ""
    if not known:
        return ""
    return (
        f'The matrix in use replaces the shipped one, {shipped}, which has an entry "{name}": '
        "copy that, and the expectations of it."
    )


def _entries(matrix: Matrix) -> str:
    if not matrix.plugins:
        return "Name a path, or a requirement; the matrix has no entries."
    return f"Entries of the matrix: {', '.join(sorted(matrix.plugins))}."


def _looks_like_path(text: str) -> bool:
    if " @ " in text:
        return False
    written = "/" in text or "\\" in text or text.startswith((".", "~"))
    return written or bool(_LIBRARY_FILE.search(text)) or text.lower().endswith(".whl")


def _of_path(path: Path, around: _Around) -> _Found:
    path = path.resolve()
    if path.suffix.lower() == ".whl" and path.is_file():
        return _of_wheel_file(path, around)
    reason = not_a_library(path)
    if not path.exists():
        raise PluginError(f"There is no {path}.", "Correct the path of the plugin library.")
    if reason == "it is a folder":
        raise PluginError(
            f"{path} is a folder and not a plugin library.", "Name the library file in it."
        )
    if reason is not None:
        raise PluginError(
            f"{path} is not a shared library: {reason}.",
            "Name the plugin's own library (.so, .dll or .dylib).",
        )
    sha256 = _hash(path)
    facts = inspect_library(path, sha256, around.cache)
    _check(path, facts, around.target)
    return _Found(_name_of(path), None, path, sha256, f"path {path}")


def _of_wheel_file(path: Path, around: _Around) -> _Found:
    name, version = _parse_wheel(path.name)

    def supply(into: Path) -> str:
        shutil.copyfile(path, into)
        return hash_file(into)

    unpacked, _ = obtain_unpacked(
        around.cache,
        _hash(path),
        supply,
        name=path.name,
        vouched_by="its own content",
        repair=around.refresh,
    )
    library, sha256 = _library_in(unpacked, path.name, around)
    return _Found(name, version, library, sha256, f"path {path}")


def _of_requirement(requirement: Requirement, around: _Around) -> _Found:
    if requirement.marker is not None and not requirement.marker.evaluate():
        raise PluginError(
            f'The requirement "{requirement}" is not meant for this environment: its marker does '
            "not hold.",
            "Leave the marker out, or choose another plugin.",
        )
    wheel = _wheel_at(requirement) if requirement.url else _wheel_for(requirement, around)
    expected = wheel.sha256 or remembered_hash(around.cache, wheel)
    supply = _downloading(wheel, around)
    unpacked, found = obtain_unpacked(
        around.cache,
        expected,
        supply,
        name=wheel.file,
        vouched_by="the package index" if wheel.sha256 else "an earlier download",
        repair=around.refresh,
    )
    if expected is None:
        remember_hash(around.cache, wheel, found)
    library, sha256 = _library_in(unpacked, wheel.file, around)
    note = "" if wheel.sha256 else " (the index publishes no sha256)"
    version = _parse_wheel(wheel.file)[1]
    return _Found(requirement.name, version, library, sha256, f"package index: {wheel.file}{note}")


def _downloading(wheel: WheelFile, around: _Around) -> Supply:
    def supply(path: Path) -> str:
        return around.network.download(wheel.url, path, name=wheel.file, progress=around.progress)

    return supply


def _wheel_at(requirement: Requirement) -> WheelFile:
    """The wheel of a requirement with an address."""
    address, _, fragment = (requirement.url or "").partition("#")
    file = address.split("?")[0].rpartition("/")[2]
    if not address.startswith(("https://", "file:")) or not file.endswith(".whl"):
        raise PluginError(
            f'The requirement "{requirement}" does not name a wheel that can be taken.',
            "Give the https or file address of a .whl file.",
        )
    _parse_wheel(file)
    sha256 = re.search(r"sha256=([0-9a-fA-F]{64})", fragment)
    return WheelFile(file=file, url=address, sha256=sha256[1].lower() if sha256 else None)


def _wheel_for(requirement: Requirement, around: _Around) -> WheelFile:
    """The wheel that the package index offers for a requirement, its newest version that fits."""
    refreshed = around.refresh

    def ask(*, refresh: bool) -> Listing:
        return listing(requirement.name, around.cache, around.network, refresh=refresh)

    offered = ask(refresh=refreshed)
    wheel = _newest(offered, requirement, around.target)
    if wheel is None and not refreshed:
        # It may have been published since the index was asked.
        offered = ask(refresh=True)
        wheel = _newest(offered, requirement, around.target)
    if wheel is not None:
        return wheel
    known = list(offered.wheels)[-_LISTED_NAMES:]
    raise PluginError(
        f'No wheel of "{requirement}" for {around.target} is on the package index. Versions there, '
        f"for all platforms: {', '.join(known)}.",
        f"Choose another version, or give the library by path. {_FETCH_HINT}",
    )


def _newest(offered: Listing, requirement: Requirement, target: Target) -> WheelFile | None:
    pinned = pins(requirement.specifier)
    usable: dict[Version, WheelFile] = {}
    for version, wheels in offered.wheels.items():
        counted = [wheel for wheel in wheels if not wheel.yanked]
        wheel = best_wheel(counted, target) or (best_wheel(wheels, target) if pinned else None)
        if wheel is not None:
            usable[Version(version)] = wheel
    fitting = list(requirement.specifier.filter(usable))
    return usable[max(fitting)] if fitting else None


def _library_in(unpacked: UnpackedWheel, name: str, around: _Around) -> tuple[Path, str]:
    """The plugin library of a wheel: the one that exports CreateEpFactories."""
    plugins: dict[str, Library] = {}
    others: list[str] = []
    for file, sha256 in sorted(unpacked.files.items()):
        path = unpacked.folder / file
        if not _LIBRARY_FILE.search(file) or not_a_library(path) is not None:
            continue
        facts = inspect_library(path, sha256, around.cache)
        if facts is not None and _CREATE in facts.entry_points:
            plugins[file] = facts
        else:
            others.append(file)
    fitting = [file for file, facts in plugins.items() if misfit(facts, around.target) is None]
    if len(fitting) > 1:
        raise PluginError(
            f"{name} has more than one library that exports {_CREATE}: {', '.join(fitting)}.",
            f"Name one by path; they lie in {unpacked.folder}.",
        )
    if not plugins:
        listed = ", ".join(others[:_LISTED_NAMES]) or "none at all"
        raise PluginError(
            f"{name} has no library that exports {_CREATE}, the function that ORT asks a plugin "
            f"library for its EPs with. Libraries in it: {listed}.",
            "Name the wheel of a plugin EP, or the library by path.",
        )
    file = fitting[0] if fitting else next(iter(plugins))
    _check(unpacked.folder / file, plugins[file], around.target)
    return unpacked.folder / file, unpacked.files[file]


def _check(path: Path, facts: Library | None, target: Target) -> None:
    if facts is None:
        raise PluginError(
            f"{path} is damaged: it starts like a shared library and cannot be read as one.",
            "Build or fetch it anew.",
        )
    reason = misfit(facts, target)
    if reason is not None:
        raise PluginError(
            f"{path} cannot be loaded here: {reason}.",
            f"Name the plugin library that was built for {target}.",
        )
    missing = next((name for name in (_CREATE, _RELEASE) if name not in facts.entry_points), None)
    if missing is None:
        return
    if facts.exports == 0:
        exported = "It exports nothing."
    elif facts.exports <= len(facts.sample):
        exported = f"It exports: {', '.join(facts.sample)}."
    else:
        exported = f"It exports {facts.exports} others, such as {facts.sample[0]}."
    raise PluginError(
        f"{path} is no plugin library: it does not export {missing}. ORT asks a plugin library for "
        f"its EPs with {_CREATE} and gives them back with {_RELEASE}. {exported}",
        "This is an ORT core: name it with --core."
        if _CORE_FUNCTION in facts.entry_points
        else 'Name the plugin\'s own library, or export the function (extern "C", visible).',
    )


def _parse_wheel(file: str) -> tuple[str, str]:
    try:
        name, version, _, _ = parse_wheel_filename(file)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise PluginError(
            f'"{file}" is not the name of a wheel: {error}.',
            "Give the wheel its published name back; the version is read from it.",
        ) from None
    return name, str(version)


def _name_of(path: Path) -> str:
    stem = _LIBRARY_FILE.sub("", path.name)
    return stem.removeprefix("lib") or stem


def _hash(path: Path) -> str:
    try:
        return hash_file(path)
    except OSError as error:
        raise PluginError(
            f"{path} cannot be read: {error.strerror or error}.",
            "Give yourself the right to read it.",
        ) from None
