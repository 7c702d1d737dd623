"""The audit of a policy: a line a core, what happened where, and what it cannot prove."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.audit import Audit, CoreAudit, Standing
from harness.report.atomic import write_atomic
from harness.report.grouping import places, shown_log
from harness.report.markup import code, fence, page_of, plain, table_of
from harness.report.text import one_line, visible
from harness.report.wording import count, exit_meaning
from harness.results import CellResult, Results

__all__ = ["AUDIT_SCHEMA_VERSION", "audit_page", "audit_text", "write_audit"]

AUDIT_SCHEMA_VERSION = 1

_MEANS: Mapping[Standing, str] = {
    "contradicted": "declared concurrent, and it broke. One failure is enough: the policy is "
    "wrong.",
    "confirmed": "declared serialized, and driven concurrently it broke.",
    "consistent": "declared concurrent, and nothing broke. That is no proof: a race may need "
    "another device, another driver, more threads or more luck. With more --repeat it says more.",
    "unproved": "declared serialized, and nothing broke here. The policy is safe as it is; whether "
    "the plugin may be driven concurrently is for those to say who know its code.",
    "unknown": "nothing was tried that could tell, for instance since the core refuses the plugin.",
}
_SIGNS: Mapping[Standing, str] = {"contradicted": "❌ ", "unknown": "❔ "}
_NOT_COUNTED = (
    "not counted: cells that say nothing of concurrent driving. Where a scenario breaks "
    "serialized as well, the plugin is at fault in both modes and the policy in neither."
)
_WIDTH = 100
_MOST_PLACES = 8
_MOST_TROUBLES = 12


@dataclasses.dataclass(frozen=True)
class _Trouble:
    """What happened alike in cells of any core: they broke when they were driven concurrently."""

    title: str
    cells: Sequence[CellResult]


def audit_text(audit: Audit, results: Results) -> str:
    """The audit for people, as lines of plain text that no plugin can colour.

    Args:
        audit: what was made of the run.
        results: the run.
    """
    lines = [f"plugin    {_plugin(results)}, driven concurrently", ""]
    names = [one_line(one.core, 40) for one in audit.cores]
    width = max((len(name) for name in names), default=0)
    for name, one in zip(names, audit.cores, strict=True):
        standing = one.standing.upper() if one.standing == "contradicted" else one.standing
        head = f"{name:<{width}}  declared {one.declared:<10}  {standing:<12}  "
        lines += _wrapped(one_line(one.observed, 2_000), head)
    lines.append("")
    for text in _meanings(audit.cores):
        lines += _wrapped(text, "", "    ")
    troubles = _troubles(audit.cores, results)
    for trouble in troubles[:_MOST_TROUBLES]:
        lines += ["", f"{one_line(trouble.title, 200)}, {count(len(trouble.cells), 'cell')}"]
        for where in _places(trouble, results):
            lines += _wrapped(where, "    where   ")
        example = trouble.cells[0]
        if example.detail:
            lines += _wrapped(f"such as: {one_line(example.detail)}", "    what    ")
        log = shown_log(example)
        if log is not None:
            lines.append(f"    log     {visible(log)}")
        if example.repeat:
            lines.append(f"    repeat  {visible(example.repeat)}")
    if len(troubles) > _MOST_TROUBLES:
        lines += ["", f"and {_rest(troubles)}: see audit.json"]
    if audit.proposed_rules:
        lines += ["", f"{_where_rules_go(results)}, these make it true:", ""]
        lines += [textwrap.indent(line, "        ") for line in _rules(audit)]
    lines += ["", f"exit {audit.exit_code} ({_exit(audit)})"]
    return "\n".join(lines)


def audit_page(audit: Audit, results: Results) -> str:
    """The audit as GitHub-flavoured Markdown, for the summary of a CI step."""
    return page_of(_parts(audit, results))


def write_audit(audit: Audit, results: Results, path: Path) -> None:
    """Write audit.json, atomically: the cores with their standing, the rules and the exit code.

    Its cells are named by their ids in results.json, which stands beside it.

    Raises:
        RunFolderError: the file cannot be written.
    """
    told = {
        "schema_version": AUDIT_SCHEMA_VERSION,
        "run": results.run.id,
        "plugin": results.plugin.name,
        "plugin_version": results.plugin.version or results.plugin.version_seen,
        "plugin_sha256": results.plugin.sha256,
        **dataclasses.asdict(audit),
    }
    # A lone surrogate has no bytes in UTF-8; JSON's own escapes are ASCII.
    write_atomic(path, (json.dumps(told, indent=2) + "\n").encode())


def _parts(audit: Audit, results: Results) -> Iterator[str]:
    sign = "✅" if audit.exit_code == 0 else "❌"
    version = results.plugin.version or results.plugin.version_seen
    name = f"{code(results.plugin.name)} {code(version) if version else '(version unknown)'}"
    yield f"## {sign} Audit of the policy for {name}"
    yield f"Driven concurrently on every core; **exit {audit.exit_code}: {plain(_exit(audit))}**"
    yield table_of(
        ("core", "declared", "standing", "seen"),
        [
            (
                code(one_line(one.core, 60)),
                one.declared,
                f"{_SIGNS.get(one.standing, '')}{one.standing}",
                code(one_line(one.observed, 2_000)),
            )
            for one in audit.cores
        ],
    )
    yield "\n".join(f"- {plain(text)}" for text in _meanings(audit.cores))
    troubles = _troubles(audit.cores, results)
    for trouble in troubles[:_MOST_TROUBLES]:
        title = f"#### {plain(one_line(trouble.title, 200))}, {count(len(trouble.cells), 'cell')}"
        lines = [title, ""]
        lines += [f"- **where** {code(where)}" for where in _places(trouble, results)]
        if trouble.cells[0].detail:
            lines.append(f"- **such as** {code(one_line(trouble.cells[0].detail))}")
        if trouble.cells[0].repeat:
            lines += ["- **repeat** with", "", fence(visible(trouble.cells[0].repeat), "sh")]
        yield "\n".join(lines)
    if len(troubles) > _MOST_TROUBLES:
        yield f"And {_rest(troubles)}: see `audit.json` of the run folder."
    if audit.proposed_rules:
        yield f"{plain(_where_rules_go(results))}, these make it true:"
        yield fence("\n".join(_rules(audit)), "yaml")


def _plugin(results: Results) -> str:
    version = results.plugin.version or results.plugin.version_seen
    return f"{one_line(results.plugin.name, 60)} {one_line(version or '(version unknown)', 60)}"


def _where_rules_go(results: Results) -> str:
    return f"First under policy.rules of {one_line(results.plugin.name, 60)} in matrix.yaml"


def _exit(audit: Audit) -> str:
    """What the exit code says of an audit."""
    if audit.exit_code == 1:
        return "the policy is contradicted"
    if audit.exit_code == 0:
        return "nothing contradicts the policy"
    return exit_meaning(audit.exit_code)


def _meanings(cores: Sequence[CoreAudit]) -> Iterator[str]:
    for standing in dict.fromkeys(one.standing for one in cores):
        yield f"{standing}: {_MEANS[standing]}"
    if any(one.silent for one in cores):
        yield _NOT_COUNTED


def _troubles(cores: Sequence[CoreAudit], results: Results) -> list[_Trouble]:
    """What broke, over all cores, the most frequent first."""
    by_id = {cell.id: cell for cell in results.cells}
    found: dict[str, list[CellResult]] = {}
    for core in cores:
        for one in core.troubles:
            cells = found.setdefault(f"{one.verb}: {one.what}", [])
            cells += [by_id[cell] for cell in one.cells]
    troubles = [_Trouble(title, cells) for title, cells in found.items()]
    return sorted(troubles, key=lambda one: -len(one.cells))


def _rest(troubles: Sequence[_Trouble]) -> str:
    rest = troubles[_MOST_TROUBLES:]
    cells = sum(len(one.cells) for one in rest)
    return f"{len(rest)} more that differ, with {count(cells, 'cell')}"


def _places(trouble: _Trouble, results: Results) -> list[str]:
    where = [one_line(line) for line in places(trouble.cells, results)]
    if len(where) > _MOST_PLACES:
        more = f"and {len(where) - _MOST_PLACES} more lines, see results.json"
        where = [*where[:_MOST_PLACES], more]
    return where


def _rules(audit: Audit) -> Iterator[str]:
    """The proposed rules with their indentation, and nothing that a terminal would obey."""
    for line in audit.proposed_rules.splitlines():
        text = line.lstrip(" ")
        yield line[: len(line) - len(text)] + one_line(text, 2_000)


def _wrapped(text: str, head: str, margin: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head) if margin is None else margin,
        break_on_hyphens=False,
    )
