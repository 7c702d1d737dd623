from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from harness.host.model import Model
from scenarios.capture import _stepped
from scenarios.models import (
    ADD_AND_NEGATE,
    CHAIN,
    DOUBLE,
    EITHER,
    LARGE,
    LONG,
    MIN_CHAIN,
    NEGATE,
    NEGATE_AND_ADD,
    NEGATE_AND_MOVE,
    NEGATE_LARGE,
    NOBODYS,
    SHAPE,
    STEPS,
    TWO_BRANCHES,
    WEIGHTED,
    WEIGHTS,
)

SMALL = [
    *(NEGATE, DOUBLE, TWO_BRANCHES, CHAIN, MIN_CHAIN, NOBODYS, STEPS, ADD_AND_NEGATE, LONG),
    *WEIGHTED,
]
MODELS = [*SMALL, NEGATE_AND_ADD, EITHER, NEGATE_LARGE, *NEGATE_AND_MOVE.values()]


def array(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, dtype=np.float32).reshape(SHAPE)


def computed(model: Model, **feeds: npt.NDArray[Any]) -> dict[str, npt.NDArray[np.float32]]:
    proto = onnx.load_from_string(model.build(model))
    return dict(
        zip(model.outputs, ReferenceEvaluator(proto).run(list(model.outputs), feeds), strict=True)
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_model_is_valid_and_can_be_read_by_the_oldest_core(model: Model) -> None:
    proto = onnx.load_from_string(model.build(model))
    onnx.checker.check_model(proto, full_check=True)

    assert {one.name for one in proto.graph.input} == set(model.inputs)
    assert {one.name for one in proto.graph.output} == set(model.outputs)
    assert len({node.name for node in proto.graph.node}) == len(proto.graph.node)
    assert proto.ir_version <= 11
    assert [one.version <= 24 for one in proto.opset_import] == [True]


@pytest.mark.parametrize("model", SMALL, ids=lambda model: model.name)
def test_a_small_model_has_the_shapes_that_it_says(model: Model) -> None:
    proto = onnx.load_from_string(model.build(model))

    def shapes(values: object) -> dict[str, tuple[int, ...]]:
        return {
            one.name: tuple(d.dim_value for d in one.type.tensor_type.shape.dim)
            for one in values  # type: ignore[attr-defined] # protobuf has no name for its lists
        }

    assert shapes(proto.graph.input) == dict(model.inputs)
    assert shapes(proto.graph.output) == dict(model.outputs)
    assert {one.type.tensor_type.elem_type for one in proto.graph.input} == {1}
    assert set(model.inputs.values()) == set(model.outputs.values()) == {(3, 2)}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_model_is_built_the_same_each_time(model: Model) -> None:
    assert model.build(model) == model.build(model)


def test_the_models_have_names_that_differ() -> None:
    assert len({model.name for model in MODELS}) == len(MODELS)


def test_negate_negates() -> None:
    (y,) = computed(NEGATE, x=array(1, -2, 3, 0.5, 1000, 6)).values()

    assert y.tolist() == [[-1, 2], [-3, -0.5], [-1000, -6]]


def test_double_doubles() -> None:
    (y,) = computed(DOUBLE, x=array(1, -2, 3, 0.5, 1000, 6)).values()

    assert y.tolist() == [[2, -4], [6, 1], [2000, 12]]


def test_two_branches_negate_each_their_own() -> None:
    found = computed(
        TWO_BRANCHES, device_in=array(1, 2, 3, 4, 5, 6), cpu_in=array(7, 8, 9, 10, 11, 12)
    )

    assert found["device_out"].tolist() == [[-1, -2], [-3, -4], [-5, -6]]
    assert found["cpu_out"].tolist() == [[-7, -8], [-9, -10], [-11, -12]]


def test_the_chain_is_minus_twice_the_square() -> None:
    (y,) = computed(CHAIN, x=array(1, 2, 3, -4, 0.5, 600)).values()

    assert y.tolist() == [[-2, -8], [-18, -32], [-0.5, -720_000]]


def test_the_steps_are_what_the_scenarios_expect_of_them() -> None:
    x = array(1, 2, 3, -4, 0.5, 1606)
    (y,) = computed(STEPS, x=x).values()

    # x - 2x² by hand; the last is the largest that a scenario computes.
    assert y.tolist() == [[-1, -6], [-15, -36], [0, -5_156_866]]
    assert _stepped(x).tolist() == y.tolist()


def test_the_weights_are_initializers_that_differ_in_every_element() -> None:
    x = array(1, 2, 3, -4, 0.5, 600)
    found = [computed(model, x=x)["y"].tolist() for model in WEIGHTED]

    # By hand, of the scales from 2, 12 and 22 on and the biases from -200, -1200 and -2200 down.
    assert found[0] == [[-198, -195], [-190, -223], [-201, 3995]]
    assert found[1] == [[-1188, -1175], [-1160, -1263], [-1196, 8995]]
    assert found[2] == [[-2178, -2155], [-2130, -2303], [-2191, 13995]]
    assert np.unique([*WEIGHTS]).size == 3 * 2 * 6
    assert not np.isin([*WEIGHTS], [0, 1]).any()
    for model in WEIGHTED:
        initializers = onnx.load_from_string(model.build(model)).graph.initializer
        assert [one.data_type for one in initializers] == [onnx.TensorProto.FLOAT] * 2


def test_adding_and_negating_twice_in_one_place_gives_the_input_back() -> None:
    x, by = array(1, 2, 3, -4, 0.5, 600), array(10, 20, 30, 40, 50, 60)
    (once,) = computed(ADD_AND_NEGATE, x=x, by=by).values()
    (twice,) = computed(ADD_AND_NEGATE, x=once, by=by).values()

    assert once.tolist() == [[-11, -22], [-33, -36], [-50.5, -660]]
    assert twice.tolist() == x.tolist()


def test_rows_that_do_not_fit_are_found_out_by_the_second_node_alone() -> None:
    fits = np.ones((3, 2), dtype=np.float32)
    (y,) = computed(NEGATE_AND_ADD, x=array(1, 2, 3, -4, 0.5, 600), by=fits).values()

    assert y.tolist() == [[0, -1], [-2, 5], [0.5, -599]]
    with pytest.raises(TypeError, match="'Add'"):
        computed(NEGATE_AND_ADD, x=fits, by=np.ones((4, 2), dtype=np.float32))
    # Nothing in the model says how many rows there are, so that no check ahead of the run can.
    proto = onnx.load_from_string(NEGATE_AND_ADD.build(NEGATE_AND_ADD))
    rows = [one.type.tensor_type.shape.dim[0] for one in (*proto.graph.input, *proto.graph.output)]
    assert [row.dim_value for row in rows] == [0, 0, 0]
    assert len({row.dim_param for row in rows}) == 3


@pytest.mark.parametrize(("doubled", "due"), [(True, [2, -4, 6]), (False, [1, 4, 9])])
def test_either_doubles_or_squares(doubled: bool, due: list[float]) -> None:
    x = array(1, -2, 3, 1, -2, 3)
    (y,) = computed(EITHER, doubled=np.array(doubled), x=x).values()

    assert y.ravel().tolist() == due + due


def test_the_long_model_negates_an_odd_number_of_times() -> None:
    (y,) = computed(LONG, x=array(1, 2, 3, -4, 0.5, 600)).values()

    assert y.tolist() == [[-1, -2], [-3, 4], [-0.5, -600]]
    assert len(onnx.load_from_string(LONG.build(LONG)).graph.node) == 41


@pytest.mark.parametrize("least", "abcdefg")
def test_the_min_chain_takes_the_least_of_all_seven(least: str) -> None:
    feeds = {name: array(10, 20, 30, 40, 50, 60) for name in "abcdefg"}
    feeds[least] = array(9, 21, 29, 41, 49, -61)
    (y,) = computed(MIN_CHAIN, **feeds).values()

    assert y.tolist() == [[9, 20], [29, 40], [49, -61]]


def test_the_model_that_nobody_has_a_kernel_for_is_valid() -> None:
    (y,) = computed(NOBODYS, x=array(-1, -2, -3, -4, -5, -6)).values()

    assert np.allclose(y, np.arccosh([[1, 2], [3, 4], [5, 6]]))


def test_the_nodes_of_the_chain_stand_in_a_row() -> None:
    proto = onnx.load_from_string(CHAIN.build(CHAIN))

    assert [node.name for node in proto.graph.node] == [
        "first_on_device",
        "on_cpu",
        "last_on_device",
    ]
    for before, after in zip(proto.graph.node, proto.graph.node[1:], strict=False):
        assert before.output[0] in after.input


def test_the_large_one_negates_a_megabyte() -> None:
    x = np.arange(512 * 512, dtype=np.float32).reshape(LARGE)
    (y,) = computed(NEGATE_LARGE, x=x).values()

    assert (y + x == 0).all()
    assert y.nbytes == 2**20


@pytest.mark.parametrize(
    ("name", "op", "expected"),
    [
        ("identity", "Identity", [-1, -2, -3, -4, -5, -6]),
        ("reshape", "Reshape", [[-1, -2], [-3, -4], [-5, -6]]),
        ("transpose", "Transpose", [-1, -2, -3, -4, -5, -6]),
        ("reduce", "ReduceSum", [-1, -2, -3, -4, -5, -6]),
    ],
)
def test_what_follows_the_negation_only_moves(
    name: str, op: str, expected: list[float] | list[list[float]]
) -> None:
    model = NEGATE_AND_MOVE[name]
    found = computed(model, x=np.arange(1, 7, dtype=np.float32))

    assert found["negated"].tolist() == [-1, -2, -3, -4, -5, -6]
    assert found["y"].tolist() == expected
    nodes = onnx.load_from_string(model.build(model)).graph.node
    assert [(node.name, node.op_type) for node in nodes] == [("negate", "Neg"), ("move", op)]
