"""Where artifacts are kept between runs, and how files get there whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from harness.errors import ArtifactError

__all__ = [
    "PARTIAL_SUFFIX",
    "Cache",
    "clear_partial",
    "default_cache",
    "hash_file",
    "locked",
    "partial_file",
    "publish",
    "write_bytes",
]

PARTIAL_SUFFIX = ".part"
_ENVIRONMENT_VARIABLE = "ORT_EP_MATRIX_CACHE"
_LOCK_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Cache:
    """The folders of the cache. Nothing in it is needed: what is missing is fetched again.

    Args:
        root: absolute; made when something is first put there.
    """

    root: Path

    @property
    def cores(self) -> Path:
        """One folder a core, named by the hash of the wheel or archive that it came out of."""
        return self.root / "cores"

    @property
    def plugins(self) -> Path:
        """One folder an unpacked plugin wheel, named by the wheel's hash."""
        return self.root / "plugins"

    @property
    def listings(self) -> Path:
        """What the package index answered."""
        return self.root / "listings"

    @property
    def inspections(self) -> Path:
        """What libraries were found to be, named by their hash."""
        return self.root / "inspections"


def default_cache(environ: Mapping[str, str] = os.environ) -> Cache:
    """The user's cache; the variable ORT_EP_MATRIX_CACHE chooses another folder."""
    chosen = environ.get(_ENVIRONMENT_VARIABLE)
    usual = platformdirs.user_cache_path("ort-ep-matrix", appauthor=False)
    try:
        root = Path(chosen).expanduser() if chosen else usual
        # A host reports the real path of a mapped file, which must be the one that it was told.
        resolved = root.resolve()
        str(resolved).encode()
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        raise ArtifactError(
            f"The cache {chosen or str(usual)!a} is no folder that can be used: {error}.",
            f"Set {_ENVIRONMENT_VARIABLE} to another one.",
        ) from None
    return Cache(resolved)


def hash_file(path: Path) -> str:
    """The sha256 of a file, in lower-case hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a cache folder for writing; made when it does not exist. Others wait.

    Raises:
        ArtifactError: the folder cannot be made, or another process holds it for too long.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(folder.name + ".lock"), timeout=_LOCK_TIMEOUT_S)
        lock.acquire()
    except Timeout:
        raise ArtifactError(
            f"Another process has held {folder} for more than {_LOCK_TIMEOUT_S:.0f} s.",
            "End it, and try again.",
        ) from None
    except OSError as error:
        raise ArtifactError(
            f"The cache folder {folder} cannot be written: {error.strerror or error}.",
            f"Set {_ENVIRONMENT_VARIABLE} to a folder that you may write to.",
        ) from None
    try:
        yield
    finally:
        lock.release()


def partial_file(folder: Path) -> Path:
    """A new empty file in the folder, for content that is not yet whole."""
    handle, name = tempfile.mkstemp(suffix=PARTIAL_SUFFIX, dir=folder)
    os.close(handle)
    return Path(name)


def clear_partial(folder: Path) -> None:
    """Remove what a killed run left in a folder that the caller holds."""
    for leftover in folder.glob("*" + PARTIAL_SUFFIX):
        with contextlib.suppress(OSError):
            leftover.unlink()


def publish(partial: Path, path: Path) -> None:
    """Give a whole file its name. A reader sees the old content or the new, never a part.

    Raises:
        OSError: it cannot be written.
    """
    with partial.open("rb+") as stream:
        os.fsync(stream.fileno())
    # Temporary files are made for their owner alone; a cache may be shared.
    partial.chmod(0o644)
    partial.replace(path)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all.

    Raises:
        ArtifactError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = partial_file(path.parent)
        try:
            partial.write_bytes(content)
            publish(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be written: {error.strerror or error}.",
            f"Set {_ENVIRONMENT_VARIABLE} to a folder that you may write to.",
        ) from None
