"""Which wheel of a release the running Python can import, and what a core without one lacks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from harness.artifacts.cache import Cache, default_cache
from harness.artifacts.cores import Core
from harness.artifacts.index import WheelFile
from harness.artifacts.python_packages import fitting_wheel, python_packages


def wheel(tag: str) -> WheelFile:
    return WheelFile(file=f"onnxruntime-1.32.0-{tag}.whl", url="https://x/y", sha256=None)


def test_the_wheel_of_the_running_python_is_taken() -> None:
    first = next(tag for tag in sys_tags() if tag.platform != "any")
    own = f"{first.interpreter}-{first.abi}-{first.platform}"
    wheels = [wheel("cp27-cp27m-win32"), wheel(own), wheel("py3-none-any")]

    assert fitting_wheel(wheels) == wheels[1]
    assert fitting_wheel([wheels[0], wheels[2]]) == wheels[2]
    assert fitting_wheel([wheels[0]]) is None
    assert fitting_wheel([]) is None


def test_a_core_that_no_index_brought_has_no_package(tmp_path: Path) -> None:
    core = Core("1.32.0", "1.32.0", tmp_path / "lib.so", "ab", "path lib.so", None)

    package = python_packages([core], Cache(tmp_path))["1.32.0"]

    assert (package.folder, package.core) == (None, None)
    assert package.lack == "there is none for a core from path lib.so"


@pytest.mark.cores
def test_the_package_of_a_release_holds_its_own_core(newest: Core) -> None:
    package = python_packages([newest], default_cache())[newest.id]

    assert package.lack == ""
    assert package.folder is not None
    assert package.core is not None
    assert (package.folder / "onnxruntime" / "__init__.py").is_file()
    tag = f"cpython-{sys.version_info.major}{sys.version_info.minor}"
    assert package.core.is_file()
    assert sys.platform == "win32" or tag in package.core.name
