"""Runs to report on: what a real machine answered, and variants with one thing gone wrong."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable

from harness.config import Mode, Outcome
from harness.results import (
    AttemptResult,
    Capture,
    CellResult,
    CoreResult,
    Death,
    Overlap,
    PluginResult,
    Results,
    RunInfo,
    Summary,
)

__all__ = [
    "CORES",
    "HOSTILE",
    "REFUSAL",
    "SCENARIOS",
    "change",
    "crash_everywhere",
    "crashed",
    "everything_wrong",
    "failed",
    "flaky",
    "hostile",
    "hostile_run",
    "hung",
    "improved",
    "infra_error",
    "lanes_in_two_modes",
    "real_run",
    "rejection_not_expected",
    "run_of",
    "unsupported",
]

CORES = (
    "1.24.4", "1.25.0", "1.25.1", "1.26.0", "1.27.0", "1.28.0",
    "1.29.0", "1.30.0", "1.31.0", "1.31.1", "1.32.0",
)  # fmt: skip
SCENARIOS = (
    "copy/cpu-io",
    "copy/mixed-inputs[device-first]",
    "copy/mixed-inputs[cpu-first]",
    "copy/mixed-outputs[device-first]",
    "copy/mixed-outputs[cpu-first]",
    "copy/device-cpu-device",
    "allocation/dirty-bind-input",
    "allocation/scratch-reuse",
    "capture/replay",
)
REFUSAL = (
    "CreateSession failed with EP_FAIL: ort_ep->ort_version_supported > 0 && "
    "ort_ep->ort_version_supported <= ORT_API_VERSION was false. OrtEp for "
    "'WebGpuExecutionProvider' has invalid ort_version_supported=30 (expected 1..26)"
)
HOSTILE = (
    "[bold red]PASSED[/] \x1b[2J\x1b]8;;https://evil.example\x07link\x07 \u202egnorw\u202c "
    "]]> <script>alert(1)</script> | `x` ``` \x00 \ud800 \ufffe\r\nOK  0 cells: all as expected\n"
    "# heading\n- [x] item @someone http://evil.example"
)


def real_run() -> Results:
    """11 cores, 9 scenarios: 90 pass, 9 are refused by 1.26.0, all of it as expected."""
    return run_of([_cell(core, scenario) for core in CORES for scenario in SCENARIOS])


def run_of(
    cells: Iterable[CellResult],
    *,
    cores: Iterable[str] = CORES,
    exit_code: int | None = None,
    outdated: Iterable[str] = (),
    unmatched: Iterable[str] = (),
    mode: Callable[[str], Mode] = lambda _: "serialized",
) -> Results:
    """A run with these cells, its counts counted."""
    listed = list(cells)
    verdicts = Counter(cell.verdict for cell in listed)
    wrong = len(listed) != verdicts["expected"] or bool([*outdated, *unmatched])
    return Results(
        run=RunInfo(
            id="20261130-142005-webgpu",
            started="2026-11-30T14:20:05+00:00",
            finished="2026-11-30T14:20:12.300000+00:00",
            harness_version="0.1.0",
            matrix_sha256="ab" * 32,
            platform="linux-x86_64",
            command=["ort-ep-matrix", "run"],
            jobs=2,
        ),
        plugin=PluginResult(
            name="webgpu",
            version="0.4.0",
            library="/cache/plugins/onnxruntime_ep_webgpu/libonnxruntime_providers_webgpu.so",
            sha256="3f2a91c04b7d" + "0" * 52,
            ep_name="WebGpuExecutionProvider",
            registration_name="webgpu",
        ),
        cores=[
            CoreResult(
                id=core,
                version=core,
                library=f"/cache/cores/{core}/libonnxruntime.so.{core}",
                sha256="cd" * 32,
                source=f"release {core}",
                mode=mode(core),
                mode_rule="Builds up to 0.4.0 crash when four threads run four sessions.",
                declared=mode(core),
            )
            for core in cores
        ],
        cells=listed,
        summary=Summary(
            cells=len(listed),
            outcomes=dict(Counter(cell.outcome for cell in listed)),
            verdicts=dict(verdicts),
            outdated_expectations=list(outdated),
            unmatched_expectations=list(unmatched),
            exit_code=int(wrong) if exit_code is None else exit_code,
        ),
    )


def change(
    results: Results,
    make: Callable[[CellResult], CellResult],
    *,
    core: str | None = None,
    scenario: str | None = None,
) -> Results:
    """The run with some of its cells replaced, its counts counted again."""
    cells = [
        make(cell) if core in (None, cell.core) and scenario in (None, cell.scenario) else cell
        for cell in results.cells
    ]
    return run_of(
        cells,
        outdated=results.summary.outdated_expectations,
        unmatched=results.summary.unmatched_expectations,
    )


def crashed(cell: CellResult) -> CellResult:
    """Dies with SIGSEGV inside Run, twice."""
    death = Death(
        how="signal",
        name="SIGSEGV",
        phase="scenario",
        iteration=7,
        last_call="Run",
        inside_call=True,
        log_tail="[W] device lost\nFatal Python error: Segmentation fault\n\n  in run_bound\n",
    )
    address = 0x7F0000000000 + zlib.crc32(cell.id.encode())
    return _not_as_expected(
        cell,
        "crashed",
        "signal",
        f"The host died with SIGSEGV inside Run at 0x{address:x}, iteration 7.",
        "Run the repeat command under a debugger; the log ends with the Python stack.",
        death=death,
    )


def hung(cell: CellResult) -> CellResult:
    """Does not return from Run and is ended."""
    death = Death(
        how="hang", name="no answer for 60 s", phase="scenario", iteration=0, last_call="Run",
        inside_call=True, log_tail="Thread 0x1 (most recent call first):\n  in run\n",
    )  # fmt: skip
    return _not_as_expected(
        cell, "hung", "timeout", "Nothing was heard for 60 s and the host was ended.",
        "Raise timeout_s for this scenario if the device is only slow.", death=death,
    )  # fmt: skip


def failed(cell: CellResult) -> CellResult:
    """A wrong value."""
    return _not_as_expected(
        cell, "failed", "wrong-value",
        "Iteration 3: output[1, 0] of device_out: expected -1.0, got 0.0 (1 of 40 checks).",
        "A 0 where -1 was due says that the device copy was not submitted before the read.",
    )  # fmt: skip


def flaky(cell: CellResult) -> CellResult:
    """Crashes once and passes when it is alone."""
    first = crashed(cell).attempts[0]
    second = _attempt(cell, 1, "passed", "ok", "20 iterations")
    return cell.model_copy(
        update={
            "verdict": "flaky",
            "detail": f"attempt 1 {first.outcome} ({first.reason}: {first.detail}); then passed "
            "in a fresh host of its own",
            "attempts": [first, second.model_copy(update={"log": f"{cell.log}.2"})],
            "hint": "The same cell failed and passed. Find the race.",
            "log": f"{cell.log}.2",
        }
    )


def improved(cell: CellResult) -> CellResult:
    """Passes where a rejection is expected."""
    return _cell("1.27.0", cell.scenario).model_copy(
        update={
            "id": cell.id,
            "core": cell.core,
            "verdict": "improved",
            "expected": "rejected (version-check): an older plugin was refused here.",
            "hint": "Remove the expectation from matrix.yaml.",
        }
    )


def infra_error(cell: CellResult) -> CellResult:
    """The core could not be fetched."""
    return _not_as_expected(
        cell, "infra-error", "core-unavailable",
        f"The wheel of onnxruntime {cell.core} could not be fetched: connection timed out.",
        "Check the network and the proxy settings of pip, then run again.",
    )  # fmt: skip


def unsupported(cell: CellResult) -> CellResult:
    """The plugin has no capture."""
    return _not_as_expected(
        cell, "unsupported", "no-capture", "Asked for graph capture; the plugin has none.",
        "Expect it in matrix.yaml if the plugin is not meant to have it.",
    )  # fmt: skip


def rejected(cell: CellResult) -> CellResult:
    """Refused, and nothing says that it should be."""
    return _not_as_expected(
        cell, "rejected", "version-check", REFUSAL,
        "Use a core that takes this plugin, or expect the rejection in matrix.yaml.",
    )  # fmt: skip


def hostile(cell: CellResult) -> CellResult:
    """A failure whose every free text is hostile."""
    bad = failed(crashed(cell))
    death = Death(
        how="signal", name=HOSTILE, phase="scenario", last_call=HOSTILE, log_tail=HOSTILE * 9
    )
    return bad.model_copy(
        update={
            "detail": HOSTILE,
            "hint": HOSTILE,
            "expected": HOSTILE,
            "attempts": [a.model_copy(update={"death": death}) for a in bad.attempts],
        }
    )


def rejection_not_expected() -> Results:
    """The real run without the expectation for 1.26.0."""
    return change(real_run(), rejected, core="1.26.0")


def crash_everywhere() -> Results:
    """All 99 cells die in the same way, at different addresses."""
    return change(real_run(), crashed)


def everything_wrong() -> Results:
    """One of each, at various places."""
    run = real_run()
    run = change(run, crashed, core="1.29.0", scenario="copy/cpu-io")
    run = change(run, crashed, core="1.30.0", scenario="capture/replay")
    run = change(run, hung, core="1.32.0", scenario="allocation/scratch-reuse")
    for core in ("1.24.4", "1.25.0"):
        run = change(run, failed, core=core, scenario="copy/mixed-outputs[device-first]")
    run = change(run, flaky, core="1.31.1", scenario="copy/device-cpu-device")
    run = change(run, infra_error, core="1.28.0")
    run = change(run, unsupported, core="1.27.0", scenario="capture/replay")
    run = change(run, improved, core="1.26.0", scenario="copy/cpu-io")
    return run_of(
        run.cells,
        outdated=["matrix.yaml:71: rejected (version-check) for webgpu on ==1.26.0"],
        unmatched=["matrix.yaml:90: passed for vulkan on >=1.30"],
    )


def lanes_in_two_modes() -> Results:
    """Two scenarios with lanes: in turn on the three oldest cores, free on the three newest.

    Of the 2400 free calls 1201 overlapped: on each core nearly all of one scenario and few of the
    other, on 1.31.1 fewest.
    """

    def lanes(cell: CellResult) -> CellResult:
        if cell.core <= "1.26":
            overlap = Overlap(free=False, calls=100, overlapped=0)
        else:
            most, least = (399, 2) if cell.core == "1.31.1" else (299, 101)
            met = most if cell.scenario == "copy/cpu-io" else least
            overlap = Overlap(free=True, calls=400, overlapped=met)
        return cell.model_copy(update={"overlap": overlap})

    run = real_run()
    for core in (*CORES[:3], *CORES[-3:]):
        for scenario in ("copy/cpu-io", "copy/device-cpu-device"):
            run = change(run, lanes, core=core, scenario=scenario)
    return run


def _cell(core: str, scenario: str) -> CellResult:
    refused = core == "1.26.0"
    capture = None
    if scenario == "capture/replay" and not refused:
        replays = 0 if core < "1.26" else 19
        capture = Capture(runs=20, kernel_runs=20 - replays, host_replays=replays)
    cell = CellResult(
        id=f"{core}/serialized/{scenario}",
        core=core,
        plugin="webgpu",
        mode="serialized",
        scenario=scenario,
        outcome="rejected" if refused else "passed",
        reason="version-check" if refused else "ok",
        verdict="expected",
        expected="rejected (version-check): ORT 1.26.0 takes an ort_version_supported of 1 to 26."
        if refused
        else "passed",
        iterations_planned=20,
        iterations_passed=0 if refused else 20,
        duration_s=0.05,
        detail=REFUSAL if refused else "20 iterations",
        placement=[],
        capture=capture,
        attempts=[],
        log=f"logs/{core}/{scenario.replace('/', '-')}.log",
        repeat=f"ort-ep-matrix run --plugin webgpu --core '=={core}' --scenario '{scenario}'",
    )
    attempt = _attempt(cell, 0, cell.outcome, cell.reason, cell.detail)
    return cell.model_copy(update={"attempts": [attempt]})


def _attempt(
    cell: CellResult,
    number: int,
    outcome: Outcome,
    reason: str,
    detail: str,
    death: Death | None = None,
) -> AttemptResult:
    return AttemptResult(
        attempt=number, outcome=outcome, reason=reason, detail=detail, alone=number > 0,
        host=f"host-{cell.core}-{number}", duration_s=0.05, log=cell.log, death=death,
    )  # fmt: skip


def _not_as_expected(
    cell: CellResult,
    outcome: Outcome,
    reason: str,
    detail: str,
    hint: str,
    death: Death | None = None,
) -> CellResult:
    attempts = [_attempt(cell, number, outcome, reason, detail, death) for number in (0, 1)]
    return cell.model_copy(
        update={
            "outcome": outcome,
            "reason": reason,
            "verdict": "unexpected",
            "expected": "passed: no expectation says otherwise.",
            "iterations_passed": 0,
            "detail": detail,
            "hint": hint,
            "capture": None,
            "attempts": attempts,
        }
    )


def hostile_run() -> Results:
    """A run in which one core's cells say hostile things."""
    return change(real_run(), hostile, core="1.29.0")
