from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.host.mapped import exporting, mapped_files, parse_proc_maps
from tests.conftest import TOP

GCC = shutil.which("gcc")

MAPS = """\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/python3
00651000-00652000 r--p 00051000 08:02 173521      /usr/bin/python3
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f1000000000-7f1000021000 r-xp 00000000 08:02 42  /with space/lib a.so.1
7f1100000000-7f1100021000 r-xp 00000000 08:02 43  /gone/plugin.so (deleted)
7f1200000000-7f1200021000 rw-s 00000000 00:05 44  /memfd:x (deleted)
7f1300000000-7f1300021000 r-xp 00000000 08:02 45                 /far/lib\u00e4.so
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                  [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]
7f1400000000-7f1400021000 r-xp 00000000 08:02 42  /with space/lib a.so.1
"""


def test_each_mapped_file_is_told_once_in_order_of_address() -> None:
    assert parse_proc_maps(MAPS) == [
        "/usr/bin/python3",
        "/with space/lib a.so.1",
        "/gone/plugin.so",
        "/memfd:x",
        "/far/lib\u00e4.so",
    ]


@pytest.mark.parametrize("text", ["", "\n", "garbage", "a b c d e", "a b c d e [heap]"])
def test_what_names_no_file_gives_none(text: str) -> None:
    assert parse_proc_maps(text) == []


@pytest.mark.skipif(sys.platform != "linux", reason="builds and loads a library of Linux")
def test_a_library_that_is_loaded_and_then_removed_is_still_seen(tmp_path: Path) -> None:
    library = tmp_path / "lib a.so"
    subprocess.run(
        ["cc", "-shared", "-o", str(library), "-xc", "-"],
        input=b"int f(void){return 7;}",
        check=True,
    )
    before = mapped_files()
    assert ctypes.CDLL(str(library)).f() == 7
    assert str(library) in mapped_files()
    library.unlink()

    assert str(library) not in before
    assert str(library) in mapped_files()


def test_a_path_may_hold_what_python_takes_for_a_line_end() -> None:
    line = "7f0000000000-7f0000001000 r--p 00000000 08:02 7 "
    text = f"{line}/a\\012b/\x0bc\u2028d.so\n{line}/e\x85f.so (deleted)\n"

    assert parse_proc_maps(text) == ["/a\nb/\x0bc\u2028d.so", "/e\x85f.so"]


@pytest.mark.skipif(sys.platform != "linux" or GCC is None, reason="of Linux, and needs gcc")
@pytest.mark.parametrize("gone", [False, True])
def test_a_library_that_exports_a_function_is_told_though_its_file_is_gone(
    tmp_path: Path, gone: bool
) -> None:
    def built(name: str, source: str, *needed: str) -> Path:
        (tmp_path / f"{name}.c").write_text(source)
        made = tmp_path / f"lib{name}.so"
        options = ["-shared", "-fPIC", "-nostdlib", f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}"]
        links = [f"-l{one}" for one in needed]
        subprocess.run(
            [str(GCC), *options, "-o", str(made), str(tmp_path / f"{name}.c"), *links], check=True
        )
        return made

    inner = built("inner", "int ExportedForTest(void) { return 1; }\n")
    outer = built(
        "outer",
        "int ExportedForTest(void); int of_outer(void) { return ExportedForTest(); }\n",
        "inner",
    )
    code = (
        "import ctypes, os, sys\n"
        "from harness.host.mapped import exporting\n"
        "before = exporting('ExportedForTest')\n"
        f"ctypes.CDLL({str(outer)!r})\n"
        f"{gone} and os.unlink({str(inner)!r})\n"
        "print(before, exporting('ExportedForTest'), exporting('of_outer'), exporting('no_such'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=True
    )

    # The one that only needs it does not export it.
    assert done.stdout.strip() == f"[] {[str(inner)]} {[str(outer)]} []"


def test_where_the_loader_cannot_be_asked_nothing_is_told() -> None:
    assert exporting("malloc", "darwin") == exporting("malloc", "win32") == []
