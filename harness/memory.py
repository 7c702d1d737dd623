"""What the system does when it runs out of memory, where it tells."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

__all__ = ["give_up_first", "killed_so_far"]

_PROC = Path("/proc")
_FIRST = "1000"


def give_up_first(pid: int, proc: Path = _PROC) -> None:
    """Have Linux end a process, and what it starts from now on, before any other.

    A plugin that takes all the memory must cost its host and not the engine or another program.

    Args:
        pid: the process.
        proc: where Linux tells of processes; elsewhere there is no such folder.
    """
    with contextlib.suppress(OSError):
        (proc / str(pid) / "oom_score_adj").write_text(_FIRST, encoding="ascii")


def killed_so_far(proc: Path = _PROC) -> int:
    """How many processes the system has ended since its start because memory had run out.

    0 where it does not tell; Linux does from 4.13 on.
    """
    try:
        told = (proc / "vmstat").read_text(encoding="ascii")
    except (OSError, ValueError):
        return 0
    found = re.search(r"^oom_kill (\d+)$", told, re.MULTILINE)
    return int(found[1]) if found else 0
