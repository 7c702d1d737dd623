"""`matrix.yaml` as a validated model. Reading and explaining it stands in `harness.matrix_file`."""

from __future__ import annotations

import re
import warnings
from typing import Annotated, Any, Literal

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
    ValidationInfo,
    field_validator,
    model_validator,
)

from harness.quoting import perhaps, shown

__all__ = [
    "Claim",
    "CoreCheck",
    "CoreDefect",
    "CoreSource",
    "CpuNodesOption",
    "DeviceChoice",
    "Expectation",
    "ExpectedCapture",
    "Matrix",
    "Mode",
    "NoDevice",
    "Outcome",
    "Override",
    "PluginEntry",
    "Policy",
    "PolicyRule",
    "Promises",
    "ProviderOptions",
    "Rejection",
    "ScenarioSettings",
    "Specifier",
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
            f'"{shown(text)}" is not a version specifier such as ">=1.24.4,<1.33"'
        ) from None
    return text


def _version(text: str) -> str:
    try:
        Version(text)
    except ValueError:  # InvalidVersion is one; so is a number of too many digits
        raise ValueError(f'"{shown(text)}" is not a version such as "1.24.4"') from None
    return text


def _power_of_two(number: int) -> int:
    if number & (number - 1):
        raise ValueError(f"{number} is no alignment: alignments are powers of two, such as 256")
    return number


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
        raise ValueError(f'"{shown(text)}" is not a regular expression: {error}') from None
    return text


def _requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement:
        raise ValueError(f'"{shown(text)}" is not a requirement such as "name==1.0"') from None
    return text


def _variable(text: str) -> str:
    if not text or "=" in text:
        raise ValueError(f'"{shown(text)}" is not the name of an environment variable')
    return text


def _plugin_name(text: str) -> str:
    if not re.fullmatch(_PLUGIN_NAME, text, re.ASCII):
        raise ValueError(
            f'"{shown(text)}" is not a name for a plugin: letters, digits, ".", "_" and "-", '
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


def _switched_on(name: str) -> dict[str, Any]:
    """The JSON schema of a mapping in which the key is true."""
    return {"required": [name], "properties": {name: {"const": True}}}


def _exactly_one(what: str, **sources: str | bool | None) -> None:
    """Refuse a model in which none of the keys, or more than one, says something."""
    given = [name for name, value in sources.items() if value not in (None, False)]
    if len(given) != 1:
        *others, last = sources
        raise ValueError(
            f"{what} has exactly one of {', '.join(others)} and {last}; "
            f"this one has {' and '.join(given) or 'none'}"
        )


class CoreSource(_Model):
    """Where cores come from: exactly one of `releases`, `archive`, `path` and `installed`."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                _given("releases"),
                _given("archive"),
                _given("path"),
                _switched_on("installed"),
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
        _exactly_one(
            "a core source",
            releases=self.releases,
            archive=self.archive,
            path=self.path,
            installed=self.installed,
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


class Promises(_Model):
    """What the plugin's makers say of its device memory. It is not held to more than this."""

    zeroed_memory: bool = Field(
        default=False, description="New memory reads as zero, whoever had it before."
    )
    alignment: Annotated[int, Field(ge=1), AfterValidator(_power_of_two)] | None = Field(
        None, description="Every address is a multiple of so many bytes, a power of two."
    )
    byte_addresses: bool = Field(
        default=False,
        description="An address plus an offset is an address within the same buffer.",
    )


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


class CoreDefect(_Model):
    """What a core does wrong, whatever the plugin."""

    core: Specifier = Field(description="The cores' versions.")
    scenario: Text = Field(
        description='A name, a family or a glob, in which only "*" and "?" are special.'
    )
    outcome: Outcome = Field(description="How it shows.")
    reason: Text = Field(description="The reason code that must come with it.")
    why: Why
    link: Link = None


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
    """What cannot be discovered; exactly one of `requirement`, `path` and `bundled` is given."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [_given("requirement"), _given("path"), _switched_on("bundled")]
        }
    )

    requirement: RequirementText | None = Field(
        None, description="A requirement; the library comes out of its wheel."
    )
    path: Text | None = Field(
        None, description="A library file, relative to the folder of this matrix.yaml."
    )
    bundled: bool = Field(
        default=False, description="The reference plugin that was built with this package."
    )
    version: VersionText | None = Field(
        None, description="Of a plugin whose wheel does not tell it: one by path, or the bundled."
    )
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
    promises: Promises = Field(
        Promises(), description="What is said of the plugin's device memory."
    )
    no_device: NoDevice | None = Field(
        None, description="How to tell a machine without a device for the plugin, and what to do."
    )
    policy: Policy = Field(Policy(), description="How the plugin may be driven.")

    @model_validator(mode="after")
    def _one_origin(self) -> PluginEntry:
        _exactly_one("a plugin", requirement=self.requirement, path=self.path, bundled=self.bundled)
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
    environment: dict[Variable, str] = Field(
        default_factory=dict,
        description="Set in every host's environment where the user's own does not set it.",
        json_schema_extra={"propertyNames": {"pattern": _VARIABLE}},
    )
    scenarios: dict[Text, ScenarioSettings] = Field(
        default_factory=dict, description="By glob over scenario names; the last match wins."
    )
    core_checks: list[CoreCheck] = Field(
        default_factory=list, description="The cores that refuse some plugins by what they claim."
    )
    core_defects: list[CoreDefect] = Field(
        default_factory=list,
        description="What cores do wrong whatever the plugin; as expected where it shows.",
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
            raise ValueError(f'"{shown(name)}" has no entry under plugins' + perhaps(name, plugins))
        return name
