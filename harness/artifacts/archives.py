"""Taking the one core library out of a wheel, a release archive or a .nupkg.

Nothing else is unpacked, and no name in an archive ever becomes a path on disk.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from harness.artifacts.target import Target
from harness.errors import ArtifactError

__all__ = ["extract_core", "find_core", "is_archive", "version_in_name"]

_LISTED_NAMES = 6


def is_archive(path: Path) -> bool:
    """Whether the file's content is that of a zip (wheel, .nupkg) or a tar.

    Raises:
        OSError: it cannot be read.
    """
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def version_in_name(name: str) -> str | None:
    """The version in the name of a release archive, such as onnxruntime-linux-x64-1.24.4.tgz."""
    stem = re.sub(r"\.(tgz|tar(\.\w+)?|zip|nupkg|whl)$", "", name, flags=re.IGNORECASE)
    if name.lower().endswith(".whl"):
        found = re.match(r"[^-]+-(\d[\w.+!]*)-", name)
    else:
        found = re.search(r"[-._](\d+\.\d+(?:\.\d+)*(?:[-.]?(?:rc|a|b|dev|post)[-.]?\d+)*)$", stem)
    return found[1] if found else None


def extract_core(archive: Path, into: Path, target: Target, *, name: str) -> str:
    """Write the core library of an archive to a file.

    Args:
        archive: a wheel, a release archive or a .nupkg.
        into: the file that its bytes go to.
        target: the platform whose library is wanted.
        name: of the archive, for messages.

    Returns:
        The library's own file name.

    Raises:
        ArtifactError: it is no archive, is damaged, or has no or several such libraries.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as container:
                infos = {info.filename: info for info in container.infolist() if _is_file(info)}
                member = find_core(infos, target, name=name)
                with container.open(infos[member]) as source:
                    _copy(source, into)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tar:
                entries = {entry.name: entry for entry in tar if entry.isreg()}
                member = find_core(entries, target, name=name)
                with contextlib.closing(_open_member(tar, entries[member])) as source:
                    _copy(source, into)
        else:
            raise ArtifactError(
                f"{name} is neither a zip (.whl, .nupkg, .zip) nor a tar (.tgz).",
                "Name the release archive as it was published.",
            )
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError) as error:
        raise ArtifactError(
            f"{name} is damaged: {error}.", "Fetch it anew from where it was published."
        ) from None
    return member.rpartition("/")[2]


def find_core(names: Iterable[str], target: Target, *, name: str) -> str:
    """The one member that is a platform's core library.

    It lies in `onnxruntime/capi` of a wheel, in `runtimes/<platform>/native` of a .nupkg, or in
    the `lib` folder at the top of a release archive.

    Raises:
        ArtifactError: there is none, or more than one.
    """
    members = list(names)
    by_folder: dict[str, list[str]] = {}
    for member in members:
        folder, _, file = member.removeprefix("./").rpartition("/")
        if target.is_core_name(file) and _is_core_folder(folder, target):
            by_folder.setdefault(folder, []).append(member)
    if not by_folder:
        native = [m for m in members if re.search(r"onnxruntime[^/]*\.(so[\d.]*|dylib|dll)$", m)]
        listed = ", ".join(sorted(native)[:_LISTED_NAMES]) or "no native library at all"
        raise ArtifactError(
            f"{name} holds no core library for {target} ({target.core_name}); it has {listed}.",
            "Take the archive or wheel that was published for this platform.",
        )
    if len(by_folder) > 1:
        found = ", ".join(sorted(member for group in by_folder.values() for member in group))
        raise ArtifactError(
            f"{name} holds more than one core library: {found}.",
            "Unpack it, and name the library with path.",
        )
    (group,) = by_folder.values()
    # A link that became a copy carries less of the version than the file that it stood for.
    return max(group, key=lambda member: (len(member), member))


def _is_core_folder(folder: str, target: Target) -> bool:
    return (
        folder == "onnxruntime/capi"
        or folder == target.nuget_folder
        or re.fullmatch(r"(?:[^/]+/)?lib", folder) is not None
    )


def _is_file(info: zipfile.ZipInfo) -> bool:
    kind = (info.external_attr >> 16) & 0o170000
    return not info.is_dir() and kind in (0, 0o100000)


def _open_member(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    stream = tar.extractfile(entry)
    if stream is None:
        raise tarfile.ReadError(f"{entry.name} has no content")
    return stream


def _copy(source: IO[bytes], into: Path) -> None:
    with into.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
