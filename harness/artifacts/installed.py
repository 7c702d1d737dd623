"""The core of the `onnxruntime` that is installed in the running environment."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from harness.artifacts.target import Target
from harness.errors import ArtifactError

__all__ = ["InstalledCore", "find_installed"]

_FOLDER = ("onnxruntime", "capi")


@dataclass(frozen=True)
class InstalledCore:
    """A core library that a distribution of the environment brought, and which one."""

    distribution: str
    version: str
    library: Path


def find_installed(target: Target, paths: list[str] | None = None) -> InstalledCore:
    """Find the installed core through the metadata of its distribution; nothing is imported.

    Distributions such as onnxruntime-gpu count too, because the library decides and not the name.

    Args:
        target: this platform.
        paths: the folders that distributions are looked for in; those of the environment when
            left out.

    Raises:
        ArtifactError: there is none, or its library is gone.
    """
    gone: list[str] = []
    for distribution in _distributions(paths):
        for file in distribution.files or ():
            if tuple(file.parts[:-1]) != _FOLDER or not target.is_core_name(file.name):
                continue
            library = Path(str(distribution.locate_file(file)))
            named = f"{distribution.name} {distribution.version}"
            if library.is_file():
                return InstalledCore(named, distribution.version, library.resolve())
            gone.append(f"{named} should have {library}")
    where = sys.prefix
    if gone:
        raise ArtifactError(
            f"The installed onnxruntime is not whole: {'; '.join(gone)}.",
            f"Install it anew into {where}.",
        )
    raise ArtifactError(
        f"No onnxruntime is installed in the environment {where}.",
        'Install one there ("pip install onnxruntime==VERSION"), or choose another core.',
    )


def _distributions(paths: list[str] | None) -> list[metadata.Distribution]:
    found = metadata.distributions() if paths is None else metadata.distributions(path=paths)
    named = [(canonicalize_name(each.name or ""), each) for each in found]
    ours = [pair for pair in named if pair[0].split("-")[0] == "onnxruntime"]
    # The plain distribution comes first, the others in the order of their names.
    return [each for _, each in sorted(ours, key=lambda pair: pair[0])]
