"""Observations against expectations: the verdict of every cell and of the run. Pure.

It can be run again over an old run folder with new expectations; nothing is executed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from harness.config import CoreDefect, Expectation, Matrix, NoDevice
from harness.names import matches
from harness.outcome import (
    COMPLETE_HINT,
    CUT_OFF,
    INFRASTRUCTURE,
    NO_DEVICE,
    AskedFor,
    Finding,
    classify,
    died_with_a_device,
    is_failure,
    needs_repeat,
    settled,
    shows_a_device,
)
from harness.plan import Cell
from harness.results import (
    AttemptResult,
    Capture,
    CellResult,
    CoreResult,
    Observation,
    PluginResult,
    Results,
    RunInfo,
    Summary,
    Verdict,
)

__all__ = ["Case", "Expected", "exit_code", "expected_of", "judge"]

_GOOD_ENDS = ("passed", "unsupported", "rejected")


@dataclass(frozen=True)
class Case:
    """What is judged: everything that a run folder holds."""

    run: RunInfo
    plugin: PluginResult
    platform: str
    """`linux`, `windows` or `macos`."""
    cores: Sequence[CoreResult]
    cells: Sequence[Cell]
    observations: Sequence[Observation]
    whole: bool
    """Whether nothing was left out of the matrix, so that every expectation must match."""


@dataclass(frozen=True)
class Expected:
    """What should happen in one cell, merged from the expectations that match it."""

    outcomes: tuple[str, ...]
    reason: str | None
    capture: Mapping[str, int]
    """Expected counts by their name in `harness.results.Capture`."""
    why: tuple[str, ...]
    sources: frozenset[int]
    """Places of the expectations in matrix.yaml, from 0."""
    outcome_source: int | None
    defects: tuple[CoreDefect, ...] = ()
    """What the core may do wrong here, whatever the plugin."""

    @property
    def demanded(self) -> bool:
        """Whether somebody said that it passes, and nothing else will do."""
        return self.outcome_source is not None and self.outcomes == ("passed",)

    def text(self) -> str:
        """For people."""
        parts = [" or ".join(self.outcomes) + (f" ({self.reason})" if self.reason else "")]
        parts += [f"{count} {name.replace('_', ' ')}" for name, count in self.capture.items()]
        return ", ".join(parts) + (": " + " ".join(self.why) if self.why else "")


@dataclass(frozen=True)
class _Attempt:
    observation: Observation
    finding: Finding


def judge(
    case: Case, matrix: Matrix, repeat: Callable[[Cell], str], lines: Sequence[int] = ()
) -> Results:
    """The results of a run.

    Args:
        case: what was seen.
        matrix: its rejections and expectations.
        repeat: the command that repeats a cell.
        lines: those of the expectations in their file, where that is known.
    """
    versions = {core.id: core.version for core in case.cores}
    declared = {core.id: core.declared for core in case.cores}
    no_device = _no_device(case, matrix)
    attempts = _attempts(case, matrix, versions, no_device)
    explained = _explained_hosts(attempts)
    attempts = _with_devices(attempts, no_device)
    applying = _applying(case, matrix.expectations)
    cells, used = [], Counter[int]()
    outdated: set[int] = set()
    for cell in case.cells:
        expected = expected_of(cell, versions[cell.core], applying, named=case.plugin.described)
        if not expected.demanded:
            defects = _defects_in(cell, versions[cell.core], matrix.core_defects)
            expected = replace(expected, defects=defects)
        used.update(expected.sources)
        tried = attempts.get(cell.id, [])
        result = _judged(cell, tried, expected, explained, repeat(cell))
        if (cell.mode, declared[cell.core]) == ("concurrent", "serialized"):
            result = _driven_against_the_policy(result)
        if result.verdict == "improved" and expected.outcome_source is not None:
            outdated.add(expected.outcome_source)
        cells.append(result)
    unmatched = [i for i in applying if case.whole and not used[i]]
    summary = Summary(
        cells=len(cells),
        outcomes=dict(Counter(cell.outcome for cell in cells)),
        verdicts=dict(Counter(cell.verdict for cell in cells)),
        outdated_expectations=[_describe(i, matrix, lines) for i in sorted(outdated)],
        unmatched_expectations=[_describe(i, matrix, lines) for i in unmatched],
        exit_code=0,
    )
    plugin = case.plugin.model_copy(update=_seen_plugin(case))
    results = Results(
        run=case.run, plugin=plugin, cores=list(case.cores), cells=cells, summary=summary
    )
    code = exit_code(results)
    return results.model_copy(update={"summary": summary.model_copy(update={"exit_code": code})})


def exit_code(results: Results) -> int:
    """0 all as expected; 1 something unexpected; 3 the run is incomplete, and no more is known.

    What is unexpected counts before what is incomplete: it is a finding whatever else is missing.
    """
    off = [cell for cell in results.cells if cell.verdict != "expected"]
    summary = results.summary
    if (
        any(cell.outcome not in INFRASTRUCTURE for cell in off)
        or summary.outdated_expectations
        or summary.unmatched_expectations
    ):
        return 1
    return 3 if off else 0


def expected_of(
    cell: Cell, core_version: str, expectations: Mapping[int, Expectation], *, named: bool
) -> Expected:
    """What should happen in a cell. Later expectations win, field by field.

    Without any, a cell should pass. A plugin without an entry may lack what a scenario asks for:
    nobody said that it has it.
    """
    outcomes: tuple[str, ...] = ("passed",) if named else ("passed", "unsupported")
    reason, outcome_source, outcome_why = None, None, ""
    capture: dict[str, int] = {}
    capture_why: dict[str, str] = {}
    sources = set()
    for place, one in expectations.items():
        if not (
            matches(one.scenario, cell.scenario)
            and (one.mode is None or one.mode == cell.mode)
            and (one.core is None or _contains(one.core, core_version))
        ):
            continue
        sources.add(place)
        if one.outcomes:
            outcomes, reason = one.outcomes, one.reason
            outcome_source, outcome_why = place, one.why
        if one.capture is not None:
            given = one.capture.model_dump(exclude_none=True)
            capture.update(given)
            capture_why.update(dict.fromkeys(given, one.why))
    why = tuple(dict.fromkeys(filter(None, [outcome_why, *capture_why.values()])))
    return Expected(outcomes, reason, capture, why, frozenset(sources), outcome_source)


def _defects_in(
    cell: Cell, core_version: str, defects: Sequence[CoreDefect]
) -> tuple[CoreDefect, ...]:
    return tuple(
        one
        for one in defects
        if matches(one.scenario, cell.scenario) and _contains(one.core, core_version)
    )


def _attempts(
    case: Case, matrix: Matrix, versions: Mapping[str, str], no_device: NoDevice
) -> dict[str, list[_Attempt]]:
    core_of = {cell.id: cell.core for cell in case.cells}
    attempts: dict[str, list[_Attempt]] = defaultdict(list)
    for observation in settled(case.observations):
        if observation.cell not in core_of:
            continue
        asked = AskedFor(
            versions[core_of[observation.cell]], case.plugin.sha256, no_device.messages
        )
        finding = classify(observation, asked, matrix.rejections)
        attempts[observation.cell].append(_Attempt(observation, finding))
    return attempts


def _with_devices(
    attempts: Mapping[str, Sequence[_Attempt]], no_device: NoDevice
) -> dict[str, list[_Attempt]]:
    """The attempts, in which a device that was there elsewhere and then not is the plugin's."""
    every = [attempt for tried in attempts.values() for attempt in tried]
    worked = any(shows_a_device(one.observation, one.finding) for one in every)
    died_with_one = any(died_with_a_device(one.observation) for one in every)

    def told(attempt: _Attempt) -> _Attempt:
        hinted = _with_device_hint(attempt, no_device.hint)
        gone = worked or (attempt.observation.no_device and died_with_one)
        return _blame_plugin_for_no_device(hinted) if gone else hinted

    return {cell: list(map(told, tried)) for cell, tried in attempts.items()}


def _explained_hosts(attempts: Mapping[str, Sequence[_Attempt]]) -> frozenset[str]:
    """The shared hosts whose common trouble one of their cells showed again alone."""
    hosts = set()
    for tried in attempts.values():
        for attempt in tried:
            again = any(
                other.observation.alone
                and other.observation is not attempt.observation
                and (other.finding.outcome, other.finding.reason)
                == (attempt.finding.outcome, attempt.finding.reason)
                for other in tried
            )
            if attempt.finding.shared and not attempt.observation.alone and again:
                hosts.add(attempt.observation.host)
    return frozenset(hosts)


def _is_explained(attempt: _Attempt, explained: frozenset[str]) -> bool:
    """Whether trouble of a shared host is known to be the doing of another cell."""
    return attempt.finding.shared and attempt.observation.host in explained


def _judged(
    cell: Cell,
    tried: Sequence[_Attempt],
    expected: Expected,
    explained: frozenset[str],
    repeat: str,
) -> CellResult:
    told = list(tried)
    while told and told[-1].finding.outcome in INFRASTRUCTURE:
        told.pop()
    # What was seen stays seen, though it could not be seen again, unless it was another cell's.
    cut_off = (
        len(told) < len(tried)
        and bool(told)
        and needs_repeat(told[-1].finding)
        and not _is_explained(told[-1], explained)
    )
    told = told if cut_off else list(tried)
    if not told:
        finding = Finding("not-run", "interrupted", "nothing was recorded of it", COMPLETE_HINT)
        report = None
    else:
        finding, report = told[-1].finding, told[-1].observation.report
    lack = report.unsupported if report and finding.outcome == "unsupported" else None
    if lack and lack.of_core and not expected.demanded and "unsupported" not in expected.outcomes:
        # No plugin can have what its core lacks, nor fail at it.
        expected = replace(expected, outcomes=(*expected.outcomes, "unsupported"))
    failures = [
        attempt.finding
        for attempt in told[:-1]
        if is_failure(attempt.finding) and not _is_explained(attempt, explained)
    ]
    capture = report.capture if report else None
    verdict = _verdict(finding, expected, capture, failures)
    flaky = bool(failures) and (finding.outcome in _GOOD_ENDS or verdict == "flaky")
    detail = finding.detail
    if cut_off:
        last = tried[-1].finding
        detail += (
            "; the run was stopped before it could be seen again"
            if last.reason in CUT_OFF
            else f"; it could not be seen again: {last.detail}"
        )
    if flaky:
        detail = (
            f"attempt 1 {failures[0].outcome} ({failures[0].reason}: {failures[0].detail}); "
            f"then {finding.outcome} in a fresh host of its own"
        )
    elif verdict == "unexpected" and finding.outcome == "passed" and capture is not None:
        detail = (
            f"{capture.kernel_runs} kernel runs and {capture.host_replays} host replays "
            f"in {capture.runs} runs"
        )
    return CellResult(
        id=cell.id,
        core=cell.core,
        plugin=cell.plugin,
        mode=cell.mode,
        scenario=cell.scenario,
        repetition=cell.repetition,
        outcome=finding.outcome,
        reason=finding.reason,
        verdict=verdict,
        expected=_expected_text(expected, finding, verdict),
        iterations_planned=cell.iterations,
        iterations_passed=report.iterations_passed if report else 0,
        duration_s=told[-1].observation.duration_s if told else 0.0,
        detail=detail,
        hint=_hint(finding, verdict, expected),
        placement=report.placement if report else [],
        capture=capture,
        overlap=report.overlap if report else None,
        attempts=[_attempt_result(attempt) for attempt in tried],
        log=told[-1].observation.log if told else None,
        repeat=repeat,
    )


def _verdict(
    finding: Finding, expected: Expected, capture: Capture | None, failures: Sequence[Finding]
) -> Verdict:
    allowed = _allowed(finding, expected)
    tolerated = all(_allowed(one, expected) for one in failures)
    if failures and finding.outcome in _GOOD_ENDS and not (tolerated and allowed):
        return "flaky"
    if allowed and not tolerated:
        # What is expected to go wrong excuses no other trouble before it.
        return "flaky"
    if not allowed:
        return "improved" if finding.outcome == "passed" else "unexpected"
    if finding.outcome == "passed" and not _capture_fits(expected.capture, capture):
        return "unexpected"
    return "expected"


def _allowed(finding: Finding, expected: Expected) -> bool:
    # The reason belongs to what is wrong: where passing or a lack is allowed too, that comes
    # without one.
    as_said = finding.outcome in expected.outcomes and (
        finding.outcome in ("passed", "unsupported") or expected.reason in (None, finding.reason)
    )
    return as_said or _defect(finding, expected) is not None


def _defect(finding: Finding, expected: Expected) -> CoreDefect | None:
    """The defect of the core that shows; none if it is another trouble."""
    shown = (finding.outcome, finding.reason)
    return next((one for one in expected.defects if (one.outcome, one.reason) == shown), None)


def _capture_fits(wanted: Mapping[str, int], seen: Capture | None) -> bool:
    if not wanted:
        return True
    return seen is not None and all(getattr(seen, key) == value for key, value in wanted.items())


def _expected_text(expected: Expected, finding: Finding, verdict: Verdict) -> str:
    if verdict == "expected" and finding.outcome == "unsupported" and not expected.why:
        # Nobody said why it may be so, but the scenario did.
        return f"{expected.text()}: {finding.detail}"
    defect = _defect(finding, expected)
    if defect is not None:
        return f"{defect.outcome} ({defect.reason}), whatever the plugin: {defect.why}"
    return expected.text()


def _driven_against_the_policy(result: CellResult) -> CellResult:
    if result.outcome == "passed":
        return result
    warning = (
        f"The policy says serialized for {result.core}, and --mode concurrent drove it against "
        "that: `ort-ep-matrix audit` tells whether the policy is right."
    )
    return result.model_copy(update={"hint": f"{result.hint} {warning}".strip()})


def _hint(finding: Finding, verdict: Verdict, expected: Expected) -> str:
    if (
        verdict == "unexpected"
        and finding.outcome != "passed"
        and finding.outcome in expected.outcomes
    ):
        return (
            f"The outcome is as expected, its reason is not: {finding.reason}, where "
            f"{expected.reason} was expected."
        )
    if verdict == "improved":
        return "Take the outdated expectation out of matrix.yaml, or narrow its core specifier."
    if verdict == "flaky":
        return (
            "The same cell failed and passed. Find the race, or what scenarios before it in the "
            "same host left behind. Or list both outcomes in an expectation that says why."
        )
    if finding.outcome == "unsupported" and verdict == "unexpected":
        return (
            "If the plugin has it and an entry of matrix.yaml can say so, say it there; else "
            "expect `unsupported` with a why."
        )
    if finding.outcome == "passed" and verdict == "unexpected":
        return (
            "The values were right, but not made as expected: look at the capture option and at "
            "what the plugin captures, or correct the expectation."
        )
    if finding.outcome == "rejected" and verdict == "unexpected":
        return (
            f"{finding.hint} If it is meant to be so, expect it in matrix.yaml: outcome: rejected, "
            f"reason: {finding.reason}, with the core and a why."
        )
    return finding.hint


def _attempt_result(attempt: _Attempt) -> AttemptResult:
    observation, finding = attempt.observation, attempt.finding
    return AttemptResult(
        attempt=observation.attempt,
        outcome=finding.outcome,
        reason=finding.reason,
        detail=finding.detail,
        alone=observation.alone,
        host=observation.host,
        duration_s=observation.duration_s,
        log=observation.log,
        death=observation.death,
    )


def _applying(case: Case, expectations: Sequence[Expectation]) -> dict[int, Expectation]:
    """The expectations that speak of this plugin and platform, by place."""
    version = case.plugin.version or _seen_plugin(case).get("version")
    return {
        place: one
        for place, one in enumerate(expectations)
        if matches(one.plugin, case.plugin.name)
        and (one.platform is None or one.platform == case.platform)
        and (
            one.plugin_version is None
            or (version is not None and _contains(one.plugin_version, version))
        )
    }


def _contains(specifier: str, version: str) -> bool:
    return SpecifierSet(specifier).contains(version, prereleases=True)


def _blame_plugin_for_no_device(attempt: _Attempt) -> _Attempt:
    """Elsewhere in the run the plugin did have a device here, so the machine has one."""
    if attempt.finding.reason != NO_DEVICE:
        return attempt
    return replace(
        attempt,
        finding=Finding(
            "failed",
            NO_DEVICE,
            f"{attempt.finding.detail}; elsewhere in this run it had one",
            "The log may tell why it was not there this time. Devices that are made anew many "
            "times in one process may have used up something of the driver's.",
        ),
    )


def _with_device_hint(attempt: _Attempt, hint: str) -> _Attempt:
    if attempt.finding.reason != NO_DEVICE:
        return attempt
    return replace(attempt, finding=replace(attempt.finding, hint=hint))


def _no_device(case: Case, matrix: Matrix) -> NoDevice:
    """How the plugin says that there is no device for it, and what to do then."""
    described = case.plugin.described
    entry = matrix.plugins.get(case.plugin.name) if described else None
    if not described:
        for name, known in matrix.plugins.items():
            wanted = Requirement(known.requirement).name if known.requirement else None
            if wanted and canonicalize_name(wanted) == canonicalize_name(case.plugin.name):
                return NoDevice(
                    hint=f"A bare requirement gets no environment. matrix.yaml has an entry for "
                    f"it, which sets what it needs: --plugin {name}."
                )
    return (entry.no_device if entry else None) or NoDevice(
        hint="Check that the driver of the device is installed, and whether the plugin needs an "
        "environment variable (--env) to offer the device of this machine."
    )


def _seen_plugin(case: Case) -> dict[str, str]:
    """What registration told of the plugin and could not be known before."""
    seen: dict[str, str] = {}
    for observation in case.observations:
        identity = observation.identity
        if identity.ep_name is not None:
            seen["ep_name"] = identity.ep_name
            if identity.plugin_version:
                seen["version_seen"] = identity.plugin_version
                seen["version"] = case.plugin.version or identity.plugin_version
            break
    return seen


def _describe(place: int, matrix: Matrix, lines: Sequence[int]) -> str:
    one = matrix.expectations[place]
    parts = [f"line {lines[place]}:"] if lines else []
    parts.append(f"expectations[{place}]:")
    for key in ("plugin", "plugin_version", "core", "scenario", "mode", "platform"):
        value = getattr(one, key)
        if value not in (None, "*"):
            parts.append(f"{key} {value}")
    if one.outcomes:
        parts.append("expects " + " or ".join(one.outcomes))
    return " ".join(parts)
