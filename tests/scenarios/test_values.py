from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from scenarios.allocation import _inputs
from scenarios.values import patterned, values, zeros

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


FLOATS = ["float16", "float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED, "bool"])
def test_a_pattern_has_the_shape_and_type_that_were_asked_for(dtype: str) -> None:
    array = patterned((5, 7), 3, dtype)

    assert (array.shape, array.dtype.name) == ((5, 7), dtype)


def test_a_pattern_of_bytes_counts_to_255_and_begins_elsewhere_each_time() -> None:
    assert patterned((257,), 0, np.uint8)[[0, 1, 254, 255, 256]].tolist() == [1, 2, 255, 1, 2]
    assert patterned((3,), 1, np.uint8).tolist() == [38, 39, 40]
    assert patterned((3,), 0, np.uint8, salt=1).tolist() == [102, 103, 104]
    assert patterned((128,), 0, np.int8)[[0, 126, 127]].tolist() == [1, 127, -128]
    assert patterned((4,), 0, np.bool_).tolist() == [True, False, True, False]
    assert patterned((0,), 0).size == 0


def test_a_pattern_of_wider_elements_takes_turns_with_small_ones() -> None:
    assert [hex(n) for n in patterned((4,), 0, np.uint16)] == ["0x201", "0x2", "0x605", "0x4"]
    assert patterned((130,), 0, np.int32)[[1, 125, 127, 129]].tolist() == [2, 126, -128, -126]
    assert hex(patterned((1,), 0, np.uint64)[0]) == "0x807060504030201"
    assert patterned((130,), 0, np.float32)[[1, 125, 127, 129]].tolist() == [2, 126, -128, -126]


def all_of(dtype: str) -> npt.NDArray[Any]:
    """What element-types copies in all iterations, one after the other."""
    return np.concatenate([patterned((5, 7), i, dtype).ravel() for i in range(ITERATIONS)])


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED])
def test_no_element_of_a_pattern_is_zero_and_each_bit_is_set_in_one_and_not_in_another(
    dtype: str,
) -> None:
    array = all_of(dtype)
    bits = np.unpackbits(array.view(np.uint8).reshape(array.size, -1), axis=1)

    assert (array != 0).all()
    assert bits.any(axis=0).all()
    assert not bits.all(axis=0).any()


@pytest.mark.parametrize("dtype", SIGNED)
def test_a_pattern_of_integers_has_small_and_large_ones_of_both_signs(dtype: str) -> None:
    array = all_of(dtype)
    largest = np.iinfo(dtype).max

    assert array.max() > largest // 2
    assert array.min() < -(largest // 2)
    assert ((array > 0) & (array < 128)).any()
    assert ((array < 0) & (array >= -128)).any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_pattern_of_floats_is_finite_and_normal_and_has_all_sizes_of_both_signs(
    dtype: str,
) -> None:
    every = np.concatenate([patterned((255,), i, dtype) for i in range(255)])
    least, greatest = np.finfo(dtype).smallest_normal, np.finfo(dtype).max

    assert np.isfinite(every).all()
    assert (np.abs(every) >= least).all()
    array = all_of(dtype).astype(np.float64)
    for sign in (-1, 1):
        sizes = sign * array[np.sign(array) == sign]
        assert sizes.min() < float(least) ** 0.75
        assert sizes.max() > float(greatest) ** 0.75
        assert (sizes == sizes.round()).any()


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED])
def test_no_pattern_is_that_of_another_iteration_or_neighbour(dtype: str) -> None:
    first = [float(patterned((1,), i, dtype, salt=n)[0]) for i in range(20) for n in (0, 1)]

    assert len(set(first)) == len(first)


def test_a_pattern_that_is_moved_by_a_page_or_a_row_is_another_one() -> None:
    array = patterned((65_537,), 0, np.uint8)

    for moved in (1, 4, 16, 64, 256, 4096, 65_536):
        assert (array[moved:] != array[:-moved]).any()
