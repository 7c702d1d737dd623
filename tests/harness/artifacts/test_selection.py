from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.artifacts.selection import parse_selectors, pins
from harness.errors import SelectionError


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("1.29.0", ["1.29.0"], ["1.29.1", "1.30.0"]),
        ("1.29", ["1.29.0", "1.29.1"], ["1.2.9", "1.290.0", "1.30.0"]),
        ("1", ["1.24.4", "1.32.0"], ["2.0.0"]),
        ("1.31.*", ["1.31.0", "1.31.1"], ["1.32.0"]),
        (">=1.30", ["1.30.0", "1.31.1"], ["1.29.9"]),
        (">=1.26,!=1.27.0,<1.28", ["1.26.0", "1.27.1"], ["1.27.0", "1.28.0"]),
        ("~=1.31.0", ["1.31.1"], ["1.32.0"]),
    ],
)
def test_versions_and_specifiers_choose(text: str, matching: list[str], others: list[str]) -> None:
    (selector,) = parse_selectors([text]).versions
    for version in matching:
        assert selector.matches(Version(version), prerelease=False, yanked=False)
    for version in others:
        assert not selector.matches(Version(version), prerelease=False, yanked=False)


@pytest.mark.parametrize(
    ("text", "version", "matches"),
    [
        ("1.33.0rc1", "1.33.0rc1", True),
        (">=1.33.0rc1", "1.33.0rc2", True),
        (">=1.32", "1.33.0rc1", False),
        ("1.33.0", "1.33.0rc1", False),
    ],
)
def test_a_prerelease_matches_when_named(text: str, version: str, *, matches: bool) -> None:
    (selector,) = parse_selectors([text]).versions
    assert selector.matches(Version(version), prerelease=True, yanked=False) is matches


@pytest.mark.parametrize(("text", "matches"), [("1.25.0", True), (">=1.25", False)])
def test_a_withdrawn_release_matches_when_pinned(text: str, *, matches: bool) -> None:
    (selector,) = parse_selectors([text]).versions
    assert selector.matches(Version("1.25.0"), prerelease=False, yanked=True) is matches


def test_paths_and_installed_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "1.29.0").mkdir()
    monkeypatch.chdir(tmp_path)
    selection = parse_selectors(["installed", "build", "./1.29.0", "1.29.0", "build"])
    assert selection.installed
    assert selection.paths == (tmp_path / "build", tmp_path / "1.29.0")
    assert [selector.text for selector in selection.versions] == ["1.29.0"]
    assert selection.takes_matrix


def test_only_paths_leave_the_matrix_out(tmp_path: Path) -> None:
    assert not parse_selectors([str(tmp_path)]).takes_matrix
    assert not parse_selectors(["installed"]).takes_matrix
    assert parse_selectors([]).takes_matrix


@pytest.mark.parametrize("text", ["", "lastest", "/no/such/core.so", "1.29.0.so", ">="])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SelectionError, match="no version, no specifier, and no path"):
        parse_selectors([text])


@pytest.mark.parametrize(
    ("text", "pinned"),
    [("==1.2.3", True), ("===1.2.3", True), ("==1.2.*", False), (">=1.2", False), ("", False)],
)
def test_only_an_exact_version_pins(text: str, *, pinned: bool) -> None:
    assert pins(SpecifierSet(text)) is pinned
