"""`matrix.yaml` as a validated model.

`load` reads the embedded defaults and lays the user's file over them, key by key. Unknown keys
are errors that suggest the right one, and every error names the file and the line.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

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
    "NoDevice",
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
        raise ValueError(
            f'"{_shown(text)}" is not a version specifier such as ">=1.24.4,<1.33"'
        ) from None
    return text


def _version(text: str) -> str:
    try:
        Version(text)
    except ValueError:  # InvalidVersion is one; so is a number of too many digits
        raise ValueError(f'"{_shown(text)}" is not a version such as "1.24.4"') from None
    return text


def _sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise ValueError("a sha256 is 64 hexadecimal digits")
    return text.lower()


def _regex(text: str) -> str:
    try:
        with warnings.catch_warnings():
            # A set that a later Python may read in another way is legal today.
            warnings.simplefilter("ignore")
            re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f'"{_shown(text)}" is not a regular expression: {error}') from None
    return text


def _requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement:
        raise ValueError(f'"{_shown(text)}" is not a requirement such as "name==1.0"') from None
    return text


def _variable(text: str) -> str:
    if not text or "=" in text:
        raise ValueError(f'"{_shown(text)}" is not the name of an environment variable')
    return text


def _plugin_name(text: str) -> str:
    if not re.fullmatch(_PLUGIN_NAME, text, re.ASCII):
        raise ValueError(
            f'"{_shown(text)}" is not a name for a plugin: letters, digits, ".", "_" and "-", '
            "the first a letter or a digit"
        )
    return text


# It names folders of runs and stands beside paths and requirements on the command line.
_PLUGIN_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_VARIABLE = "^[^=]+$"

Text = Annotated[str, Field(min_length=1)]
Why = Annotated[Text, Field(description="Shown to people wherever this decides something.")]
Link = Annotated[Text | None, Field(description="Where to read more.")]
Specifier = Annotated[str, AfterValidator(_specifier)]
VersionText = Annotated[str, AfterValidator(_version)]
Sha256 = Annotated[
    str, AfterValidator(_sha256), Field(json_schema_extra={"pattern": "^[0-9a-fA-F]{64}$"})
]
Regex = Annotated[
    str, AfterValidator(_regex), Field(min_length=1, json_schema_extra={"format": "regex"})
]
RequirementText = Annotated[str, AfterValidator(_requirement)]
Variable = Annotated[
    str, AfterValidator(_variable), Field(json_schema_extra={"pattern": _VARIABLE})
]
PluginName = Annotated[str, AfterValidator(_plugin_name)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _given(name: str) -> dict[str, Any]:
    """The JSON schema of a mapping that has the key with a value other than null."""
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


class CoreSource(_Model):
    """Where cores come from: exactly one of `releases`, `archive`, `path` and `installed`."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                _given("releases"),
                _given("archive"),
                _given("path"),
                {"required": ["installed"], "properties": {"installed": {"const": True}}},
            ],
            "if": _given("archive"),
            "then": _given("sha256"),
        }
    )

    releases: Specifier | None = Field(
        None, description="Version specifier; the configured package index is asked for them."
    )
    select: Literal["all", "latest-patch"] = Field(
        "all", description="Every release in the range, or the newest of each minor."
    )
    package: Text = Field("onnxruntime", description="The distribution that carries the core.")
    archive: Text | None = Field(
        None, description="A release archive or .nupkg: a file or an https URL; needs sha256."
    )
    path: Text | None = Field(None, description="A core library file, or a folder that holds one.")
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
        scheme, separator, _ = (self.archive or "").partition("://")
        if separator and scheme.lower() != "https":
            raise ValueError("an archive is a file or is fetched over https, nothing else")
        # Silently unused is worse than refused: the user believes that it does something.
        if self.sha256 is not None and self.archive is None and self.path is None:
            raise ValueError(
                "sha256 belongs to an archive or a path; a lock holds those of releases"
            )
        if self.version is not None and self.releases is not None:
            raise ValueError("version does not go with releases; write it there, as ==VERSION")
        if self.select != "all" and self.releases is None:
            raise ValueError("select goes with releases only")
        return self


class CpuNodesOption(_Model):
    """The provider option that puts named nodes on the CPU EP."""

    option: Text = Field(description="Its name.")
    separator: Text = Field("\n", description="Stands between the names of two nodes.")


class ProviderOptions(_Model):
    """Provider options by purpose. What a plugin does not document is never sent to it."""

    always: dict[Text, str] = Field(
        default_factory=dict, description="Sent with every session of this plugin."
    )
    capture: dict[Text, str] | None = Field(None, description="Turns graph capture on.")
    cpu_nodes: CpuNodesOption | None = Field(None, description="Forces named nodes to the CPU EP.")


class DeviceChoice(_Model):
    """Which of the EP devices that appear at registration is driven."""

    type: Literal["cpu", "gpu", "npu"] | None = Field(
        None, description="Of the hardware; any when left out."
    )
    index: Annotated[int, Field(ge=0)] = Field(
        0, description="Among those of the type, from 0, in the order in which ORT names them."
    )


class PolicyRule(_Model):
    """The first rule whose specifiers contain the core's and the plugin's version decides."""

    core: Specifier | None = Field(None, description="The cores' versions; all when left out.")
    plugin: Specifier | None = Field(
        None, description="A rule with this never matches a plugin of unknown version."
    )
    mode: Mode = Field(description="How the harness may drive the device.")
    why: Why
    link: Link = None


class Override(_Model):
    """An environment variable that the plugin reads before registration to force a mode."""

    variable: Variable = Field(description="Its name.")
    forces: dict[str, Literal["serialized"]] = Field(
        min_length=1, description="Value to mode. An override can only take concurrency away."
    )
    neutral: list[str] = Field(default_factory=list, description="Values that change nothing.")
    plugin: Specifier | None = Field(
        None, description="The plugin versions that know the variable; all when left out."
    )
    why: Why
    link: Link = None

    @model_validator(mode="after")
    def _one_meaning(self) -> Override:
        both = sorted(set(self.forces) & set(self.neutral))
        if both:
            raise ValueError(f'the value "{both[0]}" cannot both force a mode and be neutral')
        return self


class Claim(_Model):
    """The ORT API level that a plugin's EPs claim in `ort_version_supported`."""

    plugin: Specifier | None = Field(
        None, description="The plugin versions that claim it; all when left out."
    )
    api: Annotated[int, Field(ge=0)] = Field(description="The level, such as 24.")
    why: Why
    link: Link = None


class Policy(_Model):
    """How a plugin may be driven, by core and plugin version."""

    rules: list[PolicyRule] = Field(
        default_factory=list, description="The first that matches decides; serialized without one."
    )
    override: Override | None = Field(None, description="A variable that forces a mode.")
    claims: list[Claim] = Field(
        default_factory=list, description="The first that matches is the plugin's claim."
    )


class CoreCheck(_Model):
    """A core that refuses plugins whose claimed API level is outside its bounds."""

    core: Specifier = Field(description="The cores' versions.")
    claimed_api_min: Annotated[int, Field(ge=0)] = Field(description="The lowest level it takes.")
    claimed_api_max: Annotated[int, Field(ge=0)] = Field(description="The highest level it takes.")
    reason: Text = Field(description="The reason code of the rejection.")
    why: Why
    link: Link = None

    @model_validator(mode="after")
    def _has_a_range(self) -> CoreCheck:
        if self.claimed_api_min > self.claimed_api_max:
            raise ValueError(
                f"claimed_api_min {self.claimed_api_min} is above "
                f"claimed_api_max {self.claimed_api_max}"
            )
        return self


class Rejection(_Model):
    """How a core's refusal of a plugin is told from any other error."""

    reason: Text = Field(description="The reason code of the outcome.")
    function: Regex = Field(description="Matches the whole name of the native function.")
    message: Regex = Field(description="Found anywhere in the status message.")
    why: Why


class NoDevice(_Model):
    """A machine on which the plugin has nothing to run on: how that shows, and what to do."""

    messages: list[Regex] = Field(
        default_factory=list,
        description="Found in a status message, they say that the machine has no device for it.",
    )
    hint: Text = Field(description="What to do on such a machine; shown to the user.")


class PluginEntry(_Model):
    """What cannot be discovered about a plugin. Exactly one of `requirement` and `path`."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [_given("requirement"), _given("path")]})

    requirement: RequirementText | None = Field(
        None, description="A requirement; the library comes out of its wheel."
    )
    path: Text | None = Field(
        None, description="A library file, relative to the folder of this matrix.yaml."
    )
    version: VersionText | None = Field(None, description="Of a plugin that is given by path.")
    registration_name: Text | None = Field(
        None, description="The name to register the library under."
    )
    ep_name: Text | None = Field(None, description="Needed only if the library has several EPs.")
    device: DeviceChoice = Field(
        DeviceChoice(), description="The EP device to drive, where several appear."
    )
    environment: dict[Variable, str] = Field(
        default_factory=dict,
        description="Set in the host's environment where the user's own does not set it.",
        json_schema_extra={"propertyNames": {"pattern": _VARIABLE}},
    )
    options: ProviderOptions = Field(
        ProviderOptions(), description="The provider options that the plugin documents."
    )
    no_device: NoDevice | None = Field(
        None, description="How to tell a machine without a device for the plugin, and what to do."
    )
    policy: Policy = Field(Policy(), description="How the plugin may be driven.")

    @model_validator(mode="after")
    def _one_origin(self) -> PluginEntry:
        if (self.requirement is None) == (self.path is None):
            raise ValueError("a plugin has either a requirement or a path")
        return self


class ExpectedCapture(_Model):
    """How many runs of a capture scenario executed the kernels, and how many were replays."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [_given("kernel_runs"), _given("host_replays")]}
    )

    kernel_runs: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Runs that executed the kernels."
    )
    host_replays: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Runs that the host answered by a replay."
    )

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedCapture:
        if self.kernel_runs is None and self.host_replays is None:
            raise ValueError("an expected capture says kernel_runs, host_replays, or both")
        return self


# Tagged by hand, so that a wrong value is reported once and not once for each form.
Outcomes = Annotated[
    Annotated[Outcome, Tag("one")]
    | Annotated[Annotated[list[Outcome], Field(min_length=1)], Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, list) else "one"),
]


class Expectation(_Model):
    """What should happen in the cells that it matches; later ones win, field by field."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [_given("outcome"), _given("capture")],
            "if": _given("reason"),
            "then": _given("outcome"),
        }
    )

    plugin: Text = Field("*", description="Glob over plugin names.")
    plugin_version: Specifier | None = Field(
        None, description="An expectation with this never matches a plugin of unknown version."
    )
    core: Specifier | None = Field(None, description="The cores' versions; all when left out.")
    scenario: Text = Field(
        "*", description='A name, a family or a glob, in which only "*" and "?" are special.'
    )
    mode: Mode | None = Field(None, description="Either when left out.")
    platform: Literal["linux", "windows", "macos"] | None = Field(
        None, description="Any when left out."
    )
    outcome: Outcomes | None = Field(None, description="One outcome, or several for a known flake.")
    reason: Text | None = Field(None, description="The reason code that must come with it.")
    capture: ExpectedCapture | None = Field(
        None, description="What a capture scenario must have counted."
    )
    why: Why
    link: Link = None

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

    timeout_s: Seconds = Field(description="For one scenario with all its iterations.")


class Matrix(_Model):
    """The whole of `matrix.yaml`."""

    cores: list[CoreSource] = Field(
        default_factory=list, description="Where the cores of a run come from."
    )
    # Before `plugin`, whose check looks into it.
    plugins: dict[PluginName, PluginEntry] = Field(
        default_factory=dict,
        description="What cannot be discovered, by the plugin's name.",
        json_schema_extra={"propertyNames": {"pattern": f"^{_PLUGIN_NAME}$"}},
    )
    plugin: str | None = Field(None, description="The entry that a run without --plugin takes.")
    iterations: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        20, description="How often each scenario repeats what it tries."
    )
    timeout_s: Seconds = Field(60.0, description="For one scenario with all its iterations.")
    scenarios: dict[Text, ScenarioSettings] = Field(
        default_factory=dict, description="By glob over scenario names; the last match wins."
    )
    core_checks: list[CoreCheck] = Field(
        default_factory=list, description="The cores that refuse some plugins by what they claim."
    )
    rejections: list[Rejection] = Field(
        default_factory=list, description="The errors that amount to a rejection, not a failure."
    )
    expectations: list[Expectation] = Field(
        default_factory=list, description="What should happen; passed where nothing is said."
    )

    @field_validator("plugin")
    @classmethod
    def _default_plugin_exists(cls, name: str | None, info: ValidationInfo) -> str | None:
        plugins = info.data.get("plugins")  # absent when they are wrong themselves
        if name is not None and plugins is not None and name not in plugins:
            raise ValueError(
                f'"{_shown(name)}" has no entry under plugins' + _perhaps(name, plugins)
            )
        return name


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

    Args:
        path: the file.

    Returns:
        The matrix, where it came from, and the sha256 of the file's bytes.

    Raises:
        ConfigError: it cannot be read, is no YAML, or has an unknown, misspelt or wrong value.
    """
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{path} cannot be read: {reason}.",
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
                f'"{_shown(str(node.value))}" cannot be read as YAML\'s {kind}; '
                "write it in quotes if it is text",
                node,
            ) from None

    def plain_integer(self, node: yaml.ScalarNode) -> int:
        """YAML reads 010 as 8 and 1:30 as 90; neither is what its writer meant."""
        if not re.fullmatch(r"[-+]?(0|[1-9][0-9]*)", node.value, re.ASCII):
            raise _marked(
                f'write "{_shown(node.value)}" in plain decimal digits, or in quotes if it is text',
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
    text = _printable(error.problem or "this is not YAML")
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
                        f'the key "{_shown(key.value)}" stands twice, first on line {seen}', key
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
        text = f'unknown key "{_shown(str(loc[-1]))}"' + (f" in {place}" if place else "")
        return text + _perhaps(str(loc[-1]), known) + f" Known here: {', '.join(sorted(known))}."
    if kind == "missing":
        return f'"{loc[-1]}" is missing from {place or "the file"}.'
    if kind == "invalid_key" or (loc[-1:] == ("[key]",) and kind == "string_type"):
        return f"{place or 'a key'}: write the key in quotes; YAML reads {_kind_of(value)}."
    if kind == "value_error":
        text = str(problem["ctx"]["error"])
        return f"{place}: {_printable(text)}" + ("" if text[-1:] in ".?" else ".")
    if value is None:
        return f"{place} is empty; give it a value, or leave the key out."
    shown = f'"{_shown(node.value)}"' if isinstance(node, yaml.ScalarNode) else _kind_of(value)
    if kind == "string_type" and isinstance(node, yaml.ScalarNode):
        return f"{place}: write it in quotes, {shown}; YAML reads {_kind_of(value)}."
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", problem["ctx"]["expected"])
        return f"{place}: {shown} is not one of {', '.join(allowed)}" + _perhaps(
            str(value), allowed
        )
    if kind in ("string_too_short", "too_short"):
        return f"{place}: should not be empty."
    return f"{place}: {_wanted(problem)}, not {shown}."


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


def _shown(text: str) -> str:
    text = _printable(text)
    return text if len(text) <= 60 else text[:57] + "..."


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _perhaps(wrong: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f'; perhaps you meant "{close[0]}"?' if close else "."


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
                place += ("." if place else "") + _shown(str(part))
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line, place = node.start_mark.line + 1, f"{place}[{part}]"
    return line, place, node
