from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.host.blackbox import BlackBox, LastSeen, read_blackbox
from tests.conftest import TOP


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    path = tmp_path / "box"
    box = BlackBox(path)
    assert read_blackbox(path) == LastSeen("start", None, None, None, inside_call=False)

    box.at("scenario", "copy/a[b]")
    box.iteration(0)
    assert read_blackbox(path) == LastSeen("scenario", "copy/a[b]", 0, None, inside_call=False)

    box.enter("CreateSessionFromArray")
    assert read_blackbox(path) == LastSeen(
        "scenario", "copy/a[b]", 0, "CreateSessionFromArray", inside_call=True
    )

    box.leave()
    box.enter("Run")
    box.leave()
    box.iteration(2_000_000)
    assert read_blackbox(path) == LastSeen(
        "scenario", "copy/a[b]", 2_000_000, "Run", inside_call=False
    )


def test_a_new_phase_forgets_the_iteration_and_the_call(tmp_path: Path) -> None:
    path = tmp_path / "box"
    box = BlackBox(path)
    box.at("scenario", "copy/a")
    box.iteration(7)
    box.enter("Run")
    box.at("teardown")

    assert read_blackbox(path) == LastSeen("teardown", None, None, None, inside_call=False)


def test_texts_too_long_for_it_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "box"
    box = BlackBox(path)
    box.at("p" * 99, "ä" * 999)
    box.enter("f" * 99)
    last = read_blackbox(path)

    assert last.phase == "p" * 32
    assert last.scenario == "ä" * 128
    assert last.call == "f" * 64
    assert last.iteration is None
    assert last.inside_call


@pytest.mark.parametrize("content", [None, b"", b"\0" * 17, b"x" * 9999])
def test_what_is_no_black_box_reads_as_the_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "box"
    if content is not None:
        path.write_bytes(content)

    assert read_blackbox(path) == LastSeen("start", None, None, None, inside_call=False)


def test_a_wiped_or_scribbled_black_box_is_read_without_an_error(tmp_path: Path) -> None:
    path = tmp_path / "box"
    BlackBox(path)
    size = path.stat().st_size
    path.write_bytes(b"\0" * size)
    assert read_blackbox(path).phase == "start"

    path.write_bytes(b"\xff" * size)
    assert read_blackbox(path).iteration is None


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
def test_it_outlives_a_process_that_is_killed(tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]
    path = tmp_path / "box"
    code = (
        "import os, sys; from pathlib import Path; from harness.host.blackbox import BlackBox\n"
        "box = BlackBox(Path(sys.argv[1])); box.at('scenario', 'copy/a'); box.iteration(12)\n"
        "box.enter('Run'); os.kill(os.getpid(), int(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(int(number))],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        check=False,
    )

    assert done.returncode == -number
    assert read_blackbox(path) == LastSeen("scenario", "copy/a", 12, "Run", inside_call=True)
