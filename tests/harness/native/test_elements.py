from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import np_dtype_to_tensor_dtype

from harness.native.elements import element_type

NAMES = [
    "float16", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "bool",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_an_element_type_has_the_number_that_onnx_gives_it(name: str) -> None:
    dtype = np.dtype(name)

    assert element_type(dtype) == np_dtype_to_tensor_dtype(dtype)


def test_numbers_are_those_of_tensor_proto() -> None:
    assert element_type(np.dtype(np.float32)) == TensorProto.FLOAT == 1
    assert element_type(np.dtype(np.float16)) == TensorProto.FLOAT16 == 10


@pytest.mark.parametrize("name", ["complex64", "U3", "O", "M8[s]"])
def test_a_type_without_a_counterpart_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="no ONNX element type"):
        element_type(np.dtype(name))
