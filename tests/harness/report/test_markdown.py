from __future__ import annotations

from collections import Counter

from hypothesis import example, given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.report.markdown import render_markdown
from harness.results import CellResult, Results
from tests.harness.report import samples
from tests.harness.report.strategies import hostile_text

# An independent reader of the dialect, with raw HTML on, as a forger would have it.
_READER = MarkdownIt("commonmark", {"html": True}).enable("table")


def tokens(markdown: str) -> list[Token]:
    flat: list[Token] = []
    for token in _READER.parse(markdown):
        flat.append(token)
        flat.extend(token.children or [])
    return flat


def structure(markdown: str) -> Counter[str]:
    """How often each kind of token occurs, text apart, and inline code however it is written."""
    counts: Counter[str] = Counter()
    for token in tokens(markdown):
        if token.type == "html_inline" and token.content in ("<code>", "</code>"):
            continue
        if token.type == "html_block" or token.type == "html_inline":
            counts[token.content] += 1
        elif token.type not in ("text", "code_inline", "text_special"):
            counts[token.type] += 1
    return counts


def table(markdown: str) -> list[list[str]]:
    rows: list[list[str]] = []
    for token in _READER.parse(markdown):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows and token.level > 3:
            rows[-1].append("".join(c.content for c in token.children or []))
    return rows


def test_it_says_how_much_lanes_overlapped() -> None:
    told = [
        token.content
        for token in _READER.parse(render_markdown(samples.lanes_in_two_modes()))
        if token.type == "inline" and "overlap" in token.content
    ]
    assert len(told) == 2
    assert "50&#37; of 2400 native calls" in told[0]
    assert "600 native calls of lanes, one at a time" in told[1]
    assert "overlap" not in render_markdown(samples.real_run())


def test_the_table_has_a_row_for_each_scenario_and_a_column_for_each_core() -> None:
    rows = table(render_markdown(samples.everything_wrong()))
    assert rows[0] == ["scenario", *samples.CORES]
    assert [row[0] for row in rows[1:]] == list(samples.SCENARIOS)
    assert rows[1][1:] == [*"✓✓✓", "⬆️ P", "✓", "❌ I", "❌ C", *"✓✓✓✓"]
    assert rows[2][4] == "r"


def test_a_run_as_expected_is_the_table_and_the_reason_for_the_rejection() -> None:
    text = render_markdown(samples.real_run())
    assert text.startswith("## ✅ ")
    assert "Not as expected" not in text
    assert "`1.26.0: all 9 scenarios`: rejected (version-check): ORT" in text


def test_what_was_not_expected_is_told_worst_first_with_what_to_do() -> None:
    text = render_markdown(samples.everything_wrong())
    titles = ["CRASHED", "FLAKY", "HUNG", "FAILED", "UNSUPPORTED", "INFRA-ERROR", "IMPROVED"]
    found = [text.index(f"#### {number}. {title}") for number, title in enumerate(titles, 1)]
    assert found == sorted(found)
    assert "ort-ep-matrix run --plugin webgpu --core '==1.29.0' --scenario 'copy/cpu-io'" in text
    assert "- `matrix.yaml:71: rejected (version-check) for webgpu on ==1.26.0`" in text
    assert "- `matrix.yaml:90: passed for vulkan on >=1.30`" in text


def test_modes_have_a_row_only_when_they_differ() -> None:
    run = samples.real_run()
    assert len(table(render_markdown(run))) == 10
    mixed = samples.run_of(
        c.model_copy(update={"mode": "concurrent"}) if c.core >= "1.31" else c for c in run.cells
    )
    assert table(render_markdown(mixed))[1] == ["mode", *["serialized"] * 8, *["concurrent"] * 3]


def _saying(text: str) -> Results:
    def say(cell: CellResult) -> CellResult:
        bad = samples.hostile(cell)
        death = bad.attempts[0].death
        assert death is not None
        death = death.model_copy(update={"name": text, "last_call": text, "log_tail": f"x{text}"})
        return bad.model_copy(
            update={
                "detail": text, "hint": f"x{text}", "expected": f"x{text}", "reason": f"x{text}",
                "log": f"x{text}", "repeat": f"x{text}",
                "attempts": [a.model_copy(update={"death": death}) for a in bad.attempts],
            }
        )  # fmt: skip

    run = samples.change(samples.real_run(), say, core="1.29.0")
    run = samples.run_of(
        [c.model_copy(update={"scenario": f"x{text}"}) if c.scenario == "copy/cpu-io" else c
         for c in run.cells],
        outdated=[f"x{text}"],
    )  # fmt: skip
    plugin = run.plugin.model_copy(update={"name": f"x{text}", "ep_name": f"x{text}"})
    return run.model_copy(update={"plugin": plugin})


@example("```")
@example("`[link](http://evil.example)<b>")
@example("\n````\n# heading\n")
@example("</details>\n\n</code>| a | b |")
@given(hostile_text())
@settings(max_examples=120, deadline=None)
def test_no_text_of_a_plugin_changes_the_structure_of_the_page(text: str) -> None:
    assert structure(render_markdown(_saying(text))) == structure(render_markdown(_saying("harm")))


@given(hostile_text())
@settings(max_examples=60, deadline=None)
def test_no_text_of_a_plugin_outside_code_can_be_a_link_or_a_mention(text: str) -> None:
    outside = 0
    for line in render_markdown(_saying(text)).splitlines():
        if line.startswith(("- **expected**", "- **do**")):
            outside += 1
            said = line.partition("** ")[2]
            assert not set(said) & set("@<>`|[]*_~\\/")
            assert "www." not in said
    assert outside


def test_inline_code_shows_pipes_and_backticks_as_they_are() -> None:
    rows = table(render_markdown(_saying(" a|b `c` \\| d")))
    assert rows[1][0].replace("<code>", "").replace("</code>", "") == "x a|b `c` \\| d"


def test_a_huge_report_stays_under_the_limit_and_says_that_it_was_cut() -> None:
    run = samples.real_run()
    cells = [
        samples.crashed(c).model_copy(
            update={"id": f"{c.id}{n}", "scenario": f"{c.scenario}-{n}", "reason": f"r{n}-{i}",
                    "detail": "é" * 5000}
        )
        for n in range(6)
        for i, c in enumerate(run.cells)
    ]  # fmt: skip
    text = render_markdown(samples.run_of(cells))
    assert len(text.encode()) < 1_000_000
    assert "of this report left out**" in text
    assert text.startswith("## ❌ ")
    assert structure(text)["table_open"] == 1


def test_fences_are_closed_and_nothing_stands_in_an_open_one() -> None:
    last = [t for t in tokens(render_markdown(samples.hostile_run())) if t.type == "fence"][-1]
    assert not last.content.rstrip().endswith("</details>")
    assert last.map is not None
