"""The JSON schemas of `matrix.yaml` and of `results.json`, generated from their models.

`python -m harness.schemas` writes them to the package's resources.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from harness.config import Matrix
from harness.results import Results

__all__ = ["main", "matrix_schema", "results_schema"]

_RESOURCES = Path(__file__).parent / "resources"


class _Generator(GenerateJsonSchema):
    def field_is_required(self, field: Any, total: bool) -> bool:
        """What is written always has every key, those with a default included."""
        return self.mode == "serialization" or super().field_is_required(field, total)

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - a hook of pydantic
        """No titles: each would only repeat its key."""
        return False


def matrix_schema() -> dict[str, Any]:
    """The JSON schema of a `matrix.yaml`, for editors and checks outside the harness.

    It accepts all that `harness.matrix_file.load` accepts. It does not check the inside of version
    specifiers, requirements and regular expressions, nor references from one key to another.

    Returns:
        A schema of draft 2020-12, with `$schema` and `title` and without `$id`.
    """
    return _schema(Matrix, "validation", "matrix.yaml of ort-ep-matrix")


def results_schema() -> dict[str, Any]:
    """The JSON schema of a `results.json`, as the harness writes it: every key is there.

    Returns:
        A schema of draft 2020-12, with `$schema` and `title` and without `$id`.
    """
    return _schema(Results, "serialization", "results.json of ort-ep-matrix")


def main(folder: Path = _RESOURCES) -> None:
    """Write `matrix.schema.json` and `results.schema.json`.

    Args:
        folder: where to; the package's resources unless said otherwise.
    """
    for name, schema in (("matrix", matrix_schema()), ("results", results_schema())):
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        (folder / f"{name}.schema.json").write_text(text, encoding="utf-8", newline="\n")


def _schema(model: type[BaseModel], mode: JsonSchemaMode, title: str) -> dict[str, Any]:
    schema = model.model_json_schema(mode=mode, schema_generator=_Generator)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **schema, "title": title}


if __name__ == "__main__":
    main()
