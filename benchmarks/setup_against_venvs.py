"""Setting up all cores with a cold cache against one virtual environment a core.

    python benchmarks/setup_against_venvs.py [ENVIRONMENTS]

The environments hold what people install to try a plugin by hand: onnxruntime, onnx, numpy and
pytest. pip's own cache is warm for them after the first call, ours is always cold. With fewer
ENVIRONMENTS than cores their time and size are scaled up to all cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.workflow import Selection, plan_run


def size_mb(folder: Path) -> float:
    """Megabytes of all files below a folder, each counted once."""
    return (
        sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and not f.is_symlink()) / 1e6
    )


def main(environments: int) -> None:
    """Measure and print."""
    versions = [core.version for core in plan_run(Selection(plugin="webgpu")).cores]
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "harness", "fetch", "--plugin", "webgpu"],
            check=True,
            env={**os.environ, "ORT_EP_MATRIX_CACHE": str(cache)},
            stdout=subprocess.DEVNULL,
        )
        ours, our_size = time.perf_counter() - began, size_mb(cache)
    print(
        f"ours: {len(versions)} cores and the WebGPU plugin in {ours:.1f} s, {our_size:.0f} MB",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as name:
        began = time.perf_counter()
        for version in versions[:environments]:
            folder = Path(name, version)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            packages = [f"onnxruntime=={version}", "onnx", "numpy", "pytest"]
            subprocess.run([*pip, *packages], check=True, stderr=subprocess.DEVNULL)
        scale = len(versions) / environments
        theirs, their_size = (time.perf_counter() - began) * scale, size_mb(Path(name)) * scale
    print(
        f"{environments} environments, scaled to {len(versions)}: {theirs:.1f} s, "
        f"{their_size:.0f} MB"
    )
    print(
        f"time ratio {ours / theirs:.3f} (at most 0.1 is wanted); "
        f"disk ratio {our_size / their_size:.2f}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
