from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TOP

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors are of POSIX")


def host(
    script: str,
    job: bytes = b'{"token": "t", "x": 1}\n',
    *,
    before: str = "",
    close: bool = False,
    session: bool = False,
) -> str:
    """What a process with an open channel sends; its printed output and its end are checked."""
    prelude = (
        "import os, subprocess, sys, time\n"
        "from pathlib import Path\n"
        "from harness.host.channel import log_to, open_channel\n"
        f"{before}\n"
        "channel = open_channel()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", prelude + script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        start_new_session=session,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(job)
    process.stdin.flush()
    if close:
        process.stdin.close()
    told = process.stdout.read().decode()
    errors = process.stderr.read().decode()
    status = process.wait(20)
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    return f"{told}|{errors}|{status}"


def test_messages_are_numbered_and_carry_the_token() -> None:
    told, errors, status = host(
        "job = channel.receive_job()\n"
        "channel.send('ready', x=job['x'], text='a\\nä')\nchannel.send('torn-down')"
    ).split("|")

    assert [json.loads(line) for line in told.splitlines()] == [
        {"token": "t", "number": 0, "event": "ready", "x": 1, "text": "a\nä"},
        {"token": "t", "number": 1, "event": "torn-down"},
    ]
    assert (errors, status) == ("", "0")


def test_nothing_that_is_printed_gets_into_the_channel() -> None:
    told, errors, status = host(
        "channel.receive_job()\n"
        "print('from python', flush=True)\nos.write(1, b'from C')\n"
        "os.system('echo from a child')\nsubprocess.run(['cat'])\nchannel.send('ready')"
    ).split("|")

    assert len(told.splitlines()) == 1
    assert errors == "from python\nfrom Cfrom a child\n"
    assert status == "0"


def test_a_low_limit_on_descriptors_leaves_room_for_the_channel() -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))"
    told, errors, status = host("channel.receive_job(); channel.send('hi')", before=limit).split(
        "|"
    )

    assert json.loads(told)["event"] == "hi"
    assert (errors, status) == ("", "0")


def test_a_child_inherits_no_end_of_the_channel() -> None:
    told, _, _ = host(
        "channel.receive_job()\n"
        "code = 'import os; print(os.listdir(\"/dev/fd\"))'\n"
        "out = subprocess.run([sys.executable, '-c', code],\n"
        "    capture_output=True, text=True, close_fds=False).stdout\n"
        "channel.send('ready', open=out)"
    ).split("|")
    inherited = json.loads(told)["open"]

    assert "'200'" not in inherited
    assert "'201'" not in inherited


def test_a_long_message_arrives_whole() -> None:
    told, _, status = host(
        "channel.receive_job()\nchannel.send('ready', text='x' * 500_000)"
    ).split("|")

    assert len(json.loads(told)["text"]) == 500_000
    assert status == "0"


def test_the_end_of_the_engine_ends_the_host() -> None:
    _, _, status = host("channel.receive_job()\ntime.sleep(60)", close=True).split("|")

    assert status == "71"


def test_the_end_of_the_engine_ends_what_is_of_the_hosts_group() -> None:
    # The child has no environment that would tell whose it is; it holds the error stream open.
    _, errors, status = host(
        "channel.receive_job()\n"
        "code = 'import time; time.sleep(60)'\n"
        "subprocess.Popen([sys.executable, '-c', code], env={})\ntime.sleep(60)",
        close=True,
        session=True,
    ).split("|")

    assert (errors, status) == ("", "-9")


def test_a_channel_that_is_gone_ends_the_host() -> None:
    _, _, status = host(
        "channel.receive_job()\nos.close(channel._report)\nchannel.send('ready')\ntime.sleep(60)"
    ).split("|")

    assert status == "70"


def test_output_goes_to_one_log_and_then_to_another(tmp_path: Path) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.touch()
    second.touch()
    _, errors, status = host(
        f"""
channel.receive_job()
for n, path in enumerate(({str(first)!r}, {str(second)!r}, {str(first)!r})):
    log_to(Path(path))
    print("python", n); sys.stderr.write("error %d\\n" % n)
    sys.stdout.flush(); os.write(1, b"C %d\\n" % n); os.system("echo child %d" % n)
"""
    ).split("|")

    assert (errors, status) == ("", "0")

    def lines(n: int) -> list[str]:
        return [f"C {n}", f"child {n}", f"error {n}", f"python {n}"]

    assert sorted(first.read_text().splitlines()) == sorted([*lines(0), *lines(2)])
    assert sorted(second.read_text().splitlines()) == lines(1)
