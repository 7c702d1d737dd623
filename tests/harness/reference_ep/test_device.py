"""The device layer, driven without a core."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path


def driven(folder: Path, threads: int, rounds: int) -> str:
    done = subprocess.run(
        [folder / "device_test", str(threads), str(rounds)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_device_does_what_it_says(builds: Callable[..., Path]) -> None:
    assert driven(builds("plain", "device_test"), 8, 100) == "0 failed\n"


def test_many_threads_race_on_nothing(builds: Callable[..., Path]) -> None:
    folder = builds("thread", "device_test", "-DREFERENCE_EP_SANITIZER=thread")

    assert driven(folder, 16, 100) == "0 failed\n"


def test_no_command_leaves_its_memory(builds: Callable[..., Path]) -> None:
    folder = builds("address", "device_test", "-DREFERENCE_EP_SANITIZER=address")

    assert driven(folder, 8, 100) == "0 failed\n"
