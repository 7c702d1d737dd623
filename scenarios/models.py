"""The ONNX models of the scenarios: small graphs of float32 tensors of shape (3, 2)."""

from __future__ import annotations

from typing import Any

from harness.host.model import Model

__all__ = ["CHAIN", "MIN_CHAIN", "NEGATE", "SHAPE", "TWO_BRANCHES"]

SHAPE = (3, 2)

_OPSET, _IR_VERSION = 17, 8
"""Old enough for every core from 1.24 and every plugin for one."""


def _build(model: Model, nodes: list[tuple[str, list[str], str, str]]) -> bytes:
    """Build a graph of nodes given as operator, inputs, output and node name."""
    from onnx import TensorProto, helper

    def tensors(shapes: Any) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in shapes.items()
        ]

    graph = helper.make_graph(
        [helper.make_node(op, inputs, [output], name=name) for op, inputs, output, name in nodes],
        model.name,
        tensors(model.inputs),
        tensors(model.outputs),
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    built: bytes = proto.SerializeToString()
    return built


def _negate(model: Model) -> bytes:
    return _build(model, [("Neg", ["x"], "y", "negate")])


def _two_branches(model: Model) -> bytes:
    return _build(
        model,
        [
            ("Neg", ["device_in"], "device_out", "on_device"),
            ("Neg", ["cpu_in"], "cpu_out", "on_cpu"),
        ],
    )


def _chain(model: Model) -> bytes:
    return _build(
        model,
        [
            ("Add", ["x", "x"], "doubled", "first_on_device"),
            ("Neg", ["doubled"], "negated", "on_cpu"),
            ("Mul", ["negated", "x"], "y", "last_on_device"),
        ],
    )


def _min_chain(model: Model) -> bytes:
    return _build(
        model,
        [
            ("Min", ["a", "b", "c", "d"], "least", "first_min"),
            ("Min", ["least", "e", "f", "g"], "y", "second_min"),
        ],
    )


NEGATE = Model("negate", {"x": SHAPE}, {"y": SHAPE}, _negate)
"""y = -x."""

TWO_BRANCHES = Model(
    "two-branches",
    {"device_in": SHAPE, "cpu_in": SHAPE},
    {"device_out": SHAPE, "cpu_out": SHAPE},
    _two_branches,
)
"""device_out = -device_in and cpu_out = -cpu_in, independent of each other."""

CHAIN = Model("chain", {"x": SHAPE}, {"y": SHAPE}, _chain)
"""y = -(x + x) * x, with the negation on the CPU EP between two nodes on the device."""

MIN_CHAIN = Model(
    "min-chain",
    dict.fromkeys("abcdefg", SHAPE),
    {"y": SHAPE},
    _min_chain,
)
"""y = min(min(a, b, c, d), e, f, g)."""
