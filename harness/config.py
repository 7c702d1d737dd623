"""`matrix.yaml` as a validated model.

`load` reads the embedded defaults and lays the user's file over them, key by key. Unknown keys
are errors that suggest the right one, and every error names the file and the line.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Hashable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.errors import ConfigError

__all__ = [
    "Claim",
    "CoreCheck",
    "CoreSource",
    "CpuNodesOption",
    "DeviceChoice",
    "Expectation",
    "ExpectedCapture",
    "LoadedMatrix",
    "Matrix",
    "Mode",
    "Outcome",
    "Override",
    "PluginEntry",
    "Policy",
    "PolicyRule",
    "ProviderOptions",
    "Rejection",
    "ScenarioSettings",
    "find_matrix",
    "load",
]

Mode = Literal["serialized", "concurrent"]
Outcome = Literal[
    "passed", "failed", "crashed", "hung", "rejected", "unsupported", "not-run", "infra-error"
]


def _specifier(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f'"{text}" is not a version specifier such as ">=1.24.4,<1.33"') from None
    return text


def _version(text: str) -> str:
    try:
        Version(text)
    except InvalidVersion:
        raise ValueError(f'"{text}" is not a version such as "1.24.4"') from None
    return text


def _sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise ValueError("a sha256 is 64 hexadecimal digits")
    return text.lower()


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f'"{text}" is not a regular expression: {error}') from None
    return text


def _requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement:
        raise ValueError(f'"{text}" is not a requirement such as "name==1.0"') from None
    return text


Specifier = Annotated[str, AfterValidator(_specifier)]
VersionText = Annotated[str, AfterValidator(_version)]
Sha256 = Annotated[str, AfterValidator(_sha256)]
Regex = Annotated[str, AfterValidator(_regex)]
RequirementText = Annotated[str, AfterValidator(_requirement)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CoreSource(_Model):
    """Where cores come from: exactly one of `releases`, `archive`, `path` and `installed`."""

    releases: Specifier | None = Field(
        None, description="Version specifier; the configured package index is asked for them."
    )
    select: Literal["all", "latest-patch"] = Field(
        "all", description="Every release in the range, or the newest of each minor."
    )
    package: str = Field("onnxruntime", description="The distribution that carries the core.")
    archive: str | None = Field(
        None, description="A release archive or .nupkg: a file or an https URL; needs sha256."
    )
    path: str | None = Field(None, description="A core library file, or a folder that holds one.")
    installed: bool = Field(
        default=False, description="The onnxruntime package of the running environment."
    )
    sha256: Sha256 | None = Field(None, description="Of the archive, or of the library at path.")
    version: VersionText | None = Field(
        None, description="Needed where no file name tells it; the core's own answer must agree."
    )

    @model_validator(mode="after")
    def _one_source(self) -> CoreSource:
        given = [
            name
            for name, value in (
                ("releases", self.releases),
                ("archive", self.archive),
                ("path", self.path),
                ("installed", self.installed or None),
            )
            if value is not None
        ]
        if len(given) != 1:
            raise ValueError(
                "a core source has exactly one of releases, archive, path and installed; "
                f"this one has {' and '.join(given) or 'none'}"
            )
        if self.archive is not None and self.sha256 is None:
            raise ValueError("an archive needs its sha256")
        if self.archive is not None and self.archive.startswith("http://"):
            raise ValueError("an archive is fetched over https only")
        return self


class CpuNodesOption(_Model):
    """The provider option that puts named nodes on the CPU EP."""

    option: str
    separator: str = "\n"


class ProviderOptions(_Model):
    """Provider options by purpose. What a plugin does not document is never sent to it."""

    always: dict[str, str] = Field(
        default_factory=dict, description="Sent with every session of this plugin."
    )
    capture: dict[str, str] | None = Field(None, description="Turns graph capture on.")
    cpu_nodes: CpuNodesOption | None = Field(None, description="Forces named nodes to the CPU EP.")


class DeviceChoice(_Model):
    """Which of the EP devices that appear at registration is driven."""

    type: Literal["cpu", "gpu", "npu"] | None = None
    index: Annotated[int, Field(ge=0)] = 0


class PolicyRule(_Model):
    """The first rule whose specifiers contain the core's and the plugin's version decides."""

    core: Specifier | None = None
    plugin: Specifier | None = Field(
        None, description="A rule with this never matches a plugin of unknown version."
    )
    mode: Mode
    why: str
    link: str | None = None


class Override(_Model):
    """An environment variable that the plugin reads before registration to force a mode."""

    variable: str
    forces: dict[str, Literal["serialized"]] = Field(
        description="Value to mode. An override can only take concurrency away."
    )
    neutral: list[str] = Field(default_factory=list, description="Values that change nothing.")
    plugin: Specifier | None = Field(
        None, description="The plugin versions that know the variable; all when left out."
    )
    why: str
    link: str | None = None


class Claim(_Model):
    """The ORT API level that a plugin's EPs claim in `ort_version_supported`."""

    plugin: Specifier | None = None
    api: Annotated[int, Field(ge=0)]
    why: str
    link: str | None = None


class Policy(_Model):
    """How a plugin may be driven, by core and plugin version."""

    rules: list[PolicyRule] = Field(default_factory=list)
    override: Override | None = None
    claims: list[Claim] = Field(default_factory=list)


class CoreCheck(_Model):
    """A core that refuses plugins whose claimed API level is outside its bounds."""

    core: Specifier
    claimed_api_min: int
    claimed_api_max: int
    reason: str
    why: str
    link: str | None = None


class Rejection(_Model):
    """How a core's refusal of a plugin is told from any other error."""

    reason: str
    function: Regex = Field(description="Matches the whole name of the native function.")
    message: Regex = Field(description="Found anywhere in the status message.")
    why: str


class PluginEntry(_Model):
    """What cannot be discovered about a plugin. Exactly one of `requirement` and `path`."""

    requirement: RequirementText | None = Field(
        None, description="A requirement; the library comes out of its wheel."
    )
    path: str | None = Field(
        None, description="A library file, relative to the folder of this matrix.yaml."
    )
    version: VersionText | None = Field(None, description="Of a plugin that is given by path.")
    registration_name: str | None = None
    ep_name: str | None = Field(None, description="Needed only if the library has several EPs.")
    device: DeviceChoice = DeviceChoice()
    environment: dict[str, str] = Field(default_factory=dict)
    options: ProviderOptions = ProviderOptions()
    no_device: str | None = Field(
        None, description="What to do on a machine where the plugin offers no EP device."
    )
    policy: Policy = Policy()

    @model_validator(mode="after")
    def _one_origin(self) -> PluginEntry:
        if (self.requirement is None) == (self.path is None):
            raise ValueError("a plugin has either a requirement or a path")
        return self


class ExpectedCapture(_Model):
    """How many runs of a capture scenario executed the kernels, and how many were replays."""

    kernel_runs: Annotated[int, Field(ge=0)] | None = None
    host_replays: Annotated[int, Field(ge=0)] | None = None


class Expectation(_Model):
    """What should happen in the cells that it matches; later ones win, field by field."""

    plugin: str = Field("*", description="Glob over plugin names.")
    plugin_version: Specifier | None = Field(
        None, description="An expectation with this never matches a plugin of unknown version."
    )
    core: Specifier | None = None
    scenario: str = Field("*", description="Glob over scenario names, parameters included.")
    mode: Mode | None = None
    platform: Literal["linux", "windows", "macos"] | None = None
    outcome: Outcome | list[Outcome] | None = Field(
        None, description="One outcome, or several for a known flake."
    )
    reason: str | None = Field(None, description="The reason code that must come with it.")
    capture: ExpectedCapture | None = None
    why: str
    link: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Expectation:
        if self.outcome is None and self.capture is None:
            raise ValueError("an expectation says an outcome, a capture, or both")
        if self.reason is not None and self.outcome is None:
            raise ValueError("a reason needs the outcome that it goes with")
        return self

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The outcomes that it allows; empty when it says nothing of them."""
        if self.outcome is None:
            return ()
        return (self.outcome,) if isinstance(self.outcome, str) else tuple(self.outcome)


class ScenarioSettings(_Model):
    """Settings for the scenarios that a glob matches."""

    timeout_s: Seconds


class Matrix(_Model):
    """The whole of `matrix.yaml`."""

    cores: list[CoreSource] = Field(default_factory=list)
    plugin: str | None = Field(None, description="The entry that a run without --plugin takes.")
    plugins: dict[str, PluginEntry] = Field(default_factory=dict)
    iterations: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    timeout_s: Seconds = Field(60.0, description="For one scenario with all its iterations.")
    scenarios: dict[str, ScenarioSettings] = Field(
        default_factory=dict, description="By glob over scenario names; the last match wins."
    )
    core_checks: list[CoreCheck] = Field(default_factory=list)
    rejections: list[Rejection] = Field(default_factory=list)
    expectations: list[Expectation] = Field(default_factory=list)

    @model_validator(mode="after")
    def _default_plugin_exists(self) -> Matrix:
        if self.plugin is not None and self.plugin not in self.plugins:
            raise ValueError(
                f'plugin: "{self.plugin}" has no entry under plugins'
                + _perhaps(self.plugin, self.plugins)
            )
        return self


@dataclass(frozen=True)
class LoadedMatrix:
    """A validated matrix, where it was read from, and the hash of what was read."""

    matrix: Matrix
    path: Path
    sha256: str


def find_matrix(folder: Path) -> Path:
    """The `matrix.yaml` of the folder, or the one shipped with the package."""
    own = folder / "matrix.yaml"
    if own.is_file():
        return own
    shipped = Path(str(resources.files("harness"))) / "resources" / "matrix.yaml"
    # An editable install runs from a checkout, where the shipped file stands at the top.
    return shipped if shipped.is_file() else Path(__file__).parent.parent / "matrix.yaml"


def load(path: Path) -> LoadedMatrix:
    """Read and validate a `matrix.yaml`, laid over the embedded defaults.

    Raises:
        ConfigError: it cannot be read, is no YAML, or has an unknown, misspelt or wrong value.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}.",
            "Name a matrix.yaml with --matrix, or leave it out to use the shipped one.",
        ) from None
    defaults_path = Path(str(resources.files("harness"))) / "resources" / "defaults.yaml"
    defaults = _parse(defaults_path.read_bytes(), defaults_path)[0]
    user, root = _parse(raw, path)
    try:
        matrix = Matrix.model_validate({**defaults, **user})
    except ValidationError as error:
        raise ConfigError(_explain(error, path, root)) from None
    return LoadedMatrix(matrix, path, hashlib.sha256(raw).hexdigest())


class _StrictLoader(yaml.SafeLoader):
    """A loader that refuses a key given twice, where YAML would silently drop the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f'the key "{key}" stands twice, first on line {seen[key]}',
                    problem_mark=key_node.start_mark,
                )
            seen[key] = line
        return super().construct_mapping(node, deep)


def _parse(raw: bytes, path: Path) -> tuple[dict[str, Any], yaml.Node | None]:
    try:
        data = yaml.load(raw, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader of our own
        root = yaml.compose(raw, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{where}: {error.problem or 'this is not YAML'}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: this is not YAML: {error}.") from None
    if data is None:
        return {}, root
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: the file must be a mapping of keys to values.")
    return data, root


def _explain(error: ValidationError, path: Path, root: yaml.Node | None) -> str:
    lines = []
    for problem in error.errors():
        loc = problem["loc"]
        where = f"{path}:{_line(root, loc)}"
        name = ".".join(str(part) for part in loc) or "the file"
        if problem["type"] == "extra_forbidden":
            known = _keys_at(loc[:-1])
            text = f'unknown key "{loc[-1]}"' + _perhaps(str(loc[-1]), known)
            if known:
                text += f" Known here: {', '.join(sorted(known))}."
        elif problem["type"] == "string_type" and isinstance(problem["input"], int | float):
            text = f'{name}: write it in quotes, "{problem["input"]}"; YAML read a number.'
        elif problem["type"] == "missing":
            text = f'"{loc[-1]}" is missing from {".".join(map(str, loc[:-1])) or "the file"}.'
        elif problem["type"] == "value_error":
            text = f"{name}: {problem['ctx']['error']}."
        else:
            text = f"{name}: {problem['msg']}, not {problem['input']!r}."
        lines.append(f"{where}: {text}")
    return "\n".join(dict.fromkeys(lines))


def _perhaps(wrong: str, known: Any) -> str:
    close = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f'; perhaps you meant "{close[0]}"?' if close else "."


def _keys_at(loc: tuple[int | str, ...]) -> set[str]:
    """The legal keys of the model at a location of the validation error."""
    annotation: Any = Matrix
    for part in loc:
        model = _model_in(annotation)
        if model is not None and part in model.model_fields:
            annotation = model.model_fields[str(part)].annotation
    model = _model_in(annotation)
    return set(model.model_fields) if model is not None else set()


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _line(root: yaml.Node | None, loc: tuple[int | str, ...]) -> int:
    """The line of the deepest node of the location that the user wrote."""
    node, line = root, 1
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            pair = next((p for p in node.value if p[0].value == str(part)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                break
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
