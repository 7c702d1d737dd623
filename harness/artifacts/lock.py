"""`matrix.lock.json`: which wheels the releases of a matrix were taken from, by hash.

With a lock, the locked releases are the releases: one that the index has published since is in the
matrix's range and yet not used, until `ort-ep-matrix lock` takes it in. A run is so the same on
every day. Archives carry their hash in `matrix.yaml` and need no lock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.config import Sha256, VersionText
from harness.errors import ConfigError

__all__ = ["Lock", "LockedLibrary", "LockedRelease", "LockedWheel", "read_lock"]


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LockedLibrary(_Value):
    """The core library in a wheel."""

    name: str
    sha256: Sha256


class LockedWheel(_Value):
    """The wheel chosen for one platform tag.

    Its library is known where the lock was written on that platform; elsewhere the wheel's hash
    alone vouches for it.
    """

    file: str
    sha256: Sha256
    library: LockedLibrary | None = None


class LockedRelease(_Value):
    """One release: a wheel for each platform that the index has one for."""

    wheels: tuple[LockedWheel, ...]


class Lock(_Value):
    """The whole of `matrix.lock.json`: by distribution, by version."""

    schema_version: Literal[1] = 1
    packages: dict[str, dict[VersionText, LockedRelease]]


def read_lock(path: Path) -> Lock | None:
    """Read a lock; None if there is no such file.

    Raises:
        ConfigError: it cannot be read, or is not a lock.
    """
    hint = 'Write it anew with "ort-ep-matrix lock".'
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.", hint) from None
    try:
        return Lock.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        told = f"{where}: {first['msg']}" if where else first["msg"]
        raise ConfigError(f"{path} is not a lock: {told}.", hint) from None
