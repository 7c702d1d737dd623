"""What a library must leave as it was, seen of the process of this test."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.host.state import changes, process_state

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")


@contextmanager
def answered_by(number: int, function: int) -> Iterator[None]:
    """A signal answered as C code would have it, behind Python's back."""
    c_library = ctypes.CDLL(None)
    c_library.signal.restype = ctypes.c_void_p
    c_library.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    before = c_library.signal(number, function)
    try:
        yield
    finally:
        c_library.signal(number, before)


def test_a_state_that_stays_has_no_changes() -> None:
    assert changes(process_state(), process_state()) == []


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGINT", "SIGUSR2"])
def test_another_function_for_a_signal_is_seen_whether_or_not_one_had_it(name: str) -> None:
    # Any function will do, as long as the signal does not come.
    function = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
    assert function is not None
    before = process_state()
    with answered_by(signal.Signals[name], function):
        (change,) = changes(before, process_state())

    assert change.startswith(f"answer to {name}: ")
    assert change.endswith(f"became the function at {function:#x}")
    assert changes(before, process_state()) == []


def test_a_signal_that_is_ignored_or_reset_is_seen() -> None:
    before = process_state()
    with answered_by(signal.SIGINT, 1):
        assert changes(before, process_state())[0].endswith("became nothing")
    with answered_by(signal.SIGINT, 0):
        assert changes(before, process_state())[0].endswith("became the default")


def test_a_signal_that_the_thread_blocks_is_seen() -> None:
    assert threading.current_thread() is threading.main_thread()
    before = process_state()
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        assert changes(before, process_state()) == ["blocked signals: none became SIGUSR2"]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
