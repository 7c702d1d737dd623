from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.host.host import Host, UnsupportedError
from scenarios.runs import another_device, rounds


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
