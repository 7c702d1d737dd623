"""The state of a process that a library must leave as it was: others depend on it.

What is compared: the working directory, the mode that new files get, the locale, how floating
point rounds and whether it flushes denormal numbers, what answers each signal, and which signals
the main thread blocks (the last two not on Windows). What a library does to its own threads is not
seen.
"""

from __future__ import annotations

import ctypes
import locale
import os
import signal
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["changes", "process_state"]

# Larger than struct sigaction of any system. What answers the signal is its first member.
_SIGACTION_BYTES = 512
_ANSWERS = {0: "the default", 1: "nothing"}


def process_state() -> dict[str, str]:
    """The present state, by what it is called."""
    return {
        "working directory": _folder(),
        "file mode mask": _mask(),
        "locale": locale.setlocale(locale.LC_ALL),
        "floating-point mode": _floating_point(),
        **_signals(),
    }


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What differs, a line each."""
    return [
        f"{name}: {before[name]} became {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    ]


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return "one that is gone"


def _mask() -> str:
    mask = os.umask(0)
    os.umask(mask)
    return f"{mask:03o}"


def _floating_point() -> str:
    one, tiny, smallest = 1.0, 2.0**-53, 5e-324
    # Halfway between two numbers: only round-to-nearest-even keeps both at 1.
    above, below = one + tiny, one - tiny / 2
    rounding = {
        (True, True): "to nearest",
        (False, True): "upward",
        (True, False): "downward or to zero",
    }.get((above == one, below == one), "unknown")
    return f"rounds {rounding}" + ("" if smallest * one else ", flushes denormal numbers")


def _signals() -> dict[str, str]:
    if sys.platform == "win32":
        return {}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return {
        "blocked signals": ", ".join(sorted(map(_name, blocked))) or "none",
        **{f"answer to {_name(number)}": _answer(number) for number in signal.valid_signals()},
    }


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _answer(number: int) -> str:
    """What answers a signal: not as Python remembers it, but as the system has it."""
    action = ctypes.create_string_buffer(_SIGACTION_BYTES)
    if _c_library().sigaction(number, None, action) != 0:
        return "unknown"
    function = int.from_bytes(action.raw[: ctypes.sizeof(ctypes.c_void_p)], sys.byteorder)
    return _ANSWERS.get(function, f"the function at {function:#x}")


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
