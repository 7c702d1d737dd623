"""What is left of a run is seen: a process and files of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.selftest.leftovers import RUN, left_files, left_processes, temporary_in, unusual


def test_a_process_is_told_from_others_by_its_environment(tmp_path: Path) -> None:
    environment = {**os.environ, **temporary_in(tmp_path / "ours")}
    other = {**os.environ, **temporary_in(tmp_path / "other")}
    wait = [sys.executable, "-c", "print('here', flush=True); input()"]
    with (
        subprocess.Popen(wait, env=environment, stdin=-1, stdout=-1, text=True) as ours,
        subprocess.Popen(wait, env=other, stdin=-1, stdout=-1, text=True) as others,
    ):
        for one in (ours, others):
            assert one.stdout is not None
            assert one.stdout.readline() == "here\n"
        try:
            (found,) = left_processes(tmp_path / "ours")
        finally:
            ours.kill()
            others.kill()

    assert f"({ours.pid})" in found
    assert left_processes(tmp_path / "ours") == []


def test_what_a_core_leaves_in_every_process_is_usual_whatever_its_number() -> None:
    usual = ["file temporary/debug-123.log", "file temporary/.ses"]
    left = ["file temporary/debug-4567.log", "file temporary/.ses", "file temporary/debug-1.txt"]

    assert unusual([*left, "file temporary/a"], usual) == [
        "file temporary/a",
        "file temporary/debug-1.txt",
    ]
    assert unusual(usual, usual) == []


def test_files_are_seen_where_none_belong(tmp_path: Path) -> None:
    environment = temporary_in(tmp_path)
    (tmp_path / RUN / "logs" / "1.30.0").mkdir(parents=True)
    (tmp_path / RUN / "run.json").touch()
    assert left_files(tmp_path) == set()

    Path(environment["TMPDIR"], "dump").touch()
    (tmp_path / RUN / "hosts").mkdir()

    assert left_files(tmp_path) == {
        f"file {Path('temporary', 'dump')}",
        f"file {Path(RUN, 'hosts')}",
    }
