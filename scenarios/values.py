"""Input values: small whole numbers, exact in any type, that differ by element and iteration."""

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
    """An input of any shape and type: 1 to 250 again and again, begun elsewhere each time.

    The period is no power of two, so that content that was moved by a page or a row shows. Of
    bool, every odd number is true.
    """
    numbers = np.arange(250) + 37 * iteration + 101 * salt
    one_period = (numbers % 250 + 1).astype(np.uint8)
    kind = np.dtype(dtype)
    repeated = one_period & 1 if kind == np.bool_ else one_period
    return np.resize(repeated, shape).astype(kind, copy=False)


def zeros() -> npt.NDArray[Any]:
    """A cleared array of shape (3, 2)."""
    return np.zeros(SHAPE, dtype=np.float32)
