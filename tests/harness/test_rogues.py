"""What a host really had in it, and deaths that come late, on a real core with a real plugin."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.artifacts.cores import Core
from harness.artifacts.plugins import Plugin
from harness.matrix_file import LoadedMatrix
from tests.harness.test_execute import FINE, Lab, outcome

pytestmark = [pytest.mark.cores, pytest.mark.webgpu]


@pytest.fixture
def lab(
    newest: Core,
    webgpu: Plugin,
    loaded: LoadedMatrix,
    host_environment: Mapping[str, str],
    tmp_path: Path,
) -> Lab:
    return Lab(newest, webgpu, loaded, host_environment, tmp_path)


def test_a_second_core_is_put_on_the_cell_that_loads_it(lab: Lab, oldest: Core) -> None:
    environment = {**lab.environment, "ROGUE_CORE": str(oldest.library)}
    cells = replace(lab, environment=environment).run(FINE[0], "rogue/second-core", FINE[1])

    assert outcome(cells["rogue/second-core"]) == ("failed", "second-core", "unexpected")
    assert str(oldest.library) in cells["rogue/second-core"].detail
    for name in FINE[:2]:
        assert outcome(cells[name]) == ("passed", "ok", "expected"), cells[name].detail


def test_a_core_of_another_version_is_wrong_in_every_cell(lab: Lab) -> None:
    other = replace(lab.core, id="1.31.0", version="1.31.0")
    cells = replace(lab, core=other).run(*FINE[:2])

    assert {outcome(cell) for cell in cells.values()} == {("failed", "wrong-core", "unexpected")}
    assert "says version 1.32.0" in cells[FINE[0]].detail


def test_another_plugin_file_than_was_resolved_is_told(lab: Lab) -> None:
    cells = replace(lab, plugin=replace(lab.plugin, sha256="ab" * 32)).run(FINE[0])

    assert outcome(cells[FINE[0]]) == ("failed", "plugin-changed", "unexpected")


def test_a_plugin_that_changes_while_it_is_used_leaves_no_good_result(lab: Lab) -> None:
    copy = lab.folder / "plugin" / lab.plugin.library.name
    # The libraries beside it are those that it needs.
    shutil.copytree(lab.plugin.library.parent, copy.parent)
    environment = {**lab.environment, "ROGUE_PLUGIN": str(copy)}
    changed = replace(lab, plugin=replace(lab.plugin, library=copy), environment=environment)
    cells = changed.run(FINE[0], "rogue/changed-plugin")

    assert {outcome(cell) for cell in cells.values()} == {
        ("failed", "plugin-changed", "unexpected")
    }


def test_a_link_to_a_core_or_plugin_is_the_file_that_it_leads_to(lab: Lab) -> None:
    core, plugin = lab.folder / "libonnxruntime.so", lab.folder / "plugin.so"
    assert lab.core.library is not None
    core.symlink_to(lab.core.library)
    plugin.symlink_to(lab.plugin.library)
    linked = replace(
        lab,
        core=replace(lab.core, library=core),
        plugin=replace(lab.plugin, library=plugin),
    )

    assert outcome(linked.run(FINE[0])[FINE[0]]) == ("passed", "ok", "expected")


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("rogue/sys-exit", ("infra-error", "scenario-error")),
        ("rogue/threads", ("crashed", "SIGABRT")),
        ("rogue/wiped", ("crashed", "SIGKILL")),
    ],
)
def test_other_ways_to_die_cost_their_own_cell_too(
    lab: Lab, name: str, ends: tuple[str, str]
) -> None:
    cells = lab.run(FINE[0], name, FINE[1])

    assert outcome(cells[name]) == (*ends, "unexpected")
    for other in FINE[:2]:
        assert outcome(cells[other]) == ("passed", "ok", "expected"), cells[other].detail


def test_a_death_that_comes_late_is_not_hidden_by_the_cell_that_it_hits(lab: Lab) -> None:
    cells = lab.run("rogue/later", "rogue/slow", FINE[0])

    assert outcome(cells["rogue/later"]) == ("crashed", "at-exit", "unexpected")
    # The one that was hit passes alone, which nothing explains.
    assert outcome(cells["rogue/slow"]) == ("passed", "ok", "flaky")
    assert cells["rogue/slow"].attempts[0].outcome == "crashed"
    assert outcome(cells[FINE[0]]) == ("passed", "ok", "expected")


def test_what_changes_the_process_between_two_scenarios_is_seen_in_the_next(lab: Lab) -> None:
    cells = lab.run("rogue/moved-between", FINE[0])

    # Alone it passes, which nothing explains.
    assert outcome(cells[FINE[0]]) == ("passed", "ok", "flaky")
    assert cells[FINE[0]].attempts[0].reason == "process-state"


def test_what_changes_the_process_after_the_last_scenario_is_seen_at_the_end(lab: Lab) -> None:
    cells = lab.run("rogue/moved-between")

    assert outcome(cells["rogue/moved-between"]) == ("failed", "teardown-error", "unexpected")
    assert "working directory" in cells["rogue/moved-between"].detail
