"""The state of a process that a library must leave as it was: others depend on it.

What is compared: the working directory, the mode that new files get, the locale, how floating
point rounds and whether it flushes denormal numbers, and (on Linux) which signals are caught or
ignored. What a library does to its own threads is not seen.
"""

from __future__ import annotations

import locale
import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["changes", "process_state"]

_SIGNAL_SETS = {"SigIgn": "ignored signals", "SigCgt": "caught signals"}


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
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return {name: fields[key].strip() for key, name in _SIGNAL_SETS.items() if key in fields}
