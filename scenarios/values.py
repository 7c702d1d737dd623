"""Input values, which differ by element and iteration: whole numbers, and all bits of a type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scenarios.models import SHAPE

__all__ = ["patterned", "values", "zeros"]


def values(iteration: int, salt: int = 0) -> npt.NDArray[Any]:
    """An input of shape (3, 2): 1 to 6, moved on by 6 an iteration and by 1000 a salt.

    No element is ever 0: memory that was only cleared cannot pass for a result. After a hundred
    iterations they begin anew, so that products of them stay exact.
    """
    start = 1 + 6 * (iteration % 100) + 1000 * salt
    return np.arange(start, start + 6, dtype=np.float32).reshape(SHAPE)


def patterned(
    shape: Sequence[int], iteration: int, dtype: npt.DTypeLike = np.float32, salt: int = 0
) -> npt.NDArray[Any]:
    """An input of any shape and type: 255 elements again and again, begun elsewhere each time.

    The period is no power of two, so that content that was moved by a page or a row shows. Of a
    type of one byte it is that byte, from 1 to 255; of bool, every odd one is true. Of a wider
    type, elements with something in each of their bytes take turns with small ones, negative ones
    among both. No element is 0, infinite or no number; floats are normal, since a device may take
    what is smaller for 0.
    """
    kind = np.dtype(dtype)
    count = _PERIOD * kind.itemsize
    numbers = (np.arange(count) + 37 * iteration + 101 * salt) % _PERIOD + 1
    one_period = numbers.astype(np.uint8)
    if kind == np.bool_:
        one_period &= 1
    elements = one_period.view(kind)
    if kind.itemsize > 1:
        elements = _normal(elements) if kind.kind == "f" else elements
        small = numbers[:_PERIOD].astype(np.int8).astype(kind)
        elements[1::2] = small[1::2]
    return np.resize(elements, shape)


_PERIOD = 255


def _normal(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same floats, but with another exponent where that is the least or the greatest."""
    bits = floats.view(f"u{floats.itemsize}")
    one, all_ones = (
        np.array(number, dtype=floats.dtype).view(bits.dtype)
        for number in (np.finfo(floats.dtype).smallest_normal, np.inf)
    )
    exponents = bits & all_ones
    return np.where((exponents == 0) | (exponents == all_ones), bits ^ one, bits).view(floats.dtype)


def zeros() -> npt.NDArray[Any]:
    """A cleared array of shape (3, 2)."""
    return np.zeros(SHAPE, dtype=np.float32)
