"""The core's own Python package in place of the C API, as most applications know it."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.host.python import NativeCallError, PythonHost, UnsupportedError
from harness.host.scenario import scenario
from scenarios.models import NEGATE, SHAPE
from scenarios.values import values

__all__ = [
    "cpu_arrays",
    "device_values",
    "io_binding",
    "refused_session",
    "register_again",
    "two_sessions",
]

_PLUGIN_FIRST = "the session's providers begin with the plugin's EP"


def _negating(host: PythonHost) -> Any:
    """A session of `NEGATE`, and a record of whether it really is the plugin's."""
    session = host.session(NEGATE)
    providers = list(session.get_providers())
    host.truth(_PLUGIN_FIRST, providers[:1] == [host.ep_name], providers)
    return session


@scenario(
    "python/cpu-arrays",
    host="python",
    why="The package silently builds the session on the CPU EP when the plugin's is refused.",
)
def cpu_arrays(host: PythonHost) -> None:
    """Feed and fetch numpy arrays."""
    session = _negating(host)
    for i in host.iterations():
        (y,) = host.run(session, {"x": values(i)}, ["y"])
        host.check("y", -values(i), y)
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "python/device-values",
    host="python",
    why="An OrtValue made in device memory does not hold what was copied into it.",
)
def device_values(host: PythonHost) -> None:
    """Copy to the device, from device to device and back, with the package's own functions."""
    session = _negating(host)
    for i in host.iterations():
        first = host.device_value(values(i))
        second = host.device_value(values(i, salt=1))
        host.check("the first", values(i), host.read(first))
        host.check("the second", values(i, salt=1), host.read(second))
        with host.calling("copy_tensors"):
            host.ort.copy_tensors([first], [second])
        host.check("the second, copied over", values(i), host.read(second))
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "python/io-binding",
    host="python",
    why="Bound device values are read before they were written, or another's are written.",
)
def io_binding(host: PythonHost) -> None:
    """Run with both sides bound to device memory."""
    session = _negating(host)
    x, y = (host.device_value(np.full(SHAPE, 77, np.float32)) for _ in range(2))
    for i in host.iterations():
        with host.calling("copy_tensors"):
            host.ort.copy_tensors([host.ort.OrtValue.ortvalue_from_numpy(values(i))], [x])
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_ortvalue_output("y", y)
        with host.calling("InferenceSession.run_with_iobinding"):
            session.run_with_iobinding(binding)
        host.check("y", -values(i), host.read(y))
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "python/two-sessions",
    host="python",
    why="The end of one session takes something from another that lives on.",
)
def two_sessions(host: PythonHost) -> None:
    """Sessions that come and go beside one that stays."""
    staying = _negating(host)
    for i in host.iterations():
        passing = _negating(host)
        for salt, session in enumerate((passing, staying)):
            (y,) = host.run(session, {"x": values(i, salt=salt)}, ["y"])
            host.check("y", -values(i, salt=salt), y)
        del passing, session
        (y,) = host.run(staying, {"x": values(i, salt=2)}, ["y"])
        host.check("y of the one that stays", -values(i, salt=2), y)
    host.placed(NEGATE, staying, {"negate": host.ep_name})


@scenario(
    "python/refused-session",
    host="python",
    why="A session that the plugin refuses silently becomes one on the CPU EP, which is right and "
    "slow.",
)
def refused_session(host: PythonHost) -> None:
    """Ask for capture with a value that is none, and for an ordinary session after that."""
    if not host.options.capture:
        raise UnsupportedError(
            "a provider option that takes few values",
            "none is known for this plugin: options.capture in its entry of matrix.yaml",
        )
    key = next(iter(host.options.capture))
    session = _negating(host)
    for i in host.iterations():
        try:
            wrong = host.session(NEGATE, options={key: "neither on nor off"})
        except NativeCallError as error:
            host.truth("the refusal says why", bool(error.message))
        else:
            providers = list(wrong.get_providers())
            if providers[:1] == [host.ep_name]:
                raise UnsupportedError(
                    "a value of a provider option that the plugin refuses",
                    f'it takes "neither on nor off" for {key}',
                )
            host.truth("a refused session is an error", holds=False, got=f"one on {providers}")
        (y,) = host.run(_negating(host), {"x": values(i)}, ["y"])
        host.check("y of the next session", -values(i), y)
    host.placed(NEGATE, session, {"negate": host.ep_name})


@scenario(
    "python/register-again",
    host="python",
    alone=True,
    why="The package cannot register the library a second time, or offers no device of it then.",
)
def register_again(host: PythonHost) -> None:
    """Register the library under another name beside the first, and leave again."""
    session = _negating(host)
    ort, name = host.ort, f"{host.registration_name}-again"
    for i in host.iterations():
        before = len(ort.get_ep_devices())
        with host.calling("register_execution_provider_library"):
            ort.register_execution_provider_library(name, str(host.plugin))
        more = len(ort.get_ep_devices()) - before
        host.truth("it offers EP devices of its own", more > 0, f"{more} more")
        with host.calling("unregister_execution_provider_library"):
            ort.unregister_execution_provider_library(name)
        (y,) = host.run(session, {"x": values(i)}, ["y"])
        host.check("y of the first registration", -values(i), y)
    host.placed(NEGATE, session, {"negate": host.ep_name})
