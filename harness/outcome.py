"""What an observation amounts to: an outcome and a reason code, pure.

Reason codes, by outcome:

* passed: `ok`
* failed: `wrong-result`, `native-error`, `placement`, `no-checks`, `incomplete`, `process-state`,
  `release-error`, `teardown-error`, `load-failed`, `missing-dependency`,
  `registration-refused`, `no-ep-device`, `wrong-core`, `wrong-plugin`, `second-core`,
  `plugin-changed`, `left-behind`
* crashed: the signal or system exception, `exit-status`, `exited-early`, `at-exit`,
  `channel-lost`
* hung: `timeout`, `at-exit`
* rejected: a reason of the `rejections` table
* unsupported: `unsupported`
* infra-error: `core-unavailable`, `core-unusable`, `host-start`, `scenario-error`,
  `no-ep-device`, `harness-error`
* not-run: `interrupted`, `unconfirmed`, `no-overlap`
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from packaging.version import InvalidVersion, Version

from harness.config import Outcome, Rejection
from harness.results import Death, NativeError, Observation, ScenarioReport, Unsupported

__all__ = [
    "COMPLETE_HINT",
    "CUT_OFF",
    "INFRASTRUCTURE",
    "NO_DEVICE",
    "NO_OVERLAP",
    "REASONS",
    "AskedFor",
    "Finding",
    "classify",
    "died_with_a_device",
    "is_failure",
    "needs_repeat",
    "settled",
    "shows_a_device",
]

INFRASTRUCTURE: tuple[Outcome, ...] = ("infra-error", "not-run")
"""Outcomes of what could not be tried: they say nothing of the plugin."""
NO_DEVICE = "no-ep-device"
NO_OVERLAP = "no-overlap"
COMPLETE_HINT = "`ort-ep-matrix run --resume FOLDER` completes the run in its run folder."
"""What to do about a cell that the end of the run kept from being tried."""
REASONS = frozenset(
    {
        "at-exit",
        "channel-lost",
        "core-unavailable",
        "core-unusable",
        "exit-status",
        "exited-early",
        "harness-error",
        "host-start",
        "incomplete",
        "interrupted",
        "left-behind",
        "load-failed",
        "missing-dependency",
        "native-error",
        "no-checks",
        "no-ep-device",
        "no-overlap",
        "ok",
        "placement",
        "plugin-changed",
        "process-state",
        "registration-refused",
        "release-error",
        "scenario-error",
        "second-core",
        "teardown-error",
        "timeout",
        "unconfirmed",
        "unsupported",
        "wrong-core",
        "wrong-plugin",
        "wrong-result",
    }
)
"""All reason codes but those of signals and of the `rejections` table."""
_NATIVE = 'How to get the native stack: docs/reading-a-report.md, "A native stack".'
_CRASH_HINT = f"Repeat the cell: the log ends with the Python stack of the call. {_NATIVE}"
_STARVED = (
    "The system ends processes when memory runs out, a host before others. Repeat the cell alone, "
    "with --jobs 1, and watch what its process takes."
)
_HINTS = {
    "SIGKILL": "No program kills itself so: somebody did, or the system when memory ran out.",
    "SIGABRT": "The end of the log tells what was asserted, or which exception nobody caught. "
    f"{_NATIVE}",
    "wrong-result": "Zeros mean that work was fetched before it was submitted, values of another "
    "iteration or tensor a stale or shared buffer.",
    "native-error": "The message is the core's or the plugin's own. A log, where there is one, has "
    "what was printed before it.",
    "no-checks": "A scenario checks a value in every iteration, and says where its nodes run.",
    "incomplete": "The scenario left its iterations, or checked nothing in some of them.",
    "release-error": "What the scenario had created could not be given back; the log tells more.",
    "teardown-error": "The plugin could not be unregistered, or the environment not released.",
    "left-behind": "End and await every child process before the plugin is unregistered.",
    "registration-refused": "The message is the core's or the plugin's own. A log, where there is "
    "one, has what was printed before it. A plugin that was built for a newer API than the core's "
    "must claim the core's.",
    "load-failed": "The core could not load the library; the message is the loader's.",
    "exited-early": "Something ended the process: look for exit() in the plugin and below it.",
    "exit-status": "Something ended the process: look for exit() in the plugin and below it, and "
    "at the end of the log.",
    "channel-lost": "Something closed or wrote to descriptors that are not its own.",
    "core-unavailable": "The other cores were tried without it.",
    "harness-error": "This is a fault of ort-ep-matrix: please report it with what stands above.",
    "interrupted": COMPLETE_HINT,
    "no-overlap": "Run it again, with more iterations, or on a machine that is less busy.",
    "unconfirmed": COMPLETE_HINT,
}
_SAID = "The first check that did not hold says what should be true and what was seen instead."
CUT_OFF = ("interrupted", "unconfirmed")
"""Reasons of an attempt that says nothing of its cell, and hides nothing that came before it."""
_BEFORE_PLUGIN = ("start", "load")
_EXIT_PHASES = ("teardown", "exit")


@dataclass(frozen=True)
class AskedFor:
    """What a host should have had in it."""

    core_version: str
    plugin_sha256: str
    no_device_messages: Sequence[str] = ()
    """Regular expressions over status messages by which a plugin says that it has no device."""


@dataclass(frozen=True)
class Finding:
    """An outcome, its reason code, what was seen, and what to do about it."""

    outcome: Outcome
    reason: str
    detail: str = ""
    hint: str = ""
    shared: bool = False
    """Seen of the host as a whole: in a shared host it is not known whose doing it was."""


_GONE = Finding(
    "failed",
    "plugin-changed",
    "the plugin's file could not be read: it was moved or removed during the run",
    "Something, perhaps the plugin itself, took the file away while it was in use; put it back.",
    shared=True,
)


def classify(observation: Observation, asked: AskedFor, rejections: Sequence[Rejection]) -> Finding:
    """The outcome of one attempt, taken by itself.

    What ended well in a host that then died elsewhere has not passed yet: it is `not-run` for
    the time being, until a host that ends in order confirms it.
    """
    finding = _classify(observation, asked, rejections)
    if finding.hint:
        return finding
    fallback = _CRASH_HINT if finding.outcome == "crashed" else ""
    return replace(finding, hint=_HINTS.get(finding.reason, fallback))


def _classify(
    observation: Observation, asked: AskedFor, rejections: Sequence[Rejection]
) -> Finding:
    if observation.infra is not None:
        reason, _, text = observation.infra.partition(": ")
        outcome: Outcome = "not-run" if reason == "interrupted" else "infra-error"
        detail, _, hint = text.partition("\n")
        return Finding(outcome, reason, detail, hint)
    if observation.death is not None:
        return _death(observation)
    wrong = _identity(observation, asked)
    if wrong is not None:
        return wrong
    if observation.setup_error is not None:
        return _setup_error(observation.setup_error, asked, rejections)
    if observation.no_device:
        return Finding(
            "infra-error",
            NO_DEVICE,
            "the plugin registered, and offered no EP device that fits on this machine",
        )
    if observation.report is None:
        return Finding("crashed", "exited-early", "the host ended without a report")
    finding = _report(observation, observation.report, asked, rejections)
    if finding.outcome in ("passed", "unsupported", "rejected") and not observation.clean_end:
        return Finding(
            "not-run",
            "unconfirmed",
            f"{finding.outcome} ({finding.reason}), and then its host was ended with the run or "
            "died elsewhere: a pass counts only in a host that ends in order",
        )
    return finding


def is_failure(finding: Finding) -> bool:
    """Whether something went wrong that a later pass would not undo."""
    return finding.outcome in ("failed", "crashed", "hung")


def needs_repeat(finding: Finding) -> bool:
    """Whether a fresh host must see it again before it is believed.

    Lanes that did not meet may meet in a second try, on a machine that is less busy then.
    """
    return is_failure(finding) or finding.reason == NO_OVERLAP


def shows_a_device(observation: Observation, finding: Finding) -> bool:
    """Whether an attempt is proof that the plugin has a device on this machine.

    A scenario that failed is one only if something of it ran on the plugin's EP: a session may have
    become one on the CPU EP instead.
    """
    report = observation.report
    if report is None or finding.outcome not in ("passed", "failed"):
        return False
    ran = any(placed.got == observation.identity.ep_name for placed in report.placement)
    return bool(report.iterations_passed) or ran


def died_with_a_device(observation: Observation) -> bool:
    """Whether a host had an EP device of the plugin when it died.

    Where later hosts are offered none, that is gone. It is no proof that sessions ever worked on
    it: some plugins offer a device where there is no driver for it.
    """
    return observation.death is not None and observation.identity.ep_name is not None


def settled(observations: Sequence[Observation]) -> list[Observation]:
    """The observations without those early ones that a later one of the same attempt replaces."""
    whole = {(one.cell, one.attempt) for one in observations if not one.early}
    return [one for one in observations if not (one.early and (one.cell, one.attempt) in whole)]


def _death(observation: Observation) -> Finding:
    death = observation.death
    assert death is not None  # noqa: S101 - the caller asked
    where = _where(death)
    if observation.setup_error is not None:
        where += f"; before that, {_told(observation.setup_error)}"
    if death.phase in _BEFORE_PLUGIN:
        return Finding(
            "infra-error",
            "host-start" if death.phase == "start" else "core-unusable",
            f"the host ended before the plugin was touched: {death.name} {where}",
            "The end of the log tells more.",
        )
    at_exit = death.phase in _EXIT_PHASES
    if death.how == "hang":
        return Finding(
            "hung",
            "at-exit" if at_exit else "timeout",
            f"{death.name}, {where}",
            "The Python stacks of the host stand in the log.",
            shared=at_exit,
        )
    if death.how == "channel":
        return Finding("crashed", "channel-lost", f"{death.name}, {where}")
    if at_exit:
        return Finding(
            "crashed",
            "at-exit",
            f"{death.name} {where}",
            "The work was done; something is released too late or twice when it ends.",
            shared=True,
        )
    if death.how == "signal":
        hint = _STARVED if _starved(death) else ""
        return Finding("crashed", death.name, f"{death.name} {where}", hint)
    if death.name.endswith(" 0"):
        return Finding(
            "crashed", "exited-early", f"the host ended with status 0 and no report, {where}"
        )
    return Finding("crashed", "exit-status", f"{death.name}, {where}")


def _where(death: Death) -> str:
    where = f"in phase {death.phase}"
    if death.iteration is not None:
        where += f", iteration {death.iteration}"
    if death.last_call is not None:
        where += f", {'inside' if death.inside_call else 'after'} {death.last_call}"
    if _starved(death):
        where += "; the system had run out of memory"
    return where


def _starved(death: Death) -> bool:
    """Whether it was the system, most likely; what dies of something else dies of that."""
    return death.name == "SIGKILL" and death.out_of_memory


def _identity(observation: Observation, asked: AskedFor) -> Finding | None:
    seen = observation.identity
    if seen.core_version is not None and not _same_release(seen.core_version, asked.core_version):
        return Finding(
            "failed",
            "wrong-core",
            f"the core says version {seen.core_version}, where {asked.core_version} was asked for",
        )
    roles = {file.role: file.path for file in seen.mapped}
    if "other-core" in roles:
        return Finding(
            "failed",
            "second-core",
            f"a second ORT was in the host: {roles['other-core']}",
            "Find out which library of the plugin links or loads it; two cores in a process "
            "do not share their objects.",
            shared=True,
        )
    for role in ("core", "plugin"):
        if seen.mapped and role not in roles:
            return Finding(
                "failed", f"wrong-{role}", f"the {role} that was asked for was not mapped"
            )
    for when, digest in (
        ("before", seen.plugin_sha256_before),
        ("after", seen.plugin_sha256_after),
    ):
        if digest is not None and digest != asked.plugin_sha256:
            return Finding(
                "failed",
                "plugin-changed",
                f"the plugin's file was another one {when} the run: sha256 {digest}",
                "Something wrote to the file while it was in use; the results are of no one file.",
                shared=True,
            )
    if observation.setup_error is not None and seen.plugin_sha256_before is None:
        return _GONE
    if observation.report is not None and observation.clean_end:
        return _unseen(observation)
    return None


def _unseen(observation: Observation) -> Finding | None:
    """A host that ended in order has told all of its identity; what it did not see is wrong."""
    seen = observation.identity
    if seen.core_version is None:
        return Finding("failed", "wrong-core", "the core did not say which version it is")
    roles = {file.role for file in seen.mapped}
    for role in ("core", "plugin"):
        if role not in roles:
            return Finding(
                "failed", f"wrong-{role}", f"the {role} that was asked for was not mapped"
            )
    if seen.plugin_sha256_before is None or seen.plugin_sha256_after is None:
        return _GONE
    return None


def _setup_error(error: NativeError, asked: AskedFor, rejections: Sequence[Rejection]) -> Finding:
    known = _known_refusal(error, asked, rejections)
    if known is not None:
        return known
    detail = _told(error)
    missing = re.search(
        r"([^\s:\"']+\.(?:so[\d.]*|dylib|dll)): cannot open shared object file", error.message
    )
    if missing and not PurePath(missing[1]).is_absolute():
        return Finding(
            "failed",
            "missing-dependency",
            detail,
            f"The plugin needs {missing[1]}, and the loader did not find it: install what brings "
            "it, put it beside the plugin, or name its folder with --env LD_LIBRARY_PATH=….",
        )
    if re.search(r"dlopen|LoadLibrary|[Ff]ailed to load library", error.message):
        return Finding("failed", "load-failed", detail)
    return Finding("failed", "registration-refused", detail)


def _told(error: NativeError) -> str:
    return f"{error.function} returned {error.code}: {error.message}"


def _known_refusal(
    error: NativeError, asked: AskedFor, rejections: Sequence[Rejection]
) -> Finding | None:
    """An error that the tables know: the core rejects the plugin, or the machine has no device."""
    for pattern in asked.no_device_messages if error.kind == "native" else ():
        found = re.search(pattern, error.message)
        if found:
            told = _sentence(error.message, found)
            return Finding("infra-error", NO_DEVICE, f"{error.function}: {told}")
    for rejection in rejections if error.kind == "native" else ():
        found = re.search(rejection.message, error.message)
        if found and re.fullmatch(rejection.function, error.function):
            told = _sentence(error.message, found)
            return Finding("rejected", rejection.reason, f"{error.function}: {told}", rejection.why)
    return None


def _sentence(message: str, found: re.Match[str]) -> str:
    """A message from the beginning of the sentence in which something was found.

    What ORT puts before it, places in its source above all, differs from core to core.
    """
    before = message[: found.start()]
    start = max(
        (before.rfind(mark) + len(mark) for mark in (". ", "\n") if mark in before), default=0
    )
    return message[start:].strip()


def _report(
    observation: Observation,
    report: ScenarioReport,
    asked: AskedFor,
    rejections: Sequence[Rejection],
) -> Finding:
    # A wrong value is a finding whatever came after it.
    if report.check_failure_count:
        first = report.check_failures[0] if report.check_failures else None
        said = _SAID if first is not None and not first.expected else ""
        return Finding("failed", "wrong-result", _wrong_result(report), said)
    if report.unsupported is not None:
        return _lack(observation, report, report.unsupported)
    if report.error is not None:
        finding = _scenario_error(report, report.error, asked, rejections)
        # Who refuses leaves all as it was.
        spoilt = _spoilt(observation, report) if finding.outcome == "rejected" else None
        return spoilt or finding
    misplaced = [p for p in report.placement if p.got != p.expected]
    if misplaced:
        return Finding(
            "failed",
            "placement",
            "; ".join(
                f"node {p.node} ran on {p.got or 'no EP that ORT names'}, not on {p.expected}"
                for p in misplaced
            ),
            "The values prove nothing: another EP computed them. Where a node was to be forced "
            "to the CPU EP, check options.cpu_nodes of the plugin's entry.",
        )
    return _completeness(observation, report)


def _lack(observation: Observation, report: ScenarioReport, lack: Unsupported) -> Finding:
    """What is lacking, unless it was there in earlier iterations, or asking for it did harm."""
    told = f"asked for {lack.asked}; {lack.answered}"
    if report.iterations_passed and not lack.of_core:
        return Finding(
            "failed",
            "incomplete",
            f"{told}; before that {report.iterations_passed} iterations had it and passed",
            "What a plugin has once it must go on having.",
        )
    return _spoilt(observation, report) or Finding("unsupported", "unsupported", told)


def _completeness(observation: Observation, report: ScenarioReport) -> Finding:
    """Nothing was wrong in what it did; did it do everything, and end well?"""
    if report.checks <= 0 or not report.placement:
        return Finding("failed", "no-checks", "the scenario checked nothing, or no placement")
    if report.iterations_planned <= 0 or report.iterations_passed != report.iterations_planned:
        return Finding(
            "failed",
            "incomplete",
            f"{report.iterations_passed} of {report.iterations_planned} iterations passed",
        )
    spoilt = _spoilt(observation, report)
    if spoilt is not None:
        return spoilt
    overlap = report.overlap
    if overlap is not None and not overlap.free and overlap.overlapped:
        return Finding(
            "infra-error",
            "harness-error",
            f"{overlap.overlapped} of {overlap.calls} native calls began while another lane was "
            "inside one, in serialized mode: the harness broke the contract of that mode",
        )
    if overlap is not None and overlap.free and not overlap.overlapped:
        return Finding(
            "not-run",
            NO_OVERLAP,
            f"the lanes made {overlap.calls} native calls, and none while another was inside one: "
            "it was driven one call at a time, which proves nothing of concurrent mode",
        )
    return Finding("passed", "ok", f"{report.iterations_passed} iterations")


def _spoilt(observation: Observation, report: ScenarioReport) -> Finding | None:
    """What a scenario, or its host at the end, left otherwise than it was; none if nothing."""
    if report.state_changes:
        return Finding(
            "failed",
            "process-state",
            "; ".join(report.state_changes),
            "The application that loads the plugin, and every other library in it, is left with "
            "that.",
        )
    if report.leaked:
        return Finding("failed", "release-error", "; ".join(report.leaked))
    if observation.teardown_errors:
        return Finding(
            "failed", "teardown-error", "; ".join(observation.teardown_errors), shared=True
        )
    if observation.left_behind:
        return Finding(
            "failed",
            "left-behind",
            f"processes outlived the host: {', '.join(observation.left_behind)}",
            shared=True,
        )
    return None


def _scenario_error(
    report: ScenarioReport, error: NativeError, asked: AskedFor, rejections: Sequence[Rejection]
) -> Finding:
    # What worked before is neither refused nor lacking, whatever the message says.
    known = None if report.iterations_passed else _known_refusal(error, asked, rejections)
    if known is not None:
        return known
    at = "" if error.iteration is None else f" in iteration {error.iteration}"
    if error.kind == "python":
        return Finding(
            "infra-error",
            "scenario-error",
            f"the scenario itself raised {error.function}{at}: {error.message}",
            "This is a fault of the scenario, not of the plugin: its stack is in the log.",
        )
    return Finding(
        "failed", "native-error", f"{error.function} returned {error.code}{at}: {error.message}"
    )


def _wrong_result(report: ScenarioReport) -> str:
    text = f"{report.check_failure_count} of {report.checks} checks did not hold"
    if report.check_failures:
        first = report.check_failures[0]
        at = "outside" if first.iteration is None else f"in iteration {first.iteration}"
        if first.expected:
            text += f"; first {at}: {first.what} was {first.got}, where {first.expected} was due"
        else:
            text += f"; first {at}: it is not so that {first.what}: {first.got}"
    if report.error is not None:
        text += f"; then {report.error.function} failed: {report.error.message}"
    return text


def _same_release(one: str, other: str) -> bool:
    try:
        return Version(Version(one).base_version) == Version(Version(other).base_version)
    except InvalidVersion:
        return one == other
