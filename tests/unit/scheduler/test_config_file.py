"""Settings without effect: one warning each, and the rest of the file stays in force."""

from __future__ import annotations

from typing import Any

import pytest

from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN
from swell.scheduler.plugins import INSTEAD, PLUGINS


def _of_plugin(name: str, arguments: dict[str, Any], **switches: bool) -> tuple[str, ...]:
    row = {"name": name, "arguments": arguments, **switches}
    parsed = parse({"tiers": [{"plugins": [row, {"name": "gang"}]}]}, KNOWN)
    assert [option.name for option in parsed.config.tiers[0]] == [name, "gang"]
    return parsed.warnings


IDLE = [(plugin, name) for plugin, known in KNOWN.plugins.items() for name in known.idle]


@pytest.mark.parametrize(("plugin", "name"), IDLE)
def test_argument_of_volcano_without_effect_is_warned_of(plugin: str, name: str) -> None:
    """The warning names plugin and argument, and says what to do instead if there is something."""
    full = f"{name}more" if name.endswith(".") else name
    (warning,) = _of_plugin(plugin, {full: "1"})
    instead = KNOWN.plugins[plugin].idle[name]

    assert warning == f"plugin {plugin}: argument {full!r} has no effect" + (
        f": {instead}" if instead else ""
    )


def test_cache_of_predicates_is_accepted_silently() -> None:
    """Answers are always remembered by shape, so asking for it or not makes no difference."""
    assert _of_plugin("predicates", {"predicate.CacheEnable": True}) == ()
    assert _of_plugin("predicates", {"predicate.CacheEnable": "false"}) == ()


@pytest.mark.parametrize(
    ("plugin", "arguments", "expected"),
    [
        ("nodeorder", {"leastrequested.weight": "lots"}, "'lots' is not a number"),
        ("nodeorder", {"leastrequested.weight": True}, None),
        ("nodeorder", {"leastrequested.weight": "nan"}, "'nan' is not a number"),
        ("predicates", {"predicate.NodePortsEnable": "maybe"}, "'maybe' is not true or false"),
        ("predicates", {"predicate.NodePortsEnable": "FALSE"}, None),
        ("binpack", {"binpack.resources": ["a"]}, "['a'] is not a text"),
        ("binpack", {"binpack.cpu": -1}, "-1 is negative, and counts as 1"),
        ("binpack", {"binpack.resources.x": 2}, "list x in 'binpack.resources' as well"),
        ("binpack", {"binpack.resources": "x", "binpack.resources.x": 2}, None),
        ("overcommit", {"overcommit-factor": 0.5}, "0.5 is below 1, so 1.2 is used"),
        ("sla", {"sla-waiting-time": "soon"}, "'soon' is no duration like 1h30m"),
        ("sla", {"sla-waiting-time": "1h30m"}, None),
    ],
)
def test_value_without_effect_is_warned_of(
    plugin: str, arguments: dict[str, Any], expected: str | None
) -> None:
    """A value that cannot be used is left out, and the default stays in force."""
    warnings = _of_plugin(plugin, arguments)
    name = list(arguments)[-1]

    assert warnings == (
        (f"plugin {plugin}: argument {name!r} has no effect: {expected}",) if expected else ()
    )


def test_argument_of_the_tree_needs_the_tree() -> None:
    """Without enableHierarchy the level of ancestors means nothing."""
    text = "plugin capacity: argument 'ancestorReclaimLevel' has no effect without enableHierarchy"

    assert _of_plugin("capacity", {"ancestorReclaimLevel": 1}) == (text,)
    assert _of_plugin("capacity", {"ancestorReclaimLevel": 1}, enableHierarchy=True) == ()


def test_switch_of_a_hook_that_only_a_tree_has_needs_the_tree() -> None:
    """Flat drf neither orders queues nor reclaims."""
    text = "plugin drf: switch 'enableQueueOrder' has no effect: the plugin has this hook only"

    assert _of_plugin("drf", {}, enableQueueOrder=False) == (f"{text} with enableHierarchy",)
    assert _of_plugin("drf", {}, enableQueueOrder=False, enableHierarchy=True) == ()


@pytest.mark.parametrize("name", [*INSTEAD, "proportoin", "horoscope"])
def test_plugin_that_is_not_here_is_warned_of(name: str) -> None:
    """The alternative is named, or what may have been meant."""
    parsed = parse({"tiers": [{"plugins": [{"name": name}, {"name": "gang"}]}]}, KNOWN)
    more = {"proportoin": ": did you mean 'proportion'?", "horoscope": ""}
    expected = more.get(name, f": {INSTEAD.get(name)}")

    assert name not in PLUGINS
    assert parsed.warnings == (f"unknown plugin {name!r} is ignored{expected}",)
    assert [option.name for option in parsed.config.tiers[0]] == ["gang"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"metrics": {"type": "prometheus"}}, "field 'metrics' has no effect: no plugin reads"),
        ({"tier": []}, "unknown field 'tier' is ignored: did you mean 'tiers'?"),
        ({"tiers": [{"plugin": []}]}, "a tier: unknown field 'plugin' is ignored: did you mean"),
        (
            {"actions": "allocate, preempt, gangpreempt"},
            "action 'gangpreempt' is ignored: it is another name for 'preempt'",
        ),
        (
            {"configurations": [{"name": "shuffle", "arguments": {}}]},
            "configuration of 'shuffle' has no effect: it is not among the actions",
        ),
        (
            {"configurations": [{"name": "reclaim", "argument": {}}]},
            "configuration of 'reclaim': unknown field 'argument' is ignored: did you mean",
        ),
        (
            {"configurations": [{"name": "enqueue", "arguments": {"overcommit-factor": 2}}]},
            "action enqueue: unknown argument 'overcommit-factor' is ignored: use the plugin",
        ),
        (
            {
                "configurations": [
                    {"name": "preempt", "arguments": {"minCandidateNodesAbsolute": 2}}
                ]
            },
            "action preempt: unknown argument 'minCandidateNodesAbsolute' is ignored: all nodes",
        ),
        (
            {
                "actions": "enqueue, allocate",
                "configurations": [{"name": "enqueue", "arguments": {"countClaimable": True}}],
            },
            "action enqueue: argument 'countClaimable' has no effect: neither preempt nor reclaim",
        ),
    ],
)
def test_field_without_effect_is_warned_of(body: dict[str, Any], expected: str) -> None:
    """Each is named once, with what to do instead."""
    (warning,) = parse(body, KNOWN).warnings

    assert warning.startswith(expected)


def test_same_warning_is_given_once() -> None:
    """A plugin that is named in two tiers is one warning."""
    row = {"plugins": [{"name": "tdm"}]}

    assert len(parse({"tiers": [row, row]}, KNOWN).warnings) == 1
