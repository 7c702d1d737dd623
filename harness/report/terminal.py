"""The end of a run in the terminal: the grid, what was not as expected, and one line of summary.

All of it is made of printable ASCII besides what scenarios, plugins and paths are called, so it
reads the same in a pipe, without colour and in a terminal that knows ASCII only. Plugin text is
never interpreted: it is made visible first and printed as plain text.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text

from harness.report.grid import Column, Grid, Mark, grid_of, mark, marks_in
from harness.report.grouping import (
    Cause,
    capture_lines,
    causes,
    core_names,
    death_of,
    expected_causes,
    mode_lines,
    modes_text,
    overlap_lines,
    places,
    shown_log,
)
from harness.report.text import for_encoding, last_lines, one_line, visible
from harness.report.wording import (
    attempts_text,
    count,
    example_text,
    headline,
    summary_text,
    undescribed,
)
from harness.results import Results

__all__ = ["render"]

_LABEL = 10
_LEGEND = 6
_NARROWEST_PAGE = 40
_NARROWEST_NAME = 24
_MOST_CAUSES = 25
_MOST_PLACES = 8
_MOST_WHYS = 25
_MOST_EXPECTATIONS = 50
_WIDEST_ID = 16

_MARK_STYLES = {
    "expected": "cyan",
    "unexpected": "bold white on red",
    "flaky": "bold black on yellow",
    "improved": "bold black on green",
}
_MODE_SHORT = {"serialized": "se", "concurrent": "co"}


def render(results: Results, console: Console, run_folder: Path) -> None:
    """Print the report of a run.

    Prints nothing more, and raises nothing, once the reader of the output has gone: the exit
    code of the command must stay that of the run.

    Args:
        results: the run.
        console: where to; its width, encoding and colours are respected.
        run_folder: the folder that the log paths of the results are relative to.
    """
    page = _Page(console)
    # rich turns a broken pipe into SystemExit.
    with contextlib.suppress(BrokenPipeError, SystemExit):
        _identity(page, results)
        _grid(page, results)
        _problems(page, results, run_folder)
        _expectations(page, results)
        _summary(page, results, run_folder)


@dataclass(frozen=True)
class _Page:
    console: Console

    @property
    def width(self) -> int:
        return max(self.console.width, _NARROWEST_PAGE)

    def safe(self, text: str) -> str:
        """Text that this console's encoding can express."""
        return for_encoding(text, self.console.encoding)

    def line(self, *parts: str | tuple[str, str]) -> None:
        """One line of text and (text, style) parts, not wrapped: copied, it stays one line."""
        safe = [self.safe(p) if isinstance(p, str) else (self.safe(p[0]), p[1]) for p in parts]
        self.console.print(Text.assemble(*safe), soft_wrap=True)

    def wrapped(
        self, label: str, text: str, *, style: str = "", label_style: str = "dim", indent: int = 4
    ) -> None:
        """A labelled text, wrapped to the width under its own beginning."""
        margin = indent + _LABEL
        room = max(self.width - margin, 10)
        lines = Text(self.safe(text)).wrap(self.console, room, overflow="fold")
        for number, part in enumerate(lines):
            head = ((" " * indent + label) if number == 0 else "").ljust(margin)[:margin]
            self.line((head, label_style), (part.plain.rstrip(), style))


def _identity(page: _Page, results: Results) -> None:
    plugin, cores = results.plugin, core_names(results)
    version = f" {plugin.version}" if plugin.version else " (version unknown)"
    if plugin.version_seen and plugin.version_seen != plugin.version:
        version += f" (its EP says {plugin.version_seen})"
    facts = f"{plugin.name}{version}, {plugin.ep_name or 'no EP seen'}"
    page.wrapped(
        "plugin", f"{one_line(facts, 200)}, sha256 {one_line(plugin.sha256[:12], 12)}", indent=0
    )
    page.line(" " * _LABEL, (visible(plugin.library), "dim"))
    span = f": {one_line(cores[0], 60)} to {one_line(cores[-1], 60)}" if len(cores) > 1 else ""
    page.wrapped("cores", f"{len(cores)}{span or ': ' + one_line(' '.join(cores), 60)}", indent=0)
    missing = [core.id for core in results.cores if core.error is not None]
    if missing:
        page.wrapped("", f"not to be had: {one_line(', '.join(missing))}", style="red", indent=0)
    modes = grid_of(results).modes
    if len(modes) == 1:
        rules = {core.mode_rule for core in results.cores if core.mode == modes[0]}
        why = f": {one_line(next(iter(rules)), 300)}" if len(rules) == 1 else ""
        page.wrapped("mode", f"{modes[0]} on every core{why}", indent=0)
    else:
        for line in mode_lines(results):
            page.wrapped("mode", one_line(line, 300), indent=0)
    if results.run.shuffle is not None:
        page.line("order".ljust(_LABEL), f"shuffled, seed {results.run.shuffle}")
    if results.run.matrix:
        page.line("matrix".ljust(_LABEL), (visible(results.run.matrix), "dim"))
    page.line()


@dataclass(frozen=True)
class _Heading:
    """The heading of one column, as two lines, and its width with the gap before it."""

    top: str
    bottom: str
    width: int


def _headings(columns: Sequence[Column], *, stacked: bool) -> list[_Heading]:
    """The headings of neighbouring columns.

    Stacked, ids such as 1.25.0 and 1.25.1 stand as ".0 .1" under one "1.25", so that a column is
    only as wide as its patch number. Otherwise the whole id is at the bottom.
    """
    split = [_split_id(column.core) if stacked else ("", column.core) for column in columns]
    tops = [top for top, _ in split]
    bottoms = [_shortened(bottom, _WIDEST_ID) for _, bottom in split]
    gap = 1 if stacked else 2
    widths = [max(cell_len(bottom), 2) + gap for bottom in bottoms]
    for top, members in groupby(range(len(tops)), key=lambda number: tops[number]):
        group = list(members)
        if top:
            missing = len(top) + gap - sum(widths[number] for number in group)
            widths[group[0]] += max(missing, 0)
    return [_Heading(*parts) for parts in zip(tops, bottoms, widths, strict=True)]


def _split_id(core: str) -> tuple[str, str]:
    match = re.fullmatch(r"(\d{1,3}\.\d{1,3})(\..+)", core)
    return (match[1], match[2]) if match else ("", core)


def _shortened(name: str, width: int) -> str:
    name = one_line(name, 200)
    return name if cell_len(name) <= width else set_cell_size(name, width - 2) + ".."


def _grid(page: _Page, results: Results) -> None:
    grid = grid_of(results)
    if not grid.cells:
        page.line("No cells.")
        page.line()
        return
    names = {scenario: page.safe(one_line(scenario, 200)) for scenario in grid.scenarios}
    longest = max(cell_len(name) for name in names.values())
    # A long name is folded over several lines before the grid is split, within reason.
    left = page.width - sum(h.width for h in _headings(grid.columns, stacked=True))
    most = left if left >= _NARROWEST_NAME else page.width * 9 // 20
    name_width = max(min(longest, most), 4)
    room = page.width - name_width
    stacked = sum(h.width for h in _headings(grid.columns, stacked=False)) > room
    for columns in _blocks(grid.columns, room, stacked=stacked):
        headings = _headings(columns, stacked=stacked)
        _grid_block(page, grid, list(zip(columns, headings, strict=True)), names, name_width)
        page.line()
    _legend(page, grid, results)


def _blocks(columns: Sequence[Column], room: int, *, stacked: bool) -> Iterable[Sequence[Column]]:
    """The columns in blocks that fit into the room; one that is too wide stands alone."""
    first = 0
    for end in range(2, len(columns) + 1):
        if sum(h.width for h in _headings(columns[first:end], stacked=stacked)) > room:
            yield columns[first : end - 1]
            first = end - 1
    yield columns[first:]


def _grid_block(
    page: _Page,
    grid: Grid,
    columns: Sequence[tuple[Column, _Heading]],
    names: dict[str, str],
    name_width: int,
) -> None:
    margin = " " * name_width
    if any(heading.top for _, heading in columns):
        tops = "".join(
            _right(top, sum(heading.width for heading in group))
            for top, group in groupby((heading for _, heading in columns), key=lambda h: h.top)
        )
        page.line(margin, (tops, "bold"))
    page.line(margin, ("".join(_right(h.bottom, h.width) for _, h in columns), "bold"))
    if len(grid.modes) > 1:
        modes = "".join(
            _right(_MODE_SHORT[column.mode] if column.mode else "", heading.width)
            for column, heading in columns
        )
        page.line((set_cell_size("mode", name_width), "dim"), (modes, "dim"))
    for scenario in grid.scenarios:
        folded = _folded(names[scenario], name_width)
        parts: list[str | tuple[str, str]] = [set_cell_size(folded[0], name_width)]
        for column, heading in columns:
            cell = grid.cells.get((scenario, column))
            if cell is None:
                parts.append(" " * heading.width)
            else:
                shown = mark(cell)
                parts.append(" " * (heading.width - len(shown.text)))
                parts.append((shown.text, _mark_style(shown)))
        page.line(*parts)
        for rest in folded[1:]:
            page.line(rest)


def _folded(name: str, width: int) -> list[str]:
    """The name in lines of at most this width, its parameters on their own if that fits."""
    base, bracket, parameters = name.partition("[")
    parts = [name]
    if cell_len(name) > width and bracket:
        parts = [base, f"  {bracket}{parameters}"]
        if any(cell_len(part) > width for part in parts):
            parts = [name]
    return [line for part in parts for line in _at_joints(part, width)] or [""]


def _at_joints(name: str, width: int) -> Iterable[str]:
    """A name in lines, broken after a hyphen or slash where there is one in reach."""
    line = ""
    for piece in re.findall(r"[^-/]*[-/]|[^-/]+", name):
        if line and cell_len(line + piece) > width:
            yield line
            line = ""
        *full, line = chop_cells(line + piece, width) or [line + piece]
        yield from full
    if line:
        yield line


def _right(text: str, width: int) -> str:
    return " " * max(width - cell_len(text), 0) + text


def _mark_style(shown: Mark) -> str:
    if shown.verdict == "expected" and shown.passed:
        return "green"
    return _MARK_STYLES[shown.verdict]


def _legend(page: _Page, grid: Grid, results: Results) -> None:
    expected = expected_causes(results)
    for shown in marks_in(grid):
        page.line("  ", (shown.text.rjust(2), _mark_style(shown)), f"  {shown.meaning}")
        if shown.verdict == "expected" and not shown.passed:
            _why_expected(page, [c for c in expected if mark(c.example) == shown], results)
    if len(grid.modes) > 1:
        page.line("  ", ("se", "dim"), "  mode serialized    ", ("co", "dim"), "  mode concurrent")
    for label, lines in (
        ("capture", capture_lines(results)),
        ("overlap", overlap_lines(results)),
    ):
        for number, line in enumerate(lines):
            page.wrapped(label if number == 0 else "", one_line(line), indent=3)
    note = undescribed(results)
    if note:
        page.wrapped("note", note, indent=3)
    page.line()


def _why_expected(page: _Page, found: Sequence[Cause], results: Results) -> None:
    for cause in found[:_MOST_WHYS]:
        where = "; ".join(places(cause.cells, results)[:_MOST_PLACES])
        text = f"{one_line(where)} - {one_line(cause.example.expected)}"
        page.wrapped("", text, style="dim", indent=_LEGEND - _LABEL)
    if len(found) > _MOST_WHYS:
        page.line(" " * _LEGEND, f"and {len(found) - _MOST_WHYS} more, see results.json")


def _problems(page: _Page, results: Results, run_folder: Path) -> None:
    found = causes(results)
    if not found:
        return
    cells = sum(len(cause.cells) for cause in found)
    order = ", worst first" if len(found) > 1 else ""
    page.line(
        ("NOT AS EXPECTED", "bold red"),
        f"  {count(cells, 'cell')}, {count(len(found), 'cause')}{order}",
    )
    page.line()
    for number, cause in enumerate(found[:_MOST_CAUSES], 1):
        _problem(page, number, cause, results, run_folder)
    rest = found[_MOST_CAUSES:]
    if rest:
        hidden = sum(len(cause.cells) for cause in rest)
        page.line(
            f"and {count(len(rest), 'more cause')} with {count(hidden, 'cell')}: "
            f"see {visible(str(run_folder / 'results.json'))}"
        )
        page.line()


def _problem(page: _Page, number: int, cause: Cause, results: Results, run_folder: Path) -> None:
    cell = cause.example
    shown = mark(cell)
    page.line(
        f"{number:2}. ",
        (f" {shown.text} ", _mark_style(shown)),
        (f" {headline(cause)}", "bold"),
        f", {count(len(cause.cells), 'cell')}",
    )
    page.wrapped("what", one_line(cell.detail) or "(no detail)")
    death = death_of(cell)
    if death is not None:
        tail = last_lines(death.log_tail, 8, max(page.width - _LABEL - 6, 10))
        for index, line in enumerate(tail):
            page.wrapped("log end" if index == 0 else "", f"| {line}", style="dim")
    _whereabouts(page, cause, results)
    if len(cell.attempts) > 1:
        page.wrapped("attempts", one_line(attempts_text(cell)))
    page.wrapped("expected", one_line(cell.expected))
    if cell.hint:
        page.wrapped("do", one_line(cell.hint), style="bold")
    log = shown_log(cell)
    if log is not None:
        page.line(" " * 4, ("log".ljust(_LABEL), "dim"), visible(str(run_folder / log)))
    if cell.repeat:
        page.line(" " * 4, ("repeat".ljust(_LABEL), "dim"), (visible(cell.repeat), "bold"))
    page.line()


def _whereabouts(page: _Page, cause: Cause, results: Results) -> None:
    if len(cause.cells) > 1:
        where = places(cause.cells, results)
        for index, line in enumerate(where[:_MOST_PLACES]):
            page.wrapped("where" if index == 0 else "", one_line(line))
        if len(where) > _MOST_PLACES:
            page.wrapped("", f"and {len(where) - _MOST_PLACES} more lines, see results.json")
    modes = modes_text(cause.cells, results)
    if modes:
        page.wrapped("modes", modes)
    label = "example" if len(cause.cells) > 1 else "where"
    page.wrapped(label, one_line(example_text(cause.example)))


def _expectations(page: _Page, results: Results) -> None:
    for title, what, expectations in (
        (
            "OUTDATED EXPECTATIONS",
            "what they say did not happen; correct or remove them in matrix.yaml",
            results.summary.outdated_expectations,
        ),
        (
            "UNMATCHED EXPECTATIONS",
            "no cell of the run is meant by them; correct or remove them in matrix.yaml",
            results.summary.unmatched_expectations,
        ),
    ):
        if not expectations:
            continue
        page.line((title, "bold red"), f"  {what}")
        for expectation in expectations[:_MOST_EXPECTATIONS]:
            page.wrapped("  -", one_line(expectation), indent=0)
        if len(expectations) > _MOST_EXPECTATIONS:
            page.line(f"  and {len(expectations) - _MOST_EXPECTATIONS} more, see results.json")
        page.line()


def _summary(page: _Page, results: Results, run_folder: Path) -> None:
    code = results.summary.exit_code
    parts = [summary_text(results), f"run folder {visible(str(run_folder))}"]
    text = "; ".join(parts)
    word, style = ("OK", "bold green") if code == 0 else ("NOT OK", "bold white on red")
    if page.console.is_terminal:
        lines = Text(page.safe(text)).wrap(page.console, page.width - _LABEL, overflow="fold")
        for number, line in enumerate(lines):
            head = word if number == 0 else ""
            page.line((head, style), " " * (_LABEL - len(head)), line.plain.rstrip())
    else:
        page.line(word.ljust(_LABEL), text)
