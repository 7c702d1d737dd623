"""Plugin wheels in the cache, unpacked whole, because a plugin may need the files beside it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.artifacts.cache import (
    PARTIAL_SUFFIX,
    Cache,
    clear_partial,
    hash_file,
    locked,
    partial_file,
    write_bytes,
)
from harness.artifacts.store import Supply
from harness.errors import ArtifactError

__all__ = ["UnpackedWheel", "obtain_unpacked"]

_RECORD = "record.json"
_CONTENT = "content"
_THREADS = 4
_UNSAFE_NAME = re.compile(r"^/|^[A-Za-z]:|\\|(^|/)\.\.(/|$)")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    origin: str
    files: dict[str, str]


@dataclass(frozen=True)
class UnpackedWheel:
    """The files of a wheel on disk, each checked against its recorded hash.

    Args:
        folder: absolute.
        files: sha256 by path within the folder, with "/" between its parts.
    """

    folder: Path
    files: dict[str, str]


def obtain_unpacked(
    cache: Cache,
    wheel_sha256: str | None,
    supply: Supply,
    *,
    name: str,
    vouched_by: str,
    repair: bool = False,
) -> tuple[UnpackedWheel, str]:
    """All files of a wheel: from the cache, or unpacked into it now.

    Args:
        cache: where they are kept.
        wheel_sha256: that the wheel must have; None accepts what comes.
        supply: brings the wheel, when the cache does not have its files.
        name: of the wheel, for messages.
        vouched_by: who says what hash it must have, for messages.
        repair: unpack anew where a file no longer has its recorded hash.

    Returns:
        The files, and the hash of the wheel.

    Raises:
        ArtifactError: it cannot be had, a hash differs, or the cache cannot be written.
    """
    if wheel_sha256 is not None:
        return _obtain(cache, wheel_sha256, supply, name, vouched_by, repair=repair), wheel_sha256
    holder = cache.plugins / hashlib.sha256(name.encode()).hexdigest()
    with locked(holder):
        clear_partial(holder)
        fetched = _temporary(holder)
        try:
            found = supply(fetched)

            def move(path: Path) -> str:
                shutil.copyfile(fetched, path)
                return hash_file(path)

            unpacked = _obtain(cache, found, move, name, vouched_by, repair=repair)
        finally:
            shutil.rmtree(holder, ignore_errors=True)
    return unpacked, found


def _obtain(
    cache: Cache, sha256: str, supply: Supply, name: str, vouched_by: str, *, repair: bool
) -> UnpackedWheel:
    folder = cache.plugins / sha256
    unpacked = _checked(folder, repair=repair)
    if unpacked is not None:
        return unpacked
    with locked(folder):
        clear_partial(folder)
        _clear_partial_folders(folder)
        # Another run may have put it there while this one waited.
        unpacked = _checked(folder, repair=repair)
        if unpacked is not None:
            return unpacked
        wheel = _temporary(folder)
        try:
            found = supply(wheel)
            if found != sha256:
                raise ArtifactError(
                    f"{name} has the sha256 {found}, but {vouched_by} says {sha256}.",
                    "It was damaged on its way or changed where it lies, and is not used. Try "
                    "again; if it stays so, find out who changed it.",
                )
            return _put(folder, wheel, name)
        except OSError as error:
            raise ArtifactError(
                f"{name} could not be unpacked in {folder}: {error.strerror or error}.",
                "Make room, end a run that uses it, or set ORT_EP_MATRIX_CACHE to another folder.",
            ) from None
        finally:
            wheel.unlink(missing_ok=True)


def _put(folder: Path, wheel: Path, name: str) -> UnpackedWheel:
    fresh = Path(tempfile.mkdtemp(suffix=PARTIAL_SUFFIX, dir=folder))
    fresh.chmod(0o755)
    files = _unpack(wheel, fresh, name)
    content = folder / _CONTENT
    if content.exists():
        content.rename(fresh.with_name("old" + fresh.name))
    fresh.rename(content)
    # The record comes last: an entry without it does not exist.
    record = _Record(origin=name, files=files)
    write_bytes(folder / _RECORD, record.model_dump_json(indent=1).encode())
    _clear_partial_folders(folder)
    return UnpackedWheel(content, files)


def _unpack(wheel: Path, into: Path, name: str) -> dict[str, str]:
    files: dict[str, str] = {}
    try:
        with zipfile.ZipFile(wheel) as container:
            for info in container.infolist():
                if _UNSAFE_NAME.search(info.filename):
                    raise ArtifactError(
                        f'{name} is refused: it holds a file named "{info.filename}", which would '
                        "lie outside its folder.",
                        "Take the wheel from where it was published.",
                    )
                if info.is_dir():
                    continue
                path = into / info.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                with container.open(info) as source, path.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                    sink.flush()
                    os.fsync(sink.fileno())
                files[info.filename] = hash_file(path)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ArtifactError(
            f"{name} is not a wheel, or is damaged: {error}.",
            "Fetch or build it anew.",
        ) from None
    return files


def _checked(folder: Path, *, repair: bool) -> UnpackedWheel | None:
    try:
        record = _Record.model_validate_json((folder / _RECORD).read_bytes())
    except (OSError, ValidationError):
        return None
    content = folder / _CONTENT
    paths = {content / name: sha256 for name, sha256 in record.files.items()}
    if any(map(_UNSAFE_NAME.search, record.files)) or not all(map(Path.is_file, paths)):
        return None
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            found = dict(zip(paths, pool.map(hash_file, paths), strict=True))
    except OSError as error:
        raise ArtifactError(
            f"{error.filename} cannot be read: {error.strerror or error}.",
            "Give yourself the right to read it, or remove it.",
        ) from None
    changed = next((path for path, sha256 in paths.items() if found[path] != sha256), None)
    if changed is None:
        return UnpackedWheel(content, record.files)
    if repair:
        return None
    raise ArtifactError(
        f"{changed} no longer matches its recorded sha256: it is {found[changed]}, and "
        f"{paths[changed]} was recorded.",
        '"ort-ep-matrix fetch" replaces it.',
    )


def _temporary(folder: Path) -> Path:
    try:
        return partial_file(folder)
    except OSError as error:
        raise ArtifactError(
            f"The cache folder {folder} cannot be written: {error.strerror or error}.",
            "Set ORT_EP_MATRIX_CACHE to a folder that you may write to.",
        ) from None


def _clear_partial_folders(folder: Path) -> None:
    for leftover in folder.glob("*" + PARTIAL_SUFFIX):
        shutil.rmtree(leftover, ignore_errors=True)
