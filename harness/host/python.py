"""What a Python scenario is given: the core's own `onnxruntime` package, and the plugin in it.

The package has a core of its own in its extension module; the C library is not loaded. What the
package raises becomes a `NativeCallError`, named by what was called.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.host.host import CPU, Options, nodes_of
from harness.host.model import Model
from harness.host.record import Recording, UnsupportedError
from harness.native.api import NativeCallError
from harness.native.tensors import Array

__all__ = ["CPU", "NativeCallError", "PythonHost", "UnsupportedError", "is_of_package"]

# A memory info does not tell in Python which of them its memory belongs to.
_DEVICE_TYPES = ("gpu", "npu")


def is_of_package(error: Exception) -> bool:
    """Whether the package raised it: its own exceptions, and what it makes of all others."""
    # Its own, one a status code, have no base in common but Exception.
    own = type(error).__module__.startswith("onnxruntime")
    return own or isinstance(error, RuntimeError | ValueError)


@dataclass(frozen=True, kw_only=True)
class PythonHost(Recording):
    """The Python package of one core with the plugin registered, for one scenario.

    Objects of the package live as long as Python refers to them; what a scenario made is gone when
    it has ended.
    """

    ort: Any
    """The module `onnxruntime`."""
    device: Any
    """The `OrtEpDevice` that is driven."""
    plugin: Path
    registration_name: str
    mode: Literal["serialized", "concurrent"]
    options: Options
    models: Path
    scratch: Path

    @property
    def ep_name(self) -> str:
        """The name of the plugin's EP."""
        return str(self.device.ep_name)

    @contextmanager
    def calling(self, what: str) -> Iterator[None]:
        """Name what is called within, for a death in it and for what it raises.

        Raises:
            NativeCallError: in place of what the package raised.
        """
        self.lanes.enter(what)
        try:
            yield
        except Exception as error:
            if is_of_package(error):
                raise NativeCallError(what, type(error).__name__, str(error)) from error
            raise
        finally:
            self.lanes.leave()

    def session(
        self,
        model: Model,
        *,
        cpu_nodes: Sequence[str] = (),
        capture: bool = False,
        options: Mapping[str, str] | None = None,
        profile: bool = False,
    ) -> Any:
        """An `InferenceSession` on the plugin's EP device, made as an application makes one.

        The package may answer a plugin that fails by a session on the CPU EP: `providers` and
        `placed` tell.

        Raises:
            UnsupportedError: it is not known how to ask this plugin for that.
            NativeCallError: the package refused.
        """
        ort = self.ort
        asked = {**self.options.asked(cpu_nodes, capture=capture), **(options or {})}
        wanted = ort.SessionOptions()
        wanted.intra_op_num_threads = 1
        wanted.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if profile:
            wanted.enable_profiling = True
            wanted.profile_file_prefix = str(self.scratch / "python-profile")
        with self.calling("SessionOptions.add_provider_for_devices"):
            wanted.add_provider_for_devices([self.device], asked)
        # A warning of the package is none of a scenario, whatever PYTHONWARNINGS makes of it.
        with self.calling("InferenceSession"), warnings.catch_warnings(action="ignore"):
            return ort.InferenceSession(model.load(self.models), sess_options=wanted)

    def run(self, session: Any, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
        """One `InferenceSession.run` with arrays.

        Raises:
            NativeCallError: the Run failed.
        """
        with self.calling("InferenceSession.run"):
            got: list[Array] = session.run(list(fetches), dict(feeds))
            return got

    def memory(self) -> Any:
        """The memory info of the device's own memory.

        Raises:
            UnsupportedError: the EP device has none.
        """
        with self.calling("OrtEpDevice.memory_info"):
            memory = self.device.memory_info(self.ort.OrtDeviceMemoryType.DEFAULT)
        if memory is None:
            raise UnsupportedError(
                "device memory of the EP device",
                "OrtEpDevice.memory_info gives none: values of this plugin live in CPU memory",
            )
        return memory

    def device_value(self, array: Array) -> Any:
        """An `OrtValue` in device memory that holds a copy of an array.

        Raises:
            UnsupportedError: the EP device has no device memory.
            NativeCallError: the package refused.
        """
        value = self.empty_device_value(array.shape, array.dtype)
        with self.calling("copy_tensors"):
            self.ort.copy_tensors([self.ort.OrtValue.ortvalue_from_numpy(array)], [value])
        return value

    def empty_device_value(self, shape: Sequence[int], dtype: Any = np.float32) -> Any:
        """An `OrtValue` in device memory that nothing was written to.

        Raises:
            UnsupportedError: the EP device has no device memory.
            NativeCallError: the package refused.
        """
        memory = self.memory()
        make, where = (
            self.ort.OrtValue.ortvalue_from_shape_and_type,
            (
                memory.device_id,
                memory.device_vendor_id,
            ),
        )
        *others, last = _DEVICE_TYPES
        for kind in others:
            with suppress(NativeCallError), self.calling("OrtValue.ortvalue_from_shape_and_type"):
                return make(list(shape), dtype, kind, *where)
        with self.calling("OrtValue.ortvalue_from_shape_and_type"):
            return make(list(shape), dtype, last, *where)

    def read(self, value: Any) -> Array:
        """A copy of what an `OrtValue` in device memory holds."""
        # Filled beforehand, so that a transfer that copies nothing cannot seem right.
        array = np.full(value.shape(), -77, dtype=np.float32)
        destination = self.ort.OrtValue.ortvalue_from_numpy(array)
        with self.calling("copy_tensors"):
            self.ort.copy_tensors([value], [destination])
        return np.array(destination.numpy())

    def placed(self, model: Model, session: Any, where: Mapping[str, str]) -> None:
        """Record where the package says that nodes were placed, beside where they should be.

        The session's own record is asked first, then the profile of one Run of a twin.
        """
        seen = {
            node.name: str(part.ep_name)
            for part in session.get_provider_graph_assignment_info()
            for node in part.get_nodes()
        }
        if not where.keys() <= seen.keys():
            seen = {**seen, **self._profiled(model)}
        self.record.placement += [
            {"node": node, "expected": expected, "got": seen.get(node)}
            for node, expected in where.items()
        ]

    def _profiled(self, model: Model) -> dict[str, str]:
        twin = self.session(model, profile=True)
        ones = {name: np.ones(shape, np.float32) for name, shape in model.inputs.items()}
        self.run(twin, ones, list(model.outputs))
        file = Path(twin.end_profiling())
        events = json.loads(file.read_text(encoding="utf-8", errors="replace"))
        file.unlink()
        return nodes_of(events)
