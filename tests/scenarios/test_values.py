from __future__ import annotations

import numpy as np
import pytest

from scenarios.allocation import _inputs
from scenarios.values import values, zeros

ITERATIONS = 20


def test_the_first_values_are_those_of_the_docs() -> None:
    assert values(0).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert values(1).tolist() == [[7, 8], [9, 10], [11, 12]]
    assert values(2, salt=1).tolist() == [[1013, 1014], [1015, 1016], [1017, 1018]]
    assert values(0).dtype == np.float32
    assert values(0).shape == (3, 2)


@pytest.mark.parametrize("salt", [0, 1, 2])
def test_no_value_is_ever_zero(salt: int) -> None:
    for iteration in [*range(300), 999_999]:
        assert (values(iteration, salt) > 0).all()


def test_no_element_is_that_of_another_iteration_place_or_salt() -> None:
    seen = [
        float(value)
        for iteration in range(100)
        for salt in (0, 1)
        for value in values(iteration, salt).ravel()
    ]

    assert len(set(seen)) == len(seen) == 100 * 2 * 6


def test_what_the_scenarios_compute_of_values_is_exact_in_float32() -> None:
    for iteration in range(100):
        for salt in (0, 1):
            x = values(iteration, salt)
            exact = [-2 * int(v) ** 2 for v in x.ravel()]
            assert (-(x + x) * x).ravel().tolist() == exact


def test_values_are_new_arrays_each_time() -> None:
    values(0)[:] = 99

    assert values(0).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_zeros_are_zero() -> None:
    assert zeros().tolist() == [[0, 0]] * 3
    assert zeros().dtype == np.float32


@pytest.mark.parametrize("iteration", range(ITERATIONS))
def test_the_least_of_the_seven_inputs_is_the_value_of_the_iteration(iteration: int) -> None:
    arrays = _inputs(iteration)
    stacked = np.stack(list(arrays.values()))

    assert list(arrays) == list("abcdefg")
    assert stacked.shape == (7, 3, 2)
    assert (stacked.min(axis=0) == values(iteration)).all()
    # One input alone decides each element, so that leaving any out shows.
    assert ((stacked == values(iteration)).sum(axis=0) == 1).all()


def test_every_input_decides_an_element_in_some_iteration() -> None:
    deciding = {
        name
        for iteration in range(7)
        for name, array in _inputs(iteration).items()
        if (array == values(iteration)).any()
    }

    assert deciding == set("abcdefg")
