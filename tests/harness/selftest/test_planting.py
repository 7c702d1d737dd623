"""Where a fault is planted."""

from __future__ import annotations

import pytest

from harness.errors import SelectionError
from harness.selftest.planting import ends_and_middle, sites, stages
from tests.harness.selftest.samples import core, fault

# Not in the order of their versions: 1.9 is older than 1.10.
CORES = [core(version) for version in ("1.27.0", "1.10.0", "1.24.4", "1.9.0", "1.32.0")]


def places(specifier: str, *, everywhere: bool = False) -> list[str]:
    found = sites([fault(cores=specifier)], CORES, everywhere=everywhere)
    return [site.core.id for site in found]


def test_the_oldest_the_middle_and_the_newest_are_taken_by_version() -> None:
    assert [one.id for one in ends_and_middle(CORES)] == ["1.9.0", "1.24.4", "1.32.0"]
    assert [one.id for one in ends_and_middle(CORES[:2])] == ["1.10.0", "1.27.0"]
    assert [one.id for one in ends_and_middle(CORES[:1])] == ["1.27.0"]


def test_two_cores_of_one_version_are_two() -> None:
    twins = [core("1.32.0", "1.32.0@aaaaaaaa"), core("1.32.0", "1.32.0@bbbbbbbb")]

    assert [one.id for one in ends_and_middle(twins)] == [one.id for one in twins]


@pytest.mark.parametrize(
    ("specifier", "three", "every"),
    [
        ("", ["1.9.0", "1.24.4", "1.32.0"], ["1.9.0", "1.10.0", "1.24.4", "1.27.0", "1.32.0"]),
        (">=1.24", ["1.24.4", "1.32.0"], ["1.24.4", "1.27.0", "1.32.0"]),
        # On none of the three: then on the newest of the others.
        (">=1.10,<1.24", ["1.10.0"], ["1.10.0"]),
        ("!=1.9.0,!=1.24.4,!=1.32.0", ["1.27.0"], ["1.10.0", "1.27.0"]),
    ],
)
def test_a_fault_is_planted_where_it_can_occur(
    specifier: str, three: list[str], every: list[str]
) -> None:
    assert places(specifier) == three
    assert places(specifier, everywhere=True) == every


def test_faults_that_can_occur_nowhere_have_no_site() -> None:
    faults = [fault(name="elsewhere", cores=">=1.33"), fault(name="here", cores=">=1.32")]

    (site,) = sites(faults, CORES, everywhere=False)

    assert (site.fault.name, site.core.id) == ("here", "1.32.0")
    with pytest.raises(SelectionError, match="can occur on any of the selected cores"):
        sites(faults[:1], CORES, everywhere=False)


def test_the_scenarios_of_the_row_come_first_in_its_order() -> None:
    names = ["copy/a", "copy/b[x]", "copy/b[y]", "copy/c"]

    def tried(*globs: str) -> list[list[str]]:
        return list(stages(fault(noticed_by=list(globs)), names))

    assert tried("copy/c", "copy/b") == [["copy/c"], ["copy/b[x]", "copy/b[y]"], ["copy/a"]]
    assert tried("copy/b[y]") == [["copy/b[y]"], ["copy/a", "copy/b[x]", "copy/c"]]
    assert tried("*") == [["copy/a"], ["copy/b[x]", "copy/b[y]", "copy/c"]]
