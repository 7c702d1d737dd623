"""Reads a `matrix.yaml`, and explains to its author what is wrong with it.

`load` reads the embedded defaults and lays the user's file over them, key by key. Unknown keys
are errors that suggest the right one, and every error names the file and the line.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.config import Matrix
from harness.errors import ConfigError
from harness.quoting import perhaps, printable, shown

__all__ = ["LoadedMatrix", "find_matrix", "load", "shipped_matrix"]

_RESOURCES = Path(__file__).parent / "resources"


@dataclass(frozen=True)
class LoadedMatrix:
    """A validated matrix, where it was read from, and the hash of what was read."""

    matrix: Matrix
    path: Path
    sha256: str
    expectation_lines: tuple[int, ...] = ()
    """The line on which each of its expectations begins."""


def find_matrix(folder: Path) -> Path:
    """The `matrix.yaml` of the folder, or the one shipped with the package."""
    own = folder / "matrix.yaml"
    return own if own.is_file() else shipped_matrix()


def shipped_matrix() -> Path:
    """The `matrix.yaml` that comes with the package."""
    shipped = _RESOURCES / "matrix.yaml"
    # An editable install runs from a checkout, where the shipped file stands at the top.
    return shipped if shipped.is_file() else Path(__file__).parent.parent / "matrix.yaml"


def load(path: Path) -> LoadedMatrix:
    """Read and validate a `matrix.yaml`, laid over the embedded defaults.

    Args:
        path: the file.

    Returns:
        The matrix, where it came from, and the sha256 of the file's bytes.

    Raises:
        ConfigError: it cannot be read, is no YAML, or has an unknown, misspelt or wrong value.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(
                f"{path} cannot be read: it is no file.", "Name a matrix.yaml with --matrix."
            )
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{path} cannot be read: {reason}.",
            "Name a matrix.yaml with --matrix, or leave it out to use the shipped one.",
        ) from None
    defaults_path = _RESOURCES / "defaults.yaml"
    defaults = _parse(defaults_path.read_bytes(), defaults_path)[0]
    user, root = _parse(raw, path)
    try:
        matrix = Matrix.model_validate({**defaults, **user})
    except ValidationError as error:
        raise ConfigError(_explain(error, path, root)) from None
    lines = [_locate(root, ("expectations", i))[0] for i in range(len(matrix.expectations))]
    return LoadedMatrix(matrix, path, hashlib.sha256(raw).hexdigest(), tuple(lines))


class _Loader(yaml.SafeLoader):
    """A safe loader whose every complaint says where it arose."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if isinstance(node, yaml.ScalarNode) and re.search("[\0\ud800-\udfff]", node.value):
            raise _marked("a NUL or half a character cannot be part of any value", node)
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # What the constructors of PyYAML raise for a text that is not of its tag.
            kind = node.tag.rpartition(":")[2]
            raise _marked(
                f'"{shown(str(node.value))}" cannot be read as YAML\'s {kind}; '
                "write it in quotes if it is text",
                node,
            ) from None

    def plain_integer(self, node: yaml.ScalarNode) -> int:
        """YAML reads 010 as 8 and 1:30 as 90; neither is what its writer meant."""
        if not re.fullmatch(r"[-+]?(0|[1-9][0-9]*)", node.value, re.ASCII):
            raise _marked(
                f'write "{shown(node.value)}" in plain decimal digits, or in quotes if it is text',
                node,
            )
        return int(node.value)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.plain_integer)


def _marked(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _parse(raw: bytes, path: Path) -> tuple[dict[Any, Any], yaml.Node | None]:
    text = _decode(raw, path)
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return {}, None
        # Before anything is built, since merging adds pairs to the nodes.
        _refuse_duplicates(root)
        data = loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_marked_message(error, path)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"{path}:{line}: the character U+{error.character:04X} is not allowed in YAML."
        ) from None
    except RecursionError:
        raise ConfigError(f"{path}: this is nested too deeply, or contains itself.") from None
    if data is None:
        return {}, root
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}:{root.start_mark.line + 1}: the file must be a mapping of keys to values."
        )
    return data, root


def _decode(raw: bytes, path: Path) -> str:
    # Some shells of Windows write UTF-16 when their output is sent to a file.
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: this is not {encoding[:6].upper().rstrip('-')} text.",
            "Save the file as UTF-8.",
        ) from None


def _marked_message(error: yaml.MarkedYAMLError, path: Path) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"{path}:{mark.line + 1}" if mark else str(path)
    text = printable(error.problem or "this is not YAML")
    if error.context and error.context_mark:
        text += f" ({error.context} that begins on line {error.context_mark.line + 1})"
    return f"{where}: {text}."


def _refuse_duplicates(root: yaml.Node) -> None:
    """Refuse a key given twice, where YAML would silently drop the first."""
    waiting, visited = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = list(node.value)
        elif isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
            first: dict[tuple[str, str], int] = {}
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                seen = first.get((key.tag, key.value))
                if seen is not None:
                    raise _marked(
                        f'the key "{shown(key.value)}" stands twice, first on line {seen}', key
                    )
                first[key.tag, key.value] = key.start_mark.line + 1
        for child in children:
            if id(child) not in visited:
                visited.add(id(child))
                waiting.append(child)


def _explain(error: ValidationError, path: Path, root: yaml.Node | None) -> str:
    found = []
    for problem in error.errors(include_url=False):
        line, place, node = _locate(root, problem["loc"])
        if problem["type"] == "extra_forbidden":
            place = _locate(root, problem["loc"][:-1])[1]
        found.append((line, f"{path}:{line}: {_problem(problem, place, node)}"))
    found.sort(key=lambda pair: pair[0])
    return "\n".join(dict.fromkeys(text for _, text in found))


def _problem(problem: ErrorDetails, place: str, node: yaml.Node | None) -> str:
    kind, loc, value = problem["type"], problem["loc"], problem["input"]
    if kind == "extra_forbidden":
        known = _keys_at(loc[:-1])
        text = f'unknown key "{shown(str(loc[-1]))}"' + (f" in {place}" if place else "")
        return text + perhaps(str(loc[-1]), known) + f" Known here: {', '.join(sorted(known))}."
    if kind == "missing":
        return f'"{loc[-1]}" is missing from {place or "the file"}.'
    if kind == "invalid_key" or (loc[-1:] == ("[key]",) and kind == "string_type"):
        return f"{place or 'a key'}: write the key in quotes; YAML reads {_kind_of(value)}."
    if kind == "value_error":
        text = str(problem["ctx"]["error"])
        return f"{place}: {printable(text)}" + ("" if text[-1:] in ".?" else ".")
    if value is None:
        return f"{place} is empty; give it a value, or leave the key out."
    given = f'"{shown(node.value)}"' if isinstance(node, yaml.ScalarNode) else _kind_of(value)
    if kind == "string_type" and isinstance(node, yaml.ScalarNode):
        return f"{place}: write it in quotes, {given}; YAML reads {_kind_of(value)}."
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", problem["ctx"]["expected"])
        return f"{place}: {given} is not one of {', '.join(allowed)}" + perhaps(str(value), allowed)
    if kind in ("string_too_short", "too_short"):
        return f"{place}: should not be empty."
    return f"{place}: {_wanted(problem)}, not {given}."


def _wanted(problem: ErrorDetails) -> str:
    """What should stand there, as the end of a sentence."""
    words = {
        "bool_type": "should be true or false",
        "dict_type": "should be a mapping of keys to values",
        "float_type": "should be a number",
        "int_type": "should be a whole number",
        "list_type": "should be a list",
        "model_type": "should be a mapping of keys to values",
        "string_type": "should be text",
    }
    return words.get(problem["type"], problem["msg"].removeprefix("Input "))


def _kind_of(value: object) -> str:
    kinds: list[tuple[type, str]] = [
        (bool, "true or false"),
        (int, "a number"),
        (float, "a number"),
        (str, "text"),
        (dict, "a mapping"),
        (list, "a list"),
    ]
    if value is None:
        return "nothing"
    return next((name for kind, name in kinds if isinstance(value, kind)), "a date or the like")


def _keys_at(loc: tuple[int | str, ...]) -> set[str]:
    """The legal keys of the model at a location of the validation error."""
    annotation: Any = Matrix
    for part in loc:
        annotation = _inside(annotation, part)
    model = _model_in(annotation)
    return set(model.model_fields) if model is not None else set()


def _inside(annotation: Any, part: int | str) -> Any:
    """The type of a model's field, or of the entries of a mapping or list."""
    model = _model_in(annotation)
    if model is not None:
        field = model.model_fields.get(str(part))
        return field.annotation if field is not None else None
    if get_origin(annotation) in (dict, list):
        return get_args(annotation)[-1]
    inner = (_inside(option, part) for option in get_args(annotation))
    return next((found for found in inner if found is not None), None)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a type is, or may be; not one that it only contains."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (dict, list):
        return None
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _locate(
    root: yaml.Node | None, loc: tuple[int | str, ...]
) -> tuple[int, str, yaml.Node | None]:
    """The line, the name and the node of the deepest part of a location that the user wrote.

    A location also names what nobody wrote, such as the form of a value that was tried; those
    parts are passed over.
    """
    node, line, place = root, root.start_mark.line + 1 if root else 1, ""
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            # A later pair wins over an earlier one that a merge brought in.
            pair = next((p for p in reversed(node.value) if p[0].value == str(part)), None)
            if pair is not None:
                line, node = pair[0].start_mark.line + 1, pair[1]
                place += ("." if place else "") + shown(str(part))
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line, place = node.start_mark.line + 1, f"{place}[{part}]"
    return line, place, node
