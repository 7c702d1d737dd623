"""The whole matrix against the bare loop, measured in turn in one call.

    python benchmarks/matrix_against_bare_loop.py [ROUNDS]

The bare loop runs one plain process a core, one after another, with the nine scenarios and
nothing else. Both start with a warm cache and drive the WebGPU plugin. Wall time is what a person
waits; CPU time is that of all processes that were started. Lower ratios are better for us.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.cache import default_cache
from harness.workflow import Selection, plan_run

BARE = Path(__file__).with_name("bare_loop.py")
NINE = (
    "allocation/dirty-bind-input",
    "allocation/scratch-reuse",
    "capture/replay",
    "copy/cpu-io",
    "copy/mixed-inputs[device-first]",
    "copy/mixed-inputs[cpu-first]",
    "copy/mixed-outputs[device-first]",
    "copy/mixed-outputs[cpu-first]",
    "copy/device-cpu-device",
)
"""The scenarios that both sides run: single-threaded ones that need no host of their own."""


@dataclass(frozen=True)
class Cost:
    """Seconds."""

    wall: float
    cpu: float


def measured(work: Callable[[], None]) -> Cost:
    """What some work cost, its child processes included."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    work()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main(rounds: int) -> None:
    """Measure and print."""
    planned = plan_run(Selection(plugin="webgpu"))
    models = default_cache().root / "models"
    environment = {
        **os.environ,
        **(planned.plugin.entry.environment if planned.plugin.entry else {}),
    }

    def quietly(command: list[str]) -> None:
        subprocess.run(
            command,
            check=True,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def bare() -> None:
        for core in planned.cores:
            quietly(
                [
                    sys.executable,
                    str(BARE),
                    str(core.library),
                    str(planned.plugin.library),
                    str(models),
                    *NINE,
                ]
            )

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "harness", "run", "--plugin", "webgpu"]
            chosen = [word for name in NINE for word in ("--scenario", name)]
            quietly([*command, *chosen, "--output", folder])

    # Both warm: files in the page cache, models built.
    ours()
    bare()
    pairs = []
    for number in range(rounds):
        pair = (measured(ours), measured(bare))
        pairs.append(pair)
        print(
            f"round {number + 1}: ours {pair[0].wall:.2f} s wall, {pair[0].cpu:.2f} s CPU; "
            f"bare {pair[1].wall:.2f} s wall, {pair[1].cpu:.2f} s CPU",
            flush=True,
        )
    print(f"{len(planned.cores)} cores, {os.cpu_count()} processors, median of {rounds} rounds")
    for name, bound in (("wall", 0.75), ("cpu", 1.25)):
        mine = statistics.median(getattr(a, name) for a, _ in pairs)
        base = statistics.median(getattr(b, name) for _, b in pairs)
        ratios = sorted(getattr(a, name) / getattr(b, name) for a, b in pairs)
        print(
            f"{name:>4}: ours {mine:.2f} s, bare {base:.2f} s, ratio "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}; "
            f"at most {bound} is wanted)"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
