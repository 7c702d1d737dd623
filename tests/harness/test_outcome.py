from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import outcome as outcome_module
from harness.config import Rejection
from harness.outcome import (
    REASONS,
    AskedFor,
    Finding,
    classify,
    died_with_a_device,
    is_failure,
    needs_repeat,
    shows_a_device,
)
from harness.results import (
    Capture,
    CheckFailure,
    HostIdentity,
    MappedFile,
    NativeError,
    Observation,
    Overlap,
    Placement,
    Unsupported,
)
from tests.harness.samples import (
    PLUGIN_SHA256,
    death,
    identity,
    native_error,
    observation,
    report,
)

REJECTIONS = [
    Rejection(
        reason="version-check",
        function="CreateSession.*|RegisterExecutionProviderLibrary",
        message=r"invalid ort_version_supported\s*=?\s*\d+",
        why="The core names what it takes.",
    )
]
ASKED = AskedFor("1.30.0", PLUGIN_SHA256, ["no adapter", r"device \d+ lost"])
REFUSAL = "OrtEp has invalid ort_version_supported=30 (expected 1..26)"


def found(**changes: Any) -> Finding:
    return classify(observation(**changes), ASKED, REJECTIONS)


def ends(**changes: Any) -> tuple[str, str]:
    finding = found(**changes)
    return finding.outcome, finding.reason


def reported(**changes: Any) -> tuple[str, str]:
    return ends(report=report(**changes))


def wrong(iteration: int | None = 3) -> dict[str, Any]:
    failure = CheckFailure(iteration=iteration, what="y", expected="-1", got="0")
    return {"check_failures": [failure], "check_failure_count": 2, "iterations_passed": 18}


def test_a_whole_checked_and_rightly_placed_scenario_passes() -> None:
    assert ends() == ("passed", "ok")
    assert not needs_repeat(found())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (wrong(), "wrong-result"),
        ({"error": native_error()}, "native-error"),
        ({"placement": [Placement(node="n", expected="A", got="B")]}, "placement"),
        ({"placement": [Placement(node="n", expected="A", got=None)]}, "placement"),
        ({"checks": 0}, "no-checks"),
        ({"placement": []}, "no-checks"),
        ({"iterations_passed": 19}, "incomplete"),
        ({"iterations_planned": 0, "iterations_passed": 0}, "incomplete"),
        ({"leaked": ["session: Release failed"]}, "release-error"),
        ({"state_changes": ["file mode mask: 022 became 077"]}, "process-state"),
    ],
)
def test_a_report_that_is_not_whole_is_a_failure(changes: dict[str, Any], reason: str) -> None:
    assert reported(**changes) == ("failed", reason)
    assert needs_repeat(found(report=report(**changes)))


@pytest.mark.parametrize(
    ("overlap", "ends_as"),
    [
        (None, ("passed", "ok")),
        (Overlap(free=True, calls=80, overlapped=1), ("passed", "ok")),
        (Overlap(free=True, calls=80, overlapped=80), ("passed", "ok")),
        (Overlap(free=True, calls=80, overlapped=0), ("not-run", "no-overlap")),
        (Overlap(free=True, calls=0, overlapped=0), ("not-run", "no-overlap")),
        (Overlap(free=False, calls=80, overlapped=0), ("passed", "ok")),
        (Overlap(free=False, calls=80, overlapped=1), ("infra-error", "harness-error")),
    ],
)
def test_lanes_that_are_free_must_overlap_and_others_must_not(
    overlap: Overlap | None, ends_as: tuple[str, str]
) -> None:
    assert reported(overlap=overlap) == ends_as


def test_lanes_that_never_overlapped_say_so_and_what_to_do() -> None:
    finding = found(report=report(overlap=Overlap(free=True, calls=80, overlapped=0)))

    assert "80 native calls, and none while another was inside one" in finding.detail
    assert "Run it again" in finding.hint
    # They may meet in a second try.
    assert needs_repeat(finding)
    assert not is_failure(finding)


@pytest.mark.parametrize(
    ("changes", "ends_as"),
    [
        (wrong(), ("failed", "wrong-result")),
        ({"error": native_error()}, ("failed", "native-error")),
        ({"leaked": ["session: it failed"]}, ("failed", "release-error")),
        ({"iterations_passed": 19}, ("failed", "incomplete")),
    ],
)
def test_a_failure_stays_one_whether_or_not_lanes_overlapped(
    changes: dict[str, Any], ends_as: tuple[str, str]
) -> None:
    for overlap in (
        Overlap(free=True, calls=80, overlapped=0),
        Overlap(free=False, calls=80, overlapped=3),
    ):
        assert reported(overlap=overlap, **changes) == ends_as


def test_a_wrong_result_tells_the_first_of_the_checks_that_did_not_hold() -> None:
    assert found(report=report(**wrong())).detail == (
        "2 of 20 checks did not hold; first in iteration 3: y was 0, where -1 was due"
    )
    assert "first outside: y" in found(report=report(**wrong(None))).detail
    assert "2 of 20" in found(report=report(**{**wrong(), "check_failures": []})).detail


def test_a_claim_that_is_not_so_is_told_with_what_was_seen_instead() -> None:
    claim = CheckFailure(iteration=3, what="x is y", expected="", got="x is z")
    failed = found(report=report(check_failures=[claim], check_failure_count=1))

    assert failed.detail == (
        "1 of 20 checks did not hold; first in iteration 3: it is not so that x is y: x is z"
    )
    assert failed.hint == (
        "The first check that did not hold says what should be true and what was seen instead."
    )
    assert found(report=report(**wrong())).hint.startswith("Zeros mean that work was fetched")


@pytest.mark.parametrize(
    "later",
    [
        {"error": native_error(kind="python", function="KeyError", code="")},
        {"error": native_error(function="CreateSession", message=REFUSAL)},
        {"error": native_error(message="no adapter")},
        {"unsupported": Unsupported(asked="a", answered="b")},
        {"placement": []},
        {"leaked": ["session: no"]},
        {"state_changes": ["locale: C became de_DE"]},
    ],
)
def test_nothing_that_comes_later_hides_a_wrong_result(later: dict[str, Any]) -> None:
    assert reported(**{**wrong(), **later}) == ("failed", "wrong-result")


def test_an_error_after_a_wrong_result_is_told_with_it() -> None:
    assert found(report=report(**wrong(), error=native_error())).detail == (
        "2 of 20 checks did not hold; first in iteration 3: y was 0, where -1 was due; then Run "
        "failed: it went wrong"
    )


def test_a_native_error_tells_function_code_and_iteration() -> None:
    error = native_error(iteration=4)

    assert found(report=report(error=error)).detail == (
        "Run returned FAIL in iteration 4: it went wrong"
    )


def test_a_python_error_is_the_scenarios_own_fault() -> None:
    error = native_error(kind="python", function="KeyError", code="", message="'x'")

    assert reported(error=error) == ("infra-error", "scenario-error")


def test_a_python_error_cannot_be_a_rejection_or_a_machine_without_a_device() -> None:
    for message in (REFUSAL, "no adapter"):
        error = native_error(kind="python", function="CreateSession", code="", message=message)
        assert reported(error=error) == ("infra-error", "scenario-error")


@pytest.mark.parametrize("function", ["CreateSession", "CreateSessionFromArray"])
def test_a_known_refusal_is_a_rejection_with_its_why(function: str) -> None:
    finding = found(report=report(error=native_error(function=function, message=REFUSAL)))

    assert (finding.outcome, finding.reason) == ("rejected", "version-check")
    assert finding.hint == "The core names what it takes."
    assert not needs_repeat(finding)


@pytest.mark.parametrize(
    ("function", "message"),
    [("Run", REFUSAL), ("XCreateSession", REFUSAL), ("CreateSession", "another refusal")],
)
def test_a_rejection_needs_the_whole_function_name_and_the_message(
    function: str, message: str
) -> None:
    assert reported(error=native_error(function=function, message=message)) == (
        "failed",
        "native-error",
    )


def test_a_registration_can_be_rejected() -> None:
    error = native_error(function="RegisterExecutionProviderLibrary", message=REFUSAL)

    assert ends(report=None, setup_error=error) == ("rejected", "version-check")


def test_a_lack_is_unsupported_with_question_and_answer() -> None:
    finding = found(report=report(unsupported=Unsupported(asked="capture", answered="none")))

    assert (finding.outcome, finding.reason) == ("unsupported", "unsupported")
    assert finding.detail == "asked for capture; none"


@pytest.mark.parametrize("message", ["there is no adapter here", "device 7 lost"])
def test_a_machine_without_a_device_is_known_by_what_the_plugin_says(message: str) -> None:
    assert reported(error=native_error(message=message)) == ("infra-error", "no-ep-device")
    assert ends(report=None, setup_error=native_error(message=message)) == (
        "infra-error",
        "no-ep-device",
    )


def test_a_plugin_that_offers_no_device_is_not_a_failure_by_itself() -> None:
    changes = {"report": None, "no_device": True}
    assert ends(**changes, identity=identity(mapped=[])) == ("infra-error", "no-ep-device")


@pytest.mark.parametrize(
    ("message", "reason", "hint"),
    [
        (
            "dlopen failed: libfoo.so.3: cannot open shared object file: No such file",
            "missing-dependency",
            "libfoo.so.3",
        ),
        ("Failed to load library, error code: 126", "load-failed", ""),
        ("dlopen: undefined symbol: f", "load-failed", ""),
        ("CreateEpFactories was not found", "registration-refused", ""),
    ],
)
def test_a_failed_registration_says_why(message: str, reason: str, hint: str) -> None:
    finding = found(report=None, setup_error=native_error(message=message))

    assert (finding.outcome, finding.reason) == ("failed", reason)
    assert message in finding.detail
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"core_version": "1.31.0"}, "wrong-core"),
        ({"core_version": ""}, "wrong-core"),
        ({"core_version": "garbage"}, "wrong-core"),
        ({"core_version": None}, "wrong-core"),
        ({"mapped": []}, "wrong-core"),
        ({"mapped": [MappedFile(path="/p", role="plugin")]}, "wrong-core"),
        ({"mapped": [MappedFile(path="/c", role="core")]}, "wrong-plugin"),
        ({"plugin_sha256_before": "cd" * 32}, "plugin-changed"),
        ({"plugin_sha256_after": "cd" * 32}, "plugin-changed"),
        ({"plugin_sha256_before": None}, "plugin-changed"),
        ({"plugin_sha256_after": None}, "plugin-changed"),
    ],
)
def test_right_results_of_something_else_are_a_failure(seen: dict[str, Any], reason: str) -> None:
    assert ends(identity=identity(**seen)) == ("failed", reason)


def test_a_second_core_in_the_process_is_a_failure() -> None:
    mapped = [*identity().mapped, MappedFile(path="/x/libonnxruntime.so.1", role="other-core")]
    finding = found(identity=identity(mapped=mapped))

    assert (finding.outcome, finding.reason, finding.shared) == ("failed", "second-core", True)
    assert "/x/libonnxruntime.so.1" in finding.detail


@pytest.mark.parametrize(
    "said", ["1.30.0", "1.30", "1.30.0.dev20260101", "1.30.0+cuda", "1.30.0rc1"]
)
def test_the_cores_own_version_is_compared_by_release(said: str) -> None:
    assert ends(identity=identity(core_version=said)) == ("passed", "ok")


def test_what_is_wrong_at_the_end_of_the_host_is_a_failure_of_its_cells() -> None:
    teardown = found(teardown_errors=["environment: no"])
    left = found(left_behind=["sleep (12)"])

    assert (teardown.outcome, teardown.reason, teardown.shared) == (
        "failed",
        "teardown-error",
        True,
    )
    assert (left.outcome, left.reason, left.shared) == ("failed", "left-behind", True)
    assert "sleep (12)" in left.detail


@pytest.mark.parametrize(
    ("phase", "outcome", "reason"),
    [
        ("start", "infra-error", "host-start"),
        ("load", "infra-error", "core-unusable"),
        ("register", "crashed", "SIGSEGV"),
        ("scenario", "crashed", "SIGSEGV"),
        ("release", "crashed", "SIGSEGV"),
        ("teardown", "crashed", "at-exit"),
        ("exit", "crashed", "at-exit"),
    ],
)
@pytest.mark.parametrize("with_report", [True, False])
def test_a_death_by_signal_is_told_by_its_phase(
    phase: str, outcome: str, reason: str, with_report: bool
) -> None:
    finding = found(death=death(phase), report=report() if with_report else None)

    assert (finding.outcome, finding.reason) == (outcome, reason)
    assert f"SIGSEGV in phase {phase}" in finding.detail
    assert finding.shared is (reason == "at-exit")


@pytest.mark.parametrize(
    ("dead", "outcome", "reason"),
    [
        (death(how="hang", name="no end after 60 s"), "hung", "timeout"),
        (death("register", "hang", "no end after 60 s"), "hung", "timeout"),
        (death("exit", "hang", "no end"), "hung", "at-exit"),
        (death("teardown", "hang", "no end"), "hung", "at-exit"),
        (death(how="exit", name="exit status 0"), "crashed", "exited-early"),
        (death(how="exit", name="exit status 10"), "crashed", "exit-status"),
        (death("exit", "exit", "exit status 0"), "crashed", "at-exit"),
        (death("exit", "exit", "exit status 7"), "crashed", "at-exit"),
        (death(how="channel", name="garbage"), "crashed", "channel-lost"),
        (death("exit", "channel", "garbage"), "crashed", "channel-lost"),
        (death("load", "hang", "no end"), "infra-error", "core-unusable"),
    ],
)
def test_a_death_is_told_by_how_it_came(dead: Any, outcome: str, reason: str) -> None:
    assert ends(death=dead) == (outcome, reason)


def test_a_death_tells_where_it_struck() -> None:
    inside = death(iteration=3, last_call="Run", inside_call=True)
    after = death(iteration=3, last_call="Run")

    assert found(death=inside).detail == "SIGSEGV in phase scenario, iteration 3, inside Run"
    assert found(death=after).detail == "SIGSEGV in phase scenario, iteration 3, after Run"


def test_a_death_after_a_refused_registration_tells_the_refusal_too() -> None:
    finding = found(report=None, death=death("teardown"), setup_error=native_error(code="FAIL"))

    assert "before that, Run returned FAIL: it went wrong" in finding.detail


@pytest.mark.parametrize(
    ("infra", "outcome", "reason", "detail"),
    [
        ("core-unavailable: no network", "infra-error", "core-unavailable", "no network"),
        ("core-unusable: a: b", "infra-error", "core-unusable", "a: b"),
        ("host-start: no python", "infra-error", "host-start", "no python"),
        ("interrupted: stopped", "not-run", "interrupted", "stopped"),
    ],
)
def test_what_the_harness_could_not_try_says_why(
    infra: str, outcome: str, reason: str, detail: str
) -> None:
    finding = found(infra=infra)

    assert (finding.outcome, finding.reason, finding.detail) == (outcome, reason, detail)
    assert not needs_repeat(finding)


def test_what_the_end_of_the_run_cut_off_is_completed_by_resuming() -> None:
    for finding in (found(infra="interrupted: stopped"), found(clean_end=False)):
        assert finding.outcome == "not-run"
        assert "run --resume FOLDER" in finding.hint


def test_a_host_that_ends_well_without_a_report_ended_too_early() -> None:
    assert ends(report=None) == ("crashed", "exited-early")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"unsupported": Unsupported(asked="a", answered="b")},
        {"error": native_error(function="CreateSession", message=REFUSAL)},
    ],
)
def test_what_ended_well_in_a_host_that_died_elsewhere_is_not_confirmed(
    changes: dict[str, Any],
) -> None:
    told = identity(mapped=[], plugin_sha256_after=None)

    assert ends(report=report(**changes), clean_end=False, identity=told) == (
        "not-run",
        "unconfirmed",
    )


BEFORE = "the host ended before the plugin was touched: {}"
WHAT_IS_TOLD: list[tuple[dict[str, Any], str, str]] = [
    ({}, "ok", "20 iterations"),
    ({"report": None}, "exited-early", "the host ended without a report"),
    (
        {"report": None, "no_device": True},
        "no-ep-device",
        "the plugin registered, and offered no EP device that fits on this machine",
    ),
    (
        {"identity": identity(core_version="1.31.0")},
        "wrong-core",
        "the core says version 1.31.0, where 1.30.0 was asked for",
    ),
    (
        {"identity": identity(core_version=None)},
        "wrong-core",
        "the core did not say which version it is",
    ),
    ({"identity": identity(mapped=[])}, "wrong-core", "the core that was asked for was not mapped"),
    (
        {"identity": identity(mapped=[MappedFile(path="/c", role="core")])},
        "wrong-plugin",
        "the plugin that was asked for was not mapped",
    ),
    (
        {"identity": identity(mapped=[MappedFile(path="/c", role="core")]), "clean_end": False},
        "wrong-plugin",
        "the plugin that was asked for was not mapped",
    ),
    (
        {"identity": identity(plugin_sha256_before="cd")},
        "plugin-changed",
        "the plugin's file was another one before the run: sha256 cd",
    ),
    (
        {"identity": identity(plugin_sha256_after="cd")},
        "plugin-changed",
        "the plugin's file was another one after the run: sha256 cd",
    ),
    (
        {"report": report(placement=[Placement(node="n", expected="A", got="B")] * 2)},
        "placement",
        "node n ran on B, not on A; node n ran on B, not on A",
    ),
    (
        {"report": report(placement=[Placement(node="n", expected="A", got=None)])},
        "placement",
        "node n ran on no EP that ORT names, not on A",
    ),
    ({"report": report(checks=0)}, "no-checks", "the scenario checked nothing, or no placement"),
    ({"report": report(iterations_passed=19)}, "incomplete", "19 of 20 iterations passed"),
    ({"report": report(state_changes=["a", "b"])}, "process-state", "a; b"),
    ({"report": report(leaked=["a", "b"])}, "release-error", "a; b"),
    ({"teardown_errors": ["a", "b"]}, "teardown-error", "a; b"),
    (
        {"left_behind": ["a (1)", "b (2)"]},
        "left-behind",
        "processes outlived the host: a (1), b (2)",
    ),
    (
        {"report": report(error=native_error(kind="python", function="KeyError", message="'x'"))},
        "scenario-error",
        "the scenario itself raised KeyError: 'x'",
    ),
    ({"report": report(error=native_error())}, "native-error", "Run returned FAIL: it went wrong"),
    (
        {"report": report(unsupported=Unsupported(asked="a", answered="b")), "clean_end": False},
        "unconfirmed",
        (
            "unsupported (unsupported), and then its host was ended with the run or died "
            "elsewhere: a pass counts only in a host that ends in order"
        ),
    ),
    (
        {"report": report(overlap=Overlap(free=True, calls=9, overlapped=0))},
        "no-overlap",
        (
            "the lanes made 9 native calls, and none while another was inside one: it was driven "
            "one call at a time, which proves nothing of concurrent mode"
        ),
    ),
    ({"death": death("load")}, "core-unusable", BEFORE.format("SIGSEGV in phase load")),
    (
        {"death": death("start", "exit", "exit status 3")},
        "host-start",
        BEFORE.format("exit status 3 in phase start"),
    ),
    ({"death": death("exit")}, "at-exit", "SIGSEGV in phase exit"),
    ({"death": death("exit", "hang", "no end")}, "at-exit", "no end, in phase exit"),
    ({"death": death(how="hang", name="no end")}, "timeout", "no end, in phase scenario"),
    ({"death": death(how="channel", name="closed")}, "channel-lost", "closed, in phase scenario"),
    (
        {"death": death(how="exit", name="exit status 7")},
        "exit-status",
        "exit status 7, in phase scenario",
    ),
    (
        {"death": death(how="exit", name="exit status 0", last_call="Run")},
        "exited-early",
        "the host ended with status 0 and no report, in phase scenario, after Run",
    ),
    (
        {"death": death("register", iteration=2), "setup_error": native_error()},
        "SIGSEGV",
        "SIGSEGV in phase register, iteration 2; before that, Run returned FAIL: it went wrong",
    ),
]
SHARED = {"at-exit", "left-behind", "plugin-changed", "second-core", "teardown-error"}


@pytest.mark.parametrize(("changes", "reason", "detail"), WHAT_IS_TOLD)
def test_a_finding_tells_what_was_seen(changes: dict[str, Any], reason: str, detail: str) -> None:
    finding = found(**changes)

    assert (finding.reason, finding.detail) == (reason, detail)
    assert finding.shared is (reason in SHARED)
    # The judge, who knows the plugin's entry, has the words for a lack.
    without = ("ok", "unsupported", "no-ep-device", "wrong-core", "wrong-plugin")
    assert bool(finding.hint) is (reason not in without)


def test_a_plugins_file_that_is_gone_before_it_registers_is_the_files_trouble() -> None:
    gone = identity(plugin_sha256_before=None, plugin_sha256_after=None, mapped=[])
    finding = found(report=None, setup_error=native_error(), identity=gone)

    assert (finding.outcome, finding.reason, finding.shared) == ("failed", "plugin-changed", True)
    assert "could not be read" in finding.detail
    # Without an error of the setup nothing is known of it yet.
    assert ends(report=None, no_device=True, identity=gone) == ("infra-error", "no-ep-device")


def test_a_crash_has_the_hint_of_its_signal_or_that_of_all_crashes() -> None:
    assert "somebody did" in found(death=death(name="SIGKILL")).hint
    assert "asserted" in found(death=death(name="SIGABRT")).hint
    assert "native" in found(death=death(name="SIGABRT")).hint
    assert "the Python stack" in found(death=death(name="SIGSEGV")).hint
    assert "native" in found(death=death(name="SIGSEGV")).hint
    assert "native" not in found(death=death(how="hang", name="no end")).hint
    assert found(infra="x: y").hint == ""


@pytest.mark.parametrize(
    ("report_changes", "changes"),
    [
        ({"state_changes": ["a", "b"]}, {}),
        ({"leaked": ["a", "b"]}, {}),
        ({}, {"teardown_errors": ["a", "b"]}),
        ({}, {"left_behind": ["a", "b"]}),
    ],
)
def test_harm_is_the_same_whatever_a_scenario_came_to(
    report_changes: dict[str, Any], changes: dict[str, Any]
) -> None:
    harm = found(report=report(**report_changes), **changes)
    lack = Unsupported(asked="a", answered="b")
    refused = native_error(function="CreateSession", message=REFUSAL)

    assert (harm.outcome, harm.shared) == ("failed", not report_changes)
    assert found(report=report(unsupported=lack, **report_changes), **changes) == harm
    assert found(report=report(error=refused, **report_changes), **changes) == harm
    # An error says more than what it left behind.
    error = report(error=native_error(), **report_changes)
    assert found(report=error, **changes).reason == "native-error"


def test_a_scenario_that_ran_shows_a_device_and_a_death_that_one_was_offered() -> None:
    def shows(**more: Any) -> bool:
        seen = observation(**more)
        return shows_a_device(seen, classify(seen, ASKED, REJECTIONS))

    died: dict[str, Any] = {"report": None, "death": death()}
    assert shows()
    assert shows(report=report(**wrong()))
    on_cpu = [Placement(node="n", expected="ThePluginEp", got="CPUExecutionProvider")]
    on_plugin = [Placement(node="n", expected="ThePluginEp", got="ThePluginEp")]
    # A session that became one on the CPU EP shows none.
    fails = {**wrong(), "iterations_passed": 0}
    assert not shows(report=report(**fails, placement=on_cpu))
    assert not shows(report=report(**fails, placement=[]))
    assert shows(report=report(**fails, placement=on_plugin))
    assert shows(report=report(**{**fails, "iterations_passed": 1}, placement=on_cpu))
    assert not shows(**died)
    assert died_with_a_device(observation(**died))
    assert not died_with_a_device(observation(**died, identity=identity(ep_name=None)))
    assert not died_with_a_device(observation())
    assert not shows(report=None, no_device=True)
    assert not shows(report=report(unsupported=Unsupported(asked="a", answered="b")))
    assert not shows(report=report(error=native_error(message="no adapter found")))


def test_a_kill_while_memory_had_run_out_is_the_systems() -> None:
    killed = found(death=death(name="SIGKILL", out_of_memory=True))
    assert (killed.outcome, killed.reason) == ("crashed", "SIGKILL")
    assert killed.detail == "SIGKILL in phase scenario; the system had run out of memory"
    assert "--jobs 1" in killed.hint

    # What dies of something else meanwhile dies of that.
    for name, how in [("SIGSEGV", "signal"), ("exit status 9", "exit"), ("no end", "hang")]:
        other = found(death=death(name=name, how=how, out_of_memory=True))
        assert other == found(death=death(name=name, how=how))
    early = found(death=death("load", name="SIGKILL", out_of_memory=True))
    assert (early.outcome, "out of memory" in early.detail) == ("infra-error", True)
    late = found(death=death("exit", name="SIGKILL", out_of_memory=True))
    assert (late.reason, "out of memory" in late.detail) == ("at-exit", True)
    assert found(infra="x: y\nDo this.\nThen that.").hint == "Do this.\nThen that."
    assert found(infra="x: y\nDo this.\nThen that.").detail == "y"


def test_the_least_that_passes_is_one_check_in_one_iteration() -> None:
    assert reported(checks=1, iterations_planned=1, iterations_passed=1) == ("passed", "ok")


def test_a_hang_needs_a_repeat() -> None:
    assert needs_repeat(found(death=death(how="hang", name="no end")))


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("no adapter", "no adapter"),
        ("At file.cc:7. Really no adapter here. Sorry.", "Really no adapter here. Sorry."),
        ("One. Two. no adapter ", "no adapter"),
        ("a.b no adapter", "a.b no adapter"),
        ("One. Two\nno adapter", "no adapter"),
        ("One\nTwo. no adapter", "no adapter"),
    ],
)
def test_a_known_message_is_told_from_its_own_sentence_on(message: str, told: str) -> None:
    refusal = message.replace("no adapter", REFUSAL)
    lack = found(report=report(error=native_error(message=message)))
    refused = found(report=report(error=native_error(function="CreateSession", message=refusal)))

    assert lack.detail == f"Run: {told}"
    assert refused.detail == f"CreateSession: {told.replace('no adapter', REFUSAL)}"


texts = st.text(max_size=8)
small = st.integers(-2, 21)
names = st.sampled_from(["A", "B"])
errors = st.builds(
    NativeError,
    kind=st.sampled_from(["native", "python"]),
    function=st.sampled_from(["Run", "CreateSession"]),
    code=texts,
    message=st.sampled_from(["oh", "no adapter", REFUSAL]),
    iteration=st.none() | small,
)
failures = st.builds(
    CheckFailure, iteration=st.none() | small, what=texts, expected=texts, got=texts
)
reports = st.builds(
    report,
    iterations_planned=small,
    iterations_passed=small,
    checks=small,
    check_failures=st.lists(failures, max_size=2),
    check_failure_count=st.sampled_from([0, 0, 1]),
    placement=st.lists(
        st.builds(Placement, node=texts, expected=names, got=names | st.none()), max_size=2
    ),
    error=st.none() | errors,
    unsupported=st.none() | st.builds(Unsupported, asked=texts, answered=texts),
    capture=st.none() | st.builds(Capture, runs=small, kernel_runs=small, host_replays=small),
    leaked=st.lists(texts, max_size=1),
    state_changes=st.lists(texts, max_size=1),
)
digests = st.sampled_from([PLUGIN_SHA256, PLUGIN_SHA256, None, "cd" * 32])
identities = st.builds(
    HostIdentity,
    core_version=st.sampled_from(["1.30.0", "1.30.0", None, "", "1.3.0"]),
    mapped=st.lists(
        st.builds(
            MappedFile, path=texts, role=st.sampled_from(["core", "plugin", "core", "other-core"])
        ),
        max_size=4,
    ),
    plugin_sha256_before=digests,
    plugin_sha256_after=digests,
)
deaths = st.builds(
    death,
    phase=st.sampled_from(["start", "load", "register", "scenario", "teardown", "exit", ""]),
    how=st.sampled_from(["signal", "exit", "hang", "channel"]),
    name=st.sampled_from(["SIGSEGV", "exit status 0", "exit status 7"]),
    iteration=st.none() | small,
    last_call=st.none() | texts,
)
fields: dict[str, st.SearchStrategy[Any]] = {
    "alone": st.booleans(),
    "report": st.none() | reports,
    "death": deaths,
    "setup_error": errors,
    "no_device": st.booleans(),
    "identity": identities,
    "clean_end": st.booleans(),
    "teardown_errors": st.lists(texts, max_size=1),
    "left_behind": st.lists(texts, max_size=1),
    "infra": st.sampled_from(["host-start: no", "interrupted: yes", "x"]),
}


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """A whole one in which some things are otherwise."""
    changed = draw(st.sets(st.sampled_from(sorted(fields)), max_size=4))
    return observation().model_copy(update={name: draw(fields[name]) for name in sorted(changed)})


def whole(seen: Observation) -> bool:
    """What a scenario that passed looks like, by the rules of the design."""
    told, roles = seen.report, [file.role for file in seen.identity.mapped]
    return (
        told is not None
        and told.checks > 0
        and told.check_failure_count == 0
        and told.iterations_planned == told.iterations_passed > 0
        and told.error is None
        and told.unsupported is None
        and not told.leaked
        and not told.state_changes
        and bool(told.placement)
        and all(one.got == one.expected for one in told.placement)
        and seen.infra is None
        and seen.death is None
        and seen.setup_error is None
        and not seen.no_device
        and seen.clean_end
        and not seen.teardown_errors
        and not seen.left_behind
        and seen.identity.core_version == "1.30.0"
        and "core" in roles
        and "plugin" in roles
        and "other-core" not in roles
        and seen.identity.plugin_sha256_before == PLUGIN_SHA256
        and seen.identity.plugin_sha256_after == PLUGIN_SHA256
    )


@settings(deadline=None)
@given(observations())
def test_whatever_is_seen_passes_only_if_it_is_whole(seen: Observation) -> None:
    finding = classify(seen, ASKED, REJECTIONS)

    assert (finding.outcome == "passed") == whole(seen)
    assert finding.reason
    assert classify(seen, ASKED, REJECTIONS) == finding


@settings(deadline=None)
@given(observations(), st.sampled_from(["report", "death", "infra", "clean_end", "left_behind"]))
def test_one_thing_that_is_missing_or_wrong_takes_a_pass_away(seen: Observation, what: str) -> None:
    broken = {
        "report": None,
        "death": death(),
        "infra": "host-start: no",
        "clean_end": False,
        "left_behind": ["x (1)"],
    }
    spoilt = seen.model_copy(update={what: broken[what]})

    assert classify(spoilt, ASKED, REJECTIONS).outcome != "passed"


def test_the_reason_codes_are_those_that_the_module_tells_of() -> None:
    told = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", outcome_module.__doc__ or ""))

    assert told - {"rejections"} == REASONS


def test_lanes_that_did_not_meet_get_a_second_try_and_that_is_no_failure() -> None:
    finding = Finding("not-run", "no-overlap")

    assert needs_repeat(finding)
    assert not is_failure(finding)
    assert not needs_repeat(Finding("not-run", "interrupted"))
    assert needs_repeat(Finding("hung", "timeout"))
    assert is_failure(Finding("hung", "timeout"))


SPOILS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"state_changes": ["working directory: / became /proc"]}, {}, "process-state"),
    ({"leaked": ["Release failed"]}, {}, "release-error"),
    ({}, {"teardown_errors": ["oh"]}, "teardown-error"),
    ({}, {"left_behind": ["sleep (7)"]}, "left-behind"),
]


@pytest.mark.parametrize(("of_report", "of_host", "reason"), SPOILS)
def test_who_lacks_something_or_refuses_does_no_harm(
    of_report: dict[str, Any], of_host: dict[str, Any], reason: str
) -> None:
    lack = {"unsupported": Unsupported(asked="a", answered="b")}
    refusal = {"error": native_error(function="CreateSession", message=REFUSAL)}

    for why in (lack, refusal):
        found_then = found(report=report(**why, **of_report), **of_host)
        assert (found_then.outcome, found_then.reason) == ("failed", reason)


def test_what_was_there_in_earlier_iterations_is_not_lacking() -> None:
    lack = Unsupported(asked="a stream", answered="there is none")
    gone = found(report=report(unsupported=lack, iterations_passed=4))

    assert (gone.outcome, gone.reason) == ("failed", "incomplete")
    assert gone.detail == (
        "asked for a stream; there is none; before that 4 iterations had it and passed"
    )
    assert ends(report=report(unsupported=lack)) == ("unsupported", "unsupported")
    assert found(report=report(unsupported=lack)).detail == "asked for a stream; there is none"
    # A core has a function or has it not; a scenario may ask for it late.
    of_core = lack.model_copy(update={"of_core": True})
    late = report(unsupported=of_core, iterations_passed=4)
    assert ends(report=late) == ("unsupported", "unsupported")


def test_what_worked_before_is_neither_refused_nor_without_a_device() -> None:
    for message in ("there is no adapter here", REFUSAL):
        error = native_error(function="CreateSession", message=message, iteration=5)
        assert ends(report=report(error=error, iterations_passed=5)) == ("failed", "native-error")
