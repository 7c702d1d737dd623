"""What a host records of a scenario; no native call is made here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from harness.host.blackbox import BlackBox, read_blackbox
from harness.host.host import (
    FLOAT32,
    Host,
    Options,
    Promises,
    Session,
    Tensor,
    UnsupportedError,
    kernel_runs,
)
from harness.host.lanes import Lanes
from harness.host.record import run_scenario
from harness.native.api import MissingApiLevelError, NativeCallError
from harness.native.environments import EpDevice
from harness.native.handles import Handle, Scope
from harness.results import ScenarioReport


class NoApi:
    """Stands where an `Api` would, and is never called."""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    nothing = Handle("nothing", None, lambda pointer: None)
    device = EpDevice(None, "ThePluginEp", "", "gpu", "", {}, None)
    box = BlackBox(tmp_path / "box")
    return Host(
        api=NoApi(),  # type: ignore[arg-type] # no native call is made
        env=nothing,
        device=device,
        devices=[device],
        mode="serialized",
        iteration_count=3,
        options=Options(),
        promises=Promises(),
        models=tmp_path,
        scratch=tmp_path,
        scope=Scope(),
        cpu=nothing,
        box=box,
        lanes=Lanes(box, serialized=True),
    )


def floats(*values: float, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=dtype)


NAN = float("nan")


def refuse(message: str) -> None:
    raise NativeCallError("CreateEnv", "FAIL", message)


@pytest.mark.parametrize(
    ("message", "refused", "tolerated"), [("no", 0, 0), ("", 1, 1), (None, 1, 0)]
)
def test_a_mistake_is_answered_by_a_message_or_may_be_let_pass(
    host: Host, message: str | None, refused: int, tolerated: int
) -> None:
    def mistake() -> None:
        if message is not None:
            refuse(message)

    for record, failures in ((host.refused, refused), (host.tolerated, tolerated)):
        checks, before = host.record.checks, host.record.failure_count
        error = record("a mistake", mistake)

        assert (error and error.message) == message
        assert host.record.checks == checks + 1
        assert host.record.failure_count == before + failures


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        (floats(1, 2), floats(1, 2), True),
        (floats(1, 2), floats(1, 3), False),
        (floats(1), floats(np.nextafter(np.float32(1), np.float32(2))), False),
        (floats(1, 2), floats(1, 2, dtype=np.float64), False),
        (floats(1, 2), np.array([1, 2], np.int32), False),
        (floats(1, 2), floats(1, 2).reshape(2, 1), False),
        (floats(1, 2), floats(1, 2).reshape(1, 2), False),
        (floats(1, 1), floats(1), False),
        (floats(), floats(), True),
        (floats(), floats(0), False),
        (floats(0.0), floats(-0.0), False),
        (floats(-0.0), floats(-0.0), True),
        (floats(NAN, 1), floats(NAN, 1), True),
        (floats(NAN), floats(-NAN), True),
        (floats(NAN), floats(1), False),
        (floats(1), floats(NAN), False),
        (floats(np.inf), floats(np.inf), True),
        (floats(np.inf), floats(-np.inf), False),
        (floats(1, dtype=np.float16), floats(1, dtype=np.float16), True),
        (floats(0.0, dtype=np.float64), floats(-0.0, dtype=np.float64), False),
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([1, 2]), np.array([2, 1]), False),
        (np.array([True]), np.array([True]), True),
        (np.array([True]), np.array([False]), False),
        (np.array(1, np.uint8), np.array(1, np.uint8), True),
        (np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2).T, False),
        (np.asfortranarray(np.ones((2, 3))), np.ones((2, 3)), True),
    ],
)
def test_a_check_holds_for_the_same_type_shape_and_values_alone(
    host: Host, expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any], same: bool
) -> None:
    host.check("y", expected, got)

    assert host.record.checks == 1
    assert host.record.failure_count == (0 if same else 1)


def test_a_check_that_does_not_hold_tells_both_values(host: Host) -> None:
    for _ in host.iterations():
        host.check("y", floats(-0.0, NAN), floats(0.0, 1.5).reshape(2, 1))

    assert host.record.failure_count == 3
    assert host.record.failures[0] == {
        "iteration": 0,
        "what": "y",
        "expected": "float32[2] [-0.0, nan]",
        "got": "float32[2, 1] [[0.0], [1.5]]",
    }


def test_only_the_first_failures_and_values_are_kept(host: Host) -> None:
    for _ in range(100):
        host.check("y", np.zeros(10_000), np.ones(10_000))

    assert host.record.failure_count == 100
    assert len(host.record.failures) == 5
    assert host.record.failures[0]["got"].endswith("(10000 elements)")
    assert len(host.record.failures[0]["got"]) < 200


def test_an_iteration_passes_if_it_checked_something_and_all_of_it_held(host: Host) -> None:
    good, bad = floats(1), floats(2)
    seen = []
    for i in host.iterations():
        seen.append(i)
        if i == 0:
            host.check("a", good, good)
            host.check("b", good, good)
        if i == 1:
            host.check("a", good, good)
            host.check("b", good, bad)

    assert seen == [0, 1, 2]
    assert host.record.iterations_passed == 1
    assert host.record.checks == 4


def test_an_iteration_that_is_left_early_did_not_pass(host: Host) -> None:
    for i in host.iterations():
        host.check("a", floats(1), floats(1))
        if i == 1:
            break

    assert host.record.iterations_passed == 1


def test_a_check_outside_the_iterations_passes_none_of_them(host: Host) -> None:
    host.check("a", floats(1), floats(1))
    for _ in host.iterations():
        pass
    host.check("a", floats(1), floats(2))

    assert host.record.iterations_passed == 0
    assert host.record.failures[0]["iteration"] is None


def test_a_seed_decides_the_order_of_the_iterations(host: Host) -> None:
    def order(seed: str | None) -> list[int]:
        return list(replace(host, iteration_count=20, shuffle=seed).iterations())

    assert order(None) == list(range(20))
    assert order("7/copy/cpu-io") == order("7/copy/cpu-io") != order("7/copy/cpu-io#2")
    assert sorted(order("7/copy/cpu-io")) == list(range(20)) != order("7/copy/cpu-io")


def test_the_black_box_knows_the_iteration(host: Host, tmp_path: Path) -> None:
    seen = [read_blackbox(tmp_path / "box").iteration for _ in host.iterations()]

    assert seen == [0, 1, 2]
    assert read_blackbox(tmp_path / "box").iteration is None


def reported(host: Host, function: Any) -> ScenarioReport:
    """What a host sends, as the engine validates it."""
    return ScenarioReport(scenario="a/b", duration_s=0.0, **run_scenario(host, function))


def test_a_scenario_that_ends_well_is_reported_with_what_it_counted(host: Host) -> None:
    def function(host: Host) -> None:
        for _ in host.iterations():
            host.check("y", floats(1), floats(1))
        host.counted_capture(runs=3, kernel_runs=1, host_replays=2)

    report = reported(host, function)

    assert (report.iterations_planned, report.iterations_passed, report.checks) == (3, 3, 3)
    assert report.error is None
    assert report.unsupported is None
    assert report.capture is not None
    assert report.capture.host_replays == 2


@pytest.mark.parametrize(
    ("raised", "kind", "function", "code"),
    [
        (NativeCallError("Run", "EP_FAIL", "m"), "native", "Run", "EP_FAIL"),
        (KeyError("m"), "python", "KeyError", ""),
        (AssertionError("m"), "python", "AssertionError", ""),
        (MemoryError("m"), "python", "MemoryError", ""),
    ],
)
def test_what_a_scenario_raises_is_reported_with_its_iteration(
    host: Host,
    raised: Exception,
    kind: str,
    function: str,
    code: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fails(host: Host) -> None:
        for i in host.iterations():
            host.check("y", floats(1), floats(1))
            if i == 1:
                raise raised

    report = reported(host, fails)

    assert report.error is not None
    assert (report.error.kind, report.error.function, report.error.code) == (kind, function, code)
    assert "m" in report.error.message
    assert report.error.iteration == 1
    assert report.iterations_passed == 1
    # The stack of a mistake in the scenario is in the log; a native error needs none.
    assert ("in fails" in capfd.readouterr().err) == (kind == "python")


@pytest.mark.parametrize(
    ("raised", "asked", "answered"),
    [
        (UnsupportedError("capture", "none"), "capture", "none"),
        (
            MissingApiLevelError("F", 27, "1.24.4"),
            "F, of ORT API level 27",
            "core 1.24.4 does not offer that level",
        ),
    ],
)
def test_a_lack_is_reported_as_such(
    host: Host, raised: Exception, asked: str, answered: str
) -> None:
    def lacks(_host: Host) -> None:
        raise raised

    report = reported(host, lacks)

    assert report.error is None
    assert report.unsupported is not None
    assert (report.unsupported.asked, report.unsupported.answered) == (asked, answered)


def test_a_plugin_that_cannot_be_asked_for_something_lacks_it(host: Host) -> None:
    from scenarios.models import NEGATE

    with pytest.raises(UnsupportedError, match="graph capture"):
        host.session(NEGATE, capture=True)
    with pytest.raises(UnsupportedError, match="forces nodes to the CPU"):
        host.session(NEGATE, cpu_nodes=["negate"])
    session = Session(host.api, host.scope, host.env, [host.device], {}, profiled=False)
    with pytest.raises(UnsupportedError, match="device memory"):
        host.device_allocator(session)


def test_what_is_not_promised_is_lacking(host: Host) -> None:
    promising = replace(host, promises=Promises(zeroed_memory=True, alignment=64))

    assert promising.promised("zeroed_memory") == 1
    assert promising.promised("alignment") == 64
    with pytest.raises(UnsupportedError, match=r"byte addresses: .* promises\.byte_addresses"):
        promising.promised("byte_addresses")
    for what in ("zeroed_memory", "alignment", "byte_addresses"):
        with pytest.raises(UnsupportedError, match=what):
            host.promised(what)


def test_a_part_of_a_buffer_needs_addresses_that_can_be_reckoned_with(host: Host) -> None:
    tensor = Tensor(host.env, (4,), FLOAT32)

    with pytest.raises(UnsupportedError, match="byte_addresses"):
        host.part(tensor, 0, (2,))


def test_memory_in_use_is_that_of_now(host: Host) -> None:
    before = host.resident_bytes()
    taken = np.ones(64 << 20, dtype=np.uint8)
    during = host.resident_bytes()
    del taken

    assert during - before > 60 << 20
    assert host.resident_bytes() < during - (60 << 20)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such descriptors")
def test_open_descriptors_are_those_of_now(host: Host) -> None:
    before = host.open_descriptors()
    ends = os.pipe()
    during = host.open_descriptors()
    for end in ends:
        os.close(end)

    assert (before, during, host.open_descriptors()) == (during - 2, before + 2, before)


def test_a_system_without_descriptors_is_named(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil.Process, "num_fds", raising=False)
    monkeypatch.setattr("platform.system", lambda: "Windows")

    with pytest.raises(UnsupportedError, match="open descriptors: Windows has none") as caught:
        host.open_descriptors()
    # No plugin can have what its system lacks.
    assert caught.value.of_core


def test_kernel_runs_are_the_kernel_events_of_the_node() -> None:
    events = [
        {"cat": "Node", "name": "negate_kernel_time"},
        {"cat": "Node", "name": "negate_kernel_time"},
        {"cat": "Node", "name": "negate_fence_before"},
        {"cat": "Node", "name": "negate2_kernel_time"},
        {"cat": "Session", "name": "negate_kernel_time"},
        {"name": "negate_kernel_time"},
    ]

    assert kernel_runs(events, "negate") == 2
    assert kernel_runs([], "negate") == 0


def test_a_refusal_is_the_scenarios_to_judge_and_nothing_is_recorded(host: Host) -> None:
    error = NativeCallError("CreateSessionFromArray", "FAIL", "no such thing")

    def raises() -> None:
        raise error

    assert host.refusal(raises) is error
    assert host.refusal(lambda: "taken") is None
    assert (host.record.checks, host.record.failures) == (0, [])


def test_what_is_lacking_is_no_refusal(host: Host) -> None:
    def lacks() -> None:
        raise UnsupportedError("asked", "answered")

    with pytest.raises(UnsupportedError):
        host.refusal(lacks)


def test_a_mistake_must_be_refused_with_a_message(host: Host) -> None:
    def raises(message: str) -> Callable[[], None]:
        def action() -> None:
            raise NativeCallError("CopyTensors", "FAIL", message)

        return action

    assert host.refused("a mistake", raises("it does not fit")) is not None
    assert host.record.failure_count == 0
    host.refused("a mistake", raises(""))
    assert host.refused("a mistake", lambda: None) is None
    assert [failure["what"] for failure in host.record.failures] == [
        "a mistake is refused with a message",
        "a mistake is refused",
    ]
