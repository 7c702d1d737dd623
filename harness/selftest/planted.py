"""Scenarios in which the reference plugin misbehaves for the life of one session, by a fault each.

They stand between the other scenarios of a run, to see whether those keep their results.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.host.host import FLOAT32, Host
from harness.host.model import Model
from harness.host.scenario import scenario

__all__ = ["HOSTILE", "OPTION", "one_session"]

OPTION = "reference.fault"
"""The provider option that plants a fault for the life of a session."""

HOSTILE = (
    "exit-in-run",
    "abort-in-run",
    "segfault-in-run",
    "stack-overflow-in-run",
    "exception-through-abi",
    "endless-loop-in-run",
    "stderr-flood",
    "stdout-text",
    "descriptors-closed",
    "directory-changed",
    "locale-changed",
    "rounding-changed",
    "signal-handlers-changed",
    "signal-handlers-replaced",
    "child-left-behind",
    "memory-grows",
    "runs-slow-down",
)
"""The hostile family of `faults.yaml`, which a host does not read."""

_SHAPE = (3, 2)
_OPSET, _IR_VERSION = 17, 8


def _build(model: Model) -> bytes:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, _SHAPE) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"], name="negate")], model.name, [x], [y]
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    built: bytes = proto.SerializeToString()
    return built


_MODEL = Model("negate-planted", {"x": _SHAPE}, {"y": _SHAPE}, _build)


@scenario(
    "selftest/planted",
    why="A plugin that misbehaves in one session spoils the results of others.",
    cases={name: name for name in HOSTILE},
    # One of them never ends, and is tried twice.
    timeout_s=10.0,
)
def one_session(host: Host, fault: str) -> None:
    """Run a session that has the fault, as any scenario would."""
    always = {**host.options.always, OPTION: fault}
    planted = replace(host, options=replace(host.options, always=always))
    session = planted.session(_MODEL)
    for i in host.iterations():
        x = np.arange(6, dtype=np.float32).reshape(_SHAPE) + i + 1
        feed = host.cpu_tensor(x)
        fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
        host.check("y", -x, host.read(fetched))
        fetched.release()
        feed.release()
    planted.placed(_MODEL, session, {"negate": host.ep_name})
