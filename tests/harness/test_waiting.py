"""Waiting for threads: the order of what they give, and the signals that come meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.waiting import results_of

# To a thread that is not the main one: that stays asleep, as it does where the signal comes just
# before it falls asleep.
SIGNALLED = """
import signal, threading
from concurrent.futures import ThreadPoolExecutor
from harness.waiting import results_of

answered = threading.Event()
signal.signal(signal.SIGINT, lambda number, frame: answered.set())

def work():
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    return answered.wait(10)

with ThreadPoolExecutor() as pool:
    print(results_of([pool.submit(work)]))
"""


def test_results_come_in_the_order_of_the_futures() -> None:
    def late(number: int) -> int:
        time.sleep(0.15 if number == 0 else 0)
        return number

    with ThreadPoolExecutor(3) as pool:
        assert results_of(pool.submit(late, number) for number in range(3)) == [0, 1, 2]
    assert results_of([]) == []


def test_what_the_first_failing_future_raised_is_raised() -> None:
    fine: Future[int] = Future()
    fine.set_result(1)
    first, second = Future[int](), Future[int]()
    first.set_exception(KeyboardInterrupt("first"))
    second.set_exception(ValueError("second"))

    with pytest.raises(KeyboardInterrupt, match="first"):
        results_of([fine, first, second])


@pytest.mark.skipif(sys.platform == "win32", reason="signals a thread")
def test_a_signal_that_wakes_nobody_is_answered(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED], capture_output=True, text=True, cwd=tmp_path, check=True
    )

    assert done.stdout == "[True]\n"
