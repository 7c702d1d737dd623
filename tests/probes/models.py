"""The models of the probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.host.model import Model
from scenarios.models import SHAPE

__all__ = ["MOVES"]


def _moves(_model: Model) -> bytes:
    from onnx import TensorProto, helper

    return _model_of(
        [
            helper.make_node("Transpose", ["x"], ["turned"], name="turn"),
            helper.make_node("Reshape", ["turned", "shape"], ["line"], name="line_up"),
            helper.make_node("Identity", ["line"], ["same"], name="same"),
            helper.make_node("Sub", ["same", "one"], ["less"], name="subtract"),
            helper.make_node("Mul", ["less", "less"], ["y"], name="square"),
        ],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6])],
        [
            helper.make_tensor("shape", TensorProto.INT64, [1], [-1]),
            helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
        ],
    )


def _model_of(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    initializers: Sequence[Any] = (),
) -> bytes:
    from onnx import helper

    graph = helper.make_graph(nodes, "probe", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    built: bytes = model.SerializeToString()
    return built


MOVES = Model("moves", {"x": SHAPE}, {"y": (6,)}, _moves)
"""y = (x.T.ravel() - 1) ** 2, by Transpose, Reshape, Identity, Sub and Mul."""
