import fnmatch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.names import matches, suggestion

NAMES = (
    "copy/cpu-io",
    "copy/mixed-inputs[device-first]",
    "copy/mixed-inputs[cpu-first]",
    "copy/device-cpu-device",
    "capture/replay",
)


def matching(pattern: str) -> list[str]:
    return [name for name in NAMES if matches(pattern, name)]


@pytest.mark.parametrize("name", NAMES)
def test_a_full_name_matches_itself_and_nothing_else(name: str) -> None:
    assert matching(name) == [name]


def test_a_family_matches_all_of_its_scenarios_and_no_other_family() -> None:
    assert matching("copy") == list(NAMES[:4])
    assert matching("capture") == ["capture/replay"]
    assert matching("cop") == []


def test_a_name_without_its_parameters_matches_every_parameter() -> None:
    assert matching("copy/mixed-inputs") == list(NAMES[1:3])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", list(NAMES)),
        ("copy/*", list(NAMES[:4])),
        ("*/mixed-inputs", list(NAMES[1:3])),
        ("*[cpu-first]", ["copy/mixed-inputs[cpu-first]"]),
        ("copy/mixed-inputs[c*]", ["copy/mixed-inputs[cpu-first]"]),
        ("*cpu*", [NAMES[0], NAMES[2], NAMES[3]]),
        ("copy/cpu?io", ["copy/cpu-io"]),
        ("capture/*y", ["capture/replay"]),
        ("Copy", []),
        ("copy/", []),
        ("", []),
        ("copy/mixed-inputs[xyz]", []),
    ],
)
def test_a_glob_matches(pattern: str, expected: list[str]) -> None:
    assert matching(pattern) == expected


def test_brackets_are_no_set_of_characters() -> None:
    assert fnmatch.fnmatchcase("copy/mixed-inputsc", "copy/mixed-inputs[cpu-first]")
    assert not matches("copy/mixed-inputs[cpu-first]", "copy/mixed-inputsc")


@settings(deadline=None)
@given(st.text().filter(lambda text: not set(text) & set("*?")))
def test_any_text_without_wildcards_matches_itself(name: str) -> None:
    assert matches(name, name)


@settings(deadline=None)
@given(st.text(), st.text())
def test_no_pattern_makes_matching_fail(pattern: str, name: str) -> None:
    assert matches(pattern, name) in (True, False)
    assert matches("*", name)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("copy/cpu-oi", "copy/cpu-io"),
        ("cpoy", "copy"),
        ("copy/mixed-input", "copy/mixed-inputs"),
        ("copy/mixed-inputs[cpu-frist]", "copy/mixed-inputs[cpu-first]"),
        ("zzz", None),
    ],
)
def test_what_is_closest_is_suggested(wrong: str, right: str | None) -> None:
    assert suggestion(wrong, NAMES) == right
