"""Element types of tensors: numpy's to ONNX's numbers (ONNX TensorProto.DataType)."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["element_type"]

_NUMBERS = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
}


def element_type(dtype: np.dtype[Any]) -> int:
    """The number of an element type.

    Raises:
        TypeError: numpy's type has no counterpart here.
    """
    number = _NUMBERS.get(dtype.name)
    if number is None:
        raise TypeError(f"no ONNX element type for numpy's {dtype.name}")
    return number
