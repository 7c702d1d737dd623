"""`ort_c_api.h` read by a reader of our own, and held against what the C API is known to be."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import harness.native
from harness.native.generate import generate

FOLDER = Path(harness.native.__file__).parent
HEADER = (FOLDER / "ort_c_api.h").read_text(encoding="utf-8")


def slots() -> list[str]:
    """The names of OrtApi's function pointers, in order."""
    text = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)
    body = text.partition("typedef struct OrtApi {")[2].partition("} OrtApi;")[0]
    names = []
    for declaration in body.split(";"):
        words = declaration.strip()
        if not words:
            continue
        function = re.match(r"[\w\s*]*\(\*(\w+)\)\s*\(", words)
        plain = re.fullmatch(r"void \*(\w+)", words)
        found = function or plain
        assert found is not None, words
        names.append(found[1])
    return names


def test_the_table_has_every_slot_of_level_28_once() -> None:
    assert len(slots()) == 424
    assert len(set(slots())) == 424


def test_slots_stand_where_the_public_header_has_them() -> None:
    places = {
        "CreateStatus": 0,
        "GetErrorCode": 1,
        "GetErrorMessage": 2,
        "CreateEnv": 3,
        "Run": 9,
        "RegisterExecutionProviderLibrary": 301,
        "EpDevice_MemoryInfo": 374,
        "CopyTensors": 386,
        "Session_GetEpGraphAssignmentInfo": 407,
        "SessionReleaseCapturedGraph": 421,
        "KernelContext_GetSyncStream": 423,
    }

    assert {name: slots().index(name) for name in places} == places


def test_each_level_begins_where_the_header_says() -> None:
    told = [
        (int(level), int(slot))
        for level, slot in re.findall(r"/\* level (\d+), from slot (\d+) \*/", HEADER)
    ]
    after = [re.search(rf"level {level}, .*?(\w+);", HEADER, re.DOTALL) for level, _ in told]

    assert [level for level, _ in told] == [24, 25, 27, 28]
    for (_, slot), match in zip(told, after, strict=True):
        assert match is not None
        assert slots()[slot] == match[1]


def test_the_generated_module_is_that_of_the_header() -> None:
    assert (FOLDER / "_ort_c_api.py").read_text(encoding="utf-8") == generate()


def test_every_function_that_is_called_is_declared_with_its_arguments() -> None:
    opaque = set(re.findall(r"void \*(\w+);", HEADER))
    called = set()
    for folder in (FOLDER, FOLDER.parent / "host"):
        for file in folder.glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in ("call", "get", "get_list", "plain")
                    and node.args
                    and isinstance(node.args[0], ast.Constant)
                    and isinstance(node.args[0].value, str)
                    and node.args[0].value in slots()
                ):
                    called.add(node.args[0].value)

    assert {"Run", "CopyTensors", "EpDevice_MemoryInfo"} <= called
    assert called & opaque == set()
    # What is called at level 24 must be of it.
    assert {name for name in called if slots().index(name) >= 415} == set()
