"""The ONNX models of the scenarios: small graphs of float32 tensors of shape (3, 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.host.model import Model

__all__ = [
    "ADD_AND_NEGATE",
    "CHAIN",
    "CROSSING",
    "DOUBLE",
    "EITHER",
    "LARGE",
    "LINE",
    "LONG",
    "MIN_CHAIN",
    "NEGATE",
    "NEGATE_AND_ADD",
    "NEGATE_AND_MOVE",
    "NEGATE_LARGE",
    "NOBODYS",
    "SHAPE",
    "STEPS",
    "TWO_BRANCHES",
    "WEIGHTED",
    "WEIGHTS",
]

SHAPE = (3, 2)
LINE = (6,)
LARGE = (512, 512)
"""A tensor of 1 MB."""

_OPSET, _IR_VERSION = 17, 8
"""Old enough for every core from 1.24 and every plugin for one."""


Build = Callable[[Model], bytes]


def _build(
    model: Model, nodes: list[tuple[str, list[str], str, str]], *, any_rows: bool = False
) -> bytes:
    """Build a graph of nodes given as operator, inputs, output and node name.

    With `any_rows` each tensor may have any number of rows, so that it is a kernel that finds out
    when two do not fit, and not ORT before the run.
    """
    from onnx import TensorProto, helper

    def tensors(shapes: Any) -> list[Any]:
        return [
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT, (f"rows of {name}", *shape[1:]) if any_rows else shape
            )
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


def _long(model: Model) -> bytes:
    names = ["x", *(f"after_{n}" for n in range(1, 41)), "y"]
    return _build(
        model, [("Neg", [names[n]], names[n + 1], f"negate_{n}") for n in range(len(names) - 1)]
    )


def _double(model: Model) -> bytes:
    return _build(model, [("Add", ["x", "x"], "y", "double")])


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


def _crossing(model: Model) -> bytes:
    return _build(
        model,
        [
            ("Add", ["x", "x"], "doubled", "first_on_device"),
            ("Neg", ["doubled"], "negated", "on_cpu"),
            ("Mul", ["negated", "x"], "product", "between_on_device"),
            ("Neg", ["product"], "again", "again_on_cpu"),
            ("Add", ["again", "x"], "y", "last_on_device"),
        ],
    )


def _nobodys(model: Model) -> bytes:
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Neg", ["x"], ["negated"], name="negate"),
        helper.make_node("Cast", ["negated"], ["double"], name="to_double", to=TensorProto.DOUBLE),
        helper.make_node("Acosh", ["double"], ["acosh"], name="nobodys"),
        helper.make_node("Cast", ["acosh"], ["y"], name="to_float", to=TensorProto.FLOAT),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (*model.inputs.items(), *model.outputs.items())
    )
    proto = helper.make_model(
        helper.make_graph(nodes, model.name, [x], [y]),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )
    built: bytes = proto.SerializeToString()
    return built


def _min_chain(model: Model) -> bytes:
    return _build(
        model,
        [
            ("Min", ["a", "b", "c", "d"], "least", "first_min"),
            ("Min", ["least", "e", "f", "g"], "y", "second_min"),
        ],
    )


def _negate_and(op: str, constants: Mapping[str, Any], **attributes: Any) -> Build:
    """A builder of a graph in which a kernel that only moves elements follows a Neg.

    Both results are outputs of the graph, so that ORT cannot leave the second kernel out.
    """

    def build(model: Model) -> bytes:
        from onnx import TensorProto, helper, numpy_helper

        nodes = [
            helper.make_node("Neg", ["x"], ["negated"], name="negate"),
            helper.make_node(op, ["negated", *constants], ["y"], name="move", **attributes),
        ]
        graph = helper.make_graph(
            nodes,
            model.name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, model.inputs["x"])],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in model.outputs.items()
            ],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        proto = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
        )
        built: bytes = proto.SerializeToString()
        return built

    return build


def _moving(
    name: str,
    op: str,
    to: tuple[int, ...] = LINE,
    constants: Mapping[str, Any] | None = None,
    **attributes: Any,
) -> Model:
    return Model(
        f"negate-and-{name}",
        {"x": LINE},
        {"negated": LINE, "y": to},
        _negate_and(op, constants or {}, **attributes),
    )


def _steps(model: Model) -> bytes:
    return _build(
        model,
        [
            ("Add", ["x", "x"], "doubled", "double"),
            ("Mul", ["doubled", "x"], "product", "multiply"),
            ("Sub", ["product", "x"], "difference", "subtract"),
            ("Neg", ["difference"], "y", "negate"),
        ],
    )


def _add_and_negate(model: Model) -> bytes:
    return _build(model, [("Add", ["x", "by"], "sum", "add"), ("Neg", ["sum"], "y", "negate")])


def _negate_and_add(model: Model) -> bytes:
    return _build(
        model,
        [("Neg", ["x"], "negated", "negate"), ("Add", ["negated", "by"], "y", "add")],
        any_rows=True,
    )


def _weighted(scale: npt.NDArray[Any], bias: npt.NDArray[Any]) -> Build:
    """A builder of a graph with initializers of float32, as every model from outside has them."""

    def build(model: Model) -> bytes:
        from onnx import TensorProto, helper, numpy_helper

        x, y = (
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (*model.inputs.items(), *model.outputs.items())
        )
        nodes = [
            helper.make_node("Mul", ["x", "scale"], ["scaled"], name="scale"),
            helper.make_node("Add", ["scaled", "bias"], ["y"], name="shift"),
        ]
        weights = {"scale": scale, "bias": bias}
        graph = helper.make_graph(
            nodes,
            model.name,
            [x],
            [y],
            [numpy_helper.from_array(value, name) for name, value in weights.items()],
        )
        proto = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
        )
        built: bytes = proto.SerializeToString()
        return built

    return build


def _either(model: Model) -> bytes:
    from onnx import TensorProto, helper

    def branch(op: str, node: str) -> Any:
        out = helper.make_tensor_value_info(f"{node}_y", TensorProto.FLOAT, SHAPE)
        inner = helper.make_node(op, ["x", "x"], [f"{node}_y"], name=node)
        return helper.make_graph([inner], node, [], [out])

    choice = helper.make_node(
        "If",
        ["doubled"],
        ["y"],
        name="choose",
        then_branch=branch("Add", "double"),
        else_branch=branch("Mul", "square"),
    )
    graph = helper.make_graph(
        [choice],
        model.name,
        [
            helper.make_tensor_value_info("doubled", TensorProto.BOOL, model.inputs["doubled"]),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, model.inputs["x"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    built: bytes = proto.SerializeToString()
    return built


NEGATE = Model("negate", {"x": SHAPE}, {"y": SHAPE}, _negate)
"""y = -x."""

LONG = Model("long", {"x": SHAPE}, {"y": SHAPE}, _long)
"""y = -x by way of 41 negations: a run that takes its time, and is soon checked."""

DOUBLE = Model("double", {"x": SHAPE}, {"y": SHAPE}, _double)
"""y = x + x."""

TWO_BRANCHES = Model(
    "two-branches",
    {"device_in": SHAPE, "cpu_in": SHAPE},
    {"device_out": SHAPE, "cpu_out": SHAPE},
    _two_branches,
)
"""device_out = -device_in and cpu_out = -cpu_in, independent of each other."""

CHAIN = Model("chain", {"x": SHAPE}, {"y": SHAPE}, _chain)
"""y = -(x + x) * x, with the negation on the CPU EP between two nodes on the device."""

CROSSING = Model("crossing", {"x": SHAPE}, {"y": SHAPE}, _crossing)
"""y = (x + x) * x + x, negated on the way by two nodes on the CPU EP, each between others."""

MIN_CHAIN = Model(
    "min-chain",
    dict.fromkeys("abcdefg", SHAPE),
    {"y": SHAPE},
    _min_chain,
)
"""y = min(min(a, b, c, d), e, f, g)."""

NEGATE_LARGE = Model("negate-large", {"x": LARGE}, {"y": LARGE}, _negate)
"""y = -x, of 1 MB each."""

NEGATE_AND_MOVE = {
    "identity": _moving("identity", "Identity"),
    "reshape": _moving("reshape", "Reshape", SHAPE, {"shape": np.array(SHAPE, dtype=np.int64)}),
    "transpose": _moving("transpose", "Transpose"),
    "reduce": _moving("reduce", "ReduceSum", noop_with_empty_axes=1),
}
"""negated = -x, and y is the same once more, by a kernel that has nothing to compute: a Transpose
of one dimension, a ReduceSum over none."""

NOBODYS = Model("nobodys", {"x": SHAPE}, {"y": SHAPE}, _nobodys)
"""A negation, and then an Acosh in double: valid, and no EP that we know has a kernel for it."""

STEPS = Model("steps", {"x": SHAPE}, {"y": SHAPE}, _steps)
"""y = -((x + x) * x - x), in four steps of which each needs the one before."""

ADD_AND_NEGATE = Model("add-and-negate", {"x": SHAPE, "by": SHAPE}, {"y": SHAPE}, _add_and_negate)
"""y = -(x + by). Done twice in one place it is x again; no step writes where it reads."""

NEGATE_AND_ADD = Model("negate-and-add", {"x": SHAPE, "by": SHAPE}, {"y": SHAPE}, _negate_and_add)
"""y = -x + by, for any number of rows; a `by` whose rows do not fit makes the second step fail."""

EITHER = Model("either", {"doubled": (), "x": SHAPE}, {"y": SHAPE}, _either)
"""y = x + x if the boolean `doubled` is true, else x * x: control flow."""

WEIGHTS = tuple(
    (
        np.arange(first, first + 6, dtype=np.float32).reshape(SHAPE),
        -np.arange(100 * first, 100 * first + 6, dtype=np.float32).reshape(SHAPE),
    )
    for first in (2, 12, 22)
)
"""A scale and a bias for each of three models; no element is 0, 1, or that of another."""

WEIGHTED = tuple(
    Model(f"weighted-{n}", {"x": SHAPE}, {"y": SHAPE}, _weighted(scale, bias))
    for n, (scale, bias) in enumerate(WEIGHTS)
)
"""y = x * scale + bias, with initializers for both."""
