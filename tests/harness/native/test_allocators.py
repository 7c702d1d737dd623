from __future__ import annotations

from typing import Any

import pytest

from harness.native.allocators import statistics
from harness.native.api import ffi
from harness.native.handles import Handle


class NoApi:
    """Stands where an `Api` would, and must not be called."""


@pytest.mark.parametrize("level", [22, 30])
def test_an_allocator_that_leaves_its_statistics_out_is_not_asked(level: int) -> None:
    """The cores up to 1.32 call what is not there."""
    allocator: Any = ffi.new("OrtAllocator *", {"version": level})

    assert statistics(NoApi(), Handle("allocator", allocator, lambda _: None)) == {}  # type: ignore[arg-type] # see its class


def test_a_member_that_the_allocator_s_level_does_not_have_is_not_looked_at() -> None:
    nowhere = ffi.cast("OrtStatus *(*)(const OrtAllocator *, OrtKeyValuePairs **)", 0x5A5A)
    allocator: Any = ffi.new("OrtAllocator *", {"version": 22, "GetStats": nowhere})

    assert statistics(NoApi(), Handle("allocator", allocator, lambda _: None)) == {}  # type: ignore[arg-type] # see its class
