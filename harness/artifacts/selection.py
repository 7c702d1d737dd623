"""What `--core` asks for: versions of the matrix's cores, the installed one, or one by path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from harness.errors import SelectionError
from harness.files import existing_path

__all__ = ["Selection", "VersionSelector", "parse_selectors", "pins"]


@dataclass(frozen=True)
class VersionSelector:
    """One specifier as the user wrote it, and what it means."""

    text: str
    specifier: SpecifierSet

    def matches(self, version: Version, *, prerelease: bool, yanked: bool) -> bool:
        """Whether it asks for a version.

        Args:
            version: of the core.
            prerelease: a pre-release that the matrix does not name; it must be named here.
            yanked: a withdrawn release that the matrix does not pin; it must be pinned here.
        """
        if not self.specifier.contains(version, prereleases=True):
            return False
        if yanked and not pins(self.specifier):
            return False
        return not prerelease or bool(self.specifier.prereleases)


@dataclass(frozen=True)
class Selection:
    """What the selectors ask for, all together."""

    versions: tuple[VersionSelector, ...] = ()
    paths: tuple[Path, ...] = ()
    installed: bool = False

    @property
    def takes_matrix(self) -> bool:
        """Whether cores of the matrix are asked for too, all or some."""
        return bool(self.versions) or not (self.paths or self.installed)


def parse_selectors(selectors: Sequence[str]) -> Selection:
    """Tell the kinds of selectors apart.

    A version wins over a file of the same name; write ./NAME for the file.

    Args:
        selectors: a specifier (">=1.30"), a version ("1.29.0"; a minor such as "1.29" means all
            of its releases), "installed", or the path of a core
            library, of a folder that holds one, or of a release archive.

    Raises:
        SelectionError: one is none of these.
    """
    versions: list[VersionSelector] = []
    paths: list[Path] = []
    installed = False
    for text in map(str.strip, selectors):
        specifier = _specifier(text)
        if text == "installed":
            installed = True
        elif specifier is not None:
            versions.append(VersionSelector(text, specifier))
        elif (path := existing_path(text)) is not None:
            paths.append(path.absolute())
        else:
            raise SelectionError(
                f'--core "{text}" is no version, no specifier, and no path that exists.',
                'Write a version ("1.29.0"), a specifier (">=1.30,<1.32"), "installed", or the '
                "path of a core library, of a folder that holds one, or of a release archive.",
            )
    return Selection(tuple(versions), tuple(dict.fromkeys(paths)), installed)


def pins(specifier: SpecifierSet) -> bool:
    """Whether a specifier names one exact version."""
    return any(
        part.operator == "===" or (part.operator == "==" and not part.version.endswith(".*"))
        for part in specifier
    )


def _specifier(text: str) -> SpecifierSet | None:
    if not text:
        return None
    try:
        if re.fullmatch(r"v?\d+(\.\d+)?", text):
            # A minor stands for all of its releases: that is how one speaks of them.
            return SpecifierSet(f"=={text}.*")
        return SpecifierSet(f"=={text}" if re.match(r"v?\d", text) else text)
    except InvalidSpecifier:
        return None
