from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from rich.cells import cell_len
from rich.console import Console

from harness.report.terminal import render
from harness.results import CellResult, Results
from tests.harness.report import samples
from tests.harness.report.strategies import hostile_text

FOLDER = Path("reports") / "some-run"


def show(results: Results, width: int = 80, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    )
    render(results, console, FOLDER)
    return out.getvalue()


def test_the_grid_of_eleven_cores_fits_into_80_columns_and_reads_as_written_here() -> None:
    expected = """\
                                     1.24  1.25 1.26 1.27 1.28 1.29 1.30  1.31 1.32
                                       .4 .0 .1   .0   .0   .0   .0   .0 .0 .1   .0
    copy/cpu-io                         .  .  .   +P    .   !I   !C    .  .  .    .
    copy/mixed-inputs[device-first]     .  .  .    r    .   !I    .    .  .  .    .
    copy/mixed-inputs[cpu-first]        .  .  .    r    .   !I    .    .  .  .    .
    copy/mixed-outputs[device-first]   !F !F  .    r    .   !I    .    .  .  .    .
    copy/mixed-outputs[cpu-first]       .  .  .    r    .   !I    .    .  .  .    .
    copy/device-cpu-device              .  .  .    r    .   !I    .    .  . ~C    .
    allocation/dirty-bind-input         .  .  .    r    .   !I    .    .  .  .    .
    allocation/scratch-reuse            .  .  .    r    .   !I    .    .  .  .   !H
    capture/replay                      .  .  .    r   !U   !I    .   !C  .  .    .
    """
    assert textwrap.dedent(expected) in show(samples.everything_wrong())


def test_a_wide_terminal_shows_whole_core_names_on_one_line() -> None:
    assert "  ".join(samples.CORES) in show(samples.real_run(), 200)


def test_how_much_lanes_overlapped_stands_below_the_grid() -> None:
    expected = """\
       overlap   1.31.0 to 1.32.0: 50% of 2400 native calls of lanes began inside
                 another lane's; least 0.5%, in copy/device-cpu-device on 1.31.1
                 1.24.4 to 1.25.1: 600 native calls of lanes, one at a time as
                 serialized mode wants
    """
    assert textwrap.indent(textwrap.dedent(expected), "   ") in show(samples.lanes_in_two_modes())
    assert "overlap" not in show(samples.real_run())


def test_a_run_as_expected_is_quiet_and_still_shows_the_rejection_and_its_why() -> None:
    text = show(samples.real_run())
    assert "NOT" not in text
    assert "r  rejected, as expected" in text
    assert "1.26.0: all 9 scenarios - rejected (version-check): ORT 1.26.0 takes" in text
    assert text.splitlines()[-1].startswith(
        "OK        99 cells: 90 passed, 9 rejected; 99 expected; 7.3 s; exit 0 (all as expected)"
    )


def test_the_legend_explains_only_what_is_there() -> None:
    legend = [
        line for line in show(samples.rejection_not_expected()).splitlines() if "expected" in line
    ]
    assert "   .  passed, as expected" in legend
    assert "  !R  REJECTED, NOT as expected" in legend
    assert not any("CRASHED" in line or "rejected, as" in line for line in legend)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("make", [samples.real_run, samples.everything_wrong, samples.hostile_run])
def test_lines_keep_to_the_width_but_for_what_is_copied(
    width: int, make: Callable[[], Results]
) -> None:
    for line in show(make(), width).splitlines():
        copied = re.match(
            r"\s+(log|repeat) |\s+/cache/|(NOT )?OK |(OUTDATED|UNMATCHED|NOT AS) |[ \d]\d\. ", line
        )
        legend = re.match(r"\s+[!~+]?[.A-Za-z]  \w", line)
        assert cell_len(line) <= width or copied or legend, line


def test_a_narrow_terminal_gets_the_grid_in_parts_with_every_cell_once() -> None:
    text = show(samples.real_run(), 50)
    grid = text[: text.index("as expected")]
    assert len(re.findall(r"(?<=\s)\.(?=\s)", grid)) == 90 + 1  # the last one is the legend's
    assert len(re.findall(r"(?<=\s)r(?=\s)", text)) == 9 + 1
    assert grid.count("copy/cpu-io") > 1


def test_a_long_scenario_name_is_folded_and_leaves_its_row_whole() -> None:
    name = "concurrency/" + "very-long-" * 9 + "[four-threads]"
    run = samples.real_run()
    run = samples.run_of(
        c.model_copy(update={"scenario": name}) if c.scenario == "copy/cpu-io" else c
        for c in run.cells
    )
    lines = show(run).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("concurrency/"))
    assert lines[first].split()[1:] == [".", ".", ".", "r", *"......."]
    assert "".join(line.strip() for line in lines[first : first + 5]).startswith("concurrency/very")
    assert "[four-threads]" in " ".join(lines)
    assert [line.split()[0] for line in lines[first : first + 4]] == [
        "concurrency/very-long-very-long-",
        "very-long-very-long-very-long-",
        "very-long-very-long-very-long-",
        "very-long-[four-threads]",
    ]


@pytest.mark.parametrize("described", [True, False])
def test_a_plugin_that_nothing_describes_is_said_to_be_so(described: bool) -> None:
    whole = samples.real_run()
    run = samples.run_of([samples.unsupported(whole.cells[0]), *whole.cells[1:]])
    plugin = run.plugin.model_copy(update={"described": described})
    text = " ".join(show(run.model_copy(update={"plugin": plugin})).split())

    said = "No entry of matrix.yaml describes this plugin"
    assert (said in text) is not described
    assert said not in show(samples.real_run().model_copy(update={"plugin": plugin}), 200), (
        "nothing was left out"
    )


def test_modes_stand_in_a_line_of_their_own_only_when_they_differ() -> None:
    run = samples.real_run()
    assert "serialized on every core: Builds up to" in show(run)
    mixed = samples.run_of(
        c.model_copy(update={"mode": "concurrent"}) if c.core >= "1.31" else c for c in run.cells
    )
    line = next(x for x in show(mixed).splitlines() if x.split()[:2] == ["mode", "se"])
    assert line.split()[1:] == ["se"] * 8 + ["co"] * 3


def test_core_ids_that_are_no_versions_are_shown() -> None:
    run = samples.real_run()
    names = {"1.24.4": "my-build-of-a-branch-with-a-name", "1.25.0": "1.25.0+cuda"}
    cells = [c.model_copy(update={"core": names.get(c.core, c.core)}) for c in run.cells]
    cores = [names.get(core, core) for core in samples.CORES]
    text = show(samples.run_of(cells, cores=cores))
    assert "my-build-of-a-.." in text
    assert ".0+cuda" in text


def test_ninety_nine_equal_crashes_are_one_block_with_everything_in_it() -> None:
    text = show(samples.crash_everywhere(), 200)
    assert text.count(" CRASHED (signal)") == 1
    block = text[text.index(" 1.  !C") :].splitlines()[1:12]
    facts = {line[4:14].strip() or line[14:]: line[14:] for line in block}
    assert facts["what"].startswith("The host died with SIGSEGV inside Run at 0x")
    assert facts["log end"] == "| [W] device lost"
    assert "| Fatal Python error: Segmentation fault" in facts
    assert facts["where"] == "all 11 cores: all 9 scenarios"
    assert facts["example"].startswith("core 1.24.4, plugin webgpu, serialized, copy/cpu-io, ")
    assert "SIGSEGV), iteration 7 (counted from 0), inside Run" in facts["example"]
    assert facts["attempts"] == "crashed (signal); alone in a fresh host: crashed (signal)"
    assert facts["expected"] == "passed: no expectation says otherwise."
    assert facts["do"].startswith("Run the repeat command under a debugger")
    assert facts["log"] == str(FOLDER / "logs" / "1.24.4" / "copy-cpu-io.log")
    assert facts["repeat"] == (
        "ort-ep-matrix run --plugin webgpu --core '==1.24.4' --scenario 'copy/cpu-io'"
    )


def test_outdated_and_unmatched_expectations_are_named() -> None:
    text = show(samples.everything_wrong(), 200)
    assert text.index("OUTDATED EXPECTATIONS") < text.index("matrix.yaml:71: rejected")
    assert text.index("UNMATCHED EXPECTATIONS") < text.index("matrix.yaml:90: passed")
    assert "2 expectations to correct" in text.splitlines()[-1]


def test_many_causes_are_cut_and_counted() -> None:
    run = samples.real_run()
    run = samples.run_of(
        samples.failed(c).model_copy(update={"reason": f"reason-{n}"})
        for n, c in enumerate(run.cells)
    )
    text = show(run)
    assert f"and 74 more causes with 74 cells: see {FOLDER / 'results.json'}" in text


def test_colour_changes_nothing_but_colour() -> None:
    coloured = show(samples.everything_wrong(), 100, colour=True)
    bare = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    plain = show(samples.everything_wrong(), 100)
    end = plain.rindex("NOT OK")  # the summary is wrapped on a terminal and one line in a pipe
    assert bare[:end] == plain[:end]
    assert bare[end:].split() == plain[end:].split()
    assert "\x1b[1;37;41m!C\x1b[0m" in coloured


def test_an_ascii_terminal_gets_ascii_even_from_names_and_messages() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    run = samples.change(
        samples.real_run(),
        lambda cell: samples.failed(cell).model_copy(update={"detail": "Gerät verloren 東京"}),
        core="1.29.0",
    )
    render(run, Console(file=out, width=80), Path("berichte-für-mich"))
    out.flush()
    text = raw.getvalue().decode("ascii")
    assert "Ger\\xe4t verloren \\u6771\\u4eac" in text
    assert "berichte-f\\xfcr-mich" in text


def _frame(text: str) -> list[str]:
    """The lines that begin a block: what a forger would want to add to."""
    return [line for line in text.splitlines() if not line.startswith("     ")]


@given(hostile_text())
@settings(max_examples=60, deadline=None)
def test_no_text_of_a_plugin_adds_a_line_or_an_escape_code(text: str) -> None:
    def say(cell: CellResult) -> CellResult:
        bad = samples.hostile(cell)
        death = bad.attempts[0].death
        assert death is not None
        death = death.model_copy(update={"name": text, "last_call": text, "log_tail": text})
        attempts = [a.model_copy(update={"death": death}) for a in bad.attempts]
        return bad.model_copy(
            update={"detail": text, "hint": f"x{text}", "expected": text, "attempts": attempts}
        )

    harmless = samples.change(samples.real_run(), samples.failed, core="1.29.0")
    shown = show(samples.change(samples.real_run(), say, core="1.29.0"))
    kept = ("    what ", "    where ", "    log end ")
    assert [x for x in _frame(shown) if not x.startswith("    ")] == [
        x for x in _frame(show(harmless)) if not x.startswith("    ")
    ]
    assert sum(x.startswith(kept[0]) for x in _frame(shown)) == 1
    assert all(char == "\n" or char.isprintable() for char in shown)


@given(hostile_text())
@settings(max_examples=40, deadline=None)
def test_hostile_names_of_cores_scenarios_and_plugin_print_as_text(name: str) -> None:
    run = samples.change(samples.real_run(), samples.crashed, core="1.32.0")
    cells = [
        c.model_copy(update={"scenario": name, "core": name + c.core, "plugin": name})
        for c in run.cells
    ]
    run = samples.run_of(cells, cores=[name + core for core in samples.CORES])
    plugin = run.plugin.model_copy(
        update={"name": name, "version": name, "ep_name": name, "library": name}
    )
    shown = show(run.model_copy(update={"plugin": plugin}))
    assert all(char == "\n" or char.isprintable() for char in shown)


def test_a_reader_that_has_gone_ends_the_report_and_not_the_command() -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            raise OSError

    console = Console(file=Gone(), width=80)
    console.on_broken_pipe = lambda: (_ for _ in ()).throw(SystemExit(1))  # type: ignore[method-assign]  # rich's own would close this process's stdout
    render(samples.everything_wrong(), console, FOLDER)


def test_times_that_are_none_are_left_out_of_the_summary() -> None:
    run = samples.real_run()
    run = run.model_copy(update={"run": run.run.model_copy(update={"finished": "later"})})
    assert " s; exit" not in show(run).splitlines()[-1]


def test_a_run_without_cells_says_so() -> None:
    text = show(samples.run_of([], exit_code=2))
    assert "No cells." in text
    assert "exit 2 (the input needs a change)" in text
