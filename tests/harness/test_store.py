from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import HarnessError, InputError, RunFolderError
from harness.plan import Selection
from harness.report.atomic import write_atomic
from harness.results import Observation
from harness.store import (
    RunRecord,
    clear_leftovers,
    create_folder,
    hold,
    read_case,
    recorder,
    write_record,
)
from tests.harness.samples import case, cell, native_error, observation, report

RECORD, OBSERVATIONS = "run.json", "observations.jsonl"


def a_record() -> RunRecord:
    whole = case([cell()], [])
    return RunRecord(
        run=whole.run,
        plugin=whole.plugin,
        platform="linux",
        cores=list(whole.cores),
        cells=list(whole.cells),
        whole=True,
        repeat={cell().id: "again"},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = create_folder(tmp_path / "run", "plugin")
    write_record(made, a_record())
    return made


def seen_in(folder: Path) -> list[Observation]:
    return list(read_case(folder)[0].observations)


def test_what_was_recorded_is_read_again(folder: Path) -> None:
    seen = [observation(attempt=n, report=report(error=native_error())) for n in range(3)]
    record = recorder(folder)
    for one in seen:
        record(one)
    read, what = read_case(folder)

    assert list(read.observations) == seen
    assert read.cells == [cell()]
    assert what == a_record()


def test_a_run_of_which_nothing_was_recorded_is_read_as_such(folder: Path) -> None:
    assert seen_in(folder) == []


@settings(deadline=None)
@given(st.text())
def test_any_text_survives(text: str) -> None:
    # What a plugin says may hold line ends of every kind, NUL and characters of every language.
    one = observation(report=report(error=native_error(message=text)))
    line = one.model_dump_json().encode()

    assert b"\n" not in line
    assert Observation.model_validate_json(line) == one


def test_line_ends_within_a_text_end_no_line(folder: Path) -> None:
    one = observation(log="a\nb\rc\x0bd\x85e\u2028f\u2029g\0h")
    recorder(folder)(one)

    assert seen_in(folder) == [one]


def test_observations_from_many_threads_stay_whole(folder: Path) -> None:
    record = recorder(folder)
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for attempt in range(50):
            record(observation(attempt=attempt, host=f"host-{number}", log="x" * 20_000))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    seen = seen_in(folder)
    for number in range(8):
        mine = [one.attempt for one in seen if one.host == f"host-{number}"]
        assert mine == list(range(50))


@pytest.mark.parametrize("left", [1, 20, -1])
def test_a_torn_last_line_is_left_out(folder: Path, left: int) -> None:
    record = recorder(folder)
    record(observation(attempt=1))
    whole = (folder / OBSERVATIONS).read_bytes()
    record(observation(attempt=2, log="ä" * 9))
    raw = (folder / OBSERVATIONS).read_bytes()
    end = len(whole) + left if left > 0 else len(raw) + left
    (folder / OBSERVATIONS).write_bytes(raw[:end])

    assert [one.attempt for one in seen_in(folder)] == [1]


def test_a_line_cut_within_a_character_is_left_out(folder: Path) -> None:
    recorder(folder)(observation())
    with (folder / OBSERVATIONS).open("ab") as file:
        file.write('{"cell": "ä'.encode()[:-1])

    assert len(seen_in(folder)) == 1


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"null", b"[]", b"\xff", b"garbage", b"[" * 100_000, b'{"cell": 1}']
)
@pytest.mark.parametrize("last", [True, False])
def test_a_whole_line_that_is_no_observation_is_an_error(
    folder: Path, line: bytes, last: bool
) -> None:
    recorder(folder)(observation())
    with (folder / OBSERVATIONS).open("ab") as file:
        file.write(line + b"\n")
    if not last:
        recorder(folder)(observation(attempt=2))

    with pytest.raises(RunFolderError, match=r"line 2, is not an observation"):
        read_case(folder)


def test_a_key_of_another_version_is_an_error(folder: Path) -> None:
    recorder(folder)(observation())
    raw = (folder / OBSERVATIONS).read_bytes()
    (folder / OBSERVATIONS).write_bytes(raw.replace(b'{"cell":', b'{"new": 1, "cell":'))

    with pytest.raises(RunFolderError, match="line 1") as caught:
        read_case(folder)
    assert "another version" in caught.value.hint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"schema_version": 1', '"schema_version": 2'),
        ('"described"', '"known"'),
        ('"jobs": 1', '"jobs": 0'),
        ('"started": "2026-', '"started": "soon'),
        ("{", "["),
        ('"whole": true', '"whole": "perhaps"'),
    ],
)
def test_a_record_of_another_version_is_an_error(folder: Path, old: str, new: str) -> None:
    path = folder / RECORD
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))

    with pytest.raises(RunFolderError, match="cannot be read") as caught:
        read_case(folder)
    assert caught.value.exit_code == 3
    assert "another version" in caught.value.hint


@pytest.mark.parametrize("missing", [RECORD, OBSERVATIONS])
def test_a_folder_that_lacks_a_file_is_no_run_folder(folder: Path, missing: str) -> None:
    (folder / missing).unlink()

    with pytest.raises(InputError, match=f"is not a run folder: .*{missing}"):
        read_case(folder)


@pytest.mark.parametrize("name", [RECORD, OBSERVATIONS])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_in_place_of_one_is_told(
    folder: Path, name: str, make: Callable[[Path], None]
) -> None:
    (folder / name).unlink()
    make(folder / name)

    with pytest.raises(RunFolderError, match="cannot be read: it is not a regular file"):
        read_case(folder)


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="the superuser reads all files"
)
def test_a_file_that_may_not_be_read_is_told(folder: Path) -> None:
    (folder / RECORD).chmod(0)

    with pytest.raises(RunFolderError, match="Permission denied"):
        read_case(folder)


def test_an_empty_folder_of_the_user_is_taken(tmp_path: Path) -> None:
    assert create_folder(tmp_path, "plugin") == tmp_path.resolve()
    assert create_folder(tmp_path / "a" / "b", "plugin").is_dir()


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()

    with pytest.raises(InputError, match="not empty") as caught:
        create_folder(tmp_path, "plugin")
    assert caught.value.exit_code == 2
    assert caught.value.hint == "Name a new folder with --output, or remove that one."


def test_the_option_that_names_a_folder_is_told_as_its_user_knows_it(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()

    for folder in (tmp_path / "full", tmp_path / "full" / "file" / "below"):
        with pytest.raises(HarnessError) as caught:
            create_folder(folder, "plugin", option="--mine")
        assert " with --mine" in caught.value.hint


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InputError, match="is a file"):
        create_folder(tmp_path / "file", "plugin")
    with pytest.raises(RunFolderError, match="cannot be made"):
        create_folder(tmp_path / "file" / "below", "plugin")


def test_folders_of_the_same_second_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [create_folder(None, "a/../b c") for _ in range(5)]

    assert len(set(folders)) == 5
    for one in folders:
        assert one.parent == tmp_path / "reports"
        assert one.name.partition("-")[2].startswith("a_.._b_c")


def test_a_folder_that_is_gone_is_told_when_it_is_written_to(folder: Path) -> None:
    record = recorder(folder)
    (folder / OBSERVATIONS).unlink()
    (folder / RECORD).unlink()
    folder.rmdir()

    with pytest.raises(RunFolderError, match="cannot be written"):
        record(observation())
    with pytest.raises(RunFolderError, match="cannot be written"):
        write_record(folder, a_record())


# A limit on the size of a file stands for a disk that is full in the middle of a line.
FULL_DISK = """
import resource, sys
from pathlib import Path
from harness.errors import InputError, RunFolderError
from harness.store import recorder
from tests.harness.samples import observation
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
record = recorder(Path(sys.argv[1]))
record(observation(attempt=1))
for attempt in (2, 3):
    try:
        record(observation(attempt=attempt))
    except RunFolderError as error:
        print(error.message)
    if attempt == 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the limit is of POSIX")
def test_a_full_disk_is_told_and_what_was_recorded_before_is_kept(folder: Path) -> None:
    size = len(observation().model_dump_json()) + 100
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder), str(size)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )

    # The second does not come after the torn line, though there is room again.
    assert done.stdout.count("observations.jsonl cannot be written: File too large.") == 2
    assert [one.attempt for one in seen_in(folder)] == [1]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"cells": [', '"cells": [], "run_": [', "cannot be read"),
        ('"core": "', '"core": "9.', "a core that it does not have"),
    ],
)
def test_a_record_that_does_not_fit_together_is_an_error(
    folder: Path, old: str, new: str, told: str
) -> None:
    path = folder / RECORD
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))

    with pytest.raises(RunFolderError, match=told):
        read_case(folder)


def test_what_was_seen_of_an_unknown_cell_is_an_error(folder: Path) -> None:
    recorder(folder)(observation(cell="9.9.9/serialized/copy/cpu-io"))

    with pytest.raises(RunFolderError, match="of a cell that it does not plan"):
        read_case(folder)


@pytest.mark.parametrize("torn", [b"", b"{", b'{"cell": "1.30.0/ser', "ä".encode()[:1]])
@pytest.mark.parametrize("lines", [0, 2])
def test_what_is_recorded_after_a_torn_line_is_not_a_part_of_it(
    folder: Path, torn: bytes, lines: int
) -> None:
    record = recorder(folder)
    for attempt in range(lines):
        record(observation(attempt=attempt))
    whole = (folder / OBSERVATIONS).read_bytes()
    (folder / OBSERVATIONS).write_bytes(whole + torn)
    again = recorder(folder)
    again(observation(attempt=8))
    again(observation(attempt=9))

    assert [one.attempt for one in seen_in(folder)] == [*range(lines), 8, 9]
    assert (folder / OBSERVATIONS).read_bytes().startswith(whole)


def test_a_folder_is_held_by_one_at_a_time(folder: Path) -> None:
    with hold(folder):
        with (
            pytest.raises(InputError, match="Another process is running in") as caught,
            hold(folder),
        ):
            pass
        # Reading needs no permission.
        assert seen_in(folder) == []
    with hold(folder):
        pass
    assert caught.value.exit_code == 2


def test_a_process_that_is_killed_holds_nothing(folder: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from harness.store import hold\n"
        "with hold(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(InputError, match="Another process"), hold(folder):
        pass
    process.kill()
    process.wait()
    process.stdout.close()

    with hold(folder):
        pass


def test_a_run_begins_in_a_folder_in_which_nothing_was_begun_meanwhile(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="not empty") as caught, hold(folder, new=True):
        pass
    assert "--resume" in caught.value.hint
    # The lock alone is nothing.
    (tmp_path / "other").mkdir()
    for _ in range(2):
        with hold(create_folder(tmp_path / "other", "plugin"), new=True):
            pass


def test_a_folder_that_is_none_cannot_be_held(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="cannot be written to"), hold(tmp_path / "file"):
        pass


def test_what_a_killed_process_had_for_itself_is_removed_and_nothing_else(folder: Path) -> None:
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    (folder / "hosts" / "1.30.0-1").mkdir(parents=True)
    (folder / "hosts" / "1.30.0-1" / "blackbox").touch()
    (folder / "run.json.new").write_text("{")
    (folder / "logs").mkdir()
    log = folder / "logs" / ".a.tmp"
    log.touch()
    with pytest.MonkeyPatch.context() as patched:
        # What a kill in the middle of a write leaves.
        patched.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write_atomic(folder / "results.json", b"{")
    assert len(list(folder.glob(".results.json.*"))) == 1
    clear_leftovers(folder)

    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == kept
    assert log.exists()
    assert not (folder / "hosts").exists()


def test_what_the_user_asked_for_is_recorded(folder: Path) -> None:
    asked = Selection(
        Path("m.yaml"), "p", ("1.30.0",), ("copy",), 3, "concurrent", 2, 7, {"A": "b", "C": ""}
    )
    write_record(folder, a_record().model_copy(update={"selection": asked}))

    assert read_case(folder)[1].selection == asked
