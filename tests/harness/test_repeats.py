"""Which cells the engine tries again, in which hosts, and when it is done; scripts are the hosts.

The rules are those of "How an outcome comes about" in docs/architecture.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.config import PluginEntry
from harness.errors import RunFolderError
from harness.results import Observation
from tests.harness.scripted import Bench, Host

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")

A, B, C = "copy/a", "copy/b", "copy/c"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench.prepare(monkeypatch, tmp_path)


def test_what_goes_well_is_tried_once_in_one_host(bench: Bench) -> None:
    assert bench.run() == [
        "a1 in 1: passed ok",
        "b1 in 1: passed ok",
        "c1 in 1: passed ok",
    ]
    assert bench.told == [
        ("a", "started"),
        ("b", "started"),
        ("c", "started"),
        ("a", "passed"),
        ("b", "passed"),
        ("c", "passed"),
    ]
    assert not (bench.folder / "run" / "hosts").exists()


@posix
def test_a_death_costs_its_cell_and_the_others_are_confirmed_or_go_on(bench: Bench) -> None:
    assert bench.run({B: "kill()"}, {}, {}, {B: "kill()"}) == [
        "a1 in 1: not-run unconfirmed",
        "b1 in 1: crashed SIGSEGV",
        "c1 in 2 alone: passed ok",
        "a2 in 3 alone: passed ok",
        "b2 in 4 alone: crashed SIGSEGV",
    ]
    # What was to be confirmed has not failed before it passed.
    assert bench.ends == {"a": "passed", "b": "crashed", "c": "passed"}


@posix
def test_two_deaths_leave_everything_that_passed_to_one_confirmation(bench: Bench) -> None:
    names = [f"copy/{letter}" for letter in "abcde"]
    assert bench.run({"copy/b": "kill()"}, {"copy/d": "kill()"}, scenarios=names) == [
        "a1 in 1: not-run unconfirmed",
        "b1 in 1: crashed SIGSEGV",
        "c1 in 2: not-run unconfirmed",
        "d1 in 2: crashed SIGSEGV",
        "e1 in 3 alone: passed ok",
        "a2 in 4: passed ok",
        "c2 in 4: passed ok",
        "b2 in 5 alone: passed ok",
        "d2 in 6 alone: passed ok",
    ]
    assert bench.ends == {"a": "passed", "b": "flaky", "c": "passed", "d": "flaky", "e": "passed"}


def test_a_failure_is_tried_again_alone_and_the_last_attempt_decides(bench: Bench) -> None:
    assert bench.run({A: "wrong()", B: "wrong()"}, {A: "wrong()"}) == [
        "a1 in 1: failed wrong-result",
        "b1 in 1: failed wrong-result",
        "c1 in 1: passed ok",
        "a2 in 2 alone: failed wrong-result",
        "b2 in 3 alone: passed ok",
    ]
    assert bench.ends == {"a": "failed", "b": "flaky", "c": "passed"}


def test_a_lack_that_is_told_twice_is_not_flaky(bench: Bench) -> None:
    lack = "passed(unsupported=dict(asked='x', answered='y'))"
    assert bench.run({A: "wrong()"}, {A: lack}, scenarios=[A, B])[-1] == (
        "a2 in 2 alone: unsupported unsupported"
    )
    assert bench.ends == {"a": "unsupported", "b": "passed"}


@pytest.mark.parametrize(
    "answer",
    [
        "passed(unsupported=dict(asked='x', answered='y'))",
        "passed(error=dict(kind='native', function='Register', code='FAIL', message='no'))",
        "passed(error=dict(kind='python', function='KeyError', code='', message=''))",
    ],
)
def test_what_is_no_failure_is_tried_once(bench: Bench, answer: str) -> None:
    assert len(bench.run({A: answer}, scenarios=[A, B])) == 2


def test_one_cell_that_fails_alone_is_tried_again_all_the_same(bench: Bench) -> None:
    assert bench.run({A: "wrong()"}, scenarios=[A]) == [
        "a1 in 1 alone: failed wrong-result",
        "a2 in 2 alone: passed ok",
    ]
    assert bench.ends == {"a": "flaky"}


@posix
def test_trouble_at_the_end_of_a_shared_host_puts_all_its_cells_alone(bench: Bench) -> None:
    end = "torn_down(); box.at('exit'); kill()"
    assert bench.run({"end": end}, {}, {"end": end}, scenarios=[A, B]) == [
        "a1 in 1: crashed at-exit",
        "b1 in 1: crashed at-exit",
        "a2 in 2 alone: passed ok",
        "b2 in 3 alone: crashed at-exit",
    ]
    assert bench.ends == {"a": "flaky", "b": "crashed"}


@posix
def test_a_confirmation_that_fails_is_seen_again_alone(bench: Bench) -> None:
    hosts: list[Host] = [{C: "kill()"}, {A: "wrong()"}, {C: "kill()"}, {}]
    assert bench.run(*hosts) == [
        "a1 in 1: not-run unconfirmed",
        "b1 in 1: not-run unconfirmed",
        "c1 in 1: crashed SIGSEGV",
        "a2 in 2: failed wrong-result",
        "b2 in 2: passed ok",
        "c2 in 3 alone: crashed SIGSEGV",
        "a3 in 4 alone: passed ok",
    ]
    assert bench.ends == {"a": "flaky", "b": "passed", "c": "crashed"}


@posix
def test_a_confirmation_in_a_host_that_dies_confirms_nothing(bench: Bench) -> None:
    assert bench.run({C: "kill()"}, {B: "kill()"}, {}, {}, {}) == [
        "a1 in 1: not-run unconfirmed",
        "b1 in 1: not-run unconfirmed",
        "c1 in 1: crashed SIGSEGV",
        "a2 in 2: not-run unconfirmed",
        "b2 in 2: crashed SIGSEGV",
        "c2 in 3 alone: passed ok",
        "a3 in 4 alone: passed ok",
        "b3 in 5 alone: passed ok",
    ]
    assert bench.ends == {"a": "passed", "b": "flaky", "c": "flaky"}


@posix
def test_a_cell_that_its_confirmation_did_not_reach_is_tried_alone(bench: Bench) -> None:
    assert bench.run({C: "kill()"}, {A: "kill()"}) == [
        "a1 in 1: not-run unconfirmed",
        "b1 in 1: not-run unconfirmed",
        "c1 in 1: crashed SIGSEGV",
        "a2 in 2: crashed SIGSEGV",
        "c2 in 3 alone: passed ok",
        "a3 in 4 alone: passed ok",
        "b2 in 5 alone: passed ok",
    ]
    assert bench.ends == {"a": "flaky", "b": "passed", "c": "flaky"}


FAILS: Host = {"setup": "setup_failed('oh')"}


def test_a_setup_that_fails_twice_is_believed_of_all_cells(bench: Bench) -> None:
    assert bench.run(FAILS, FAILS, scenarios=[A, B]) == [
        "a1 in 1: failed registration-refused",
        "b1 in 1: failed registration-refused",
        "a2 in 2: failed registration-refused",
        "b2 in 2: failed registration-refused",
    ]
    assert bench.ends == {"a": "failed", "b": "failed"}


def test_a_setup_that_fails_once_makes_all_cells_flaky(bench: Bench) -> None:
    assert bench.run(FAILS, scenarios=[A, B])[2:] == ["a2 in 2: passed ok", "b2 in 2: passed ok"]
    assert bench.ends == {"a": "flaky", "b": "flaky"}


@posix
def test_setups_that_fail_after_a_death_are_believed_when_seen_twice(bench: Bench) -> None:
    assert bench.run({A: "kill()"}, FAILS, FAILS, {}, scenarios=[A, B]) == [
        "a1 in 1: crashed SIGSEGV",
        "b1 in 2 alone: failed registration-refused",
        "b2 in 3 alone: failed registration-refused",
        "a2 in 4 alone: passed ok",
    ]


@pytest.mark.parametrize(
    ("setup", "ends"),
    [
        ("setup_failed('no')", "rejected refused"),
        (
            "ready(core_version=core_version, plugin_sha256_before=sha, ep_name=None); leave()",
            "infra-error no-ep-device",
        ),
        ("say('core-unusable', message='bad'); leave()", "infra-error core-unusable"),
        ("box.at('start'); os._exit(3)", "infra-error host-start"),
    ],
)
def test_a_setup_that_ends_otherwise_than_in_a_failure_is_seen_once(
    bench: Bench, setup: str, ends: str
) -> None:
    assert bench.run({"setup": setup}, scenarios=[A, B]) == [f"a1 in 1: {ends}", f"b1 in 1: {ends}"]
    assert set(bench.ends.values()) == {ends.partition(" ")[0]}


@posix
def test_each_kind_of_host_is_tried_by_itself(bench: Bench) -> None:
    # All that is tried again of the first kind comes before the second.
    assert bench.run({C: "kill()"}, {}, {}, {B: "wrong()"}, bare=[B]) == [
        "a1 in 1: not-run unconfirmed",
        "c1 in 1: crashed SIGSEGV",
        "a2 in 2 alone: passed ok",
        "c2 in 3 alone: passed ok",
        "b1 in 4 alone: failed wrong-result",
        "b2 in 5 alone: passed ok",
    ]
    assert bench.ends == {"a": "passed", "b": "flaky", "c": "flaky"}


GONE = (
    "passed(iterations_passed=0, error=dict(kind='native', function='CreateSession', code='FAIL',"
    "message='no adapter', iteration=0))"
)
_SAYS_SO = PluginEntry.model_validate(
    {"path": "p.so", "no_device": {"messages": ["no adapter"], "hint": "Get one."}}
)


def test_a_device_that_was_there_and_is_gone_is_looked_for_again_alone(bench: Bench) -> None:
    # What came before in the same host may have used something up.
    assert bench.run({B: GONE, C: GONE}, {}, {C: GONE}, entry=_SAYS_SO) == [
        "a1 in 1: passed ok",
        "b1 in 1: infra-error no-ep-device",
        "c1 in 1: infra-error no-ep-device",
        "b2 in 2 alone: passed ok",
        "c2 in 3 alone: infra-error no-ep-device",
    ]
    assert bench.ends == {"a": "passed", "b": "flaky", "c": "infra-error"}


def test_a_device_that_was_never_there_is_not_looked_for_again(bench: Bench) -> None:
    assert bench.run({A: GONE, B: GONE}, scenarios=[A, B], entry=_SAYS_SO) == [
        "a1 in 1: infra-error no-ep-device",
        "b1 in 1: infra-error no-ep-device",
    ]


def test_a_device_that_hosts_before_had_counts(bench: Bench) -> None:
    assert bench.run({}, {B: GONE}, scenarios=[A, B], bare=[B], entry=_SAYS_SO) == [
        "a1 in 1 alone: passed ok",
        "b1 in 2 alone: infra-error no-ep-device",
        "b2 in 3 alone: passed ok",
    ]


def test_a_run_that_goes_on_looks_again_for_a_device_that_was_there(bench: Bench) -> None:
    tried = bench.run({B: GONE}, scenarios=[A, B], entry=_SAYS_SO)[:2]
    del bench.seen[2:]
    bench.told.clear()

    assert bench.run(scenarios=[A, B], entry=_SAYS_SO, goes_on=True) == [
        *tried,
        "b2 in 1 alone: passed ok",
    ]
    assert bench.ends == {"b": "flaky"}


IDLE = "passed(overlap=dict(free=True, calls=9, overlapped=0))"


@pytest.mark.parametrize(
    ("idle", "ends"),
    [(1, ["passed ok"]), (2, ["not-run no-overlap", "passed ok"]), (9, ["not-run no-overlap"] * 3)],
)
def test_lanes_that_did_not_meet_are_given_three_more_tries_at_most(
    bench: Bench, idle: int, ends: list[str]
) -> None:
    hosts = [{A: IDLE}] * idle
    assert bench.run(*hosts, scenarios=[A, B]) == [
        "a1 in 1: not-run no-overlap",
        "b1 in 1: passed ok",
        *(f"a{n} in {n} alone: {end}" for n, end in enumerate(ends, 2)),
    ]


def test_a_cell_that_shares_no_host_comes_after_those_that_do(bench: Bench) -> None:
    assert bench.run({}, {A: "wrong()"}, alone=[A]) == [
        "b1 in 1: passed ok",
        "c1 in 1: passed ok",
        "a1 in 2 alone: failed wrong-result",
        "a2 in 3 alone: passed ok",
    ]


def test_what_is_to_be_tried_once_is_believed(bench: Bench) -> None:
    assert bench.run({A: "wrong()"}, {"setup": "setup_failed('oh')"}, once_alone=True) == [
        "a1 in 1 alone: failed wrong-result",
        "b1 in 2 alone: failed registration-refused",
        "c1 in 3 alone: passed ok",
    ]
    assert bench.ends == {"a": "failed", "b": "failed", "c": "passed"}


def test_each_repetition_of_a_scenario_is_a_cell_of_its_own(bench: Bench) -> None:
    assert bench.run({f"{A}#2": "wrong()"}, scenarios=[A, B], repetitions=2) == [
        "a1 in 1: passed ok",
        "b1 in 1: passed ok",
        "a#21 in 1: failed wrong-result",
        "b#21 in 1: passed ok",
        "a#22 in 2 alone: passed ok",
    ]
    assert bench.ends == {"a": "passed", "b": "passed", "a#2": "flaky", "b#2": "passed"}
    assert bench.told[:4] == [(name, "started") for name in ("a", "b", "a#2", "b#2")]


def test_a_core_that_could_not_be_had_costs_its_own_cells(bench: Bench) -> None:
    cores = ["1.30.0", "1.31.0"]
    tried = bench.run(cores=cores, unavailable=["1.31.0"], scenarios=[A, B])

    assert tried[2:] == [
        "a1 in none: infra-error core-unavailable",
        "b1 in none: infra-error core-unavailable",
    ]
    given_up = bench.seen[-1]
    assert given_up.infra == "core-unavailable: no network"
    assert not given_up.clean_end
    assert not given_up.alone
    assert given_up.host == ""
    assert given_up.duration_s == 0.0
    assert bench.told[-2:] == [("a", "infra-error"), ("b", "infra-error")]


def test_a_run_that_was_stopped_before_says_so_of_every_cell_once(bench: Bench) -> None:
    bench.stop.set()

    assert bench.run() == [f"{name}1 in none: not-run interrupted" for name in "abc"]
    assert bench.ends == dict.fromkeys("abc", "not-run")


def test_an_interruption_keeps_what_was_seen_and_says_what_was_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(_core: str, cell_id: str) -> None:
        if cell_id.endswith("b"):
            bench.stop.set()

    monkeypatch.setattr(bench, "started", started)

    assert bench.run({B: "time.sleep(60)"}) == [
        "a1 in 1: not-run unconfirmed",
        "b1 in 1: not-run interrupted",
        "c1 in none: not-run interrupted",
    ]


def test_an_interruption_leaves_a_failure_seen_and_says_that_it_was_not_seen_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(_core: str, cell_id: str) -> None:
        if cell_id.endswith("b"):
            bench.stop.set()

    monkeypatch.setattr(bench, "started", started)

    assert bench.run({A: "wrong()", B: "time.sleep(60)"}, scenarios=[A, B]) == [
        "a1 in 1: failed wrong-result",
        "b1 in 1: not-run interrupted",
        "a2 in none: not-run interrupted",
    ]


def test_a_fault_of_the_engine_costs_what_was_not_finished_and_no_other_core(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def finished(core: str, cell_id: str, outcome: str) -> None:
        if cell_id == "1.29.0/serialized/copy/b" and outcome == "passed":
            raise KeyError("oh")
        Bench.finished(bench, core, cell_id, outcome)

    monkeypatch.setattr(bench, "finished", finished)
    tried = bench.run(cores=["1.29.0", "1.30.0"])

    assert [one.infra for one in bench.seen if one.infra] == ["harness-error: KeyError: 'oh'"]
    assert tried[3] == "c2 in none: infra-error harness-error"
    assert tried[4:] == [f"{name}1 in 1: passed ok" for name in "abc"]
    assert "KeyError: 'oh'" in capsys.readouterr().err


def test_a_run_folder_that_takes_nothing_more_ends_the_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(observation: Observation) -> None:
        bench.seen.append(observation)
        raise RunFolderError("full", "")

    monkeypatch.setattr(bench, "record", record)

    with pytest.raises(RunFolderError, match="full"):
        bench.run(cores=["1.30.0", "1.31.0"])
    assert bench.stop.is_set()
    assert not (bench.folder / "run" / "hosts").exists()


def test_a_run_that_is_finished_goes_on_with_nothing(bench: Bench) -> None:
    tried = bench.run({A: "wrong()"}, {A: "wrong()"})

    assert bench.left == ["a", "b", "c"]
    assert bench.run(goes_on=True) == tried
    assert bench.left == []


def test_only_what_is_left_of_a_run_is_gone_on_with(bench: Bench) -> None:
    tried = bench.run()[:2]
    del bench.seen[2:]
    bench.told.clear()

    assert bench.run(goes_on=True) == [*tried, "c1 in 1 alone: passed ok"]
    assert bench.left == ["c"]
    assert bench.ends == {"c": "passed"}


def test_what_was_tried_once_and_believed_is_not_tried_again(bench: Bench) -> None:
    bench.run({A: "wrong()"}, {"setup": "setup_failed('oh')"}, once_alone=True)
    tried = bench.tried[:2]
    del bench.seen[-1]

    assert bench.run(once_alone=True, goes_on=True) == [*tried, "c1 in 1 alone: passed ok"]
    assert bench.left == ["c"]


def test_a_run_that_was_stopped_goes_on_with_what_is_left_by_the_same_rules(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(_core: str, cell_id: str) -> None:
        if cell_id.endswith("c"):
            bench.stop.set()

    with monkeypatch.context() as patched:
        patched.setattr(bench, "started", started)
        first = bench.run({A: "wrong()", C: "time.sleep(60)"})
    bench.stop.clear()
    bench.told.clear()

    assert first == [
        "a1 in 1: failed wrong-result",
        "b1 in 1: not-run unconfirmed",
        "c1 in 1: not-run interrupted",
        "a2 in none: not-run interrupted",
    ]
    assert bench.run(goes_on=True)[4:] == [
        "b2 in 1: passed ok",
        "c2 in 1: passed ok",
        "a3 in 2 alone: passed ok",
    ]
    assert bench.left == ["a", "b", "c"]
    assert bench.ends == {"a": "flaky", "b": "passed", "c": "passed"}


@posix
def test_setups_that_failed_before_the_run_was_stopped_count(bench: Bench) -> None:
    bench.run(FAILS, FAILS, scenarios=[A])
    del bench.seen[1:]
    bench.told.clear()

    assert bench.run(FAILS, scenarios=[A], goes_on=True) == [
        "a1 in 1 alone: failed registration-refused",
        "a2 in 1 alone: failed registration-refused",
    ]
    assert bench.ends == {"a": "failed"}
