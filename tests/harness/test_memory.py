"""What Linux tells of memory that has run out, and what it is told of hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.memory import give_up_first, killed_so_far


@pytest.mark.parametrize(
    ("told", "count"),
    [
        (b"nr_free_pages 1\noom_kill 4\nnuma_hit 9\n", 4),
        (b"oom_kill 0", 0),
        # Of a kernel that does not count them.
        (b"nr_free_pages 1\nunevictable_oom_kill 7\n", 0),
        (b"oom_kill many\n", 0),
        (b"\xff\xfe", 0),
        (None, 0),
    ],
)
def test_the_count_is_that_of_the_system_or_none(
    told: bytes | None, count: int, tmp_path: Path
) -> None:
    if told is not None:
        (tmp_path / "vmstat").write_bytes(told)

    assert killed_so_far(tmp_path) == count


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_a_process_is_given_up_with_what_it_starts_and_nobody_else() -> None:
    own = Path("/proc/self/oom_score_adj").read_text()
    tell = "print(open('/proc/self/oom_score_adj').read())"
    code = (
        "import subprocess, sys; sys.stdin.read();"
        f'subprocess.run([sys.executable, "-c", "{tell}"], check=True)'
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    give_up_first(process.pid)
    out, _ = process.communicate()

    assert out.split() == ["1000"]
    assert Path("/proc/self/oom_score_adj").read_text() == own


def test_where_nobody_asks_for_it_nothing_is_done(tmp_path: Path) -> None:
    give_up_first(os.getpid(), tmp_path)

    assert not list(tmp_path.iterdir())
