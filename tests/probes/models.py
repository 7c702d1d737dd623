"""The models of the probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.host.model import Model
from scenarios.models import SHAPE

__all__ = ["ABS_NEGATE", "ADD_ONE_TO", "BRANCH", "MOVES", "WIDE", "WIDE_SHAPE"]

WIDE_SHAPE = (512, 512)


def _abs_negate(_model: Model) -> bytes:
    from onnx import TensorProto, helper

    return _model_of(
        [
            helper.make_node("Abs", ["x"], ["size"], name="size"),
            helper.make_node("Neg", ["size"], ["y"], name="negate"),
        ],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
    )


def _add_one_to(_model: Model) -> bytes:
    from onnx import TensorProto, helper

    return _model_of(
        [helper.make_node("Add", ["x", "one"], ["y"], name="add")],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])],
    )


def _branch(_model: Model) -> bytes:
    from onnx import TensorProto, helper

    def branch(op: str) -> object:
        return helper.make_graph(
            [helper.make_node(op, ["x"], [f"{op}_y"], name=f"{op}_in_branch")],
            op,
            [],
            [helper.make_tensor_value_info(f"{op}_y", TensorProto.FLOAT, SHAPE)],
        )

    return _model_of(
        [
            helper.make_node(
                "If", ["c"], ["y"], name="if", then_branch=branch("Neg"), else_branch=branch("Abs")
            )
        ],
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
    )


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


def _wide(_model: Model) -> bytes:
    from onnx import TensorProto, helper

    return _model_of(
        [helper.make_node("Neg", ["x"], ["y"], name="negate")],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, WIDE_SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, WIDE_SHAPE)],
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


ABS_NEGATE = Model("abs-negate", {"x": SHAPE}, {"y": SHAPE}, _abs_negate)
"""y = -abs(x), with an intermediate between two nodes."""

ADD_ONE_TO = Model("add-one-to", {"x": SHAPE}, {"y": SHAPE}, _add_one_to)
"""y = x + 1, of which each repetition on its own result counts."""

BRANCH = Model("branch", {"c": (), "x": SHAPE}, {"y": SHAPE}, _branch)
"""y = -x if c, else abs(x)."""

MOVES = Model("moves", {"x": SHAPE}, {"y": (6,)}, _moves)
"""y = (x.T.ravel() - 1) ** 2, by Transpose, Reshape, Identity, Sub and Mul."""

WIDE = Model("wide", {"x": WIDE_SHAPE}, {"y": WIDE_SHAPE}, _wide)
"""y = -x, of a size that takes a device some time."""
