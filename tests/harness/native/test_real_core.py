"""The declarations against real cores, and tensors and copies against a real plugin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.artifacts.cores import Core
from harness.artifacts.plugins import Plugin
from tests.harness.native.inside import inside

pytestmark = pytest.mark.cores


@pytest.fixture(params=["oldest", "newest"])
def core(request: pytest.FixtureRequest) -> Core:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Core)
    return found


def test_a_core_says_its_own_version(core: Core) -> None:
    said = inside(core, "answer(version=load_core(core, NoTrace()).core_version)")

    assert said["version"] == core.version


def test_a_core_knows_its_own_levels_and_no_others(core: Core) -> None:
    levels = inside(
        core,
        "api = load_core(core, NoTrace())\n"
        "known = {n: api._base.GetApi(n) != ffi.NULL for n in (1, 24, 28, 9999)}\n"
        "answer(**{str(n): yes for n, yes in known.items()})",
    )

    minor = int(core.version.split(".")[1])
    assert levels == {"1": True, "24": True, "28": minor >= 28, "9999": False}


def test_a_level_that_a_core_lacks_is_an_error_of_its_own(oldest: Core) -> None:
    said = inside(
        oldest,
        """
try:
    load_core(core, NoTrace()).call_at_level(27, "SessionReleaseCapturedGraph", ffi.NULL, 0)
except MissingApiLevelError as error:
    answer(function=error.function, level=error.level, core=error.core_version)
""",
    )

    assert said == {"function": "SessionReleaseCapturedGraph", "level": 27, "core": "1.24.4"}


def test_a_failing_call_carries_function_code_and_message(core: Core) -> None:
    said = inside(
        core,
        """
api = load_core(core, NoTrace())
env = create_environment(api, scope)
found = []
for function, arguments in (
    ("RegisterExecutionProviderLibrary", (b"name", path_argument("/no/such/plugin.so"))),
    ("UnregisterExecutionProviderLibrary", (b"never registered",)),
):
    try:
        api.call(function, env.pointer, *arguments)
    except NativeCallError as error:
        found.append([error.function, error.code, error.message, str(error)])
answer(found=found)
""",
    )

    (first, second) = said["found"]
    assert first[0] == "RegisterExecutionProviderLibrary"
    assert first[1] == "FAIL"
    assert "/no/such/plugin.so" in first[2]
    assert first[3] == f"{first[0]} returned FAIL: {first[2]}"
    assert second[0] == "UnregisterExecutionProviderLibrary"
    assert re.fullmatch(r"[A-Z_]+", second[1])
    assert "never registered" in second[2]


CPU_SESSION = """
from scenarios.models import CHAIN
import struct
api = load_core(core, NoTrace())
env = create_environment(api, scope)
(cpu,) = [d for d in ep_devices(api, env) if d.ep_name == "CPUExecutionProvider"]
session = create_session(
    api, scope, env, [cpu], CHAIN.load(scratch), provider_options={})
memory = cpu_memory(api, scope)
"""


def test_the_functions_near_the_end_of_the_table_answer_sensibly(
    core: Core, tmp_path: Path
) -> None:
    said = inside(
        core,
        CPU_SESSION
        + """
subgraphs = api.get_list("Session_GetEpGraphAssignmentInfo",
    "const OrtEpAssignedSubgraph *const **", session.handle.pointer)
nodes_of = lambda one: api.get_list(
    "EpAssignedSubgraph_GetNodes", "const OrtEpAssignedNode *const **", one)
types = sorted(
    text(api.get("EpAssignedNode_GetOperatorType", "const char **", node))
    for one in subgraphs for node in nodes_of(one))
answer(device=[cpu.hardware_type, cpu.memory is None], nodes=session.assignment(), types=types)
""",
        scratch=tmp_path,
    )

    assert said["device"] == ["cpu", True]
    assert said["nodes"] == dict.fromkeys(
        ["first_on_device", "on_cpu", "last_on_device"], "CPUExecutionProvider"
    )
    assert said["types"] == ["Add", "Mul", "Neg"]


def test_a_function_of_a_newer_level_is_the_one_of_its_name(newest: Core, tmp_path: Path) -> None:
    said = inside(
        newest,
        CPU_SESSION
        + """
try:
    api.call_at_level(27, "SessionReleaseCapturedGraph", session.handle.pointer, 1)
    answer(message="")
except NativeCallError as error:
    answer(message=error.message)
""",
        scratch=tmp_path,
    )

    # The CPU EP captures nothing; a core either does nothing or says so.
    assert said["message"] == "" or "graph" in said["message"].lower()


def test_a_run_on_the_cpu_gives_the_value_shape_and_type(core: Core, tmp_path: Path) -> None:
    said = inside(
        core,
        CPU_SESSION
        + """
backwards = np.arange(12, 0, -1, dtype=np.float32).reshape(2, 6)[:, ::2].T
assert not backwards.flags.c_contiguous
x = cpu_tensor(api, scope, memory, backwards)
y = session.run({"x": x}, {"y": np.dtype(np.float32)})["y"]
given = cpu_tensor(api, scope, memory, np.zeros((3, 2), np.float32))
same = session.run({"x": x}, {"y": given})["y"]
answer(x=x.array.tolist(), y=y.array.tolist(), shape=y.shape, given=given.array.tolist(),
       same=same is given)
""",
        scratch=tmp_path,
    )

    assert said["x"] == [[12, 6], [10, 4], [8, 2]]
    assert said["y"] == said["given"] == [[-288, -72], [-200, -32], [-128, -8]]
    assert said["shape"] == [3, 2]
    assert said["same"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"not a library", "cannot be used as a core"),
        (None, "cannot be used as a core"),
    ],
)
def test_a_file_that_is_no_core_is_refused(
    newest: Core, tmp_path: Path, content: bytes | None, told: str
) -> None:
    file = tmp_path / "libonnxruntime.so"
    if content is not None:
        file.write_bytes(content)
    said = inside(
        replace(newest, library=file),
        "try: load_core(core, NoTrace())\nexcept CoreLoadError as error: answer(why=str(error))",
    )

    assert told in said["why"]
    assert str(file) in said["why"]


WEBGPU = """
from scenarios.models import NEGATE
api = load_core(core, NoTrace())
env = create_environment(api, scope)
known = {d.pointer for d in ep_devices(api, env)}
registration = register_plugin(api, scope, env, "plugin", str(plugin))
(device, *_) = [d for d in ep_devices(api, env) if d.pointer not in known]
session = create_session(
    api, scope, env, [device], NEGATE.load(scratch), provider_options={})
allocator = session.allocator(device.memory)
memory = cpu_memory(api, scope)
"""


@pytest.mark.webgpu
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float16"])
def test_copies_to_and_from_and_within_device_memory_keep_every_byte(
    newest: Core,
    webgpu: Plugin,
    host_environment: Mapping[str, str],
    tmp_path: Path,
    dtype: str,
) -> None:
    said = inside(
        newest,
        WEBGPU
        + f"""
dtype = np.dtype("{dtype}")
first = np.arange(1, 9, dtype=dtype).reshape(2, 4)
second = np.arange(101, 109, dtype=dtype).reshape(2, 4)
def cpu(array): return cpu_tensor(api, scope, memory, array)
def on_device(): return device_tensor(api, scope, allocator.pointer, (2, 4), dtype)
a, b, c = on_device(), on_device(), on_device()
copy_tensors(api, env, [cpu(first), cpu(second)], [a, b])
copy_tensors(api, env, [a], [c])
back = [cpu(np.zeros((2, 4), dtype)) for _ in range(3)]
copy_tensors(api, env, [a, b, c], back)
answer(ep=device.ep_name, back=[t.array.tolist() for t in back], seen=a.array is None)
""",
        environment=host_environment,
        plugin=webgpu.library,
        scratch=tmp_path,
    )

    first, second = [[1, 2, 3, 4], [5, 6, 7, 8]], [[101, 102, 103, 104], [105, 106, 107, 108]]
    assert said["ep"] == "WebGpuExecutionProvider"
    assert said["back"] == [first, second, first]
    assert said["seen"]


@pytest.mark.webgpu
def test_a_binding_runs_on_device_tensors_and_a_released_session_is_gone(
    newest: Core, webgpu: Plugin, host_environment: Mapping[str, str], tmp_path: Path
) -> None:
    said = inside(
        newest,
        WEBGPU
        + """
x = cpu_tensor(api, scope, memory, np.full((3, 2), 5, np.float32))
y = device_tensor(api, scope, allocator.pointer, (3, 2), np.dtype(np.float32))
binding = session.io_binding()
binding.bind_input("x", x)
binding.bind_output("y", y)
binding.run()
back = cpu_tensor(api, scope, memory, np.zeros((3, 2), np.float32))
copy_tensors(api, env, [y], [back])
try:
    binding.bind_input("no such input", x)
    binding.run()
    message = ""
except NativeCallError as error:
    message = f"{error.function}: {error.message}"
for handle in (binding.handle, y.handle, allocator):
    handle.release()
session.release()
try:
    session.assignment()
except ReleasedHandleError as error:
    answer(y=back.array.tolist(), message=message, gone=str(error))
""",
        environment=host_environment,
        plugin=webgpu.library,
        scratch=tmp_path,
    )

    assert said["y"] == [[-5, -5]] * 3
    assert "no such input" in said["message"]
    assert said["gone"] == "a released session was used"
