from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.host.host import Host
from scenarios.allocation import _GAUGES, _ROUNDS, _ROUNDS_TO_FILL, _lie_apart, _stays

MB = 2**20


class Checks:
    """Takes down what a check says, in place of a host."""

    def __init__(self, *, byte_addresses: bool = True) -> None:
        self.held: list[bool] = []
        self.promises = SimpleNamespace(byte_addresses=byte_addresses)

    def truth(self, _what: str, holds: bool, _got: object = "") -> None:
        self.held.append(holds)

    def address(self, tensor: Any) -> int:
        return int(tensor.address)


@pytest.mark.parametrize(
    ("seen", "steady"),
    [
        ([100 * MB] * 20, True),
        # Caches are filled in the first rounds.
        ([50 * MB, 60 * MB, 80 * MB, 99 * MB] + [100 * MB] * 16, True),
        # Whatever comes back was no leak, wherever it was looked at.
        ([100 * MB] * 15 + [130 * MB, 170 * MB, 130 * MB, 130 * MB, 101 * MB], True),
        ([100 * MB] * 7 + [140 * MB] + [110 * MB] * 12, True),
        # A step that stays, of what an allocator keeps for later.
        ([100 * MB] * 10 + [104 * MB] * 10, True),
        # One megabyte a round is the least that is looked for.
        ([(100 + n) * MB for n in range(20)], False),
        ([(100 + 8 * n) * MB for n in range(20)], False),
        ([(100 + n) * MB for n in range(400)], False),
    ],
)
def test_what_grows_each_round_is_told_from_what_comes_to_a_plateau(
    seen: Sequence[int], steady: bool
) -> None:
    checks = Checks()

    _stays(cast(Host, checks), _GAUGES["process"], seen)

    assert checks.held == [steady]


def pool_of(kept: int, rounds: int) -> list[int]:
    """Bytes in use, of a plugin that reuses none of the buffers freed last, and frees 4 a round."""
    return [100 * MB + min(4 * n, kept) * MB for n in range(1, rounds + 1)]


@pytest.mark.parametrize(("kept", "steady"), [(64, True), (100, True), (100_000, False)])
def test_a_pool_that_fills_up_is_told_from_a_leak(kept: int, steady: bool) -> None:
    checks = Checks()

    for rounds in (2 * _ROUNDS, 100, 400):
        _stays(cast(Host, checks), _GAUGES["process"], pool_of(kept, rounds), _ROUNDS_TO_FILL)

    assert checks.held == [steady] * 3


def test_a_megabyte_a_round_is_a_leak_behind_the_rounds_in_which_a_pool_fills() -> None:
    checks = Checks()
    seen = [(100 + n) * MB for n in range(2 * _ROUNDS)]

    _stays(cast(Host, checks), _GAUGES["process"], seen, _ROUNDS_TO_FILL)

    assert checks.held == [False]


def test_a_count_must_not_grow_at_all() -> None:
    checks = Checks()

    for seen in ([512] * 20, [*range(0, 20, 4)] + [20] * 15, [512 + n for n in range(20)]):
        _stays(cast(Host, checks), _GAUGES["statistics"], seen)

    assert checks.held == [True, True, False]


def buffer(address: int, size: int) -> Any:
    return SimpleNamespace(address=address, shape=(size,), dtype=SimpleNamespace(itemsize=1))


@pytest.mark.parametrize(
    ("buffers", "bytes_apart", "handles_apart"),
    [
        ([(512, 256), (256, 256)], True, True),
        ([(256, 257), (512, 1)], False, True),
        ([(256, 1), (256, 1)], False, False),
        ([(0, 16), (256, 1)], False, False),
    ],
)
def test_ranges_are_compared_only_where_an_address_is_one(
    buffers: list[tuple[int, int]], bytes_apart: bool, handles_apart: bool
) -> None:
    for reckoned, apart in ((True, bytes_apart), (False, handles_apart)):
        checks = Checks(byte_addresses=reckoned)

        _lie_apart(cast(Host, checks), [buffer(*one) for one in buffers])

        assert all(checks.held) == apart
