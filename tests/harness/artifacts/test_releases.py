import pytest

from harness.artifacts.index import WheelFile, best_wheel
from harness.artifacts.releases import Release, pick_releases, wheel_per_platform
from harness.artifacts.target import Target
from tests.harness.artifacts.building import LINUX, MACOS, WINDOWS

MUSL = Target("linux", "x86_64", ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64", "linux_x86_64"))
OLD_GLIBC = Target("linux", "x86_64", ("manylinux_2_27_x86_64", "linux_x86_64"))


def wheel(tags: str, version: str = "1.30.0", *, yanked: bool = False) -> WheelFile:
    return WheelFile(
        file=f"onnxruntime-{version}-{tags}.whl", url="https://x.example", yanked=yanked
    )


def wheels(
    *versions: str, tags: str = "cp311-cp311-manylinux_2_28_x86_64"
) -> dict[str, list[WheelFile]]:
    return {version: [wheel(tags, version)] for version in versions}


def shown(releases: list[Release]) -> list[str]:
    return [str(release.version) for release in releases if release.plain]


@pytest.mark.parametrize(
    ("target", "offered", "chosen"),
    [
        (
            LINUX,
            [
                "cp39-cp39-manylinux_2_28_x86_64",
                "cp314-cp314-manylinux_2_28_x86_64",
                "cp311-cp311-manylinux_2_28_x86_64",
            ],
            "cp314-cp314-manylinux_2_28_x86_64",
        ),
        (
            LINUX,
            ["cp314-cp314t-manylinux_2_28_x86_64", "cp314-cp314-manylinux_2_28_x86_64"],
            "cp314-cp314-manylinux_2_28_x86_64",
        ),
        (
            LINUX,
            ["cp314-cp314t-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_28_x86_64"],
            "cp314-cp314t-manylinux_2_28_x86_64",
        ),
        (
            LINUX,
            [
                "cp311-cp311-manylinux_2_27_x86_64",
                "cp311-cp311-manylinux_2_28_x86_64",
                "cp311-cp311-manylinux_2_39_x86_64",
            ],
            "cp311-cp311-manylinux_2_28_x86_64",
        ),
        (
            LINUX,
            ["cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64", "cp311-cp311-win_amd64"],
            "cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64",
        ),
        (OLD_GLIBC, ["cp311-cp311-manylinux_2_28_x86_64"], None),
        (
            OLD_GLIBC,
            ["cp312-cp312-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_27_x86_64"],
            "cp311-cp311-manylinux_2_27_x86_64",
        ),
        (MUSL, ["cp311-cp311-manylinux_2_28_x86_64"], None),
        (MUSL, ["cp311-cp311-musllinux_1_2_x86_64"], "cp311-cp311-musllinux_1_2_x86_64"),
        (
            LINUX,
            ["cp311-cp311-manylinux_2_28_aarch64", "pp310-pypy310_pp73-manylinux_2_28_x86_64"],
            None,
        ),
        (LINUX, ["py3-none-manylinux_2_28_x86_64"], "py3-none-manylinux_2_28_x86_64"),
        (MACOS, ["cp311-cp311-macosx_15_0_arm64"], None),
        (
            MACOS,
            ["cp311-cp311-macosx_13_0_universal2", "cp311-cp311-macosx_14_0_arm64"],
            "cp311-cp311-macosx_14_0_arm64",
        ),
        (WINDOWS, ["cp311-cp311-win_arm64", "cp311-cp311-win_amd64"], "cp311-cp311-win_amd64"),
    ],
)
def test_the_wheel_of_a_platform(target: Target, offered: list[str], chosen: str | None) -> None:
    for order in (offered, offered[::-1]):
        best = best_wheel([wheel(tags) for tags in order], target)
        assert (best.file if best else None) == (chosen and f"onnxruntime-1.30.0-{chosen}.whl")


def test_all_releases_in_the_range_are_picked_in_order() -> None:
    offered = wheels("1.9.0", "1.24.4", "1.24.3", "1.32.0", "1.33.0", "1.31.1", "1.31.0")
    picked = pick_releases(offered, ">=1.24.4,<1.33", "all", LINUX)
    assert shown(picked) == ["1.24.4", "1.31.0", "1.31.1", "1.32.0"]


def test_latest_patch_keeps_the_newest_of_each_minor_that_this_platform_has() -> None:
    offered = wheels("1.25.0", "1.25.1", "1.31.0", "1.31.1", "1.32.0")
    offered |= wheels("1.25.2", tags="cp311-cp311-win_amd64")
    picked = pick_releases(offered, ">=1.24", "latest-patch", LINUX)
    assert shown(picked) == ["1.25.1", "1.31.1", "1.32.0"]


def test_prereleases_count_when_the_range_names_one() -> None:
    offered = wheels("1.32.0", "1.33.0rc1", "1.33.0rc2")
    assert shown(pick_releases(offered, ">=1.32", "all", LINUX)) == ["1.32.0"]
    assert shown(pick_releases(offered, ">=1.33.0rc2", "all", LINUX)) == ["1.33.0rc2"]
    hidden = [r for r in pick_releases(offered, ">=1.32", "all", LINUX) if r.prerelease]
    assert [str(release.version) for release in hidden] == ["1.33.0rc1", "1.33.0rc2"]


def test_withdrawn_releases_count_when_the_range_pins_them() -> None:
    tags = "cp311-cp311-manylinux_2_28_x86_64"
    offered = {"1.25.0": [wheel(tags, "1.25.0", yanked=True)], "1.25.1": [wheel(tags, "1.25.1")]}
    assert shown(pick_releases(offered, ">=1.25", "all", LINUX)) == ["1.25.1"]
    assert shown(pick_releases(offered, "==1.25.0", "all", LINUX)) == ["1.25.0"]


def test_a_withdrawn_wheel_does_not_withdraw_its_release() -> None:
    newer = wheel("cp314-cp314-manylinux_2_28_x86_64", yanked=True)
    older = wheel("cp311-cp311-manylinux_2_28_x86_64")
    (picked,) = pick_releases({"1.30.0": [newer, older]}, ">=1", "all", LINUX)
    assert picked.plain
    assert picked.wheel == older


def test_a_release_without_a_wheel_for_this_platform_does_not_count() -> None:
    offered = wheels("1.30.0", tags="cp311-cp311-win_amd64")
    (picked,) = pick_releases(offered, ">=1.30", "all", LINUX)
    assert not picked.plain
    assert picked.wheel is None


def test_one_wheel_stands_for_each_platform() -> None:
    offered = [
        wheel("cp311-cp311-manylinux_2_28_x86_64"),
        wheel("cp314-cp314-manylinux_2_28_x86_64"),
        wheel("cp314-cp314t-manylinux_2_28_x86_64"),
        wheel("cp313-cp313-macosx_14_0_arm64"),
        wheel("cp314-cp314-win_amd64"),
        wheel("cp39-cp39-win_amd64"),
    ]
    assert [each.file for each in wheel_per_platform(offered)] == [
        "onnxruntime-1.30.0-cp313-cp313-macosx_14_0_arm64.whl",
        "onnxruntime-1.30.0-cp314-cp314-manylinux_2_28_x86_64.whl",
        "onnxruntime-1.30.0-cp314-cp314-win_amd64.whl",
    ]
