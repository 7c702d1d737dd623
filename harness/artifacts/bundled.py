"""The reference plugin that was built with this package."""

from __future__ import annotations

from pathlib import Path

import harness
from harness.artifacts.target import OperatingSystem, current_target
from harness.errors import PluginError

__all__ = ["reference_library"]

_NAMES: dict[OperatingSystem, str] = {
    "linux": "libreference_ep.so",
    "macos": "libreference_ep.dylib",
    "windows": "reference_ep.dll",
}


def reference_library() -> Path:
    """The library of the reference plugin, for this platform.

    Raises:
        PluginError: the package was not installed, or not with its plugin.
        ArtifactError: ORT has no builds for this operating system.
    """
    name = _NAMES[current_target().os]
    # An editable install has two: the built files' and the sources'.
    places = [Path(folder) / "reference_ep" / name for folder in harness.__path__]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        folders = " or ".join(str(place.parent) for place in places)
        raise PluginError(
            f"The reference plugin, {name}, is not in {folders}. It is built when ort-ep-matrix "
            "is installed.",
            'Install it again: "pip install ." in its source folder, or "pip install -e ." to work '
            "on it. Without an installation, name another plugin with --plugin.",
        )
    return found
