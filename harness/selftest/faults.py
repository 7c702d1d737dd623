"""The faults that can be planted in the reference plugin, as its `faults.yaml` declares them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from packaging.specifiers import SpecifierSet
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from harness.config import Outcome, Specifier
from harness.errors import ConfigError
from harness.names import matches, suggestion
from harness.outcome import REASONS

__all__ = ["FAMILIES", "VARIABLE", "Family", "Fault", "check_faults", "faults_file", "read_faults"]

VARIABLE = "ORT_REFERENCE_EP_FAULT"
"""The environment variable that names the fault to plant when the library is registered."""

Family = Literal[
    "copy",
    "allocation",
    "capture",
    "placement",
    "version",
    "lifecycle",
    "hostile",
    "concurrency",
]
FAMILIES: tuple[Family, ...] = get_args(Family)


def _outcome(text: str) -> str:
    outcome, slash, reason = text.partition("/")
    if outcome not in get_args(Outcome) or not slash or not reason:
        raise ValueError(f'"{text}" is not an outcome and its reason, such as failed/wrong-result')
    return text


Text = Annotated[str, Field(min_length=1)]


class Fault(BaseModel):
    """One named way in which the reference plugin can be told to break."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    family: Family
    what: Text
    stands_for: Text
    noticed_by: Annotated[list[Text], Field(min_length=1)]
    """Globs of the scenarios that must notice it."""
    outcome: Annotated[list[Annotated[str, AfterValidator(_outcome)]], Field(min_length=1)]
    """What one of them must report, as outcome/reason."""
    cores: Specifier = ""
    """Where it can occur; everywhere if empty."""
    contained: bool = False
    """The harness must not mind it: the cell passes, as expected."""

    @model_validator(mode="after")
    def _passes_if_contained(self) -> Fault:
        if self.contained and self.outcome != ["passed/ok"]:
            raise ValueError("what is contained has the outcome passed/ok and no other")
        return self

    @property
    def hangs(self) -> bool:
        """Whether a host that has it waits until its time is over."""
        return any(outcome.startswith("hung/") for outcome in self.outcome)

    def can_occur(self, version: str) -> bool:
        """Whether it can occur on a core of a version."""
        return SpecifierSet(self.cores).contains(version, prereleases=True)

    def must_be_noticed_by(self, scenario: str) -> bool:
        """Whether its row names a scenario."""
        return any(matches(glob, scenario) for glob in self.noticed_by)


_ROWS: TypeAdapter[list[Fault]] = TypeAdapter(list[Fault])


def faults_file() -> Path:
    """The `faults.yaml` of the package."""
    return Path(__file__).parent.parent / "reference_ep" / "faults.yaml"


def read_faults(path: Path | None = None) -> tuple[Fault, ...]:
    """The faults of a file, in its order.

    Args:
        path: the file; that of the package if none.

    Raises:
        ConfigError: it cannot be read, or a row is not what it should be.
    """
    path = path or faults_file()
    try:
        rows = yaml.safe_load(path.read_text(encoding="utf-8"))
        faults = _ROWS.validate_python(rows)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise ConfigError(f"{path}: {_place(rows, problem['loc'])}: {problem['msg']}.") from None
    names = [fault.name for fault in faults]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{path}: the fault {twice[0]} stands there twice.")
    return tuple(faults)


def check_faults(
    faults: Sequence[Fault],
    *,
    scenarios: Collection[str],
    rejections: Collection[str],
    versions: Collection[str] | None,
) -> None:
    """Refuse a fault that nobody could ever notice as its row says.

    Args:
        faults: the rows.
        scenarios: the names of all scenarios.
        rejections: the reasons of the `rejections` table.
        versions: of all cores of the matrix; none where not all are known.

    Raises:
        ConfigError: a row names a scenario or a reason that there is not, or no core has it.
    """
    known = {*REASONS, *rejections}
    for fault in faults:
        where = f"{faults_file().name}: {fault.name}"
        for glob in fault.noticed_by:
            if not any(matches(glob, name) for name in scenarios):
                close = suggestion(glob, scenarios)
                raise ConfigError(
                    f'{where}: "{glob}" under noticed_by matches no scenario'
                    + (f'; perhaps you meant "{close}"?' if close else ".")
                )
        for reason in (outcome.partition("/")[2] for outcome in fault.outcome):
            if reason not in known and not re.fullmatch(r"[A-Z][A-Z0-9_]+", reason):
                raise ConfigError(f'{where}: there is no reason "{reason}".')
        if versions is not None and not any(map(fault.can_occur, versions)):
            raise ConfigError(
                f'{where}: no core of the matrix is "{fault.cores}", so it can occur nowhere.'
            )


def _place(rows: Any, loc: tuple[int | str, ...]) -> str:
    """A location in the file by the name of its row."""
    if not loc or not isinstance(loc[0], int):
        return "the file"
    row = rows[loc[0]]
    name = row.get("name") if isinstance(row, dict) else None
    parts = [str(name or f"row {loc[0] + 1}"), *(str(part) for part in loc[1:])]
    return ".".join(parts)
