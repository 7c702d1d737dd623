"""Where the user's pip looks for packages, and how it gets there."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from harness.errors import ArtifactError

__all__ = ["PipConfig", "fingerprint", "parse_pip_config", "read_pip_config"]

# As in pip: a command's own section wins over the global one, and the environment over both.
_SECTIONS = ("global", "download", "install", ":env:")
_ALIASES = {"default-timeout": "timeout", "pypi-url": "index-url"}
_LISTING_VARIABLES = (
    "PIP_CONFIG_FILE",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_NO_INDEX",
    "PIP_PYPI_URL",
)
_TRUE = {"1", "true", "t", "yes", "y", "on"}
_PIP_TIMEOUT_S = 60


@dataclass(frozen=True)
class PipConfig:
    """The part of pip's configuration that says where packages come from.

    Args:
        index_url: None stands for pip's own default index.
        timeout_s: of one network operation.
        cert: a file or folder of certificate authorities.
        client_cert: a file with a certificate and its key.
    """

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    proxy: str | None = None
    cert: str | None = None
    client_cert: str | None = None
    trusted_hosts: tuple[str, ...] = ()
    timeout_s: float = 15.0


def read_pip_config() -> PipConfig:
    """Ask pip: that of the running interpreter, or the one on PATH.

    Without any pip, its environment variables alone are read.

    Raises:
        ArtifactError: pip ended with an error.
    """
    on_path = shutil.which("pip")
    # -P keeps a folder called "pip" in the working directory from being run instead.
    commands = [[sys.executable, "-P", "-m", "pip"]] + ([[on_path]] if on_path else [])
    for command in commands:
        try:
            done = subprocess.run(
                [*command, "config", "list"],
                capture_output=True,
                check=False,
                encoding="utf-8",
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=_PIP_TIMEOUT_S,
                env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUTF8": "1"},
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return parse_pip_config(done.stdout)
        if "No module named pip" not in done.stderr:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise ArtifactError(
                f'"pip config list" ended with status {done.returncode}: {last}.',
                "Mend pip's configuration; the package index is chosen there.",
            )
    return parse_pip_config(_from_environment(os.environ))


def parse_pip_config(text: str) -> PipConfig:
    """Read what `pip config list` prints: one `section.option='value'` a line."""
    sections: dict[str, dict[str, str]] = {name: {} for name in _SECTIONS}
    for line in text.splitlines():
        key, separator, written = line.strip().partition("=")
        section, _, option = key.rpartition(".")
        if not separator or section not in sections:
            continue
        try:
            value = ast.literal_eval(written)
        except (ValueError, SyntaxError):
            continue
        sections[section][_ALIASES.get(option, option)] = str(value)
    merged: dict[str, str] = {}
    for name in _SECTIONS:
        # pip takes an empty environment variable for one that is not set.
        merged.update({k: v for k, v in sections[name].items() if v or name != ":env:"})
    try:
        timeout = float(merged.get("timeout", ""))
    except ValueError:
        timeout = PipConfig.timeout_s
    return PipConfig(
        index_url=merged.get("index-url", "").strip() or None,
        extra_index_urls=tuple(merged.get("extra-index-url", "").split()),
        find_links=tuple(merged.get("find-links", "").split()),
        no_index=merged.get("no-index", "").strip().lower() in _TRUE,
        proxy=merged.get("proxy", "").strip() or None,
        cert=merged.get("cert", "").strip() or None,
        client_cert=merged.get("client-cert", "").strip() or None,
        trusted_hosts=tuple(merged.get("trusted-host", "").split()),
        timeout_s=timeout if timeout > 0 else PipConfig.timeout_s,
    )


def fingerprint(environ: Mapping[str, str] = os.environ) -> str:
    """A hash of what decides where pip looks, found without starting pip.

    It covers the variables and the configuration files, so that a cached listing is not used after
    the user has turned to another index.
    """
    digest = hashlib.sha256()
    for name in _LISTING_VARIABLES:
        digest.update(f"{name}={environ.get(name, '')}\0".encode(errors="surrogateescape"))
    for path in _config_files(environ):
        try:
            content = path.read_bytes()
        except OSError:
            continue
        digest.update(os.fsencode(path) + b"\0" + content + b"\0")
    return digest.hexdigest()


def _config_files(environ: Mapping[str, str]) -> list[Path]:
    name = "pip.ini" if os.name == "nt" else "pip.conf"
    shared = platformdirs.site_config_dir("pip", appauthor=False, multipath=True)
    files = [Path(folder) / name for folder in shared.split(os.pathsep)]
    files += [
        Path("/etc") / name,
        Path.home() / ("pip" if os.name == "nt" else ".pip") / name,
        Path.home() / ".config" / "pip" / name,
        platformdirs.user_config_path("pip", appauthor=False, roaming=True) / name,
        Path(sys.prefix) / name,
    ]
    if environ.get("PIP_CONFIG_FILE"):
        files.append(Path(environ["PIP_CONFIG_FILE"]))
    return list(dict.fromkeys(files))


def _from_environment(environ: Mapping[str, str]) -> str:
    return "\n".join(
        f":env:.{name[4:].lower().replace('_', '-')}={value!r}"
        for name, value in environ.items()
        if name.startswith("PIP_")
    )
