"""Input values: small whole numbers, exact in float32, that differ by element and by iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scenarios.models import SHAPE

__all__ = ["values", "zeros"]


def values(iteration: int, salt: int = 0) -> npt.NDArray[Any]:
    """An input of shape (3, 2): 1 to 6, moved on by 6 an iteration and by 1000 a salt.

    No element is ever 0: memory that was only cleared cannot pass for a result. After a hundred
    iterations they begin anew, so that products of them stay exact.
    """
    start = 1 + 6 * (iteration % 100) + 1000 * salt
    return np.arange(start, start + 6, dtype=np.float32).reshape(SHAPE)


def zeros() -> npt.NDArray[Any]:
    """A cleared array of shape (3, 2)."""
    return np.zeros(SHAPE, dtype=np.float32)
