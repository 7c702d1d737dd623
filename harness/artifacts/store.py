"""The core libraries in the cache: checked on every use, put there whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.artifacts.archives import extract_core
from harness.artifacts.cache import (
    Cache,
    clear_partial,
    hash_file,
    locked,
    partial_file,
    publish,
    write_bytes,
)
from harness.artifacts.index import WheelFile, local_path
from harness.artifacts.target import Target
from harness.errors import ArtifactError

__all__ = [
    "StoredCore",
    "Supply",
    "find_core_entry",
    "obtain_core",
    "remember_hash",
    "remembered_hash",
]

_RECORD = "record.json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    origin: str
    origin_sha256: str
    library: str
    sha256: str


@dataclass(frozen=True)
class StoredCore:
    """A core library in the cache, with the hash that it had when it was put there."""

    library: Path
    sha256: str


# Writes the wheel or archive to the path and answers its sha256.
Supply = Callable[[Path], str]


def find_core_entry(cache: Cache, origin_sha256: str) -> StoredCore | None:
    """The library out of the wheel or archive with this hash, unchecked; None if not there."""
    record = _read_record(cache.cores / origin_sha256)
    if record is None:
        return None
    library = cache.cores / origin_sha256 / record.library
    return StoredCore(library, record.sha256) if library.is_file() else None


def obtain_core(
    cache: Cache,
    origin_sha256: str | None,
    supply: Supply,
    target: Target,
    *,
    name: str,
    vouched_by: str = "its publisher",
    repair: bool = False,
) -> tuple[StoredCore, str]:
    """The core library of a wheel or archive: from the cache, or put there now.

    Args:
        cache: where it is kept.
        origin_sha256: that the wheel or archive must have; None accepts what comes.
        supply: brings the wheel or archive, when the cache does not have its library.
        target: the platform whose library is wanted.
        name: of the wheel or archive, for messages.
        vouched_by: who says what hash it must have, such as "the lock", for messages.
        repair: replace a library that no longer has its recorded hash.

    Returns:
        The library, checked against its recorded hash, and the hash of the wheel or archive.

    Raises:
        ArtifactError: it cannot be had, a hash differs, or the cache cannot be written.
    """
    if origin_sha256 is not None:
        stored = _checked(cache, origin_sha256, repair=repair)
        if stored is not None:
            return stored, origin_sha256
    holder = origin_sha256 or hashlib.sha256(name.encode()).hexdigest()
    with locked(cache.cores / holder):
        folder = cache.cores / holder
        clear_partial(folder)
        if origin_sha256 is not None:
            # Another run may have put it there while this one waited.
            stored = _checked(cache, origin_sha256, repair=repair)
            if stored is not None:
                return stored, origin_sha256
        try:
            return _put(cache, folder, origin_sha256, supply, target, name, vouched_by)
        except OSError as error:
            raise ArtifactError(
                f"The core of {name} could not be stored in {folder}: {error.strerror or error}.",
                "Make room, end a run that uses it, or set ORT_EP_MATRIX_CACHE to another folder.",
            ) from None


def remembered_hash(cache: Cache, wheel: WheelFile) -> str | None:
    """The hash that a wheel without a published one had when it was last fetched."""
    try:
        text = (cache.listings / f"{_address_key(wheel)}.sha256").read_text("ascii")
    except (OSError, UnicodeError):
        return None
    return text.strip() or None


def remember_hash(cache: Cache, wheel: WheelFile, sha256: str) -> None:
    """Remember the hash of a wheel whose index publishes none."""
    write_bytes(cache.listings / f"{_address_key(wheel)}.sha256", sha256.encode("ascii"))


def _put(
    cache: Cache,
    folder: Path,
    expected: str | None,
    supply: Supply,
    target: Target,
    name: str,
    vouched_by: str,
) -> tuple[StoredCore, str]:
    origin, library = partial_file(folder), partial_file(folder)
    try:
        found = supply(origin)
        if expected is not None and found != expected:
            raise ArtifactError(
                f"{name} has the sha256 {found}, but {vouched_by} says {expected}.",
                "It was damaged on its way or changed where it lies, and is not used. Try again; "
                "if it stays so, find out who changed it.",
            )
        file = extract_core(origin, library, target, name=name)
        record = _Record(origin=name, origin_sha256=found, library=file, sha256=hash_file(library))
        home = cache.cores / found
        with contextlib.nullcontext() if home == folder else locked(home):
            publish(library, home / file)
            # The record comes last: an entry without it does not exist.
            write_bytes(home / _RECORD, record.model_dump_json(indent=1).encode())
        return StoredCore(home / file, record.sha256), found
    finally:
        origin.unlink(missing_ok=True)
        library.unlink(missing_ok=True)
        if expected is None:
            _remove_if_empty(folder)


def _checked(cache: Cache, origin_sha256: str, *, repair: bool) -> StoredCore | None:
    stored = find_core_entry(cache, origin_sha256)
    if stored is None:
        return None
    try:
        found = hash_file(stored.library)
    except OSError as error:
        raise ArtifactError(
            f"{stored.library} cannot be read: {error.strerror or error}.",
            "Give yourself the right to read it, or remove it.",
        ) from None
    if found == stored.sha256:
        return stored
    if repair:
        return None
    raise ArtifactError(
        f"{stored.library} no longer matches its recorded sha256: it is {found}, and "
        f"{stored.sha256} was recorded.",
        '"ort-ep-matrix fetch" replaces it.',
    )


def _read_record(folder: Path) -> _Record | None:
    try:
        record = _Record.model_validate_json((folder / _RECORD).read_bytes())
    except (OSError, ValidationError):
        return None
    # A damaged record must not lead out of its folder.
    return record if Path(record.library).name == record.library else None


def _address_key(wheel: WheelFile) -> str:
    """A wheel's address and, in a local folder where it may be built anew, its size and age."""
    text = wheel.url
    local = local_path(wheel.url)
    if local is not None and local.is_file():
        seen = local.stat()
        text += f"\0{seen.st_size}\0{seen.st_mtime_ns}"
    return hashlib.sha256(os.fsencode(text)).hexdigest()


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        # Another core was put there, or another run holds it.
        return
