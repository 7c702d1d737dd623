from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import Mode
from harness.judge import judge
from harness.plan import Cell
from harness.results import CellResult, Observation, Overlap, PluginResult, Results, Unsupported
from tests.harness.samples import (
    PLUGIN_SHA256,
    REPLAYS,
    case,
    cell,
    death,
    identity,
    judged,
    matrix,
    native_error,
    observation,
    only,
    report,
)

A, B = "1.30.0/serialized/copy/a", "1.30.0/serialized/copy/b"
WRONG: dict[str, Any] = {"report": report(check_failure_count=1, iterations_passed=19)}
CRASH: dict[str, Any] = {"report": None, "death": death()}
AT_EXIT: dict[str, Any] = {"death": death("exit")}
NO_DEVICE: dict[str, Any] = {"report": None, "no_device": True}
LACK: dict[str, Any] = {"report": report(unsupported=Unsupported(asked="a", answered="b"))}
INFRA: dict[str, Any] = {
    "report": None,
    "infra": "core-unavailable: no network",
    "clean_end": False,
}
FLAKE: dict[str, Any] = {"outcome": ["passed", "crashed"]}


def again(cell_id: str = A, attempt: int = 2, **changes: Any) -> Observation:
    core, _, scenario = cell_id.split("/", 2)
    host = f"{core}-{scenario}-{attempt}"
    return observation(cell_id, attempt=attempt, alone=True, host=host, **changes)


def told(result: CellResult) -> tuple[str, str, str]:
    return result.outcome, result.reason, result.verdict


def by_id(results: Results) -> dict[str, CellResult]:
    return {one.id: one for one in results.cells}


def code(observations: Sequence[Observation], *expectations: dict[str, Any]) -> int:
    return judged([cell()], observations, *expectations).summary.exit_code


def test_a_cell_of_which_nothing_is_said_should_pass() -> None:
    assert told(only([observation()])) == ("passed", "ok", "expected")
    assert only([observation()]).expected == "passed"
    assert told(only([observation(**WRONG), again(**WRONG)])) == (
        "failed",
        "wrong-result",
        "unexpected",
    )


def test_what_fails_and_then_passes_is_flaky_and_tells_both() -> None:
    result = only([observation(**CRASH), again()])

    assert told(result) == ("passed", "ok", "flaky")
    assert [(one.attempt, one.outcome) for one in result.attempts] == [
        (1, "crashed"),
        (2, "passed"),
    ]
    assert "attempt 1 crashed (SIGSEGV" in result.detail
    assert "passed in a fresh host" in result.detail
    assert code([observation(**CRASH), again()]) == 1


def test_a_known_flake_may_end_either_way() -> None:
    for tried in ([observation(**CRASH), again()], [observation(**CRASH), again(**CRASH)]):
        assert only(tried, FLAKE).verdict == "expected"
    assert only([observation()], FLAKE).verdict == "expected"
    assert told(only([observation(**WRONG), again()], FLAKE)) == ("passed", "ok", "flaky")


def test_the_reason_of_a_known_flake_belongs_to_its_failure() -> None:
    expected = {**FLAKE, "reason": "SIGSEGV"}
    other: dict[str, Any] = {"report": None, "death": death(name="SIGABRT")}

    assert only([observation()], expected).verdict == "expected"
    assert only([observation(**CRASH), again()], expected).verdict == "expected"
    assert only([observation(**CRASH), again(**CRASH)], expected).verdict == "expected"
    assert only([observation(**other), again()], expected).verdict == "flaky"
    assert only([observation(**other), again(**other)], expected).verdict == "unexpected"


def test_what_is_expected_to_go_wrong_excuses_no_other_trouble_before_it() -> None:
    tried = [observation(**CRASH), again(**WRONG)]
    fails, crashes = {"outcome": "failed"}, {"outcome": ["failed", "crashed"]}

    result = only(tried, fails)
    assert told(result) == ("failed", "wrong-result", "flaky")
    assert result.detail.startswith("attempt 1 crashed (SIGSEGV")
    assert "; then failed in a fresh host" in result.detail
    assert code(tried, fails) == 1
    assert only(tried, crashes).verdict == "expected"
    assert only([observation(**WRONG), again(**WRONG)], fails).verdict == "expected"
    reason = {"outcome": "failed", "reason": "native-error"}
    refused = again(report=report(error=native_error()))
    assert only([observation(**WRONG), refused], reason).verdict == "flaky"
    # Where nothing of it is expected, the last attempt is what counts and what is told.
    assert told(only(tried)) == ("failed", "wrong-result", "unexpected")
    assert "attempt 1" not in only(tried).detail
    assert only([observation(**CRASH), again()], FLAKE).detail.startswith("attempt 1 crashed")


def test_a_crash_that_takes_the_device_along_is_the_plugins() -> None:
    with_device = {**CRASH, "identity": identity()}
    (one,) = judged([cell()], [observation(**with_device), again(**NO_DEVICE)]).cells

    assert told(one) == ("failed", "no-ep-device", "unexpected")
    assert [attempt.reason for attempt in one.attempts] == ["SIGSEGV", "no-ep-device"]
    # Where it is the driver that is missing, a device may be offered all the same, and a death with
    # it proves nothing of the others.
    message = again(report=report(error=native_error(message="no adapter found")))
    known = {
        "plugins": {
            "webgpu": {"path": "p.so", "no_device": {"messages": ["no adapter"], "hint": "Do."}}
        }
    }
    elsewhere = observation(B, report=message.report)
    cells = judge(
        case([cell(), cell(scenario="copy/b")], [observation(**with_device), elsewhere]),
        matrix(**known),
        lambda _: "",
    ).cells
    assert [(each.outcome, each.reason) for each in cells] == [
        ("crashed", "SIGSEGV"),
        ("infra-error", "no-ep-device"),
    ]
    # One that dies before it has offered any device proves none.
    before: dict[str, Any] = {
        "report": None,
        "death": death("register"),
        "identity": identity(ep_name=None),
    }
    (other,) = judged([cell()], [observation(**before), again(**NO_DEVICE)]).cells
    assert (other.outcome, other.verdict) == ("crashed", "unexpected")


def test_what_should_crash_and_does_so_only_once_is_flaky_not_improved() -> None:
    results = judged([cell()], [observation(**CRASH), again()], {"outcome": "crashed"})

    assert results.cells[0].verdict == "flaky"
    assert results.summary.outdated_expectations == []


def test_what_passes_where_a_failure_is_expected_makes_the_expectation_outdated() -> None:
    expectations: list[dict[str, Any]] = [
        {"outcome": "passed"},
        {"core": "==1.30.0", "scenario": "copy", "outcome": ["failed", "rejected"]},
    ]
    results = judged([cell()], [observation()], *expectations)

    assert told(results.cells[0]) == ("passed", "ok", "improved")
    assert results.summary.outdated_expectations == [
        "expectations[1]: core ==1.30.0 scenario copy expects failed or rejected"
    ]
    assert results.summary.exit_code == 1
    assert "matrix.yaml" in results.cells[0].hint


def test_another_failure_than_the_expected_one_is_unexpected() -> None:
    tried = [observation(**WRONG), again(**WRONG)]

    assert only(tried, {"outcome": "crashed"}).verdict == "unexpected"
    assert only(tried, {"outcome": "failed", "reason": "placement"}).verdict == "unexpected"
    assert only(tried, {"outcome": "failed", "reason": "wrong-result"}).verdict == "expected"
    assert only(tried, {"outcome": ["crashed", "failed"]}).verdict == "expected"


def test_later_expectations_win_field_by_field() -> None:
    tried = [observation(report=report(capture=REPLAYS))]
    wrong_count = {"capture": {"kernel_runs": 20}}
    right_count = {"capture": {"kernel_runs": 1}}
    replays = {"capture": {"host_replays": 19}}

    assert only(tried, wrong_count).verdict == "unexpected"
    assert only(tried, wrong_count, right_count).verdict == "expected"
    assert only(tried, right_count, wrong_count).verdict == "unexpected"
    assert only(tried, right_count, replays).verdict == "expected"
    assert only(tried, wrong_count, replays).verdict == "unexpected"
    assert only(tried, {"outcome": "failed"}, {"outcome": "passed"}, replays).verdict == "expected"
    # A reason goes with its outcome, and away with it.
    assert only(tried, {"outcome": "failed", "reason": "x"}, {"outcome": "passed"}).expected == (
        "passed: because"
    )


def test_expected_counts_are_told_and_compared_when_the_cell_passes() -> None:
    expected = {"capture": {"kernel_runs": 20, "host_replays": 0}, "why": "No callbacks."}
    result = only([observation(report=report(capture=REPLAYS))], expected)

    assert result.verdict == "unexpected"
    assert result.expected == "passed, 20 kernel runs, 0 host replays: No callbacks."
    assert result.detail == "1 kernel runs and 19 host replays in 20 runs"
    assert only([observation()], expected).verdict == "unexpected"
    assert only([observation(**LACK)], expected, {"outcome": "unsupported"}).verdict == "expected"


@pytest.mark.parametrize(
    ("condition", "applies"),
    [
        ({"plugin": "webgpu"}, True),
        ({"plugin": "web*"}, True),
        ({"plugin": "other"}, False),
        ({"plugin_version": "<=0.4.0"}, True),
        ({"plugin_version": ">0.4.0"}, False),
        ({"core": ">=1.30,<1.31"}, True),
        ({"core": "<1.30"}, False),
        ({"scenario": "copy"}, True),
        ({"scenario": "copy/a"}, True),
        ({"scenario": "copy/b"}, False),
        ({"mode": "serialized"}, True),
        ({"mode": "concurrent"}, False),
        ({"platform": "linux"}, True),
        ({"platform": "windows"}, False),
    ],
)
def test_an_expectation_speaks_of_the_cells_that_fit_all_its_conditions(
    condition: dict[str, Any], applies: bool
) -> None:
    result = only([observation(), again()], {"outcome": "crashed", **condition})

    assert result.verdict == ("improved" if applies else "expected")


def test_a_prerelease_of_a_core_is_in_the_range_that_holds_it() -> None:
    place = cell("1.31.0rc1")
    seen = observation(place.id, identity=identity("1.31.0"))
    (result,) = judged([place], [seen], {"core": ">=1.30.1", "outcome": "crashed"}).cells

    assert result.verdict == "improved"


def test_an_unknown_plugin_version_fits_no_condition_on_it() -> None:
    plugin = PluginResult(
        name="webgpu",
        version=None,
        library="",
        sha256=PLUGIN_SHA256,
        ep_name=None,
        registration_name="",
    )
    for specifier in (">=0", "!=0.4.0", ""):
        results = judged(
            [cell()],
            [observation()],
            {"plugin_version": specifier, "outcome": "crashed"},
            plugin=plugin,
        )
        assert results.cells[0].verdict == "expected"
        assert results.plugin.version is None


def test_what_registration_tells_of_the_plugin_is_in_the_results() -> None:
    seen = observation(identity=identity(plugin_version="9.9"))
    bare = case([cell()], [seen]).plugin.model_copy(update={"version": None})

    assert judged([cell()], [seen]).plugin.ep_name == "ThePluginEp"
    assert judged([cell()], [seen]).plugin.version == "0.4.0"
    assert judged([cell()], [seen], plugin=bare).plugin.version == "9.9"
    assert judged([cell()], [seen]).plugin.version_seen == "9.9"
    newer = {"plugin_version": ">=9", "outcome": "crashed"}
    assert judged([cell()], [seen], newer, plugin=bare).cells[0].verdict == "improved"
    assert judged([cell()], [seen], newer).cells[0].verdict == "expected"


def test_a_plugin_without_an_entry_may_lack_what_a_scenario_asks_for() -> None:
    (bare,) = judged([cell()], [observation(**LACK)], described=False).cells
    (named,) = judged([cell()], [observation(**LACK)], described=True).cells

    assert told(bare) == ("unsupported", "unsupported", "expected")
    assert told(named) == ("unsupported", "unsupported", "unexpected")
    assert "expect `unsupported`" in named.hint


REFUSED: dict[str, Any] = {"report": report(error=native_error(message="refused by the core"))}
REJECTION = {
    "reason": "version-check",
    "function": "Run",
    "message": "refused",
    "why": "It is too new.",
}


@pytest.mark.parametrize(
    ("seen", "expectations", "verdict", "hint"),
    [
        ({}, [], "expected", ""),
        ({}, [{"outcome": "crashed"}], "improved", "Take the outdated expectation out of matrix"),
        (WRONG, [{"outcome": "failed"}], "expected", "Zeros mean that work was fetched"),
        (WRONG, [], "unexpected", "Zeros mean that work was fetched"),
        (
            WRONG,
            [{"outcome": "failed", "reason": "placement"}],
            "unexpected",
            (
                "The outcome is as expected, its reason is not: wrong-result, where placement was "
                "expected."
            ),
        ),
        (LACK, [{"outcome": "unsupported"}], "expected", ""),
        (
            LACK,
            [],
            "unexpected",
            "If the plugin has it and an entry of matrix.yaml can say so, say it there; else exp",
        ),
        (
            {"report": report(capture=REPLAYS)},
            [{"capture": {"kernel_runs": 1}}],
            "expected",
            "",
        ),
        (
            {"report": report(capture=REPLAYS)},
            [{"capture": {"kernel_runs": 2}}],
            "unexpected",
            "The values were right, but not made as expected: ",
        ),
        (REFUSED, [{"outcome": "rejected"}], "expected", "It is too new."),
        (
            REFUSED,
            [],
            "unexpected",
            (
                "It is too new. If it is meant to be so, expect it in matrix.yaml: outcome: "
                "rejected, reason: version-check, with the core and a why."
            ),
        ),
    ],
)
def test_a_hint_says_what_to_do_about_the_verdict(
    seen: dict[str, Any], expectations: list[dict[str, Any]], verdict: str, hint: str
) -> None:
    results = judge(
        case([cell()], [observation(**seen)]),
        matrix(*expectations, rejections=[REJECTION]),
        lambda one: "",
    )

    assert results.cells[0].verdict == verdict
    assert results.cells[0].hint.startswith(hint)
    assert bool(results.cells[0].hint) == bool(hint)


def test_the_hint_of_a_flake_is_about_the_flake() -> None:
    assert only([observation(**CRASH), again()]).hint.startswith("The same cell failed and passed.")


def test_what_was_expected_is_told_with_every_why() -> None:
    seen = observation(report=report(capture=REPLAYS))
    either = {"outcome": ["passed", "crashed"], "reason": "SIGSEGV", "why": "A race."}
    counted = {"capture": {"host_replays": 19, "kernel_runs": 1}, "why": "Captured."}

    assert only([seen], either).expected == "passed or crashed (SIGSEGV): A race."
    assert only([seen], either, counted).expected == (
        "passed or crashed (SIGSEGV), 1 kernel runs, 19 host replays: A race. Captured."
    )
    # Nobody gave a why for what is allowed by default; what the scenario said stands for it.
    (bare,) = judged([cell()], [observation(**LACK)], described=False).cells
    assert bare.expected == "passed or unsupported: asked for a; b"
    assert only([observation(**LACK)]).expected == "passed"
    assert only([observation(**LACK)], {"outcome": "unsupported"}).expected == (
        "unsupported: because"
    )
    (passed,) = judged([cell()], [observation()], described=False).cells
    assert (passed.verdict, passed.expected) == ("expected", "passed or unsupported")


def test_an_expectation_that_does_not_match_hides_none_after_it() -> None:
    other = {"scenario": "copy/b", "outcome": "failed"}

    assert only([observation()], other, {"outcome": "crashed"}).verdict == "improved"


def test_a_repetition_stays_what_it_is() -> None:
    second = replace(cell(), id=f"{A}#2", repetition=2)
    results = judged([cell(), second], [observation(), observation(second.id)])

    assert [(one.repetition, one.verdict) for one in results.cells] == [
        (1, "expected"),
        (2, "expected"),
    ]


def test_a_cell_holds_what_its_deciding_attempt_saw() -> None:
    dead = observation(duration_s=3.0, **CRASH)
    lanes = Overlap(free=True, calls=9, overlapped=3)
    whole = report(capture=REPLAYS, overlap=lanes)
    result = only([dead, again(report=whole, duration_s=2.0)])
    nothing = only([])

    assert (result.capture, result.overlap) == (REPLAYS, lanes)
    assert [(one.node, one.got) for one in result.placement] == [("n", "ThePluginEp")]
    assert result.duration_s == 2.0
    assert [one.death for one in result.attempts] == [death(), None]
    assert (nothing.iterations_passed, nothing.duration_s, nothing.placement) == (0, 0.0, [])
    assert (nothing.capture, nothing.overlap, nothing.log) == (None, None, None)
    assert nothing.detail == "nothing was recorded of it"


def test_an_expectation_without_a_cell_is_unmatched_in_a_whole_run_alone() -> None:
    expectation = {"core": "==1.29.0", "outcome": "failed"}
    whole = judged([cell()], [observation()], expectation)
    part = judged([cell()], [observation()], expectation, whole=False)

    assert whole.summary.unmatched_expectations == ["expectations[0]: core ==1.29.0 expects failed"]
    assert whole.summary.exit_code == 1
    assert part.summary.unmatched_expectations == []
    assert part.summary.exit_code == 0


def test_an_expectation_that_a_later_one_replaces_is_matched_all_the_same() -> None:
    results = judged([cell()], [observation()], {"outcome": "failed"}, {"outcome": "passed"})

    assert results.summary.unmatched_expectations == []
    assert results.summary.exit_code == 0


@pytest.mark.parametrize("elsewhere", [{"plugin": "other"}, {"platform": "macos"}])
def test_an_expectation_for_another_plugin_or_platform_need_not_match(
    elsewhere: dict[str, Any],
) -> None:
    results = judged([cell()], [observation()], {"outcome": "failed", **elsewhere})

    assert results.summary.exit_code == 0


@pytest.mark.parametrize("shown", [AT_EXIT, {"left_behind": ["x (1)"]}, {"teardown_errors": ["x"]}])
def test_trouble_that_cells_share_is_put_on_the_one_that_shows_it_alone(
    shown: dict[str, Any],
) -> None:
    results = judged(
        [cell(), cell(scenario="copy/b")],
        [observation(A, **shown), observation(B, **shown), again(A), again(B, **shown)],
    )

    assert told(by_id(results)[A])[::2] == ("passed", "expected")
    assert told(by_id(results)[B])[2] == "unexpected"
    assert results.summary.exit_code == 1


def test_trouble_of_another_cell_is_not_kept_where_lanes_did_not_meet_afterwards() -> None:
    left: dict[str, Any] = {"left_behind": ["sleep (7)"]}
    idle = report(overlap=Overlap(free=True, calls=9, overlapped=0))
    results = judged(
        [cell(), cell(scenario="copy/b")],
        [observation(A, **left), observation(B, **left), again(A, report=idle), again(B, **left)],
    )

    assert told(by_id(results)[A]) == ("not-run", "no-overlap", "unexpected")
    assert told(by_id(results)[B]) == ("failed", "left-behind", "unexpected")


def test_shared_trouble_that_no_cell_shows_alone_makes_all_of_them_flaky() -> None:
    results = judged(
        [cell(), cell(scenario="copy/b")],
        [observation(A, **AT_EXIT), observation(B, **AT_EXIT), again(A), again(B)],
    )

    assert [one.verdict for one in results.cells] == ["flaky", "flaky"]
    assert results.summary.exit_code == 1


def test_shared_trouble_is_explained_only_by_trouble_of_the_same_kind() -> None:
    results = judged(
        [cell(), cell(scenario="copy/b")],
        [observation(A, **AT_EXIT), observation(B, **AT_EXIT), again(A), again(B, **WRONG)],
    )

    assert by_id(results)[A].verdict == "flaky"


def test_a_hang_at_the_end_is_not_explained_by_a_crash_there() -> None:
    hang = {"death": death("exit", how="hang", name="no end")}
    seen = [
        observation(A, **hang),
        observation(B, **hang),
        again(A, **AT_EXIT),
        again(B, **AT_EXIT),
    ]
    crashes = {"outcome": "crashed", "reason": "at-exit"}
    results = judged([cell(), cell(scenario="copy/b")], seen, crashes)

    assert [one.verdict for one in results.cells] == ["flaky", "flaky"]


def test_what_is_a_cells_own_in_a_host_that_is_explained_stays_its_own() -> None:
    results = judged(
        [cell(), cell(scenario="copy/b")],
        [
            observation(A, **AT_EXIT),
            observation(B, **WRONG),
            again(A, **AT_EXIT),
            again(B),
        ],
    )

    assert by_id(results)[A].verdict == "unexpected"
    assert told(by_id(results)[B]) == ("passed", "ok", "flaky")


def test_an_expectation_is_named_by_its_line_where_that_is_known() -> None:
    known = matrix({"outcome": "passed"}, {"core": "==1.30.0", "outcome": "failed"})
    results = judge(case([cell()], [observation()]), known, lambda _: "", lines=[3, 17])

    assert results.summary.outdated_expectations == [
        "line 17: expectations[1]: core ==1.30.0 expects failed"
    ]


def test_one_host_that_is_explained_does_not_explain_another() -> None:
    results = judged(
        [cell(), cell(scenario="copy/b"), cell("1.31.0")],
        [
            observation(A, **AT_EXIT),
            observation(B, **AT_EXIT),
            again(A),
            again(B, **AT_EXIT),
            observation("1.31.0/serialized/copy/a", **AT_EXIT),
            again("1.31.0/serialized/copy/a"),
        ],
    )

    assert [one.verdict for one in results.cells] == ["expected", "unexpected", "flaky"]


def test_a_crash_of_its_own_is_not_explained_by_another_cell() -> None:
    results = judged(
        [cell(), cell(scenario="copy/b")],
        [observation(A, **CRASH), observation(B, **CRASH), again(A), again(B, **CRASH)],
    )

    assert by_id(results)[A].verdict == "flaky"


def test_a_pass_in_a_host_that_died_counts_once_it_is_confirmed() -> None:
    hasty = observation(A, clean_end=False, identity=identity(mapped=[]))

    assert told(only([hasty])) == ("not-run", "unconfirmed", "unexpected")
    assert told(only([hasty, again()])) == ("passed", "ok", "expected")
    assert code([hasty]) == 3


STOPPED: dict[str, Any] = {
    "report": None,
    "infra": "interrupted: the run was stopped",
    "clean_end": False,
}
IDLE: dict[str, Any] = {"report": report(overlap=Overlap(free=True, calls=9, overlapped=0))}
HASTY: dict[str, Any] = {"clean_end": False, "identity": identity(mapped=[])}


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (STOPPED, "the run was stopped before it could be seen again"),
        (HASTY, "the run was stopped before it could be seen again"),
        (
            IDLE,
            (
                "it could not be seen again: the lanes made 9 native calls, and none while another "
                "was inside one: it was driven one call at a time, which proves nothing of "
                "concurrent mode"
            ),
        ),
    ],
)
@pytest.mark.parametrize("before", [[], [HASTY]])
def test_what_was_seen_stays_seen_though_it_could_not_be_seen_again(
    before: list[dict[str, Any]], last: dict[str, Any], why: str
) -> None:
    tried = [observation(attempt=n, log="early", **one) for n, one in enumerate(before)]
    wrong = observation(attempt=len(tried), log="kept", duration_s=7.0, **WRONG)
    result = only([*tried, wrong, again(log="late", **last)])

    assert told(result) == ("failed", "wrong-result", "unexpected")
    assert result.detail == f"1 of 20 checks did not hold; {why}"
    assert (result.iterations_passed, result.log, result.duration_s) == (19, "kept", 7.0)
    assert len(result.attempts) == len(before) + 2
    assert code([*tried, wrong, again(**last)]) == 1
    assert only([*tried, wrong, again(**last)], {"outcome": "failed"}).verdict == "expected"


def test_what_was_not_seen_to_fail_and_then_stopped_was_not_run() -> None:
    stopped = again(**STOPPED)

    assert told(only([stopped])) == ("not-run", "interrupted", "unexpected")
    assert told(only([observation(**HASTY), stopped])) == ("not-run", "interrupted", "unexpected")
    assert only([observation(**HASTY), stopped]).detail == "the run was stopped"
    assert code([observation(**HASTY), stopped]) == 3
    # That which decides is the attempt before the last, and no other.
    after_a_pass = [observation(**WRONG), again(), again(attempt=3, **STOPPED)]
    assert told(only(after_a_pass)) == ("not-run", "interrupted", "unexpected")


def test_every_failure_before_the_last_attempt_counts() -> None:
    tried = [observation(**HASTY), observation(attempt=2, **WRONG), again(attempt=3)]

    assert told(only(tried)) == ("passed", "ok", "flaky")


def test_a_plugin_without_a_device_on_every_core_is_the_machines_lack() -> None:
    cells = [cell("1.30.0"), cell("1.31.0")]
    hint = {"plugins": {"webgpu": {"path": "p.so", "no_device": {"hint": "Install a driver."}}}}
    results = judge(
        case(cells, [observation(one.id, **NO_DEVICE) for one in cells]),
        matrix(**hint),
        lambda one: "",
    )

    assert {told(one) for one in results.cells} == {("infra-error", "no-ep-device", "unexpected")}
    assert {one.hint for one in results.cells} == {"Install a driver."}
    assert results.summary.exit_code == 3


BARE = (
    "A bare requirement gets no environment. matrix.yaml has an entry for it, which sets what it "
    "needs: --plugin w."
)
CHECK = (
    "Check that the driver of the device is installed, and whether the plugin needs an environment "
    "variable (--env) to offer the device of this machine."
)


@pytest.mark.parametrize(
    ("name", "named", "hint"),
    [
        (
            "Web_GPU",
            False,
            BARE,
        ),
        ("w", True, "Install a driver."),
        # A file that happens to be called like an entry is not that entry.
        ("w", False, CHECK),
        ("bare", True, CHECK),
        ("bare", False, CHECK),
        ("unknown", False, CHECK),
    ],
)
def test_what_to_do_without_a_device_depends_on_the_entry(
    name: str, named: bool, hint: str
) -> None:
    entries = {
        "bare": {"path": "p.so"},
        "w": {"requirement": "web-gpu>=1", "no_device": {"hint": "Install a driver."}},
    }
    lack = case([cell()], [observation(**NO_DEVICE)], described=named)
    plugin = lack.plugin.model_copy(update={"name": name})
    results = judge(replace(lack, plugin=plugin), matrix(plugins=entries), lambda one: "")

    assert results.cells[0].hint == hint


def test_a_plugin_without_a_device_on_one_core_alone_is_a_failure_there() -> None:
    cells = [cell("1.30.0"), cell("1.31.0")]
    results = judged(cells, [observation(cells[0].id, **NO_DEVICE), observation(cells[1].id)])

    assert [told(one) for one in results.cells] == [
        ("failed", "no-ep-device", "unexpected"),
        ("passed", "ok", "expected"),
    ]
    assert results.cells[0].detail == (
        "the plugin registered, and offered no EP device that fits on this machine; "
        "elsewhere in this run it had one"
    )
    assert "log" in results.cells[0].hint
    assert results.summary.exit_code == 1


def test_a_device_that_is_back_in_a_fresh_host_makes_a_cell_flaky() -> None:
    seen = [observation(**NO_DEVICE), again()]

    assert told(only(seen)) == ("passed", "ok", "flaky")


def test_what_a_scenario_did_not_come_to_try_is_no_proof_of_a_device() -> None:
    cells = [cell(scenario="copy/a"), cell(scenario="copy/b")]
    lacks = report("copy/b", unsupported=Unsupported(asked="a", answered="b"))
    seen = [observation(cells[0].id, **NO_DEVICE), observation(cells[1].id, report=lacks)]

    assert [told(one) for one in judged(cells, seen).cells] == [
        ("infra-error", "no-ep-device", "unexpected"),
        ("unsupported", "unsupported", "unexpected"),
    ]


@pytest.mark.parametrize(
    ("of_core", "expectation", "verdict"),
    [
        (True, None, "expected"),
        (False, None, "unexpected"),
        (True, {"outcome": "passed"}, "unexpected"),
        (True, {"outcome": "crashed"}, "expected"),
        (False, {"outcome": "crashed"}, "unexpected"),
        (True, {"outcome": "crashed", "reason": "SIGSEGV"}, "expected"),
        (True, {"outcome": "rejected", "reason": "version-check"}, "expected"),
        (False, {"outcome": ["crashed", "unsupported"], "reason": "SIGSEGV"}, "expected"),
        (False, {"outcome": "crashed", "reason": "SIGSEGV"}, "unexpected"),
        (True, {"outcome": ["failed", "unsupported"]}, "expected"),
        (True, {"capture": {"kernel_runs": 1}}, "expected"),
    ],
)
def test_no_plugin_is_expected_to_have_what_its_core_lacks(
    of_core: bool, expectation: dict[str, Any] | None, verdict: str
) -> None:
    lack = report(unsupported=Unsupported(asked="a", answered="b", of_core=of_core))
    expectations = [] if expectation is None else [expectation]
    one = only([observation(report=lack)], *expectations)

    assert told(one) == ("unsupported", "unsupported", verdict)
    assert one.expected.count("unsupported") <= 1


DEFECT = {
    "core": "<1.31",
    "scenario": "copy",
    "outcome": "failed",
    "reason": "wrong-result",
    "why": "The core does.",
}
REFUSED = {"report": report(error=native_error())}


@pytest.mark.parametrize(
    ("where", "seen", "expectation", "verdict"),
    [
        ("1.30.0", WRONG, None, "expected"),
        ("1.30.0", {}, None, "expected"),
        # It is as little an excuse for another trouble as for another core.
        ("1.30.0", REFUSED, None, "unexpected"),
        ("1.30.0", CRASH, None, "unexpected"),
        ("1.31.0", WRONG, None, "unexpected"),
        # It stands beside what is expected of the plugin, unless that must pass.
        ("1.30.0", WRONG, {"outcome": "rejected", "reason": "version-check"}, "expected"),
        ("1.30.0", WRONG, {"outcome": "passed"}, "unexpected"),
        ("1.30.0", CRASH, {"outcome": "crashed"}, "expected"),
    ],
)
def test_what_a_core_does_wrong_is_no_plugins_fault(
    where: str, seen: dict[str, Any], expectation: dict[str, Any] | None, verdict: str
) -> None:
    name = f"{where}/serialized/copy/a"
    known = matrix(*([] if expectation is None else [expectation]), core_defects=[DEFECT])
    tried = [observation(name, **seen), again(name, **seen)]
    (one,) = judge(case([cell(where)], tried), known, lambda _: "").cells

    assert one.verdict == verdict
    explained = one.expected == "failed (wrong-result), whatever the plugin: The core does."
    assert explained is (verdict == "expected" and seen is WRONG)


def test_a_defect_of_a_core_is_no_scenario_of_another_name() -> None:
    known = matrix(core_defects=[{**DEFECT, "scenario": "capture"}])
    tried = [observation(**WRONG), again(**WRONG)]
    (one,) = judge(case([cell()], tried), known, lambda _: "").cells

    assert told(one) == ("failed", "wrong-result", "unexpected")


def test_a_message_that_says_so_is_a_lack_of_the_machine_like_no_device() -> None:
    lack = {"report": report(error=native_error(message="no adapter found"))}
    known = {
        "plugins": {
            "webgpu": {"path": "p.so", "no_device": {"messages": ["no adapter"], "hint": "Do."}}
        }
    }

    def verdicts(*seen: Observation) -> list[str]:
        cells = [cell("1.30.0"), cell("1.31.0")]
        return [
            one.outcome for one in judge(case(cells, seen), matrix(**known), lambda _: "").cells
        ]

    elsewhere = "1.31.0/serialized/copy/a"
    assert verdicts(observation(A, **lack), observation(elsewhere, **lack)) == ["infra-error"] * 2
    assert verdicts(observation(A, **lack), observation(elsewhere)) == ["failed", "passed"]


def test_a_run_without_observations_is_not_run_and_incomplete() -> None:
    results = judged([cell(), cell(scenario="copy/b")], [])

    assert {told(one) for one in results.cells} == {("not-run", "interrupted", "unexpected")}
    assert all("run --resume FOLDER" in one.hint for one in results.cells)
    assert results.summary.exit_code == 3
    assert results.summary.outcomes == {"not-run": 2}
    assert results.plugin.ep_name is None


def test_a_run_without_cells_has_nothing_unexpected() -> None:
    assert judged([], []).summary.exit_code == 0


def test_observations_of_other_cells_change_nothing() -> None:
    stranger = observation("1.30.0/serialized/copy/zzz", **CRASH)

    assert judged([cell()], [stranger, observation()]) == judged([cell()], [observation()])


@pytest.mark.parametrize(
    ("tried", "expectations", "due"),
    [
        ([observation()], [], 0),
        ([observation(**INFRA)], [], 3),
        ([], [], 3),
        ([observation(**CRASH), again(**CRASH)], [], 1),
        ([observation(**CRASH)], [{"outcome": "crashed"}], 0),
        ([observation(**INFRA)], [{"outcome": "infra-error"}], 0),
        ([observation()], [{"outcome": "crashed"}], 1),
        # A finding stays one, though it could not be seen again.
        ([observation(**CRASH), observation(attempt=2, **INFRA)], [], 1),
        ([observation(), observation(attempt=2, **INFRA)], [], 3),
        ([observation(**INFRA), observation(attempt=2, **INFRA)], [], 3),
    ],
)
def test_the_exit_code_of_one_cell(
    tried: list[Observation], expectations: list[dict[str, Any]], due: int
) -> None:
    assert code(tried, *expectations) == due


def test_what_is_unexpected_counts_before_what_is_incomplete() -> None:
    cells = [cell(), cell(scenario="copy/b")]

    for first, second in ((WRONG, INFRA), (INFRA, WRONG)):
        seen = [observation(A, **first), observation(B, **second)]
        assert judged(cells, seen).summary.exit_code == 1


def test_a_cell_tells_how_it_is_repeated_and_where_its_log_is() -> None:
    result = only([observation(log="logs/1"), again(log="logs/2", **WRONG)])

    assert result.repeat == f"repeat {A}"
    assert result.log == "logs/2"
    assert [one.log for one in result.attempts] == ["logs/1", "logs/2"]
    assert result.iterations_planned == 20
    assert result.iterations_passed == 19


def test_the_summary_counts_every_cell_once() -> None:
    cells = [cell(), cell(scenario="copy/b"), cell(scenario="copy/c")]
    summary = judged(cells, [observation(A), observation(B, **LACK)]).summary

    assert summary.cells == 3
    assert summary.outcomes == {"passed": 1, "unsupported": 1, "not-run": 1}
    assert summary.verdicts == {"expected": 1, "unexpected": 2}


CELLS: Sequence[Cell] = [
    cell(core, scenario) for core in ("1.30.0", "1.31.0") for scenario in ("copy/a", "copy/b")
]
ENDS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, WRONG, CRASH, AT_EXIT, NO_DEVICE, LACK, INFRA]
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(CELLS), ENDS, ENDS), max_size=6, unique_by=lambda t: t[0]),
    st.sampled_from([None, "crashed", ["passed", "failed"]]),
    st.randoms(use_true_random=False),
)
def test_the_same_run_is_judged_the_same_in_whatever_order_its_cells_stand(
    seen: list[tuple[Cell, dict[str, Any], dict[str, Any]]],
    outcome: Any,
    order: random.Random,
) -> None:
    tried = [[observation(one.id, **first), again(one.id, **second)] for one, first, second in seen]
    expectations = [{"outcome": outcome}] if outcome else []
    straight = [one for pair in tried for one in pair]
    results = judged(CELLS, straight, *expectations)

    mixed_cells = order.sample(CELLS, len(CELLS))
    mixed = [pair.copy() for pair in tried]
    shuffled = []
    while any(mixed):
        pair = order.choice([pair for pair in mixed if pair])
        shuffled.append(pair.pop(0))
    other = judged(mixed_cells, shuffled, *expectations)

    assert judged(CELLS, straight, *expectations) == results
    assert by_id(other) == by_id(results)
    assert other.summary.model_dump(exclude={"outcomes", "verdicts"}) == (
        results.summary.model_dump(exclude={"outcomes", "verdicts"})
    )
    assert len(results.cells) == len(CELLS)
    for one in results.cells:
        assert one.verdict != "expected" or one.outcome == "passed" or outcome is not None


@pytest.mark.parametrize(
    "since",
    [
        [again(**STOPPED)],
        [again(**STOPPED), again(attempt=3, **STOPPED)],
        [again(clean_end=False)],
        [again(clean_end=False), again(attempt=3, **STOPPED)],
    ],
)
def test_what_was_seen_stays_seen_however_often_it_could_not_be_seen_again(
    since: list[Observation],
) -> None:
    result = only([observation(**CRASH), *since])

    assert told(result) == ("crashed", "SIGSEGV", "unexpected")
    assert result.detail.endswith("; the run was stopped before it could be seen again")
    assert len(result.attempts) == 1 + len(since)


def test_a_failure_before_interruptions_and_a_pass_after_them_is_flaky() -> None:
    tried = [observation(**WRONG), again(**STOPPED), again(attempt=3, **STOPPED), again(attempt=4)]

    assert told(only(tried)) == ("passed", "ok", "flaky")
    assert told(only([observation(**STOPPED), again()])) == ("passed", "ok", "expected")


def test_an_early_observation_counts_until_its_host_has_ended() -> None:
    early = observation(**WRONG, clean_end=False, early=True)
    crashed = observation(**CRASH)

    assert told(only([early])) == ("failed", "wrong-result", "unexpected")
    assert told(only([early, again()])) == ("passed", "ok", "flaky")
    assert [one.reason for one in only([early, crashed]).attempts] == ["SIGSEGV"]
    # It is of its own attempt at its own cell.
    assert len(only([early, again()]).attempts) == 2


@pytest.mark.parametrize(
    ("mode", "declared", "outcome", "told"),
    [
        ("concurrent", "serialized", "crashed", True),
        ("concurrent", "serialized", "passed", False),
        ("concurrent", "concurrent", "crashed", False),
        ("serialized", "concurrent", "crashed", False),
        ("serialized", "serialized", "crashed", False),
    ],
)
def test_what_broke_against_the_policy_is_told_so(
    mode: Mode, declared: Mode, outcome: str, told: bool
) -> None:
    one = replace(cell(), mode=mode)
    changes = CRASH if outcome == "crashed" else {}
    whole = case([one], [observation(**changes), again(**changes)])
    cores = [core.model_copy(update={"declared": declared}) for core in whole.cores]
    (result,) = judge(replace(whole, cores=cores), matrix(), lambda _: "").cells

    assert result.outcome == outcome
    assert ("drove it against" in result.hint) is told
