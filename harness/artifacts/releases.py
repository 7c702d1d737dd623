"""Which releases of a listing a matrix asks for, and the wheel that each is taken from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.artifacts.index import WheelFile, best_wheel
from harness.artifacts.selection import pins
from harness.artifacts.target import Target

__all__ = ["Release", "pick_releases", "wheel_per_platform"]


@dataclass(frozen=True)
class Release:
    """A release in a matrix's range.

    Args:
        wheel: for this platform; None if there is none.
        prerelease: it is one, and the range names none: it counts only where a selector names it.
        pinned_only: it was withdrawn or has no wheel for this platform, and the range does not name
            exactly it: it counts only where a selector does.
    """

    version: Version
    wheel: WheelFile | None
    prerelease: bool = False
    pinned_only: bool = False

    @property
    def plain(self) -> bool:
        """Whether it counts without being named."""
        return not (self.prerelease or self.pinned_only)


def pick_releases(
    wheels: Mapping[str, Sequence[WheelFile]],
    specifier: str,
    select: Literal["all", "latest-patch"],
    target: Target,
) -> list[Release]:
    """The releases in a range, in the order of their versions.

    Args:
        wheels: by version, for all platforms.
        specifier: the range.
        select: all of them, or only the newest of each minor.
        target: the platform that a wheel is wanted for.
    """
    wanted = SpecifierSet(specifier)
    found: list[Release] = []
    for version, offered in sorted((Version(text), each) for text, each in wheels.items()):
        if not wanted.contains(version, prereleases=True):
            continue
        wheel = best_wheel((each for each in offered if not each.yanked), target)
        wheel = wheel or best_wheel(offered, target)
        unusual = wheel is None or wheel.yanked
        found.append(
            Release(
                version,
                wheel,
                prerelease=version.is_prerelease and not wanted.prereleases,
                pinned_only=unusual and not pins(wanted),
            )
        )
    if select == "all":
        return found
    newest = {(r.version.major, r.version.minor): r for r in found if r.plain}
    kept = {id(release) for release in newest.values()}
    return [release for release in found if not release.plain or id(release) in kept]


def wheel_per_platform(wheels: Iterable[WheelFile]) -> list[WheelFile]:
    """The wheel that would be chosen on each platform that has one, in the order of file names."""
    groups: dict[str, list[WheelFile]] = {}
    for wheel in wheels:
        groups.setdefault(wheel.file.removesuffix(".whl").rpartition("-")[2], []).append(wheel)
    chosen = []
    for platform, group in groups.items():
        # Only the tags matter here; every wheel of the group has the same.
        best = best_wheel(group, Target("linux", "", tuple(platform.split("."))))
        if best is not None:
            chosen.append(best)
    return sorted(chosen, key=lambda wheel: wheel.file)
