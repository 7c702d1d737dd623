"""What a host does before it touches core and plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness.host.work

if sys.platform == "win32":
    pytest.skip("limits of a process are of POSIX", allow_module_level=True)

import resource

SOFT, HARD = 4096, resource.getrlimit(resource.RLIMIT_CORE)[1]
LIMITED = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, ({SOFT}, {HARD}))
os.execv(sys.executable, [sys.executable, "-P", "-m", "harness.host"])
"""


@pytest.mark.skipif(HARD == 0, reason="whoever started the tests allows no core dumps at all")
@pytest.mark.parametrize(("asked", "left"), [(None, 0), ("", 0), ("0", 0), ("1", SOFT)])
def test_a_host_may_write_a_core_dump_where_it_was_asked_for(
    asked: str | None, left: int, tmp_path: Path
) -> None:
    # A scenario package is imported in the host, and tells what it finds there.
    (tmp_path / "telling.py").write_text(
        "import os, resource\n"
        "told = [*resource.getrlimit(resource.RLIMIT_CORE), os.getcwd()]\n"
        f"open({str(tmp_path / 'told')!r}, 'w').write('\\n'.join(map(str, told)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    environment.pop("ORT_EP_MATRIX_CORE_DUMPS", None)
    if asked is not None:
        environment["ORT_EP_MATRIX_CORE_DUMPS"] = asked
    job = {
        "token": "t",
        "log": str(tmp_path / "host.log"),
        "blackbox": str(tmp_path / "blackbox"),
        "setup_timeout_s": 60.0,
        "scenario_packages": ["telling"],
        "core": str(tmp_path / "none.so"),
        "plugin": str(tmp_path / "none.so"),
        "registration_name": "none",
        "kind": "registered",
        "mode": "serialized",
        "python_package": None,
        "tasks": [],
        "models": str(tmp_path / "models"),
    }
    with subprocess.Popen(
        [sys.executable, "-c", LIMITED],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=tmp_path,
    ) as host:
        assert host.stdin is not None
        # It is not closed while the host works: its end is that of the engine.
        host.stdin.write(json.dumps(job).encode() + b"\n")
        host.stdin.flush()
        host.wait(60)

    told = (tmp_path / "told").read_text().splitlines()
    assert told == [str(left), str(HARD), os.sep]


def test_what_an_ep_device_says_of_itself_is_told_up_to_a_length() -> None:
    talkative = {f"{number:03}" + "k" * 5_000: "v" * 5_000 for number in range(1_000)}

    told = harness.host.work._metadata(talkative)

    assert len(told) == 100
    assert next(iter(told)) == "000" + "k" * 997
    assert set(told.values()) == {"v" * 1_000}
    assert harness.host.work._metadata({"version": "1.2"}) == {"version": "1.2"}
