"""The report of a run as GitHub-flavoured Markdown, for the summary of a CI step."""

from __future__ import annotations

from collections.abc import Iterator

from harness.report.grid import Column, Grid, Mark, grid_of, mark, marks_in
from harness.report.grouping import (
    Cause,
    causes,
    death_of,
    expected_causes,
    modes_text,
    overlap_lines,
    places,
    shown_log,
)
from harness.report.markup import code, fence, page_of, plain, table_of
from harness.report.text import last_lines, one_line, visible
from harness.report.wording import (
    attempts_text,
    count,
    example_text,
    headline,
    summary_text,
    undescribed,
)
from harness.results import Results

__all__ = ["render_markdown"]

_MOST_PLACES = 20
_SIGNS = {"expected": "", "unexpected": "❌ ", "flaky": "⚠️ ", "improved": "⬆️ "}


def render_markdown(results: Results) -> str:
    """The report, as large at most as `harness.report.markup.page_of` makes a page."""
    return page_of(_parts(results))


def _parts(results: Results) -> Iterator[str]:
    plugin = results.plugin
    version = code(plugin.version) if plugin.version else "(version unknown)"
    sign = "✅" if results.summary.exit_code == 0 else "❌"
    yield f"## {sign} ORT matrix of {code(plugin.name)} {version}"
    yield f"**{plain(summary_text(results))}**"
    ep_name = code(plugin.ep_name) if plugin.ep_name else "no EP seen"
    yield f"{ep_name}, sha256 {code(plugin.sha256[:12])}, run {code(results.run.id)}"
    missing = [core for core in results.cores if core.error is not None]
    if missing:
        yield "Cores not to be had: " + ", ".join(code(core.id) for core in missing)
    grid = grid_of(results)
    if grid.cells:
        yield _table(grid)
        yield _legend(grid, results)
        note = undescribed(results)
        if note:
            yield plain(note)
    overlap = overlap_lines(results)
    if overlap:
        yield "\n".join(f"- **overlap** {plain(one_line(line))}" for line in overlap)
    found = causes(results)
    if found:
        cells = sum(len(cause.cells) for cause in found)
        yield (f"### Not as expected: {count(cells, 'cell')}, {count(len(found), 'cause')}")
    for number, cause in enumerate(found, 1):
        yield _block(number, cause, results)
    for title, expectations in (
        ("Outdated expectations", results.summary.outdated_expectations),
        ("Expectations that match no cell", results.summary.unmatched_expectations),
    ):
        if expectations:
            yield f"### {title}\n\nCorrect or remove them in `matrix.yaml`."
            yield "\n".join(f"- {code(one_line(text))}" for text in expectations)


def _table(grid: Grid) -> str:
    head = ["scenario", *(code(one_line(column.core, 60)) for column in grid.columns)]
    rows = []
    if len(grid.modes) > 1:
        rows.append(["*mode*", *(column.mode or "" for column in grid.columns)])
    rows.extend(
        [
            code(one_line(scenario, 200)),
            *(_cell(grid, scenario, column) for column in grid.columns),
        ]
        for scenario in grid.scenarios
    )
    return table_of(head, rows, centred=True)


def _cell(grid: Grid, scenario: str, column: Column) -> str:
    cell = grid.cells.get((scenario, column))
    return "" if cell is None else _shown(mark(cell))


def _shown(shown: Mark) -> str:
    if shown.verdict == "expected":
        return "✓" if shown.passed else shown.text
    return f"{_SIGNS[shown.verdict]}**{shown.text[1:]}**"


def _legend(grid: Grid, results: Results) -> str:
    expected = expected_causes(results)
    lines = []
    for shown in marks_in(grid):
        lines.append(f"- {_shown(shown)} {shown.meaning}")
        if shown.verdict == "expected" and not shown.passed:
            same = [cause for cause in expected if mark(cause.example) == shown]
            lines.extend(
                f"  - {code(one_line('; '.join(places(cause.cells, results))))}: "
                f"{plain(one_line(cause.example.expected))}"
                for cause in same[:_MOST_PLACES]
            )
    return "\n".join(lines)


def _block(number: int, cause: Cause, results: Results) -> str:
    cell = cause.example
    title = f"{plain(one_line(headline(cause), 200))}, {count(len(cause.cells), 'cell')}"
    lines = [f"#### {number}. {title}", ""]
    lines += [fence(one_line(cell.detail, 2000) or "(no detail)", "text"), ""]
    if len(cause.cells) > 1:
        where = places(cause.cells, results)
        lines += [f"- **where** {code(one_line(line))}" for line in where[:_MOST_PLACES]]
        if len(where) > _MOST_PLACES:
            lines.append(f"- and {len(where) - _MOST_PLACES} more lines, see `results.json`")
    modes = modes_text(cause.cells, results)
    if modes:
        lines.append(f"- **modes** {modes}")
    label = "example" if len(cause.cells) > 1 else "where"
    lines.append(f"- **{label}** {code(one_line(example_text(cell)))}")
    if len(cell.attempts) > 1:
        lines.append(f"- **attempts** {code(one_line(attempts_text(cell)))}")
    lines.append(f"- **expected** {plain(one_line(cell.expected))}")
    if cell.hint:
        lines.append(f"- **do** {plain(one_line(cell.hint))}")
    log = shown_log(cell)
    if log is not None:
        lines.append(f"- **log** {code(visible(log))}")
    if cell.repeat:
        lines += ["- **repeat** with", "", fence(visible(cell.repeat), "sh")]
    death = death_of(cell)
    tail = last_lines(death.log_tail, 20) if death is not None else []
    if tail:
        lines += [
            "",
            "<details><summary>end of the log</summary>",
            "",
            fence("\n".join(tail), "text"),
            "",
            "</details>",
        ]
    return "\n".join(lines)
