"""Several artifacts obtained side by side, and what becomes of the others when one is not."""

from __future__ import annotations

import threading

import pytest

from harness.artifacts.network import Network
from harness.artifacts.obtaining import obtain_all
from harness.artifacts.pipconfig import PipConfig

NOWHERE = PipConfig()


def test_all_are_obtained_in_their_order_and_no_more_at_once_than_allowed() -> None:
    at_once = threading.Semaphore(3)

    def obtain(number: int) -> int:
        assert at_once.acquire(blocking=False)
        try:
            return number * number
        finally:
            at_once.release()

    network = Network(NOWHERE)
    assert obtain_all(obtain, range(50), network, 3) == [n * n for n in range(50)]
    # Nothing was ended.
    assert network.pause(0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interruption_ends_what_is_under_way_and_starts_nothing_more(
    error: type[BaseException],
) -> None:
    network = Network(NOWHERE)
    under_way = threading.Event()
    started: list[int] = []

    def obtain(number: int) -> None:
        started.append(number)
        if number == 0:
            assert under_way.wait(20)
            raise error("it ends here")
        under_way.set()
        # As a download does that tries again: it would go on for a minute.
        for _ in range(60):
            if not network.pause(2):
                return

    with pytest.raises(error, match="it ends here"):
        obtain_all(obtain, range(20), network, 2)

    assert not network.pause(0)
    assert len(started) < 20
