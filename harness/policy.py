"""The version policy: how a plugin may be driven on a core, and which rule says so.

Pure functions from versions, an environment and the tables of `matrix.yaml` to a decision. What
no table allows is serialized, because serialized is safe for every plugin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.config import CoreCheck, Mode, Override, Policy
from harness.errors import InputError, PolicyError

__all__ = ["Decision", "PredictedRejection", "decide", "override_environment"]


@dataclass(frozen=True)
class PredictedRejection:
    """A core's refusal of a plugin, foreseen from the API level that the plugin claims."""

    reason: str
    why: str
    link: str | None = None


@dataclass(frozen=True)
class Decision:
    """How the harness may drive a plugin's device on one core.

    Attributes:
        mode: serialized or concurrent.
        rule: names what decided, such as `rules[1]: core >=1.28.3,<1.29, plugin >0.4.0`.
        why: the reason, for people.
        link: where to read more.
        rejection: set if the core will refuse the plugin in whatever mode.
        override: the `VARIABLE=value` that forced the mode, if one did.
    """

    mode: Mode
    rule: str
    why: str
    link: str | None = None
    rejection: PredictedRejection | None = None
    override: str | None = None


def decide(
    policy: Policy | None,
    checks: Sequence[CoreCheck],
    *,
    core: str,
    plugin_version: str | None,
    environment: Mapping[str, str],
) -> Decision:
    """Decide the mode of a core and a plugin, and whether the core will refuse the plugin.

    Versions compare as PEP 440 orders them, pre-releases included: `1.31.0rc1` comes before
    1.31, and the local part of `1.28.3+cuda12` does not count.

    Args:
        policy: the plugin's tables; none if nothing is known about it.
        checks: the cores that refuse plugins by the API level that these claim.
        core: the core's version.
        plugin_version: the plugin's version; none if it is unknown.
        environment: of the host process, as it will be when the plugin registers.

    Returns:
        The decision.

    Raises:
        InputError: a version is none.
        PolicyError: the override's variable has a value that is neither forcing nor neutral,
            whether or not this version of the plugin knows the variable.
    """
    core_version = _version(core, "core")
    plugin = None if plugin_version is None else _version(plugin_version, "plugin")
    policy = policy or Policy()
    rejection = _rejection(policy, checks, core_version, plugin)
    by_rule = _by_rule(policy, core_version, plugin, rejection)

    override = policy.override
    value = _override_value(override, environment)
    if override is None or value is None or value not in override.forces:
        return by_rule
    setting = f"{override.variable}={value}"
    if not _knows(override, plugin):
        note = (
            f"{setting} changes nothing: plugin {plugin} does not know the variable "
            f"(versions {override.plugin} do)."
        )
        return Decision(
            by_rule.mode, by_rule.rule, f"{by_rule.why} {note}", by_rule.link, rejection
        )
    return Decision(
        mode=override.forces[value],
        rule=f"override: {setting}",
        why=override.why,
        link=override.link,
        rejection=rejection,
        override=setting,
    )


def override_environment(
    policy: Policy | None, *, plugin_version: str | None, wanted: Mode, decided: Decision
) -> dict[str, str]:
    """What to set in a host's environment so that the plugin itself works in the wanted mode.

    Only a plugin that would work concurrently can be told to serialize; nothing can make a
    plugin concurrent.

    Args:
        policy: the plugin's tables; none if nothing is known about it.
        plugin_version: the plugin's version; none if it is unknown.
        wanted: the mode in which the harness will drive the device.
        decided: what `decide` said of this core and plugin.

    Returns:
        The variable and its value; empty if nothing is to be forced, or if the plugin has no
        variable for it.

    Raises:
        InputError: the plugin's version is none.
    """
    plugin = None if plugin_version is None else _version(plugin_version, "plugin")
    override = policy.override if policy else None
    if override is None or wanted != "serialized" or decided.mode == wanted:
        return {}
    if not _knows(override, plugin):
        return {}
    return {override.variable: next(iter(override.forces))}


def _by_rule(
    policy: Policy,
    core: Version,
    plugin: Version | None,
    rejection: PredictedRejection | None,
) -> Decision:
    for index, rule in enumerate(policy.rules):
        if _contains(rule.core, core) and _contains(rule.plugin, plugin):
            parts = [
                f"{name} {specifier}"
                for name, specifier in (("core", rule.core), ("plugin", rule.plugin))
                if specifier is not None
            ]
            name = f"rules[{index}]: {', '.join(parts) or 'every core and plugin'}"
            return Decision(rule.mode, name, rule.why, rule.link, rejection)
    cause = "no rule matches" if policy.rules else "there are no rules for this plugin"
    return Decision(
        mode="serialized",
        rule=f"default: {cause}",
        why="Serialized is safe for every plugin.",
        rejection=rejection,
    )


def _rejection(
    policy: Policy, checks: Sequence[CoreCheck], core: Version, plugin: Version | None
) -> PredictedRejection | None:
    claim = next((claim for claim in policy.claims if _contains(claim.plugin, plugin)), None)
    if claim is None:
        return None
    for check in checks:
        low, high = check.claimed_api_min, check.claimed_api_max
        if _contains(check.core, core) and not low <= claim.api <= high:
            return PredictedRejection(
                reason=check.reason,
                why=(
                    f"The plugin claims API level {claim.api}, and core {core} takes {low} to "
                    f"{high}. {check.why}"
                ),
                link=check.link,
            )
    return None


def _override_value(override: Override | None, environment: Mapping[str, str]) -> str | None:
    if override is None:
        return None
    value = environment.get(override.variable)
    if value is None or value in override.forces or value in override.neutral:
        return value
    forcing = ", ".join(f'"{text}" ({mode})' for text, mode in override.forces.items())
    neutral = ", ".join(f'"{text}"' for text in override.neutral)
    raise PolicyError(
        f'The environment variable {override.variable} is "{value}", which the policy does not '
        "know.",
        f"Set it to {forcing}"
        + (f", or to {neutral} for no override" if neutral else "")
        + ", or unset it.",
    )


def _knows(override: Override, plugin: Version | None) -> bool:
    """An unknown version counts as knowing the variable: it can only take concurrency away."""
    return plugin is None or _contains(override.plugin, plugin)


def _contains(specifier: str | None, version: Version | None) -> bool:
    if specifier is None:
        return True
    return version is not None and SpecifierSet(specifier).contains(version, prereleases=True)


def _version(text: str, of: str) -> Version:
    try:
        return Version(text)
    except ValueError:  # InvalidVersion is one; so is a number of too many digits
        raise InputError(
            f'"{text}" is not a version of a {of}.', 'Versions look like "1.24.4" or "0.5.0rc1".'
        ) from None
