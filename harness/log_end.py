"""The end of a log as evidence: cut to a size, and down to what tells something."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.files import open_regular

__all__ = ["tail", "trim"]

_TAIL_BYTES = 4_000
_DUMP_BYTES = 32_768
_KEPT_BYTES = 1_000_000
_LONGEST_MARK = 64
_STACK_LINES = 8
_LINES_BEFORE_STACK = 3
_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_NATIVE_CALL = f'{os.sep}native{os.sep}api.py"'
_THREAD = re.compile(rb"^(Current thread|Thread) 0x.*\(most recent call first\):$", re.MULTILINE)


def trim(log: Path) -> bool:
    """Remove a log that nothing was written to; cut the middle out of one that was flooded.

    Returns:
        Whether a log is left that can be read.
    """
    try:
        with os.fdopen(open_regular(log, os.O_RDWR), "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            if size == 0:
                log.unlink()
                return False
            if size > 2 * _KEPT_BYTES + _LONGEST_MARK:
                file.seek(size - _KEPT_BYTES)
                end = file.read(_KEPT_BYTES)
                file.seek(_KEPT_BYTES)
                cut = f"\n… {size - 2 * _KEPT_BYTES} bytes cut here …\n".encode()
                file.write(cut + end)
                file.truncate()
            return True
    except OSError:
        return False


def tail(log: Path) -> str:
    """The end of a log, of a fatal error or a hang where in Python it was; empty if unreadable."""
    try:
        with os.fdopen(open_regular(log), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _DUMP_BYTES))
            return _essence(file.read(_DUMP_BYTES))
    except OSError:
        return ""


def _essence(end: bytes) -> str:
    """A dump of stacks tells of every thread, and of many it is longer than anybody reads."""
    fatal = end.rfind(b"Fatal Python error:")
    if fatal >= 0:
        name, *dump = _lines(end[fatal:])
        stacks = [name, *_stack_of_death(dump)]
        return "\n".join([*_said_before(end, fatal), *stacks][:_STACK_LINES])
    asked_for = _THREAD.search(end)
    if asked_for is not None:
        before = _said_before(end, asked_for.start())
        threads = _threads(_lines(end[asked_for.start() :]))
        stacks = _stacks_of_hang(threads, _STACK_LINES - len(before))
        if stacks:
            return "\n".join([*before, *stacks])
    return end[-_TAIL_BYTES:].decode("utf-8", "replace")


def _lines(text: bytes) -> list[str]:
    return text.decode("utf-8", "replace").splitlines()


def _said_before(end: bytes, stacks: int) -> list[str]:
    """What was printed just before the stacks; it may say why."""
    said = _lines(end[max(0, stacks - _TAIL_BYTES) : stacks])
    return [line for line in said if line.strip()][-_LINES_BEFORE_STACK:]


def _stack_of_death(dump: Sequence[str]) -> list[str]:
    """The stack of the thread that died; all stacks if the dump does not say which one it was."""
    starts = [i for i, line in enumerate(dump) if line.startswith("Current thread")]
    block = list(dump[starts[0] :]) if starts else list(dump)
    if starts:
        end = next((i for i, line in enumerate(block[1:], 1) if not line.startswith("  ")), None)
    else:
        end = next((i for i, line in enumerate(block) if line.startswith("Extension mod")), None)
    return list(map(_shortened, filter(_tells, block[:end])))


def _threads(dump: Sequence[str]) -> dict[str, list[str]]:
    """The frames of each thread, innermost first, by its heading."""
    threads: dict[str, list[str]] = {}
    frames: list[str] = []
    for line in dump:
        if _THREAD.match(line.encode()):
            frames = threads.setdefault(line, [])
        elif line.startswith("  File ") and _tells(line):
            frames.append(line)
    return threads


def _stacks_of_hang(threads: Mapping[str, Sequence[str]], room: int) -> list[str]:
    """Where threads stand in a native call, or else the main one; what is the same, once.

    Args:
        threads: their frames, innermost first, by their heading.
        room: how many lines there may be.
    """
    in_call = [frames for frames in threads.values() if frames and _NATIVE_CALL in frames[0]]
    main = [frames for name, frames in threads.items() if name.startswith("Current thread")]
    standing = Counter(
        tuple(frame for frame in frames if _NATIVE_CALL not in frame) for frames in in_call or main
    )
    told = []
    for stack, count in standing.most_common():
        heading = f"{count} thread{'' if count == 1 else 's'} (most recent call first):"
        share = max(2, room // len(standing)) - 1
        told += [heading, *map(_shortened, stack[:share])]
    return told[:room]


def _tells(line: str) -> bool:
    return bool(line.strip()) and "<frozen " not in line


def _shortened(line: str) -> str:
    return line.replace(f'"{_OURS}', '"').rstrip()
