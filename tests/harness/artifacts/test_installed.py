from pathlib import Path

import pytest

from harness.artifacts.installed import find_installed
from harness.errors import ArtifactError
from tests.harness.artifacts.building import LINUX, WINDOWS, install


def test_the_installed_core_is_found_by_its_metadata(tmp_path: Path) -> None:
    library = "onnxruntime/capi/libonnxruntime.so.1.29.0"
    install(tmp_path, "onnxruntime", "1.29.0", "onnxruntime/__init__.py", library)
    install(tmp_path, "numpy", "2.0.0", "numpy/__init__.py")
    found = find_installed(LINUX, [str(tmp_path)])
    assert found.version == "1.29.0"
    assert found.library == (tmp_path / library).resolve()
    assert found.distribution == "onnxruntime 1.29.0"


def test_another_distribution_of_the_same_files_counts(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime-gpu", "1.30.0", "onnxruntime/capi/onnxruntime.dll")
    install(tmp_path, "onnxruntime-ep-webgpu", "0.4.0", "onnxruntime_ep_webgpu/webgpu.dll")
    assert find_installed(WINDOWS, [str(tmp_path)]).distribution == "onnxruntime-gpu 1.30.0"


def test_the_plain_distribution_comes_first(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime-gpu", "1.30.0", "onnxruntime/capi/libonnxruntime.so.1.30.0")
    install(tmp_path, "onnxruntime", "1.29.0", "onnxruntime/capi/libonnxruntime.so.1.29.0")
    assert find_installed(LINUX, [str(tmp_path)]).version == "1.29.0"


def test_an_environment_without_one_is_told(tmp_path: Path) -> None:
    install(tmp_path, "numpy", "2.0.0", "numpy/__init__.py")
    with pytest.raises(ArtifactError, match="No onnxruntime is installed") as caught:
        find_installed(LINUX, [str(tmp_path)])
    assert "pip install onnxruntime" in caught.value.hint


def test_an_installation_without_its_library_is_told(tmp_path: Path) -> None:
    library = "onnxruntime/capi/libonnxruntime.so.1.29.0"
    install(tmp_path, "onnxruntime", "1.29.0", library)
    (tmp_path / library).unlink()
    with pytest.raises(ArtifactError, match="not whole"):
        find_installed(LINUX, [str(tmp_path)])
