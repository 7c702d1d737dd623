"""junit.xml: one suite a core, one test case a cell, for whatever reads JUnit.

An expected outcome is a passed test case, whatever it is, and says in a property and in its
system-out what it was and why; nothing is a skip. What is not expected is a failure, or
an error where the harness could not try.

An audit is one suite with one test case a core: a failure where the policy is contradicted, an
error where not all could be tried.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Properties, Property, TestCase
from junitparser import TestSuite as Suite

from harness.audit import Audit, CoreAudit
from harness.host.scenario import task_name
from harness.report.atomic import write_atomic
from harness.report.grouping import (
    core_names,
    death_of,
    ordered_cells,
    shown_log,
    shown_outcome,
    shown_reason,
)
from harness.report.text import cut, last_lines, one_line, visible
from harness.report.wording import attempts_text, example_text
from harness.results import CellResult, CoreResult, Results

__all__ = ["write_audit_junit", "write_junit"]

_LONGEST = 4_000


def write_junit(results: Results, path: Path) -> None:
    """Write junit.xml, atomically; it is valid XML whatever a plugin printed.

    Raises:
        RunFolderError: the file cannot be written.
    """
    cells: dict[str, list[CellResult]] = {name: [] for name in core_names(results)}
    for cell in ordered_cells(results):
        cells[cell.core].append(cell)
    facts = {core.id: core for core in results.cores}
    root = JUnitXml("ort-ep-matrix")
    for name, members in cells.items():
        root.add_testsuite(_suite(name, facts.get(name), members, results))
    summary = results.summary
    if summary.outdated_expectations or summary.unmatched_expectations:
        root.add_testsuite(_expectations(results))
    _write(root, path)


def write_audit_junit(audit: Audit, results: Results, path: Path) -> None:
    """Write the junit.xml of an audit, atomically.

    Raises:
        RunFolderError: the file cannot be written.
    """
    suite = Suite("audit")
    suite.timestamp = _safe(results.run.started)
    for key, value in _facts(results):
        if value is not None:
            suite.add_property(key, _safe(value))
    suite.add_testcases([_audited(one, results) for one in audit.cores])
    root = JUnitXml("ort-ep-matrix audit")
    root.add_testsuite(suite)
    _write(root, path)


def _audited(core: CoreAudit, results: Results) -> TestCase:
    case = TestCase(
        _safe(f"{core.core} declared {core.declared}"),
        _safe(f"{results.plugin.name}.audit"),
        0.0,
    )
    told = one_line(f"{core.standing}: {core.observed}", _LONGEST)
    if core.standing == "contradicted":
        case.result = [Failure(told, core.standing)]
    elif not core.complete:
        case.result = [Error(told, "incomplete")]
    else:
        case.system_out = told
    return case


def _write(root: JUnitXml, path: Path) -> None:
    root.update_statistics()  # type: ignore[no-untyped-call]  # junitparser lacks the types
    buffer = io.BytesIO()
    root.write(buffer)
    write_atomic(path, buffer.getvalue() + b"\n")


def _facts(results: Results) -> list[tuple[str, str | None]]:
    """What holds for every suite of a run."""
    plugin = results.plugin
    return [
        ("plugin", plugin.name),
        ("plugin_version", plugin.version),
        ("plugin_sha256", plugin.sha256),
        ("ep_name", plugin.ep_name),
        ("platform", results.run.platform),
    ]


def _suite(
    name: str, core: CoreResult | None, cells: Iterable[CellResult], results: Results
) -> Suite:
    suite = Suite(_safe(name))
    suite.timestamp = _safe(results.run.started)
    facts = _facts(results)
    if core is not None:
        facts += [
            ("core_version", core.version),
            ("core_sha256", core.sha256),
            ("core_source", core.source),
            ("core_error", core.error),
            ("mode", core.mode),
            ("mode_rule", core.mode_rule),
        ]
    for key, value in facts:
        if value is not None:
            suite.add_property(key, _safe(value))
    # All at once: adding one by one counts the suite anew each time.
    suite.add_testcases([_case(cell) for cell in cells])
    return suite


def _expectations(results: Results) -> Suite:
    """What is wrong with expectations, so that a run that it makes red is red here too."""
    suite = Suite("expectations")
    cases = []
    for kind, told in (
        ("outdated", results.summary.outdated_expectations),
        ("unmatched", results.summary.unmatched_expectations),
    ):
        for expectation in told:
            case = TestCase(_safe(expectation), "matrix.yaml", 0.0)
            case.result = [Failure(_safe(f"{kind} expectation: correct or remove it"), kind)]
            cases.append(case)
    suite.add_testcases(cases)
    return suite


def _case(cell: CellResult) -> TestCase:
    family, _, name = task_name(cell.scenario, cell.repetition).partition("/")
    seconds = cell.duration_s if math.isfinite(cell.duration_s) else 0.0
    case = TestCase(
        f"{_safe(name or family)}[{cell.mode}]",
        _safe(f"{cell.plugin}.{cell.core}.{family}"),
        round(seconds, 6),
    )
    facts = [
        ("cell", cell.id),
        ("outcome", shown_outcome(cell)),
        ("reason", shown_reason(cell)),
        ("verdict", cell.verdict),
        ("expected", cell.expected),
        ("log", shown_log(cell)),
        ("repeat", cell.repeat),
    ]
    if cell.capture is not None:
        facts += [
            ("capture_runs", str(cell.capture.runs)),
            ("capture_kernel_runs", str(cell.capture.kernel_runs)),
            ("capture_host_replays", str(cell.capture.host_replays)),
        ]
    if cell.overlap is not None:
        facts += [
            ("overlap_calls", str(cell.overlap.calls)),
            ("overlap_overlapped", str(cell.overlap.overlapped)),
        ]
    properties = Properties()  # type: ignore[no-untyped-call]  # junitparser lacks the types
    for key, value in facts:
        if value:
            properties.add_property(Property(key, _safe(value)))
    case.append(properties)  # type: ignore[no-untyped-call]  # junitparser lacks the types
    if cell.verdict != "expected":
        case.result = [_result(cell)]
    elif cell.outcome != "passed":
        case.system_out = _lines(f"{_outcome(cell)}, as expected.", cell)
    return case


def _result(cell: CellResult) -> Failure | Error:
    broken = shown_outcome(cell) in ("infra-error", "not-run")
    first = "" if cell.verdict == "unexpected" else f"{cell.verdict}: "
    message = one_line(f"{first}{_outcome(cell)}: {cell.detail}")
    kind = _safe(shown_reason(cell) or cell.verdict)
    result = (Error if broken else Failure)(message, kind)
    result.text = _lines(message, cell)
    return result


def _outcome(cell: CellResult) -> str:
    reason = shown_reason(cell)
    return f"{shown_outcome(cell)} ({reason})" if reason else shown_outcome(cell)


def _lines(first: str, cell: CellResult) -> str:
    death = death_of(cell)
    lines = [
        one_line(first),
        f"where: {one_line(example_text(cell))}",
        f"what: {one_line(cell.detail, _LONGEST)}",
        f"expected: {one_line(cell.expected)}",
    ]
    if len(cell.attempts) > 1:
        lines.append(f"attempts: {one_line(attempts_text(cell))}")
    if cell.hint:
        lines.append(f"do: {one_line(cell.hint)}")
    log = shown_log(cell)
    if log is not None:
        lines.append(f"log: {_safe(log)}")
    if cell.repeat:
        lines.append(f"repeat: {_safe(cell.repeat)}")
    if death is not None and death.log_tail:
        lines.append("end of the log:")
        lines.extend(f"| {line}" for line in last_lines(death.log_tail, 20))
    return "\n".join(lines)


def _safe(text: str) -> str:
    return cut(visible(text), _LONGEST)
