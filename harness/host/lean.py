"""numpy without a thread for every processor, which no scenario's arithmetic is worth."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["lean_numpy"]

_VARIABLE = "OPENBLAS_NUM_THREADS"


@contextlib.contextmanager
def lean_numpy() -> Iterator[None]:
    """Keep numpy, if it is imported in the block, from starting threads.

    The variable that tells it is taken back, since the plugin and what it loads must find the
    user's own environment.
    """
    added = _VARIABLE not in os.environ
    os.environ.setdefault(_VARIABLE, "1")
    try:
        yield
    finally:
        if added:
            del os.environ[_VARIABLE]
