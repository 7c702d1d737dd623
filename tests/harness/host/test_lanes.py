"""Lanes, with functions of Python's own in place of native ones."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from harness.host.blackbox import BlackBox, read_blackbox
from harness.host.lanes import Lanes


def lanes(folder: Path, *, serialized: bool) -> Lanes:
    return Lanes(BlackBox(folder / "box"), serialized=serialized)


def test_in_serialized_mode_no_two_calls_overlap_and_the_lanes_take_turns(tmp_path: Path) -> None:
    four = lanes(tmp_path, serialized=True)
    inside: list[int] = []
    most = 0
    order: list[int] = []

    def work(lane: int) -> None:
        nonlocal most
        for _ in range(5):
            four.enter("Run")
            inside.append(lane)
            most = max(most, len(inside))
            order.append(lane)
            time.sleep(0.001)
            inside.remove(lane)
            four.leave()

    seen = four.run(work, 4)

    assert most == 1
    assert (seen.free, seen.calls, seen.overlapped) == (False, 20, 0)
    assert sorted(order) == [lane for lane in range(4) for _ in range(5)]
    # Who sleeps holds the turn, so that all others have asked for theirs by the time it goes on.
    assert sum(one != other for one, other in pairwise(order)) >= 12


def test_in_concurrent_mode_calls_overlap_and_are_counted(tmp_path: Path) -> None:
    two = lanes(tmp_path, serialized=False)
    both = threading.Barrier(2)

    def work(lane: int) -> None:
        for _ in range(3):
            if lane == 1:
                both.wait()
            two.enter("Run")
            if lane == 0:
                both.wait()
            both.wait()
            two.leave()
            both.wait()

    seen = two.run(work, 2)

    # Lane 0 is inside when lane 1 is let in, each of three times.
    assert (seen.free, seen.calls, seen.overlapped) == (True, 6, 3)


def test_a_call_that_reaches_no_device_neither_waits_nor_counts(tmp_path: Path) -> None:
    two = lanes(tmp_path, serialized=True)
    both = threading.Barrier(2, timeout=5)

    def work(_lane: int) -> None:
        two.enter("CreateRunOptions")
        both.wait()
        two.leave()

    assert two.run(work, 2).calls == 0


def test_a_lane_that_waits_for_another_between_its_calls_holds_nobody_up(tmp_path: Path) -> None:
    two = lanes(tmp_path, serialized=True)
    done = threading.Event()

    def work(lane: int) -> None:
        if lane == 0:
            assert done.wait(5)
        for _ in range(10):
            two.enter("Run")
            two.leave()
        done.set()

    assert two.run(work, 2).calls == 20


@pytest.mark.parametrize("serialized", [True, False])
def test_the_failure_of_the_first_lane_that_failed_is_raised_when_all_have_ended(
    tmp_path: Path, serialized: bool
) -> None:
    four = lanes(tmp_path, serialized=serialized)
    ended: list[int] = []

    def work(lane: int) -> None:
        if lane in (1, 2):
            raise KeyError(lane)
        four.enter("Run")
        four.leave()
        ended.append(lane)

    with pytest.raises(KeyError, match="1"):
        four.run(work, 4)
    assert sorted(ended) == [0, 3]


def test_a_lane_knows_its_number_and_the_main_thread_is_none(tmp_path: Path) -> None:
    four = lanes(tmp_path, serialized=False)
    numbers: set[tuple[int, int | None]] = set()

    four.run(lambda lane: numbers.add((lane, four.current)), 4)

    assert numbers == {(0, 0), (1, 1), (2, 2), (3, 3)}
    assert four.current is None


@pytest.mark.parametrize("count", [-1, 0, 1, 17])
def test_too_few_or_too_many_lanes_are_a_mistake(tmp_path: Path, count: int) -> None:
    with pytest.raises(ValueError, match="2 to 16"):
        lanes(tmp_path, serialized=False).run(lambda lane: None, count)


def test_a_lane_has_no_lanes(tmp_path: Path) -> None:
    four = lanes(tmp_path, serialized=False)

    def work(_lane: int) -> None:
        four.run(lambda inner: None, 2)

    with pytest.raises(ValueError, match="of its own"):
        four.run(work, 2)


def test_the_black_box_names_the_calls_that_lanes_are_inside_of(tmp_path: Path) -> None:
    three = lanes(tmp_path, serialized=False)
    all_inside = threading.Barrier(3, timeout=5)
    seen = []

    def work(lane: int) -> None:
        three.enter("Run" if lane else "CopyTensors")
        all_inside.wait()
        if lane == 2:
            seen.append(read_blackbox(tmp_path / "box"))
        all_inside.wait()
        three.leave()

    three.run(work, 3)

    assert (seen[0].call, seen[0].inside_call) == ("CopyTensors and Run", True)
    after = read_blackbox(tmp_path / "box")
    assert (after.call, after.inside_call) == (None, False)
