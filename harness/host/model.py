"""The ONNX models of scenarios, built once and then read from a cache."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import cast

__all__ = ["Model"]


@dataclass(frozen=True)
class Model:
    """An ONNX model of a scenario: float32 tensors of fixed shapes.

    It is built once, by the `onnx` package, and then read from a cache, since importing that
    package would cost a host more time than most scenarios.
    """

    name: str
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    build: Callable[[Model], bytes]

    def load(self, cache: Path) -> bytes:
        """Its bytes, from the cache or newly built into it.

        Args:
            cache: a folder; files in it are named by the source that builds them.
        """
        source = Path(cast(FunctionType, self.build).__code__.co_filename)
        key = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
        path = cache / f"{self.name}-{key}.onnx"
        try:
            return path.read_bytes()
        except FileNotFoundError:
            pass
        built = self.build(self)
        cache.mkdir(parents=True, exist_ok=True)
        # Hosts that start together may build the same model: each writes its own file whole.
        handle, temporary = tempfile.mkstemp(dir=cache, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(built)
        Path(temporary).replace(path)
        return built
