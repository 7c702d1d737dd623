"""What the package index offers: the wheels of a distribution, asked once and remembered."""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import re
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.artifacts.cache import Cache, write_bytes
from harness.artifacts.network import Network, open_client
from harness.artifacts.pipconfig import PipConfig, fingerprint
from harness.artifacts.target import Target
from harness.config import VersionText
from harness.errors import ArtifactError

if TYPE_CHECKING:
    from unearth.fetchers import Fetcher

__all__ = [
    "Listing",
    "PackageNotFoundError",
    "WheelFile",
    "ask_index",
    "best_wheel",
    "fresh_listing",
    "listing",
    "local_path",
    "read_listing",
]

_logger = logging.getLogger(__name__)
_FINDER_LOGGER = "unearth.collector"
_NOT_THERE = {404, 410}
_SERVER_ERROR = 500
_ATTEMPTS = 3


class PackageNotFoundError(ArtifactError):
    """Every index answered, and none has a wheel of the package."""


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WheelFile(_Value):
    """One wheel that an index offers; its sha256 is None where the index publishes none."""

    file: str
    url: str
    sha256: str | None = None
    yanked: bool = False


class Listing(_Value):
    """All wheels of a distribution, for every platform, by version, and when that was asked."""

    schema_version: Literal[1] = 1
    package: str
    made: str
    wheels: dict[VersionText, tuple[WheelFile, ...]]


def listing(package: str, cache: Cache, network: Network, *, refresh: bool = False) -> Listing:
    """The wheels of a distribution: the remembered answer, or a new one where there is none.

    Args:
        package: name of the distribution.
        cache: where answers are remembered, for good, until the user asks to refresh them or turns
            pip to another index.
        network: used only when there is something to ask.
        refresh: ask even if an answer is remembered; where asking fails, the old one still serves.

    Raises:
        ArtifactError: an index did not answer and nothing is remembered, or none has the package.
    """
    remembered = read_listing(package, cache)
    if remembered is not None and not refresh:
        return remembered
    try:
        return fresh_listing(package, cache, network)
    except ArtifactError as error:
        if remembered is None:
            raise
        _logger.warning("%s The listing of %s is used.", error.message, remembered.made)
        return remembered


def fresh_listing(package: str, cache: Cache, network: Network) -> Listing:
    """Ask the index and remember its answer.

    Raises:
        ArtifactError: an index did not answer, or none has the package.
    """
    answer = ask_index(package, network)
    write_bytes(_listing_path(package, cache), answer.model_dump_json(indent=1).encode())
    return answer


def read_listing(package: str, cache: Cache) -> Listing | None:
    """The remembered answer for pip's present configuration; None without a usable one."""
    try:
        return Listing.model_validate_json(_listing_path(package, cache).read_bytes())
    except (OSError, ValidationError):
        return None


def ask_index(package: str, network: Network) -> Listing:
    """Ask every index and folder that pip is configured for.

    All of them must answer, so that no release is missed without a word. An answer that there is
    no such package is one, and so is a local folder or file: index that does not exist.

    Raises:
        ArtifactError: one of them did not answer.
        PackageNotFoundError: none has a wheel of the package.
    """
    found: dict[str, WheelFile] = {}
    places = _places(network.config)
    for kind, url in places:
        for wheel in _ask(package, kind, url, network):
            known = found.get(wheel.file)
            if known is None or (known.sha256 is None and wheel.sha256 is not None):
                found[wheel.file] = wheel
    if not found:
        asked = ", ".join(_without_credentials(url) for _, url in places) or "no index at all"
        raise PackageNotFoundError(
            f'No wheel of "{package}" was found; asked: {asked}.',
            'Check the name, and where "pip config list" points.',
        )
    by_version: dict[str, list[WheelFile]] = {}
    for wheel in found.values():
        by_version.setdefault(str(parse_wheel_filename(wheel.file)[1]), []).append(wheel)
    return Listing(
        package=canonicalize_name(package),
        made=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        wheels={
            version: tuple(sorted(by_version[version], key=lambda wheel: wheel.file))
            for version in sorted(by_version, key=Version)
        },
    )


def best_wheel(wheels: Iterable[WheelFile], target: Target) -> WheelFile | None:
    """The one wheel whose native libraries serve a platform best; None if none runs there.

    Only the libraries are used, so any CPython tag will do: the newest wins, an ordinary build
    before a free-threaded one, then the best platform tag that the target's system allows.
    """
    ranks = {tag: rank for rank, tag in enumerate(target.tags)}
    best: tuple[tuple[int, bool, int, str], WheelFile] | None = None
    for wheel in wheels:
        for tag in parse_wheel_filename(wheel.file)[3]:
            rank = ranks.get(tag.platform)
            python = re.fullmatch(r"(cp|py)(\d)(\d*)", tag.interpreter)
            if rank is None or python is None:
                continue
            newest = int(python[2]) * 1000 + int(python[3] or 0) if python[1] == "cp" else 0
            key = (newest, not tag.abi.endswith("t"), -rank, wheel.file)
            if best is None or key > best[0]:
                best = key, wheel
    return best[1] if best else None


def local_path(url: str) -> Path | None:
    """The path of a file: address; None for any other."""
    parts = urllib.parse.urlsplit(url)
    return Path(urllib.request.url2pathname(parts.path)) if parts.scheme == "file" else None


def _listing_path(package: str, cache: Cache) -> Path:
    key = hashlib.sha256(f"{canonicalize_name(package)}\0{fingerprint()}".encode()).hexdigest()
    return cache.listings / f"{canonicalize_name(package)}-{key[:16]}.json"


def _places(config: PipConfig) -> list[tuple[str, str]]:
    from unearth import PackageFinder

    indexes: list[str] = []
    if not config.no_index:
        # Without any source the finder falls back to the same default index as pip.
        default = PackageFinder().sources[0]["url"]
        indexes = [config.index_url or default, *config.extra_index_urls]
    links = [
        link if "://" in link else Path(link).expanduser().absolute().as_uri()
        for link in config.find_links
    ]
    return [("index", url) for url in indexes] + [("find-links", link) for link in links]


def _ask(package: str, kind: str, url: str, network: Network) -> list[WheelFile]:
    """The wheels at one place; asked again where the trouble may pass."""
    local = local_path(url)
    if local is not None and not local.exists():
        return []
    for attempt in range(1, _ATTEMPTS + 1):
        wheels, trouble, passing = _ask_once(package, kind, url, network.config)
        if not trouble:
            return wheels
        if not passing or attempt == _ATTEMPTS or not network.pause(attempt):
            break
    raise ArtifactError(
        f'The package index at {_without_credentials(url)} could not be asked for "{package}": '
        f"{trouble}.",
        "Every index that pip is configured for must answer, so that no release is missed. Check "
        'the connection, and the index and proxy in "pip config list".',
    )


def _ask_once(
    package: str, kind: str, url: str, config: PipConfig
) -> tuple[list[WheelFile], str, bool]:
    """The wheels at one place, or what the trouble was and whether it may pass."""
    import httpx2
    from unearth import PackageFinder

    responses: list[httpx2.Response] = []
    heard = _Heard()
    logger = logging.getLogger(_FINDER_LOGGER)
    logger.addHandler(heard)
    try:
        with open_client(config, responses.append) as client:
            finder = PackageFinder(
                cast("Fetcher", client),
                index_urls=[url] if kind == "index" else (),
                find_links=[url] if kind == "find-links" else (),
                trusted_hosts=config.trusted_hosts,
                ignore_compatibility=True,
            )
            packages = list(finder.find_all_packages(package, allow_yanked=True))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return [], str(error).strip().rstrip(".") or type(error).__name__, True
    except (OSError, ValueError) as error:
        return [], f"its answer cannot be read: {error}", False
    finally:
        logger.removeHandler(heard)
    status = responses[-1].status_code if responses else 0
    # A file: index without the package is told of as a 404 too.
    if heard.reasons and status not in _NOT_THERE:
        return [], heard.reasons[-1].rstrip("."), status >= _SERVER_ERROR
    wheels = []
    for link in (package.link for package in packages if package.link.is_wheel):
        sha256 = (link.hash_option or {}).get("sha256", [None])[0]
        wheels.append(
            WheelFile(
                file=link.filename,
                url=_without_credentials(link.url_without_fragment),
                sha256=sha256.lower() if sha256 else None,
                yanked=link.is_yanked,
            )
        )
    return wheels, "", False


class _Heard(logging.Handler):
    """The finder says in its log alone that it gave up on a place, and why."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # Its last argument is the bare reason; the whole message names the place again.
        told = record.args if isinstance(record.args, tuple) else ()
        self.reasons.append(str(told[-1]) if len(told) > 1 else record.getMessage())


def _without_credentials(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
