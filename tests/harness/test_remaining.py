"""What is still to be tried of a cell, by the rules of docs/architecture.md."""

from __future__ import annotations

import pytest

from harness.outcome import AskedFor, classify
from harness.remaining import failed_in_setup, remaining
from harness.results import Observation
from tests.harness.samples import PLUGIN_SHA256, death, native_error, observation, report

PASSED = observation()
ALONE = observation(alone=True)
UNCONFIRMED = observation(clean_end=False)
FAILED = observation(report=report(iterations_passed=19))
FAILED_ALONE = FAILED.model_copy(update={"alone": True})
EARLY = FAILED.model_copy(update={"clean_end": False, "early": True})
CRASHED = observation(report=None, death=death())
AT_EXIT = observation(death=death("exit"))
UNSUPPORTED = observation(
    report=report(unsupported={"asked": "a thing", "answered": "there is none"})
)
REFUSED = observation(report=None, setup_error=native_error(), clean_end=True)
DEAD_AT_REGISTRATION = observation(report=None, death=death("register"))
NO_DEVICE = observation(report=None, no_device=True)
RAISED = observation(report=report(error=native_error(kind="python")))
RAISED_UNCLEAN = RAISED.model_copy(update={"clean_end": False})


def infra(why: str) -> Observation:
    return observation(report=None, infra=why, clean_end=False, host="")


CUT = infra("interrupted: the run was stopped")
NO_CORE = infra("core-unavailable: the network is down")


@pytest.mark.parametrize(
    ("seen", "due"),
    [
        ([], "together"),
        # What is told needs no other try.
        ([PASSED], "nothing"),
        ([UNSUPPORTED], "nothing"),
        ([NO_DEVICE], "nothing"),
        ([RAISED], "nothing"),
        ([NO_CORE], "nothing"),
        ([infra("harness-error: a fault")], "nothing"),
        # A pass counts in a host that ended in order.
        ([UNCONFIRMED], "together"),
        ([RAISED_UNCLEAN], "together"),
        ([UNCONFIRMED, PASSED], "nothing"),
        ([UNCONFIRMED, UNCONFIRMED], "together"),
        # A failure is believed when a host of its own shows it again, and not before.
        ([FAILED], "alone"),
        ([EARLY], "alone"),
        ([CRASHED], "alone"),
        ([AT_EXIT], "alone"),
        ([FAILED_ALONE], "alone"),
        ([UNCONFIRMED, FAILED_ALONE], "alone"),
        ([FAILED, FAILED_ALONE], "nothing"),
        ([FAILED_ALONE, FAILED_ALONE], "nothing"),
        ([CRASHED, ALONE], "nothing"),
        ([UNCONFIRMED, FAILED_ALONE, ALONE], "nothing"),
        ([FAILED, RAISED_UNCLEAN.model_copy(update={"alone": True})], "nothing"),
        # An interruption says nothing, and hides nothing.
        ([CUT], "together"),
        ([CUT, CUT], "together"),
        ([UNCONFIRMED, CUT], "together"),
        ([FAILED, CUT], "alone"),
        ([FAILED, CUT, CUT], "alone"),
        ([FAILED, UNCONFIRMED.model_copy(update={"alone": True})], "alone"),
        ([CUT, PASSED], "nothing"),
        ([PASSED, CUT], "nothing"),
        ([FAILED, FAILED_ALONE, CUT], "nothing"),
        ([FAILED_ALONE, CUT], "alone"),
        ([FAILED, CUT, ALONE], "nothing"),
        # A setup that fails is the same for all cells; one more host is proof enough.
        ([REFUSED], "together"),
        ([DEAD_AT_REGISTRATION], "together"),
        ([REFUSED, REFUSED], "nothing"),
        ([REFUSED, REFUSED, REFUSED], "nothing"),
        ([DEAD_AT_REGISTRATION, REFUSED], "nothing"),
        ([REFUSED, UNCONFIRMED, REFUSED], "together"),
        ([REFUSED, CUT], "together"),
        ([REFUSED, PASSED], "nothing"),
    ],
)
def test_a_cell_goes_on_from_where_its_observations_leave_it(
    seen: list[Observation], due: str
) -> None:
    asked = AskedFor("1.30.0", PLUGIN_SHA256)

    assert remaining([(one, classify(one, asked, [])) for one in seen]) == due


@pytest.mark.parametrize(
    ("seen", "due"),
    [
        ([], "together"),
        ([PASSED], "nothing"),
        ([CRASHED], "nothing"),
        ([FAILED_ALONE], "nothing"),
        ([REFUSED], "nothing"),
        ([CUT], "together"),
        ([UNCONFIRMED], "together"),
        ([UNCONFIRMED, CUT], "together"),
        ([CRASHED, CUT], "nothing"),
    ],
)
def test_where_each_cell_is_tried_once_what_was_seen_is_believed(
    seen: list[Observation], due: str
) -> None:
    asked = AskedFor("1.30.0", PLUGIN_SHA256)

    assert remaining([(one, classify(one, asked, [])) for one in seen], once=True) == due


@pytest.mark.parametrize(
    ("seen", "failed"),
    [
        (REFUSED, True),
        (observation(report=None, death=death("start")), True),
        (observation(report=None, death=death("load")), True),
        (DEAD_AT_REGISTRATION, True),
        (CRASHED, False),
        (NO_DEVICE, False),
        (PASSED, False),
        # Its host had come to its first scenario, whatever is said of its end.
        (observation(death=death("register")), False),
        (observation(report=None, death=death("start"), infra="host-start: no"), False),
    ],
)
def test_a_setup_failed_if_no_scenario_was_reached(seen: Observation, failed: bool) -> None:
    assert failed_in_setup(seen) is failed
