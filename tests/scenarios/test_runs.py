from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.host.host import Host, UnsupportedError
from scenarios.runs import another_device, grown, rounds


def stand_in(**attributes: Any) -> Host:
    """Something with the few attributes of a host that are looked at."""
    return cast(Host, SimpleNamespace(**attributes))


@pytest.mark.parametrize(("iterations", "each"), [(1, 20), (3, 7), (19, 2), (20, 1), (500, 1)])
def test_the_rounds_of_all_iterations_are_enough(iterations: int, each: int) -> None:
    assert len(rounds(stand_in(iteration_count=iterations), 20)) == each
    assert each * iterations >= 20


def test_another_device_is_not_the_driven_one() -> None:
    devices: list[Any] = [SimpleNamespace(pointer=1), SimpleNamespace(pointer=2)]

    assert another_device(stand_in(device=devices[0], devices=devices)) is devices[1]
    assert another_device(stand_in(device=devices[1], devices=devices)) is devices[0]
    with pytest.raises(UnsupportedError, match="second EP device"):
        another_device(stand_in(device=devices[0], devices=devices[:1]))


@pytest.mark.parametrize(
    ("seen", "unsettled", "by"),
    [
        ([7] * 20, 0, 0),
        # Sixteen of twenty count, and of those the first four and the last four.
        (list(range(20)), 0, 16 - 7),
        (list(range(20, 0, -1)), 0, 1 - 16),
        # Of twenty behind twenty it is five and five.
        (list(range(40)), 20, 35 - 24),
        ([*range(20), *[19] * 20], 20, 0),
        # What came and went, wherever, was no growth; what stays was.
        ([5, 5, 5, 5, 9, 5, 9, 5, 9, 5], 0, 0),
        ([5] * 6 + [6] * 4, 0, 1),
        ([5], 0, 0),
    ],
)
def test_growth_is_what_stays_once_all_is_settled(seen: list[int], unsettled: int, by: int) -> None:
    assert grown(seen, unsettled) == by
