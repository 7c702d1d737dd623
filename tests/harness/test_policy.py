from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.config import Claim, CoreCheck, Mode, Override, Policy, PolicyRule
from harness.errors import InputError, PolicyError
from harness.matrix_file import load
from harness.policy import Decision, decide, override_environment

SHIPPED = load(Path(__file__).parents[2] / "matrix.yaml").matrix
WEBGPU = SHIPPED.plugins["webgpu"].policy
LEGACY = "ORT_WEBGPU_EP_FORCE_LEGACY"


def webgpu(core: str, plugin: str | None, **environment: str) -> Decision:
    return decide(
        WEBGPU, SHIPPED.core_checks, core=core, plugin_version=plugin, environment=environment
    )


# Written out by hand from the published table of the plugin, both sides of every boundary.
PUBLISHED: list[tuple[str, Mode]] = [
    ("1.24.4", "serialized"),
    ("1.25.0", "serialized"),
    ("1.25.1", "serialized"),
    ("1.26.0", "serialized"),
    ("1.26.1", "serialized"),
    ("1.27.0", "serialized"),
    ("1.27.1", "serialized"),
    ("1.27.99", "serialized"),
    ("1.28.0", "serialized"),
    ("1.28.1", "serialized"),
    ("1.28.2", "serialized"),
    ("1.28.2.post1", "serialized"),
    ("1.28.2+cuda12", "serialized"),
    ("1.28.3.dev1", "serialized"),
    ("1.28.3a1", "serialized"),
    ("1.28.3rc1", "serialized"),
    ("1.28.3rc1+local", "serialized"),
    ("1.28.3", "concurrent"),
    ("1.28.3+cuda12", "concurrent"),
    ("1.28.3.post1", "concurrent"),
    ("1.28.4.dev0", "concurrent"),
    ("1.28.4rc1", "concurrent"),
    ("1.28.4", "concurrent"),
    ("1.28.10", "concurrent"),
    ("1.28.99", "concurrent"),
    ("1.29.0.dev1", "serialized"),
    ("1.29.0rc1", "serialized"),
    ("1.29", "serialized"),
    ("1.29.0", "serialized"),
    ("1.29.0+x", "serialized"),
    ("1.29.0.post1", "serialized"),
    ("1.29.1", "serialized"),
    ("1.29.2", "serialized"),
    ("1.29.3", "serialized"),
    ("1.29.10", "serialized"),
    ("1.29.99", "serialized"),
    ("1.30.0.dev1", "serialized"),
    ("1.30.0rc1", "serialized"),
    ("1.30.0", "serialized"),
    ("1.30.0.post1", "serialized"),
    ("1.30.0+x", "serialized"),
    ("1.30.1.dev1", "serialized"),
    ("1.30.1rc1", "serialized"),
    ("1.30.1", "concurrent"),
    ("1.30.1+cuda12", "concurrent"),
    ("1.30.2rc1", "concurrent"),
    ("1.30.2", "concurrent"),
    ("1.30.10", "concurrent"),
    ("1.31.0.dev20260101", "serialized"),
    ("1.31.0a1", "serialized"),
    ("1.31rc1", "serialized"),
    ("1.31.0rc1", "serialized"),
    ("1.31", "concurrent"),
    ("1.31.0", "concurrent"),
    ("1.31.0+x", "concurrent"),
    ("1.31.1rc1", "concurrent"),
    ("1.31.1", "concurrent"),
    ("1.32.0.dev1", "concurrent"),
    ("1.32.0rc1", "concurrent"),
    ("1.32.0", "concurrent"),
    ("1.33.0", "concurrent"),
    ("1.100.0", "concurrent"),
    ("2.0.0", "concurrent"),
]

RULES: list[tuple[str, str, str]] = [
    ("1.32.0", "0.4.0", "rules[0]: plugin <=0.4.0"),
    ("1.28.3", "0.5.0", "rules[1]: core >=1.28.3,<1.29, plugin >0.4.0"),
    ("1.30.1", "0.5.0", "rules[2]: core >=1.30.1,<1.31, plugin >0.4.0"),
    ("1.31.0", "0.5.0", "rules[3]: core >=1.31, plugin >0.4.0"),
    ("1.29.0", "0.5.0", "rules[4]: every core and plugin"),
]

AFTER = ["0.4.1", "0.4.1.dev1", "0.5.0.dev1", "0.5.0rc1", "0.5.0", "0.5.0+local", "0.10.0", "1.0.0"]
# A post-release or a local version of 0.4.0 is 0.4.0 built again; None is an unknown version.
NOT_AFTER = [
    "0.1.0",
    "0.3.9",
    "0.4.0.dev1",
    "0.4.0rc1",
    "0.4",
    "0.4.0",
    "0.4.0+local",
    "0.4.0.post1",
    None,
]


@pytest.mark.parametrize(("core", "mode"), PUBLISHED)
def test_webgpu_after_0_4_0_follows_the_published_table(core: str, mode: Mode) -> None:
    decision = webgpu(core, "0.5.0")
    assert decision.mode == mode
    assert decision.override is None


@pytest.mark.parametrize("plugin", AFTER)
@pytest.mark.parametrize(
    ("core", "mode"),
    [("1.28.2", "serialized"), ("1.28.3", "concurrent"), ("1.29.9", "serialized")],
)
def test_every_webgpu_version_after_0_4_0_follows_the_table(
    core: str, mode: Mode, plugin: str
) -> None:
    assert webgpu(core, plugin).mode == mode


@pytest.mark.parametrize("core", [core for core, _ in PUBLISHED])
@pytest.mark.parametrize("plugin", NOT_AFTER)
def test_webgpu_that_is_not_after_0_4_0_is_serialized_on_every_core(
    core: str, plugin: str | None
) -> None:
    assert webgpu(core, plugin).mode == "serialized"


@pytest.mark.parametrize(("core", "plugin", "rule"), RULES)
def test_a_decision_names_the_rule(core: str, plugin: str, rule: str) -> None:
    decision = webgpu(core, plugin)
    assert decision.rule == rule
    index = int(rule[len("rules[")])
    assert decision.why == WEBGPU.rules[index].why


@pytest.mark.parametrize(("core", "mode"), PUBLISHED)
@pytest.mark.parametrize("value", ["", "0"])
def test_a_neutral_override_changes_nothing(core: str, mode: Mode, value: str) -> None:
    assert webgpu(core, "0.5.0", **{LEGACY: value}) == webgpu(core, "0.5.0")
    assert webgpu(core, "0.5.0", **{LEGACY: value}).mode == mode


@pytest.mark.parametrize("core", [core for core, _ in PUBLISHED])
def test_the_override_forces_serialized_on_every_core(core: str) -> None:
    decision = webgpu(core, "0.5.0", **{LEGACY: "1"})
    assert decision.mode == "serialized"
    assert decision.override == "ORT_WEBGPU_EP_FORCE_LEGACY=1"
    assert decision.rule == "override: ORT_WEBGPU_EP_FORCE_LEGACY=1"


@pytest.mark.parametrize("value", ["2", "true", "TRUE", "01", " 1", "1 ", "-1", "yes", "off", "no"])
@pytest.mark.parametrize("plugin", ["0.5.0", "0.4.0", None])
def test_any_other_value_of_the_override_is_an_error_that_names_what_is_allowed(
    value: str, plugin: str | None
) -> None:
    with pytest.raises(PolicyError) as caught:
        webgpu("1.32.0", plugin, **{LEGACY: value})
    assert caught.value.exit_code == 2
    assert caught.value.message == (
        f'The environment variable ORT_WEBGPU_EP_FORCE_LEGACY is "{value}", which the policy '
        "does not know."
    )
    assert caught.value.hint == (
        'Set it to "1" (serialized), or to "", "0" for no override, or unset it.'
    )


@pytest.mark.parametrize("plugin", ["0.4.0", "0.3.0", "0.4.0.post1"])
def test_an_override_that_the_plugin_does_not_know_forces_nothing_and_the_decision_says_so(
    plugin: str,
) -> None:
    decision = webgpu("1.32.0", plugin, **{LEGACY: "1"})
    assert decision.mode == "serialized"
    assert decision.override is None
    assert decision.rule.startswith("rules[")
    assert decision.why.endswith(
        f"ORT_WEBGPU_EP_FORCE_LEGACY=1 changes nothing: plugin {plugin} does not know the "
        "variable (versions >0.4.0 do)."
    )


def test_an_override_that_the_plugin_does_not_know_leaves_a_concurrent_mode_alone() -> None:
    policy = Policy(
        rules=[PolicyRule(mode="concurrent", why="all")],
        override=Override(variable="X", forces={"1": "serialized"}, plugin=">=2", why="w"),
    )

    def mode(version: str | None) -> Mode:
        return decide(
            policy, [], core="1.30.0", plugin_version=version, environment={"X": "1"}
        ).mode

    assert mode("1.9") == "concurrent"
    assert mode("2.0") == "serialized"
    # An unknown version counts as knowing the variable: the safe belief.
    assert mode(None) == "serialized"


def test_whatever_decides_is_told_with_its_why_its_link_and_the_refusal() -> None:
    policy = Policy(
        rules=[PolicyRule(mode="concurrent", why="all", link="https://example.org/rule")],
        override=Override(
            variable="X",
            forces={"1": "serialized", "on": "serialized"},
            plugin=">=2",
            why="told so",
            link="https://example.org/override",
        ),
        claims=[Claim(api=30, why="measured")],
    )

    def decision(version: str, **environment: str) -> Decision:
        return decide(
            policy,
            SHIPPED.core_checks,
            core="1.26.0",
            plugin_version=version,
            environment=environment,
        )

    refused = decision("2.0").rejection
    assert refused is not None
    rule = "rules[0]: every core and plugin"
    assert decision("2.0") == Decision(
        "concurrent", rule, "all", "https://example.org/rule", refused
    )
    assert decision("1.9", X="1") == Decision(
        "concurrent",
        rule,
        "all X=1 changes nothing: plugin 1.9 does not know the variable (versions >=2 do).",
        "https://example.org/rule",
        refused,
    )
    assert decision("2.0", X="on") == Decision(
        "serialized", "override: X=on", "told so", "https://example.org/override", refused, "X=on"
    )
    # Without neutral values there is nothing to name but those that force.
    with pytest.raises(PolicyError) as caught:
        decision("2.0", X="0")
    assert caught.value.hint == 'Set it to "1" (serialized), "on" (serialized), or unset it.'


def test_without_a_policy_the_mode_is_serialized() -> None:
    decision = decide(None, [], core="1.32.0", plugin_version="1.0", environment={LEGACY: "x"})
    assert decision == Decision(
        mode="serialized",
        rule="default: there are no rules for this plugin",
        why="Serialized is safe for every plugin.",
    )


def test_without_a_matching_rule_the_mode_is_serialized() -> None:
    policy = Policy(rules=[PolicyRule(core=">=1.31", mode="concurrent", why="w")])
    decision = decide(policy, [], core="1.30.9", plugin_version="1.0", environment={})
    assert (decision.mode, decision.rule) == ("serialized", "default: no rule matches")


def test_the_first_matching_rule_decides_and_brings_its_link() -> None:
    policy = Policy(
        rules=[
            PolicyRule(core="<1", mode="serialized", why="not this"),
            PolicyRule(core=">=1.30", mode="concurrent", why="this", link="https://example.org"),
            PolicyRule(core=">=1.30", mode="serialized", why="too late"),
        ]
    )
    decision = decide(policy, [], core="1.30.0", plugin_version=None, environment={})
    assert decision == Decision(
        mode="concurrent", rule="rules[1]: core >=1.30", why="this", link="https://example.org"
    )


def test_a_rule_for_plugin_versions_never_matches_an_unknown_one() -> None:
    policy = Policy(rules=[PolicyRule(plugin=">=0", mode="concurrent", why="w")])

    def mode(version: str | None) -> Mode:
        return decide(policy, [], core="1.32.0", plugin_version=version, environment={}).mode

    assert mode("0.0.1") == "concurrent"
    assert mode(None) == "serialized"


CLAIMS: list[tuple[int, bool]] = [(0, True), (1, False), (26, False), (27, True), (30, True)]


@pytest.mark.parametrize(("api", "refused"), CLAIMS)
def test_1_26_0_refuses_what_claims_a_level_outside_1_to_26(api: int, refused: bool) -> None:
    policy = Policy(claims=[Claim(api=api, why="measured")])
    decision = decide(
        policy, SHIPPED.core_checks, core="1.26.0", plugin_version="1.0", environment={}
    )
    if not refused:
        assert decision.rejection is None
        return
    assert decision.rejection is not None
    assert decision.rejection.reason == "version-check"
    assert decision.rejection.why.startswith(
        f"The plugin claims API level {api}, and core 1.26.0 takes 1 to 26. "
    )
    assert decision.rejection.link == SHIPPED.core_checks[0].link


@pytest.mark.parametrize(
    ("core", "refused"),
    [
        ("1.25.1", False),
        ("1.26.0.dev1", False),
        ("1.26.0rc1", False),
        ("1.26", True),
        ("1.26.0", True),
        ("1.26.0+local", True),
        ("1.26.0.post1", False),
        ("1.26.1", False),
        ("1.27.0", False),
        ("1.32.0", False),
    ],
)
@pytest.mark.parametrize("plugin", ["0.4.0", "0.5.0", None])
def test_webgpu_is_refused_by_1_26_0_only(core: str, refused: bool, plugin: str | None) -> None:
    rejection = webgpu(core, plugin).rejection
    assert (rejection is not None) == refused


def test_a_plugin_without_a_claim_gets_no_prediction() -> None:
    for policy in (None, Policy()):
        decision = decide(
            policy, SHIPPED.core_checks, core="1.26.0", plugin_version="1.0", environment={}
        )
        assert decision.rejection is None


@pytest.mark.parametrize(
    ("version", "refused"), [("1.0", False), ("1.9", False), ("2.0", True), (None, False)]
)
def test_the_first_claim_that_matches_the_plugin_counts(version: str | None, refused: bool) -> None:
    policy = Policy(
        claims=[
            Claim(plugin="<2", api=26, why="old builds"),
            Claim(plugin=">=1", api=30, why="new builds"),
        ]
    )
    decision = decide(
        policy, SHIPPED.core_checks, core="1.26.0", plugin_version=version, environment={}
    )
    assert (decision.rejection is not None) == refused


def test_a_rejection_is_predicted_from_the_second_of_two_checks() -> None:
    first = CoreCheck(
        core="==1.26.0", claimed_api_min=0, claimed_api_max=99, reason="other", why="wide"
    )
    decision = decide(
        Policy(claims=[Claim(api=30, why="w")]),
        [first, *SHIPPED.core_checks],
        core="1.26.0",
        plugin_version=None,
        environment={},
    )
    assert decision.rejection is not None
    assert decision.rejection.reason == "version-check"


@pytest.mark.parametrize("value", ["", "0", "1"])
def test_no_override_helps_against_the_version_check(value: str) -> None:
    decision = webgpu("1.26.0", "0.5.0", **{LEGACY: value})
    assert decision.mode == "serialized"
    assert decision.rejection is not None
    assert decision.rejection.reason == "version-check"


@pytest.mark.parametrize("text", ["", "latest", "1.2.x", "1..2", "one", "1.29-custom", "9" * 5000])
def test_a_text_that_is_no_version_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="is not a version of a core") as core:
        webgpu(text, "0.5.0")
    with pytest.raises(InputError, match="is not a version of a plugin") as plugin:
        webgpu("1.32.0", text)
    decided = Decision("concurrent", "", "")
    with pytest.raises(InputError, match="is not a version of a plugin") as asked:
        override_environment(WEBGPU, plugin_version=text, wanted="serialized", decided=decided)
    for error in (core.value, plugin.value, asked.value):
        assert error.exit_code == 2
        assert error.hint == 'Versions look like "1.24.4" or "0.5.0rc1".'


@pytest.mark.parametrize(
    ("core", "plugin", "wanted", "expected"),
    [
        ("1.32.0", "0.5.0", "serialized", {LEGACY: "1"}),
        ("1.32.0", "0.5.0", "concurrent", {}),
        ("1.29.0", "0.5.0", "serialized", {}),
        ("1.29.0", "0.5.0", "concurrent", {}),
        ("1.32.0", "0.4.0", "serialized", {}),
        ("1.32.0", "0.4.0", "concurrent", {}),
    ],
)
def test_the_override_is_set_where_a_concurrent_plugin_is_wanted_serialized(
    core: str, plugin: str, wanted: Mode, expected: dict[str, str]
) -> None:
    decided = webgpu(core, plugin)
    assert (
        override_environment(WEBGPU, plugin_version=plugin, wanted=wanted, decided=decided)
        == expected
    )


def test_the_override_is_not_set_for_a_plugin_that_does_not_know_it() -> None:
    policy = Policy(
        rules=[PolicyRule(mode="concurrent", why="all")],
        override=Override(
            variable="X", forces={"on": "serialized", "1": "serialized"}, plugin=">=2", why="w"
        ),
    )
    decided = decide(policy, [], core="1.30.0", plugin_version=None, environment={})

    def added(version: str | None) -> dict[str, str]:
        return override_environment(
            policy, plugin_version=version, wanted="serialized", decided=decided
        )

    assert added("1.0") == {}
    assert added("2.0") == {"X": "on"}
    assert added(None) == {"X": "on"}


def test_a_policy_without_an_override_sets_nothing() -> None:
    concurrent = Decision("concurrent", "rules[0]: every core and plugin", "w")
    for policy in (None, Policy()):
        assert (
            override_environment(
                policy, plugin_version="1.0", wanted="serialized", decided=concurrent
            )
            == {}
        )


numbers = st.integers(0, 40)
versions = st.builds(
    "{}{}.{}.{}{}{}".format,
    st.sampled_from(["", "", "", "v", "1!"]),
    st.integers(0, 2),
    numbers,
    numbers,
    st.sampled_from(["", "", "", "a1", "b2", "rc1", ".post1", ".dev3", "rc1.dev2"]),
    st.sampled_from(["", "", "+cuda12", "+x.1"]),
)


@settings(deadline=None)
@given(versions, st.none() | versions, st.sampled_from([None, "", "0", "1"]))
def test_every_pair_of_versions_has_a_decision(
    core: str, plugin: str | None, value: str | None
) -> None:
    decision = webgpu(core, plugin, **({} if value is None else {LEGACY: value}))
    assert decision.mode in ("serialized", "concurrent")
    assert decision.rule
    assert decision.why


@settings(deadline=None)
@given(versions, st.none() | versions)
def test_the_forced_override_never_leaves_webgpu_concurrent(core: str, plugin: str | None) -> None:
    assert webgpu(core, plugin, **{LEGACY: "1"}).mode == "serialized"


@settings(deadline=None)
@given(versions, st.none() | versions, st.sampled_from(["", "0", "1"]))
def test_the_override_never_makes_a_serialized_mode_concurrent(
    core: str, plugin: str | None, value: str
) -> None:
    assume(webgpu(core, plugin).mode == "serialized")
    assert webgpu(core, plugin, **{LEGACY: value}).mode == "serialized"


@settings(deadline=None)
@given(versions, versions)
def test_the_environment_that_forces_serialized_does_so(core: str, plugin: str) -> None:
    decided = webgpu(core, plugin)
    added = override_environment(
        WEBGPU, plugin_version=plugin, wanted="serialized", decided=decided
    )
    assert webgpu(core, plugin, **added).mode == "serialized"
    assert bool(added) == (decided.mode == "concurrent")


@settings(deadline=None)
@given(st.integers(0, 99), st.sampled_from(["", "rc1", ".dev1", ".post2", "+x", "a3+y"]))
def test_no_version_of_the_1_29_line_is_ever_concurrent(patch: int, suffix: str) -> None:
    assert webgpu(f"1.29.{patch}{suffix}", "9.0").mode == "serialized"


@settings(deadline=None)
@given(st.text(max_size=8))
def test_any_value_of_the_override_is_forcing_neutral_or_an_error(value: str) -> None:
    if value in ("", "0"):
        assert webgpu("1.32.0", "0.5.0", **{LEGACY: value}).mode == "concurrent"
    elif value == "1":
        assert webgpu("1.32.0", "0.5.0", **{LEGACY: value}).mode == "serialized"
    else:
        with pytest.raises(PolicyError):
            webgpu("1.32.0", "0.5.0", **{LEGACY: value})
