"""The reference plugin on real cores: right by default, and by the contract of its mode."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.cores import Core
from harness.host.model import Model
from harness.host.scenario import find_scenarios
from harness.results import CellResult
from scenarios.models import CHAIN, EITHER
from tests.conftest import TOP
from tests.harness.native.inside import inside
from tests.harness.reference_ep.conftest import MIDDLE, OLDEST
from tests.harness.reference_ep.lab import PROBES, SCENARIOS, Lab, cores

pytestmark = pytest.mark.cores

LEVELS = {
    "1.24.4": 24,
    "1.25.0": 25,
    "1.25.1": 25,
    "1.26.0": 26,
    "1.27.0": 27,
    "1.28.0": 28,
    "1.29.0": 28,
    "1.30.0": 28,
    "1.31.0": 28,
    "1.31.1": 28,
    "1.32.0": 28,
}
"""The smaller of what the plugin was written for and what each core offers."""
CONCURRENT = {"1.31.0", "1.31.1", "1.32.0"}

REGISTERED = """
api = load_core(core, NoTrace())
env = create_environment(api, scope)
register_plugin(api, scope, env, "reference", str(plugin))
(device,) = [d for d in ep_devices(api, env) if d.ep_name == "ReferenceExecutionProvider"]
"""


@pytest.fixture(scope="module")
def all_cores() -> list[Core]:
    return cores(list(LEVELS))


def odd(cells: dict[tuple[str, str], CellResult]) -> list[tuple[object, ...]]:
    return [
        (*key, cell.outcome, cell.reason, cell.detail)
        for key, cell in cells.items()
        if cell.verdict != "expected"
    ]


def logged(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.timeout(900)
def test_every_scenario_passes_on_every_core_with_no_overlap_in_serialized_mode(
    lab: Lab, all_cores: list[Core], tmp_path: Path
) -> None:
    log = tmp_path / "contract.jsonl"

    cells = lab.run(
        all_cores,
        environment={
            "ORT_REFERENCE_EP_CONTRACT_LOG": str(log),
            "ORT_REFERENCE_EP_FORCE_LEGACY": "1",
        },
    )

    assert len(cells) >= 26 * 11
    assert odd(cells) == []
    assert {cell.mode for cell in cells.values()} == {"serialized"}
    laned = [cell.overlap for cell in cells.values() if cell.overlap is not None]
    assert len(laned) >= 17 * 11
    assert all(not one.free and one.calls > 0 and one.overlapped == 0 for one in laned)
    hosts = logged(log)
    assert {host["host"] for host in hosts} == set(LEVELS)
    for host in hosts:
        assert (host["mode"], host["checked"], host["overlaps"]) == ("serialized", True, 0)
    for version in LEVELS:
        # Some registrations are made to see what is there, and do no more.
        assert sum(host["operations"] for host in hosts if host["host"] == version) > 1000


def test_in_concurrent_mode_every_scenario_with_lanes_passes_and_overlaps(
    lab: Lab, newest: Core, tmp_path: Path
) -> None:
    log = tmp_path / "contract.jsonl"

    cells = lab.run(
        [newest],
        names=[name for name in find_scenarios([SCENARIOS]) if name.startswith("concurrency/")],
        environment={"ORT_REFERENCE_EP_CONTRACT_LOG": str(log)},
    )

    assert odd(cells) == []
    for cell in cells.values():
        assert cell.mode == "concurrent"
        assert cell.overlap is not None
        assert cell.overlap.free
        assert cell.overlap.overlapped > 0, cell.scenario
    assert {(host["mode"], host["checked"]) for host in logged(log)} == {("concurrent", False)}


def test_the_probes_pass(lab: Lab, three: list[Core]) -> None:
    cells = lab.run(three, package=PROBES, iterations=3)

    assert {cell.outcome for cell in cells.values()} == {"passed"}
    assert odd(cells) == []


def test_it_claims_what_the_core_offers_and_takes_the_published_mode(
    library: Path, all_cores: list[Core]
) -> None:
    for one in all_cores:
        seen = inside(
            one,
            REGISTERED + "answer(metadata=dict(device.metadata), vendor=device.ep_vendor,"
            "memory=device.memory is not None, hardware=device.hardware_type)",
            plugin=library,
        )
        metadata = seen["metadata"]
        assert metadata["version"] == "1.0.0"
        assert int(metadata["api_level"]) == LEVELS[str(one.version)]
        assert metadata["mode"] == (
            "concurrent" if str(one.version) in CONCURRENT else "serialized"
        )
        assert (seen["vendor"], seen["memory"], seen["hardware"]) == ("ort-ep-matrix", True, "cpu")


@pytest.mark.parametrize(
    ("model", "cpu_nodes", "says"),
    [(EITHER, "", "control flow (If)"), (CHAIN, "on_cpu", "node on_cpu (Neg) on another EP")],
    ids=["control flow", "a node on the CPU EP"],
)
def test_an_old_core_too_is_refused_a_capture_of_what_cannot_be_captured(
    library: Path, oldest: Core, tmp_path: Path, model: Model, cpu_nodes: str, says: str
) -> None:
    (tmp_path / "model").write_bytes(model.build(model))

    seen = inside(
        oldest,
        REGISTERED + "def session(**options):\n"
        "    options = {'reference.' + key: value for key, value in options.items()}\n"
        "    create_session(api, scope, env, [device], (scratch / 'model').read_bytes(),"
        " provider_options=options)\n"
        f"session(cpu_nodes={cpu_nodes!r})\n"
        "try:\n"
        f"    session(cpu_nodes={cpu_nodes!r}, enable_graph_capture='1')\n"
        "except NativeCallError as error:\n"
        "    answer(function=error.function, message=error.message)\n",
        plugin=library,
        scratch=tmp_path,
    )

    assert seen["function"] == "CreateSessionFromArray"
    assert f"graph capture cannot capture {says}" in seen["message"]


@pytest.mark.parametrize(
    ("value", "mode"), [("1", "serialized"), ("0", "concurrent"), ("", "concurrent")]
)
def test_the_override_takes_concurrency_away(
    library: Path, newest: Core, value: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORT_REFERENCE_EP_FORCE_LEGACY", value)

    seen = inside(newest, REGISTERED + "answer(mode=device.metadata['mode'])", plugin=library)

    assert seen["mode"] == mode


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("ORT_REFERENCE_EP_FORCE_LEGACY", "yes", "must be 1, 0 or empty, not yes"),
        ("ORT_REFERENCE_EP_DEVICES", "3", "must be 1, 2 or empty, not 3"),
        ("ORT_REFERENCE_EP_FAULT", "no-such-fault", "names no fault: no-such-fault"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_an_error_at_registration(
    library: Path,
    oldest: Core,
    variable: str,
    value: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, value)

    seen = inside(
        oldest,
        "api = load_core(core, NoTrace())\n"
        "env = create_environment(api, scope)\n"
        "try:\n"
        "    register_plugin(api, scope, env, 'reference', str(plugin))\n"
        "except NativeCallError as error:\n"
        "    answer(message=error.message)\n",
        plugin=library,
    )

    assert says in seen["message"]


def test_a_second_device_has_memory_and_a_contract_of_its_own(
    library: Path, newest: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "contract.jsonl"
    monkeypatch.setenv("ORT_REFERENCE_EP_DEVICES", "2")
    monkeypatch.setenv("ORT_REFERENCE_EP_FORCE_LEGACY", "1")
    monkeypatch.setenv("ORT_REFERENCE_EP_CONTRACT_LOG", str(log))

    seen = inside(
        newest,
        REGISTERED.replace("(device,) =", "devices =") + "from harness.native.tensors import *\n"
        "from harness.native.allocators import *\n"
        "import numpy as np\n"
        "cpu = cpu_memory(api, scope)\n"
        "tensors = []\n"
        "for device in devices:\n"
        "    allocator = shared_allocator(api, env, device)\n"
        "    tensor = device_tensor(api, scope, allocator.pointer, (4,), np.dtype(np.float32))\n"
        "    source = cpu_tensor(api, scope, cpu, np.ones(4, np.float32))\n"
        "    copy_tensors(api, env, [source], [tensor])\n"
        "    tensors.append(tensor)\n"
        "try:\n"
        "    copy_tensors(api, env, tensors[:1], tensors[1:])\n"
        "except NativeCallError as error:\n"
        "    refused = error.code\n"
        "answer(numbers=[device.metadata['device'] for device in devices], refused=refused)\n",
        plugin=library,
    )

    assert seen == {"numbers": ["0", "1"], "refused": "NOT_IMPLEMENTED"}
    devices = logged(log)
    assert [host["device"] for host in devices] == [0, 1]
    # An allocation, a copy and a release each.
    assert [host["operations"] for host in devices] == [3, 3]


def test_the_library_goes_when_it_is_unregistered(library: Path, newest: Core) -> None:
    seen = inside(
        newest,
        REGISTERED + "from harness.host.mapped import mapped_files\n"
        "before = str(plugin) in mapped_files()\n"
        "api.call('UnregisterExecutionProviderLibrary', env.pointer, b'reference')\n"
        "answer(before=before, after=str(plugin) in mapped_files())\n"
        "scope = Scope()\n",
        plugin=library,
    )

    assert (seen["before"], seen["after"]) == (True, False)


@pytest.mark.skipif(sys.platform == "win32", reason="a fault is told by another number there")
def test_a_device_pointer_faults_when_the_host_follows_it(library: Path, oldest: Core) -> None:
    script = (
        "import sys, ctypes\n"
        "from pathlib import Path\n"
        "from harness.native.api import *\n"
        "from harness.native.environments import *\n"
        "from harness.native.handles import *\n"
        "scope = Scope()\n"
        "core, plugin = Path(sys.argv[1]), Path(sys.argv[2])\n" + REGISTERED + "allocator = "
        "api.get('GetSharedAllocator', 'OrtAllocator **', env.pointer, device.memory)\n"
        "buffer = api.get('AllocatorAlloc', 'void **', allocator, 64)\n"
        "print(int(ffi.cast('uintptr_t', buffer)) != 0, flush=True)\n"
        "ctypes.string_at(int(ffi.cast('uintptr_t', buffer)), 1)\n"
        "print('read')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, str(oldest.library), str(library)],
        capture_output=True,
        text=True,
        check=False,
        cwd=TOP,
        timeout=60,
    )

    assert done.stdout == "True\n", done.stderr
    assert done.returncode == -signal.SIGSEGV


def test_overlaps_are_counted_when_threads_break_the_contract(
    lab: Lab, three: list[Core], tmp_path: Path
) -> None:
    log = tmp_path / "contract.jsonl"

    # The policy calls these cores serialized, and so does the plugin: this is a caller's mistake.
    cells = lab.run(
        three[:2],
        names=["concurrency/run-wide", "concurrency/come-and-go"],
        iterations=5,
        environment={"ORT_REFERENCE_EP_CONTRACT_LOG": str(log)},
        mode="concurrent",
    )

    # It counts and prevents nothing; a run that ended after that says what was done to it.
    broken = [cell for cell in cells.values() if cell.outcome != "passed"]
    assert broken
    for cell in broken:
        assert (cell.outcome, cell.reason) == ("failed", "native-error"), cell.detail
        assert "a serialized device was used by two threads at once" in cell.detail
    hosts = logged(log)
    assert {(host["host"], host["mode"]) for host in hosts} == {
        (OLDEST, "serialized"),
        (MIDDLE, "serialized"),
    }
    # The second device has nothing to do in these scenarios, and a busy machine may keep the
    # threads of one host apart.
    overlapped = [host for host in hosts if host["overlaps"] > 0]
    assert {host["host"] for host in overlapped} == {OLDEST, MIDDLE}
    for host in overlapped:
        assert host["device"] == 0
        assert " during " in host["first"]
    # Which operations meet is chance, in a host that met few times above all.
    for core in (OLDEST, MIDDLE):
        kinds = {kind for host in overlapped if host["host"] == core for kind in host["by_kind"]}
        assert any("run" in kind for kind in kinds), kinds


def test_the_overlaps_are_in_the_allocator_statistics(library: Path, newest: Core) -> None:
    seen = inside(
        newest,
        REGISTERED + "allocator = "
        "api.get('GetSharedAllocator', 'OrtAllocator **', env.pointer, device.memory)\n"
        "pairs = api.get('AllocatorGetStats', 'OrtKeyValuePairs **', allocator)\n"
        "answer(**api.pairs(pairs))\n"
        "api.plain('ReleaseKeyValuePairs', pairs)\n",
        plugin=library,
    )

    assert seen["InUse"] == "0"
    assert seen["reference.contract.overlaps"] == "0"
    assert seen["reference.contract.checked"] == "0"


@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="the sanitizer is loaded by LD_PRELOAD")
def test_the_address_sanitizer_reports_nothing_in_real_hosts(
    sanitized: Path, three: list[Core], tmp_path: Path
) -> None:
    # The C++ library too: Python has none, so that the sanitizer would find no throw to watch.
    preloaded = [
        subprocess.run(
            ["c++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    environment = {
        "LD_PRELOAD": " ".join(preloaded),
        "PYTHONMALLOC": "malloc",
        # Python and ORT keep memory until the process ends. What is freed is kept from being used
        # again, but not for so long that a scenario about memory that grows takes it for a leak.
        "ASAN_OPTIONS": f"detect_leaks=0:quarantine_size_mb=16:log_path={tmp_path / 'asan'}",
    }
    lab = Lab(sanitized, tmp_path / "lab")

    ends = [three[0], three[2]]
    cells = lab.run(ends, environment=environment, timeout_s=120)
    probes = lab.run(ends, package=PROBES, iterations=2, environment=environment, timeout_s=120)

    assert odd(cells) == []
    bad = {key: cell for key, cell in probes.items() if cell.outcome != "unsupported"}
    assert odd(bad) == []
    assert [path.read_text() for path in tmp_path.glob("asan*")] == []


@pytest.mark.parametrize(
    ("fault", "reasons", "says"),
    [
        ("exit-handler-ends-process", {"at-exit"}, "exit status 0"),
        ("directory-changed-at-unregister", {"teardown-error"}, "working directory: / became"),
        ("signal-handlers-replaced", {"process-state"}, "answer to SIGSEGV"),
    ],
)
def test_what_a_plugin_leaves_when_it_goes_is_seen(
    lab: Lab, newest: Core, fault: str, reasons: set[str], says: str
) -> None:
    (cell,) = lab.run(
        [newest], names=["copy/cpu-io"], environment={"ORT_REFERENCE_EP_FAULT": fault}
    ).values()

    assert cell.outcome in ("failed", "crashed")
    assert cell.reason in reasons
    assert says in cell.detail


def test_a_refused_registration_is_a_refusal_in_every_kind_of_host(lab: Lab, newest: Core) -> None:
    names = ["copy/cpu-io", "python/cpu-arrays", "lifecycle/ep-name"]
    seen = lab.run(
        [newest], names=names, environment={"ORT_REFERENCE_EP_FAULT": "register-refused"}
    )

    assert {(one.outcome, one.reason) for one in seen.values()} == {
        ("failed", "registration-refused")
    }
    assert all("does not want to be registered" in one.detail for one in seen.values())
