"""Device memory: buffers that are reused, and scratch memory inside kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.host.host import FLOAT32, Host
from harness.host.scenario import scenario
from scenarios.models import MIN_CHAIN, NEGATE, SHAPE
from scenarios.values import values

__all__ = ["dirty_bind_input", "scratch_reuse"]

_DIRTY_BUFFERS = 4


@scenario(
    "allocation/dirty-bind-input",
    why="A reused buffer is cleared after BindInput wrote to it, or keeps what it held before.",
)
def dirty_bind_input(host: Host) -> None:
    """Fill, free and reuse device buffers, then bind a CPU value outside Run."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    binding = session.io_binding()
    result = host.empty_device_tensor(allocator, SHAPE)
    binding.bind_output("y", result)
    for i in host.iterations():
        dirt = [
            host.device_tensor(allocator, np.full(SHAPE, 9000 + i + n, dtype=np.float32))
            for n in range(_DIRTY_BUFFERS)
        ]
        for tensor in dirt:
            tensor.release()
        bound = host.cpu_tensor(values(i))
        binding.bind_input("x", bound)
        binding.run()
        host.check("y", -values(i), host.read(result))
        bound.release()
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "allocation/scratch-reuse",
    why="Scratch tensors of two kernels share a buffer while both are in use.",
)
def scratch_reuse(host: Host) -> None:
    """Two chained four-input Min nodes, which need scratch tensors in the kernel."""
    session = host.session(MIN_CHAIN)
    for i in host.iterations():
        arrays = _inputs(i)
        feeds = {name: host.cpu_tensor(array) for name, array in arrays.items()}
        fetched = session.run(feeds, {"y": FLOAT32})["y"]
        host.check("y", values(i), host.read(fetched))
        for tensor in (fetched, *feeds.values()):
            tensor.release()
    host.placed(MIN_CHAIN, session, dict.fromkeys(["first_min", "second_min"], host.ep_name))


def _inputs(iteration: int) -> dict[str, npt.NDArray[Any]]:
    """Seven inputs whose least value is `values(iteration)`, each element's in another input.

    The input that decides an element moves on with the iteration, so that no input can be
    ignored, or read from another's buffer, without a wrong result.
    """
    names = list(MIN_CHAIN.inputs)
    least = values(iteration).ravel()
    inputs = {name: least + np.float32(100 * (n + 1)) for n, name in enumerate(names)}
    for element in range(least.size):
        inputs[names[(element + iteration) % len(names)]][element] = least[element]
    return {name: array.reshape(SHAPE) for name, array in inputs.items()}
