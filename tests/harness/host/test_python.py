"""Which exceptions are those of the core's Python package."""

from __future__ import annotations

import pytest

from harness.host.python import is_of_package

Fail = type("Fail", (Exception,), {"__module__": "onnxruntime.capi.onnxruntime_pybind11_state"})


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (Fail("refused"), True),
        (RuntimeError("what it makes of others"), True),
        (ValueError("a feed of another type"), True),
        (KeyError("a fault of the scenario"), False),
        (TypeError("a fault of the scenario"), False),
    ],
)
def test_the_packages_own_exceptions_are_known_by_their_module(
    error: Exception, ours: bool
) -> None:
    assert is_of_package(error) is ours
