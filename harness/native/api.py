"""Loads a core and calls its C API; a status becomes an exception.

ABI facts hold from ORT 1.24: `OrtGetApiBase()->GetApi(24)` gives the function table, every
function that returns an `OrtStatus *` returns NULL for success, and a status is the caller's to
release.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.native._ort_c_api import ffi

__all__ = [
    "API_LEVEL",
    "Api",
    "CoreLoadError",
    "MissingApiLevelError",
    "NativeCallError",
    "NoTrace",
    "Trace",
    "ffi",
    "load_core",
    "path_argument",
    "strings",
    "text",
]

API_LEVEL = 24
"""The level that the declarations are used at; all cores from 1.24 on know it."""

# OrtErrorCode, as of API level 28. A later core may return a number that is not here.
_ERROR_NAMES = (
    "OK",
    "FAIL",
    "INVALID_ARGUMENT",
    "NO_SUCHFILE",
    "NO_MODEL",
    "ENGINE_ERROR",
    "RUNTIME_EXCEPTION",
    "INVALID_PROTOBUF",
    "MODEL_LOADED",
    "NOT_IMPLEMENTED",
    "INVALID_GRAPH",
    "EP_FAIL",
    "MODEL_LOAD_CANCELED",
    "MODEL_REQUIRES_COMPILATION",
    "NOT_FOUND",
    "DEVICE_RESET",
)


class NativeCallError(Exception):
    """A native function returned a status that is not success."""

    def __init__(self, function: str, code: str, message: str) -> None:
        super().__init__(f"{function} returned {code}: {message}")
        self.function = function
        self.code = code
        self.message = message


class CoreLoadError(Exception):
    """A file is not a core: it cannot be loaded, or does not offer the C API."""


class MissingApiLevelError(Exception):
    """The core does not know an API level that was asked for."""

    def __init__(self, function: str, level: int, core_version: str) -> None:
        super().__init__(f"{function} needs ORT API level {level}; core {core_version} lacks it")
        self.function = function
        self.level = level
        self.core_version = core_version


class Trace(Protocol):
    """Is told of every native call, so that the last one is known after a death."""

    def enter(self, function: str) -> None:
        """A native function is about to be called."""

    def leave(self) -> None:
        """It has returned."""


class NoTrace:
    """A trace that keeps nothing."""

    def enter(self, function: str) -> None:
        """Keep nothing."""

    def leave(self) -> None:
        """Keep nothing."""


class Api:
    """The function table of one core.

    Args:
        library: the loaded library; it is closed when this is gone, so it is kept.
        base: the `OrtApiBase *` of the core.
        trace: is told of every call.

    Raises:
        CoreLoadError: the core does not offer level 24 of the API.
    """

    def __init__(self, library: Any, base: Any, trace: Trace) -> None:
        self._library = library
        self._base = base
        self._trace = trace
        self.core_version = text(base.GetVersionString()) or ""
        self._table = base.GetApi(API_LEVEL)
        if self._table == ffi.NULL:
            raise CoreLoadError(
                f"the core says version {self.core_version!r} and does not offer ORT API level "
                f"{API_LEVEL}"
            )

    def call(self, function: str, *args: Any) -> None:
        """Call a function that returns a status.

        Raises:
            NativeCallError: the status is not success.
        """
        self._checked(self._table, function, args)

    def get(self, function: str, ctype: str, *args: Any) -> Any:
        """Call a function whose last argument is where it writes its answer, and return that.

        Args:
            function: its name in the API.
            ctype: the C type of the out parameter, such as `OrtEnv **`.
            args: the arguments before it.

        Raises:
            NativeCallError: the status is not success.
        """
        out = ffi.new(ctype)
        self._checked(self._table, function, (*args, out))
        return out[0]

    def get_list(self, function: str, ctype: str, *args: Any) -> list[Any]:
        """Call a function that answers with an array and its length, and return its items."""
        items, count = ffi.new(ctype), ffi.new("size_t *")
        self._checked(self._table, function, (*args, items, count))
        return [items[0][i] for i in range(count[0])]

    def plain(self, function: str, *args: Any) -> Any:
        """Call a function that returns its answer and cannot fail."""
        self._trace.enter(function)
        try:
            return getattr(self._table, function)(*args)
        finally:
            self._trace.leave()

    def call_at_level(self, level: int, function: str, *args: Any) -> None:
        """Call a function that a level above 24 introduced.

        Raises:
            MissingApiLevelError: the core does not know that level.
            NativeCallError: the status is not success.
        """
        table = self._base.GetApi(level)
        if table == ffi.NULL:
            raise MissingApiLevelError(function, level, self.core_version)
        self._checked(table, function, args)

    def pairs(self, key_value_pairs: Any) -> Mapping[str, str]:
        """The entries of an `OrtKeyValuePairs *` as a mapping; empty for NULL."""
        if key_value_pairs == ffi.NULL:
            return {}
        keys, values = ffi.new("const char *const **"), ffi.new("const char *const **")
        count = ffi.new("size_t *")
        self.plain("GetKeyValuePairs", key_value_pairs, keys, values, count)
        return {text(keys[0][i]) or "": text(values[0][i]) or "" for i in range(count[0])}

    def _checked(self, table: Any, function: str, args: tuple[Any, ...]) -> None:
        self._trace.enter(function)
        try:
            status = getattr(table, function)(*args)
        finally:
            self._trace.leave()
        if status == ffi.NULL:
            return
        number = table.GetErrorCode(status)
        name = _ERROR_NAMES[number] if 0 <= number < len(_ERROR_NAMES) else f"code {number}"
        message = text(table.GetErrorMessage(status)) or ""
        table.ReleaseStatus(status)
        raise NativeCallError(function, name, message)


def load_core(library: Path, trace: Trace) -> Api:
    """Load a core into this process, for the process's whole life.

    Raises:
        CoreLoadError: the file cannot be loaded or is no core.
    """
    trace.enter("OrtGetApiBase")
    try:
        loaded: Any = ffi.dlopen(str(library))
        base = loaded.OrtGetApiBase()
        # cffi unloads a library with the last reference to it, which at exit is too early: in an
        # application the core outlives whatever a plugin does then. What ctypes loads, it keeps.
        ctypes.CDLL(str(library))
    except (OSError, AttributeError) as error:
        raise CoreLoadError(f"{library} cannot be used as a core: {error}") from None
    finally:
        trace.leave()
    if base == ffi.NULL:
        raise CoreLoadError(f"{library} offers no API")
    return Api(loaded, base, trace)


def path_argument(path: str) -> Any:
    """A path as ORT takes it: a char string, on Windows a wchar_t string. Keep it while in use."""
    if sys.platform == "win32":
        return ffi.new("wchar_t[]", path)
    return ffi.new("char[]", os.fsencode(path))


def text(chars: Any) -> str | None:
    """A C string as text, whatever its bytes; none for NULL."""
    if chars == ffi.NULL:
        return None
    raw = ffi.string(chars)
    return raw if isinstance(raw, str) else raw.decode("utf-8", "backslashreplace")


def strings(values: Iterable[str]) -> tuple[Any, list[Any]]:
    """An array of C strings, and what must be kept alive while it is in use."""
    kept = [ffi.new("char[]", value.encode()) for value in values]
    return ffi.new("const char *[]", kept), kept
