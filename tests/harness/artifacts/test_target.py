import pytest

from harness.artifacts.target import Target, current_target, machine_name
from tests.harness.artifacts.building import LINUX, MACOS, WINDOWS


@pytest.mark.parametrize(
    ("target", "name", "version"),
    [
        (LINUX, "libonnxruntime.so.1.24.4", "1.24.4"),
        (LINUX, "libonnxruntime.so", None),
        (LINUX, "libonnxruntime.so.1", None),
        (MACOS, "libonnxruntime.1.32.0.dylib", "1.32.0"),
        (MACOS, "libonnxruntime.dylib", None),
        (WINDOWS, "onnxruntime.dll", None),
    ],
)
def test_a_core_is_known_by_its_file_name(target: Target, name: str, version: str | None) -> None:
    assert target.is_core_name(name)
    assert target.version_in(name) == version


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (LINUX, "libonnxruntime_providers_shared.so"),
        (LINUX, "libonnxruntime.so.1.24.4.debug/x"),
        (LINUX, "libonnxruntime.1.32.0.dylib"),
        (MACOS, "libonnxruntime.so.1.24.4"),
        (WINDOWS, "onnxruntime_providers_shared.dll"),
        (WINDOWS, "libonnxruntime.dll"),
    ],
)
def test_other_libraries_are_no_cores(target: Target, name: str) -> None:
    assert not target.is_core_name(name)


@pytest.mark.parametrize(
    ("target", "folder"),
    [
        (LINUX, "runtimes/linux-x64/native"),
        (MACOS, "runtimes/osx-arm64/native"),
        (WINDOWS, "runtimes/win-x64/native"),
    ],
)
def test_a_nupkg_has_a_folder_for_each_platform(target: Target, folder: str) -> None:
    assert target.nuget_folder == folder


@pytest.mark.parametrize(
    ("spoken", "name"),
    [("AMD64", "x86_64"), ("arm64", "aarch64"), ("i686", "x86"), ("riscv64", "riscv64")],
)
def test_a_machine_has_one_name(spoken: str, name: str) -> None:
    assert machine_name(spoken) == name


def test_this_platform_has_wheel_tags() -> None:
    assert current_target().tags
