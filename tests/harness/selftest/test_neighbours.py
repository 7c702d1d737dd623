"""What a fault costs the cells beside it."""

from __future__ import annotations

import pytest

from harness.selftest.neighbours import interleaved, weigh
from tests.harness.selftest.samples import cell, contained, fault

ABORTS = fault(name="aborts", family="hostile", noticed_by=["*"], outcome=["crashed/SIGABRT"])
CHATTY = contained()
GROWS = fault(name="grows", family="hostile", noticed_by=["memory/steady"])
OWN = "selftest/planted[aborts]"


@pytest.mark.parametrize(
    ("few", "many", "woven"),
    [
        ("AB", "123456", "12A34B56"),
        ("AB", "1234", "1A2B34"),
        ("ABC", "12", "A1BC2"),
        ("A", "", "A"),
        ("", "12", "12"),
    ],
)
def test_the_few_are_spread_over_the_many(few: str, many: str, woven: str) -> None:
    found = "".join(interleaved(few, many))

    assert found == woven
    assert sorted(found) == sorted(few + many)


def test_a_fault_that_costs_its_own_cell_alone_is_fine() -> None:
    found = weigh(
        "1.30.0",
        [
            cell("passed/ok", "copy/a", "expected"),
            cell("crashed/SIGABRT", OWN),
            cell("rejected/version-check", "copy/b", "expected"),
        ],
        [ABORTS],
    )

    assert found.fine
    assert (found.core, found.planted, found.others) == ("1.30.0", 1, 2)


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        ("crashed/SIGABRT", "unexpected"),
        ("passed/ok", "flaky"),
        ("not-run/unconfirmed", "unexpected"),
    ],
)
def test_a_cell_beside_it_that_is_not_as_expected_is_spoilt(outcome: str, verdict: str) -> None:
    spoilt = cell(outcome, "copy/a", verdict)

    found = weigh("1.30.0", [spoilt, cell("crashed/SIGABRT", OWN)], [ABORTS])

    assert found.spoilt == (spoilt,)
    assert not found.fine


@pytest.mark.parametrize(
    ("outcome", "verdict", "due"),
    [
        ("crashed/SIGABRT", "unexpected", True),
        ("crashed/SIGSEGV", "unexpected", False),
        ("passed/ok", "expected", False),
        ("passed/ok", "flaky", False),
    ],
)
def test_the_cell_with_the_fault_shows_it(outcome: str, verdict: str, due: bool) -> None:
    own = cell(outcome, OWN, verdict)

    assert weigh("1.30.0", [own], [ABORTS]).other_outcome == (() if due else (own,))


def test_what_a_plain_run_cannot_show_may_pass() -> None:
    cells = [
        cell("passed/ok", "selftest/planted[chatty]", "expected"),
        cell("passed/ok", "selftest/planted[grows]", "expected"),
    ]

    assert weigh("1.30.0", cells, [CHATTY, GROWS]).fine
    # But what it shows instead may not be anything.
    cells = [cell("failed/release-error", "selftest/planted[grows]")]
    assert weigh("1.30.0", cells, [GROWS]).other_outcome == tuple(cells)


def test_what_an_interruption_left_out_is_neither_spoilt_nor_tried() -> None:
    cells = [
        cell("not-run/interrupted", "copy/a"),
        cell("not-run/interrupted", OWN),
        cell("passed/ok", "copy/b", "expected"),
    ]

    found = weigh("1.30.0", cells, [ABORTS])

    assert (found.planted, found.others, found.untried) == (0, 1, 2)
    assert (found.spoilt, found.other_outcome, found.fine) == ((), (), False)
