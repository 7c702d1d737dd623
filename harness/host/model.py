"""The ONNX models of scenarios, built once and then read from a cache."""

from __future__ import annotations

import contextlib
import glob
import hashlib
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
        """Its bytes, from the cache or newly built; a cache that cannot be used is done without.

        Args:
            cache: a folder. A file in it is named by the source that built it and by its own
                content, so that one that was changed is seen and built anew.
        """
        source = Path(cast(FunctionType, self.build).__code__.co_filename)
        stem = f"{self.name}-{_digest(source.read_bytes())}"
        for path in sorted(cache.glob(f"{glob.escape(stem)}-*.onnx")):
            try:
                cached = path.read_bytes()
                if path.stem == f"{stem}-{_digest(cached)}":
                    return cached
                path.unlink()
            except OSError:
                continue
        built = self.build(self)
        with contextlib.suppress(OSError):
            _keep(cache, f"{stem}-{_digest(built)}.onnx", built)
        return built


def _keep(cache: Path, name: str, content: bytes) -> None:
    """Put a file into the cache, unless it is there.

    A host may be killed in the middle of that. The name tells what the content must be, so what
    is not whole is seen and replaced; a temporary file would stay.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / name).open("xb") as file:
        file.write(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
