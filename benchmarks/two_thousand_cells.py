"""Two thousand small cells: what the harness adds to one, and whether memory stays flat.

    python benchmarks/two_thousand_cells.py [CELLS]

The reference plugin on all cores, one iteration of one scenario a cell, all cells of a core in one
host. What a cell costs is measured against the time that its scenario itself took in the host. The
resident memory of the harness and of the largest host is sampled all the time: the medians of the
second and of the last fifth of the run are told, the first fifth being start-up.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

_SAMPLE_S = 0.05
_SCENARIO = "copy/cpu-io"
_MIB = 1 << 20


def main(cells: int) -> None:
    """Measure and print."""
    plan = json.loads(
        subprocess.run(
            [sys.executable, "-m", "harness", "plan", "--scenario", _SCENARIO],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    repeat = -(-cells // len(plan["cells"]))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "harness", "run", "--output", folder]
        command += ["--scenario", _SCENARIO, "--iterations", "1", "--repeat", str(repeat)]
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        samples = sampled(process)
        wall = time.perf_counter() - began
        if process.returncode != 0:
            raise SystemExit(f"the run ended with {process.returncode}")
        results = json.loads(Path(folder, "results.json").read_text(encoding="utf-8"))
    done = results["cells"]
    inside = sum(cell["duration_s"] for cell in done)
    jobs = results["run"]["jobs"]
    print(f"{len(done)} cells, all as expected, in {wall:.1f} s: {len(done) / wall:.0f} a second")
    print(
        f"a scenario took {1e3 * inside / len(done):.2f} ms in its host; with up to {jobs} cores "
        f"side by side, a cell cost {1e3 * wall / len(done):.2f} ms of wall time"
    )
    for name, values in (
        ("the harness", [engine for engine, _ in samples]),
        ("the largest host", [host for _, host in samples if host]),
    ):
        fifth = len(values) // 5
        early = statistics.median(values[fifth : 2 * fifth]) / _MIB
        late = statistics.median(values[-fifth:]) / _MIB
        print(f"memory of {name}: {early:.1f} MiB early, {late:.1f} MiB late")


def sampled(process: subprocess.Popen[bytes]) -> list[tuple[int, int]]:
    """Resident bytes of a process and of the largest of its descendants, until it ends."""
    engine = psutil.Process(process.pid)
    samples = []
    while process.poll() is None:
        try:
            own = engine.memory_info().rss
            hosts = engine.children(recursive=True)
        except psutil.NoSuchProcess:
            break
        samples.append((own, max(map(resident, hosts), default=0)))
        time.sleep(_SAMPLE_S)
    process.wait()
    return samples


def resident(process: psutil.Process) -> int:
    """Resident bytes; 0 of a process that has ended."""
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
