"""The values that a run leaves behind: observations, outcomes, verdicts and results.json.

Observations are what a host process and its end were seen to do; they carry no opinion.
Everything from a host is validated here, since a plugin shares the process with what we send.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from harness.config import Mode, Outcome

__all__ = [
    "SCHEMA_VERSION",
    "AttemptResult",
    "Capture",
    "CellResult",
    "CheckFailure",
    "CoreResult",
    "Death",
    "HostIdentity",
    "MappedFile",
    "NativeError",
    "Observation",
    "Overlap",
    "Placement",
    "PluginResult",
    "Results",
    "RunInfo",
    "ScenarioReport",
    "Summary",
    "Unsupported",
    "Verdict",
]

SCHEMA_VERSION = 1


def _moment(text: str) -> str:
    try:
        dt.datetime.fromisoformat(text or "1970-01-01")
    except ValueError:
        raise ValueError(f"{text!a} is no time such as 2026-11-30T14:20:05+00:00") from None
    return text


Moment = Annotated[str, AfterValidator(_moment)]
"""A time of ISO 8601, as a text; empty while it has not come."""

Verdict = Literal["expected", "unexpected", "improved", "flaky"]


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NativeError(_Value):
    """An error that a native call or the scenario's own Python code raised."""

    kind: Literal["native", "python"]
    function: str = Field(description="The native function, or the exception's type.")
    code: str = Field(description="Name of the OrtErrorCode; empty for a Python exception.")
    message: str
    iteration: int | None = Field(None, description="From 0; none outside the iterations.")


class CheckFailure(_Value):
    """One check that did not hold."""

    iteration: int | None
    what: str = Field(description="The tensor that was checked, or what should be true.")
    expected: str = Field(description="Empty where something should be true.")
    got: str


class Placement(_Value):
    """Where a node should run and where ORT says that it was placed."""

    node: str
    expected: str
    got: str | None = Field(description="EP name; none if ORT assigned the node to no EP.")


class Capture(_Value):
    """What a capture scenario counted, in runs of one session."""

    runs: int
    kernel_runs: int
    host_replays: int


class Overlap(_Value):
    """How much the lanes of a scenario were really at work at the same time."""

    free: bool = Field(description="Whether they might overlap; in serialized mode they may not.")
    calls: int = Field(description="Native calls of the lanes that may touch the device.")
    overlapped: int = Field(description="Those that began while another lane was inside one.")


class Unsupported(_Value):
    """What a scenario asked of the plugin or the core, and what was answered."""

    asked: str
    answered: str
    of_core: bool = Field(
        default=False, description="The core or the system lacks it, whatever the plugin."
    )


class ScenarioReport(_Value):
    """What a host says of one scenario when it has ended on its own."""

    scenario: str
    iterations_planned: int
    iterations_passed: int
    checks: int
    check_failures: list[CheckFailure] = Field(description="The first few of them.")
    check_failure_count: int
    placement: list[Placement]
    error: NativeError | None = None
    unsupported: Unsupported | None = None
    capture: Capture | None = None
    overlap: Overlap | None = None
    leaked: list[str] = Field(
        default_factory=list, description="Errors while the scenario's own handles were released."
    )
    state_changes: list[str] = Field(
        default_factory=list, description="What it did to the state of the process."
    )
    duration_s: float


class Death(_Value):
    """How a host process ended when it did not end as it should."""

    how: Literal["signal", "exit", "hang", "channel"]
    name: str = Field(description="Signal name, exit status, or what went wrong.")
    phase: str = Field(description="What the host was doing: load, register, scenario, teardown…")
    iteration: int | None = None
    last_call: str | None = Field(None, description="The last native call.")
    inside_call: bool = Field(default=False, description="Whether that call had not returned.")
    log_tail: str = ""
    out_of_memory: bool = Field(
        default=False,
        description="Whether the system ended processes meanwhile because memory had run out.",
    )


class MappedFile(_Value):
    """A library that was really mapped into a host process."""

    path: str
    role: Literal["core", "plugin", "other-core"]


class EpDeviceSeen(_Value):
    """An EP device that appeared when the plugin registered."""

    ep_name: str
    ep_vendor: str
    hardware_type: str
    hardware_vendor: str
    device_memory: bool
    metadata: dict[str, str]


class HostIdentity(_Value):
    """What a host process really had in it."""

    core_version: str | None = None
    mapped: list[MappedFile] = Field(default_factory=list)
    plugin_sha256_before: str | None = None
    plugin_sha256_after: str | None = None
    ep_devices: list[EpDeviceSeen] = Field(default_factory=list)
    ep_name: str | None = None
    plugin_version: str | None = Field(None, description="From the EP device's metadata.")
    registration_name: str | None = None


class Observation(_Value):
    """One attempt at one cell, as it was seen."""

    cell: str
    attempt: int
    alone: bool = Field(description="Whether the scenario had a fresh host for itself.")
    host: str = Field(description="Names the host process within the run.")
    report: ScenarioReport | None = None
    death: Death | None = Field(
        None, description="How the host ended, where that is to be told of this cell."
    )
    setup_error: NativeError | None = Field(
        None, description="The host could not load the core or register the plugin."
    )
    no_device: bool = False
    identity: HostIdentity = HostIdentity()
    clean_end: bool = Field(description="The host tore down in order and ended as it was told to.")
    teardown_errors: list[str] = Field(default_factory=list)
    left_behind: list[str] = Field(
        default_factory=list,
        description="Processes that outlived the host; those with an id were ended.",
    )
    infra: str | None = Field(None, description="Why the harness itself could not try.")
    early: bool = Field(
        default=False,
        description="Recorded while the host still ran; what was seen at its end replaces it.",
    )
    log: str | None = None
    started: str
    duration_s: float


class AttemptResult(_Value):
    """One attempt with what it amounts to."""

    attempt: int
    outcome: Outcome
    reason: str
    detail: str
    alone: bool
    host: str
    duration_s: float
    log: str | None = None
    death: Death | None = None


class CellResult(_Value):
    """A cell with its outcome and its verdict."""

    id: str
    core: str
    plugin: str
    mode: Mode
    scenario: str
    repetition: int = Field(1, description="Which one of the whole scenario, from 1.")
    outcome: Outcome
    reason: str
    verdict: Verdict
    expected: str = Field(description="What should have happened, and why.")
    iterations_planned: int
    iterations_passed: int
    duration_s: float
    detail: str
    hint: str = Field("", description="What to do about it.")
    placement: list[Placement]
    capture: Capture | None = None
    overlap: Overlap | None = None
    attempts: list[AttemptResult]
    log: str | None = Field(None, description="Relative to the run folder.")
    repeat: str = Field("", description="The command that repeats this one cell.")


class CoreResult(_Value):
    """A core of the run."""

    id: str = Field(description="Names the core in cells; the version where that is unique.")
    version: str
    library: str | None
    sha256: str | None
    source: str
    error: str | None = Field(None, description="Why the core could not be had.")
    package: str | None = Field(
        None, description="The distribution of a package index that brought it."
    )
    mode: Mode = Field(description="How it was driven; in a run of both modes, the declared one.")
    mode_rule: str = Field(description="The policy rule that decided the mode, and why.")
    declared: Mode = Field(description="The mode that the policy says, whatever was asked for.")


class PluginResult(_Value):
    """The plugin of the run."""

    name: str
    version: str | None
    version_seen: str | None = Field(None, description="What the EP device itself says.")
    library: str
    sha256: str
    ep_name: str | None
    registration_name: str
    described: bool = Field(default=True, description="Whether matrix.yaml has an entry for it.")


class RunInfo(_Value):
    """The run itself."""

    id: str
    started: Moment
    finished: Moment
    harness_version: str
    matrix_sha256: str
    platform: str
    command: list[str] = Field(default_factory=list)
    jobs: int = Field(1, ge=1)
    shuffle: int | None = Field(
        None, description="The seed of the order of scenarios and iterations; none for their own."
    )
    matrix: str = Field("", description="The matrix.yaml that it was planned from.")
    resumed: list[Moment] = Field(
        default_factory=list, description="When it was gone on with after an interruption."
    )


class Summary(_Value):
    """Counts over all cells."""

    cells: int
    outcomes: dict[str, int]
    verdicts: dict[str, int]
    outdated_expectations: list[str] = Field(default_factory=list)
    unmatched_expectations: list[str] = Field(default_factory=list)
    exit_code: int


class Results(_Value):
    """results.json."""

    schema_version: Literal[1] = 1
    run: RunInfo
    plugin: PluginResult
    cores: list[CoreResult]
    cells: list[CellResult]
    summary: Summary
