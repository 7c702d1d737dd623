import json

import pytest

from harness.config import Matrix, Override, PluginEntry, Policy, PolicyRule, ScenarioSettings
from harness.errors import InputError, PolicyError, SelectionError
from harness.host.scenario import Scenario
from harness.plan import (
    Cell,
    CorePlan,
    WantedMode,
    github_matrix,
    make_plan,
    plan_json,
    select_scenarios,
)

SCENARIOS: tuple[tuple[str, float | None], ...] = (
    ("copy/cpu-io", None),
    ("copy/mixed-inputs[device-first]", None),
    ("copy/mixed-inputs[cpu-first]", None),
    ("capture/replay", 7.0),
)
CORES = (("1.24.4", "1.24.4"), ("nightly", "1.33.0.dev1"))
ENTRY = PluginEntry(
    path="libep.so",
    environment={"EP_LOG": "entry", "EP_DEVICE": "entry"},
    policy=Policy(
        rules=[PolicyRule(core=">=1.31", plugin=">1", mode="concurrent", why="new cores can")],
        override=Override(
            variable="EP_SERIALIZE", forces={"1": "serialized"}, neutral=["0"], why="w"
        ),
    ),
)


def plan(
    matrix: Matrix | None = None,
    *,
    cores: tuple[tuple[str, str], ...] = CORES,
    version: str | None = "2.0",
    entry: PluginEntry | None = ENTRY,
    scenarios: tuple[tuple[str, float | None], ...] = SCENARIOS,
    globs: tuple[str, ...] = (),
    iterations: int | None = None,
    mode: WantedMode = "policy",
    repeat: int = 1,
    shuffle: int | None = None,
    environment: dict[str, str] | None = None,
    user_environment: dict[str, str] | None = None,
) -> tuple[CorePlan, ...]:
    return make_plan(
        matrix or Matrix(),
        cores=cores,
        plugin_name="mine",
        plugin_version=version,
        entry=entry,
        scenarios=[
            Scenario(name, "It can fail.", lambda host: None, timeout_s)
            for name, timeout_s in scenarios
        ],
        scenario_globs=globs,
        iterations=iterations,
        mode=mode,
        repeat=repeat,
        shuffle=shuffle,
        environment=environment or {},
        user_environment=user_environment or {},
    )


def timeouts(matrix: Matrix) -> dict[str, float]:
    return {cell.scenario: cell.timeout_s for cell in plan(matrix)[0].cells}


def test_every_core_gets_every_scenario_in_order_and_in_its_own_mode() -> None:
    old, new, _ = plan()
    assert (old.core, old.version, old.mode) == ("1.24.4", "1.24.4", "serialized")
    assert (new.core, new.version, new.mode) == ("nightly", "1.33.0.dev1", "concurrent")
    assert [cell.id for cell in old.cells] == [
        "1.24.4/serialized/copy/cpu-io",
        "1.24.4/serialized/copy/mixed-inputs[device-first]",
        "1.24.4/serialized/copy/mixed-inputs[cpu-first]",
        "1.24.4/serialized/capture/replay",
    ]
    assert new.cells[0] == Cell(
        id="nightly/concurrent/copy/cpu-io",
        core="nightly",
        plugin="mine",
        mode="concurrent",
        scenario="copy/cpu-io",
        timeout_s=60.0,
        iterations=20,
    )
    assert new.decision.rule == "rules[0]: core >=1.31, plugin >1"


def test_a_plugin_without_an_entry_is_serialized_everywhere() -> None:
    plans = plan(entry=None, version=None)
    assert [one.mode for one in plans] == ["serialized", "serialized"]
    assert [len(one.cells) for one in plans] == [4, 4]


def test_the_timeout_is_the_matrix_s_own_unless_the_scenario_says_one() -> None:
    assert timeouts(Matrix(timeout_s=9)) == {
        "copy/cpu-io": 9.0,
        "copy/mixed-inputs[device-first]": 9.0,
        "copy/mixed-inputs[cpu-first]": 9.0,
        "capture/replay": 7.0,
    }


def test_the_last_matching_glob_of_the_matrix_wins_over_the_scenario_s_own_timeout() -> None:
    settings = {
        "*": ScenarioSettings(timeout_s=1),
        "copy": ScenarioSettings(timeout_s=2),
        "copy/mixed-inputs[cpu-first]": ScenarioSettings(timeout_s=3),
    }
    assert timeouts(Matrix(scenarios=settings)) == {
        "copy/cpu-io": 2.0,
        "copy/mixed-inputs[device-first]": 2.0,
        "copy/mixed-inputs[cpu-first]": 3.0,
        "capture/replay": 1.0,
    }
    assert set(timeouts(Matrix(scenarios=dict(reversed(settings.items())))).values()) == {1.0}


def test_a_glob_of_the_matrix_that_matches_no_scenario_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(SelectionError) as caught:
        plan(Matrix(scenarios={"captrue": ScenarioSettings(timeout_s=1)}))
    assert caught.value.message == (
        '"captrue" under scenarios in matrix.yaml matches no scenario; perhaps you meant "capture"?'
    )


def test_settings_for_a_scenario_that_is_not_selected_are_no_error() -> None:
    matrix = Matrix(scenarios={"capture/replay": ScenarioSettings(timeout_s=1)})
    assert [cell.scenario for cell in plan(matrix, globs=("copy/cpu-io",))[0].cells] == [
        "copy/cpu-io"
    ]


def test_iterations_come_from_the_matrix_or_from_the_selection() -> None:
    assert {cell.iterations for cell in plan(Matrix(iterations=5))[0].cells} == {5}
    assert {cell.iterations for cell in plan(Matrix(iterations=5), iterations=1)[0].cells} == {1}


@pytest.mark.parametrize("count", [0, -3])
def test_fewer_than_one_iteration_is_an_input_error(count: int) -> None:
    with pytest.raises(InputError, match=f"{count} iterations are too few") as caught:
        plan(iterations=count)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (("capture",), ["capture/replay"]),
        (("copy/mixed-inputs[cpu-first]",), ["copy/mixed-inputs[cpu-first]"]),
        (("capture", "copy/cpu-io", "*/replay"), ["copy/cpu-io", "capture/replay"]),
        (("copy/mixed*",), ["copy/mixed-inputs[device-first]", "copy/mixed-inputs[cpu-first]"]),
    ],
)
def test_globs_select_in_the_order_of_the_scenarios_and_each_once(
    globs: tuple[str, ...], expected: list[str]
) -> None:
    assert [cell.scenario for cell in plan(globs=globs)[0].cells] == expected


def test_a_glob_that_matches_nothing_is_an_error_even_beside_one_that_does() -> None:
    with pytest.raises(SelectionError) as caught:
        plan(globs=("capture", "copy/cpu-oi"))
    assert caught.value.exit_code == 2
    assert caught.value.message == (
        '--scenario "copy/cpu-oi" matches no scenario; perhaps you meant "copy/cpu-io"?'
    )
    # Not all the names: there are more than anybody reads.
    assert caught.value.hint == (
        "Families: capture, copy. `ort-ep-matrix scenarios` lists all names."
    )


def test_nothing_close_means_no_suggestion() -> None:
    with pytest.raises(SelectionError, match=r'--scenario "zzz" matches no scenario\.') as caught:
        select_scenarios(["copy/cpu-io", "copy/cpu-oi"], ["zzz"])
    assert caught.value.hint.startswith("Family: copy. ")


def test_no_core_is_an_empty_selection() -> None:
    with pytest.raises(SelectionError, match=r"No core is selected\."):
        plan(cores=())


def test_no_scenario_is_an_empty_selection() -> None:
    with pytest.raises(SelectionError, match=r"There is no scenario to run\."):
        plan(scenarios=())


def test_two_cores_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="share an id"):
        plan(cores=(("a", "1.24.4"), ("a", "1.25.0")))


def test_the_layers_of_the_environment_win_in_their_order() -> None:
    (one,) = plan(
        Matrix(environment={"EP_LOG": "matrix", "X": "matrix", "ALL": "matrix"}),
        cores=CORES[:1],
        environment={"PATH": "/bin", "EP_DEVICE": "shell", "X": "shell"},
        user_environment={"X": "user", "EP_SERIALIZE": "0"},
    )
    assert one.environment == {
        "PATH": "/bin",
        "EP_LOG": "entry",
        "EP_DEVICE": "shell",
        "X": "user",
        "EP_SERIALIZE": "0",
        "ALL": "matrix",
    }
    assert one.settings == {"EP_LOG": "entry", "X": "user", "EP_SERIALIZE": "0", "ALL": "matrix"}


def test_a_variable_that_the_shell_sets_to_nothing_still_wins_over_the_entry() -> None:
    (one,) = plan(cores=CORES[:1], environment={"EP_LOG": ""})
    assert one.environment["EP_LOG"] == ""
    assert "EP_LOG" not in one.settings


def test_what_the_user_set_is_listed_even_where_the_shell_says_the_same() -> None:
    (one,) = plan(cores=CORES[:1], environment={"X": "1"}, user_environment={"X": "1"})
    assert one.settings["X"] == "1"


@pytest.mark.parametrize(
    ("environment", "user_environment"),
    [
        ({"EP_SERIALIZE": "1"}, {}),
        ({}, {"EP_SERIALIZE": "1"}),
        ({"EP_SERIALIZE": "0"}, {"EP_SERIALIZE": "1"}),
    ],
)
def test_an_override_in_the_environment_decides_the_mode(
    environment: dict[str, str], user_environment: dict[str, str]
) -> None:
    new = plan(environment=environment, user_environment=user_environment)[1]
    assert new.mode == "serialized"
    assert new.decision.override == "EP_SERIALIZE=1"
    assert new.cells[0].id == "nightly/serialized/copy/cpu-io"


def test_an_override_in_the_entry_decides_the_mode_unless_the_shell_takes_it_back() -> None:
    entry = ENTRY.model_copy(update={"environment": {"EP_SERIALIZE": "1"}})
    assert plan(entry=entry)[1].mode == "serialized"
    assert plan(entry=entry, environment={"EP_SERIALIZE": "0"})[1].mode == "concurrent"


def test_an_unknown_value_of_the_override_is_a_policy_error() -> None:
    with pytest.raises(PolicyError, match='EP_SERIALIZE is "yes"'):
        plan(user_environment={"EP_SERIALIZE": "yes"})


def test_serialized_by_hand_forces_the_plugin_only_where_it_would_be_concurrent() -> None:
    old, new = plan(mode="serialized", environment={"EP_SERIALIZE": "0"})
    assert (old.mode, new.mode) == ("serialized", "serialized")
    assert old.environment["EP_SERIALIZE"] == "0"
    assert new.environment["EP_SERIALIZE"] == "1"
    assert new.settings["EP_SERIALIZE"] == "1"
    assert new.decision.mode == "concurrent"


def test_concurrent_by_hand_goes_beyond_the_policy_and_sets_nothing() -> None:
    old, new = plan(mode="concurrent")
    assert (old.mode, new.mode) == ("concurrent", "concurrent")
    assert old.decision.mode == "serialized"
    assert old.cells[0].id == "1.24.4/concurrent/copy/cpu-io"
    assert "EP_SERIALIZE" not in {**old.environment, **new.environment}


def test_concurrent_by_hand_against_a_forced_override_is_a_contradiction() -> None:
    with pytest.raises(PolicyError, match="EP_SERIALIZE=1 forces serialized mode") as caught:
        plan(mode="concurrent", environment={"EP_SERIALIZE": "1"})
    assert caught.value.exit_code == 2


def test_no_secret_of_the_shell_shows_in_a_plan() -> None:
    plans = plan(environment={"SHELL_ONLY": "secret"})
    assert plans[0].environment["SHELL_ONLY"] == "secret"
    assert "secret" not in repr(plans)
    assert "secret" not in plan_json(plans)
    assert "secret" not in github_matrix(plans)


def test_github_gets_one_line_with_one_job_a_core_and_mode() -> None:
    assert github_matrix(plan()) == (
        '{"include": [{"core": "1.24.4", "mode": "serialized"}, '
        '{"core": "nightly", "mode": "concurrent"}, {"core": "nightly", "mode": "serialized"}]}'
    )


def test_plan_json_holds_every_cell_and_why_each_core_has_its_mode() -> None:
    data = json.loads(plan_json(plan(globs=("copy/cpu-io",), user_environment={"X": "1"})))
    assert data["schema_version"] == 1
    assert data["cells"] == [
        {
            "id": f"{core}/{mode}/copy/cpu-io",
            "core": core,
            "plugin": "mine",
            "mode": mode,
            "scenario": "copy/cpu-io",
            "timeout_s": 60.0,
            "iterations": 20,
            "host": "registered",
            "repetition": 1,
            "alone": False,
        }
        for core, mode in (
            ("1.24.4", "serialized"),
            ("nightly", "concurrent"),
            ("nightly", "serialized"),
        )
    ]
    assert data["cores"][1] == {
        "core": "nightly",
        "version": "1.33.0.dev1",
        "mode": "concurrent",
        "environment": {"EP_LOG": "entry", "EP_DEVICE": "entry", "X": "1"},
        "decision": {
            "mode": "concurrent",
            "rule": "rules[0]: core >=1.31, plugin >1",
            "why": "new cores can",
            "link": None,
            "rejection": None,
            "override": None,
        },
    }


def test_a_core_that_can_be_forced_is_driven_in_both_modes() -> None:
    old, free, forced = plan()

    assert (free.core, free.mode) == ("nightly", "concurrent")
    assert "EP_SERIALIZE" not in free.environment
    assert (forced.core, forced.mode) == ("nightly", "serialized")
    assert forced.environment["EP_SERIALIZE"] == "1"
    assert forced.settings["EP_SERIALIZE"] == "1"
    assert forced.decision.mode == "concurrent"
    assert [cell.id.replace("serialized", "concurrent") for cell in forced.cells] == [
        cell.id for cell in free.cells
    ]
    assert len({cell.id for one in (old, free, forced) for cell in one.cells}) == 12


def test_a_mode_that_was_asked_for_is_the_only_one() -> None:
    assert [one.mode for one in plan(mode="serialized")] == ["serialized", "serialized"]
    assert [one.mode for one in plan(mode="concurrent")] == ["concurrent", "concurrent"]


def test_what_the_user_forced_already_is_planned_once() -> None:
    plans = plan(environment={"EP_SERIALIZE": "1"})

    assert [(one.core, one.mode) for one in plans] == [
        ("1.24.4", "serialized"),
        ("nightly", "serialized"),
    ]


def test_a_repeated_scenario_is_a_cell_of_its_own_each_time() -> None:
    (old, *_) = plan(globs=("copy/cpu-io", "capture"), repeat=3)

    assert [(cell.id, cell.scenario, cell.repetition, cell.task) for cell in old.cells] == [
        ("1.24.4/serialized/copy/cpu-io", "copy/cpu-io", 1, "copy/cpu-io"),
        ("1.24.4/serialized/capture/replay", "capture/replay", 1, "capture/replay"),
        ("1.24.4/serialized/copy/cpu-io#2", "copy/cpu-io", 2, "copy/cpu-io#2"),
        ("1.24.4/serialized/capture/replay#2", "capture/replay", 2, "capture/replay#2"),
        ("1.24.4/serialized/copy/cpu-io#3", "copy/cpu-io", 3, "copy/cpu-io#3"),
        ("1.24.4/serialized/capture/replay#3", "capture/replay", 3, "capture/replay#3"),
    ]
    assert [cell.timeout_s for cell in old.cells] == [60.0, 7.0] * 3


def test_a_seed_decides_the_order_and_nothing_else() -> None:
    def order(seed: int | None) -> list[list[str]]:
        return [[cell.id for cell in one.cells] for one in plan(repeat=5, shuffle=seed)]

    assert order(7) == order(7)
    assert order(7) != order(8)
    assert order(7) != order(None)
    assert [sorted(one) for one in order(7)] == [sorted(one) for one in order(None)]
    assert {one.shuffle for one in plan(shuffle=7)} == {7}
