"""The reference plugin that the installation of this package built."""

from __future__ import annotations

import re
from pathlib import Path

import lief
import pytest

import harness
from harness.artifacts import bundled
from harness.artifacts.bundled import reference_library
from harness.artifacts.cache import Cache
from harness.artifacts.plugins import resolve_plugin
from harness.artifacts.target import Target
from harness.config import Matrix
from harness.errors import PluginError
from harness.matrix_file import load
from tests.conftest import TOP
from tests.harness.artifacts.building import LINUX, MACOS, WINDOWS

SHIPPED = load(TOP / "matrix.yaml").matrix


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Two folders that the package seems to consist of, as in an editable install."""
    folders = [tmp_path / "built" / "harness", tmp_path / "sources" / "harness"]
    for folder in folders:
        (folder / "reference_ep").mkdir(parents=True)
    monkeypatch.setattr(harness, "__path__", [str(folder) for folder in folders])
    return folders


def test_the_one_of_this_environment_is_a_small_plugin_library() -> None:
    library = reference_library()
    binary = lief.ELF.parse(str(library))

    assert binary is not None
    assert {symbol.name for symbol in binary.exported_symbols} == {
        "CreateEpFactories",
        "ReleaseEpFactory",
    }
    assert not {".symtab", ".debug_info"} & {str(section.name) for section in binary.sections}
    assert library.stat().st_size < 500_000


def test_the_shipped_entry_means_it(cache: Cache) -> None:
    plugin = resolve_plugin(SHIPPED, TOP, cache, None)

    assert plugin.name == plugin.registration_name == "reference"
    assert plugin.library == reference_library().resolve()
    assert plugin.source == f"bundled {plugin.library}"


def test_the_shipped_entry_has_the_version_that_the_plugin_is_built_with() -> None:
    build = (TOP / "harness" / "reference_ep" / "CMakeLists.txt").read_text(encoding="utf-8")

    assert re.findall(r"^project\(\w+ VERSION (\S+) ", build, re.MULTILINE) == [
        SHIPPED.plugins["reference"].version
    ]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (LINUX, "libreference_ep.so"),
        (MACOS, "libreference_ep.dylib"),
        (WINDOWS, "reference_ep.dll"),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_it_is_looked_for_by_the_name_that_each_system_gives_it(
    installed: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    target: Target,
    name: str,
    place: int,
) -> None:
    monkeypatch.setattr(bundled, "current_target", lambda: target)
    library = installed[place] / "reference_ep" / name
    library.touch()

    assert reference_library() == library


def test_where_it_is_missing_the_message_says_how_to_get_it(
    installed: list[Path], cache: Cache
) -> None:
    with pytest.raises(PluginError) as caught:
        resolve_plugin(SHIPPED, TOP, cache, "reference")

    assert "libreference_ep.so" in caught.value.message
    assert all(str(folder / "reference_ep") in caught.value.message for folder in installed)
    assert '"pip install ."' in caught.value.hint


def test_an_entry_of_any_name_may_mean_it(cache: Cache) -> None:
    matrix = Matrix.model_validate({"plugins": {"mine": {"bundled": True}}})

    plugin = resolve_plugin(matrix, TOP, cache, "mine")

    assert (plugin.name, plugin.version) == ("mine", None)
    assert plugin.library == reference_library().resolve()
