"""Every setting that a configuration accepts changes some plan, or is warned of.

The settings are those that the code knows, so a new one without an effect fails here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from swell.api.meta import ObjectMeta
from swell.api.times import parse_time
from swell.api.topology import HyperNode
from swell.scheduler.actions.preempt import TOPOLOGY_AWARE
from swell.scheduler.config import (
    COUNT_CLAIMABLE,
    DEFAULT,
    SWITCHES,
    Arguments,
    Config,
    PluginOption,
)
from swell.scheduler.config_file import ArgumentKind, parse
from swell.scheduler.cycle import KNOWN, run_cycle
from swell.scheduler.domain_claims import ALLOW_WHOLE, MAX_DOMAINS
from swell.scheduler.hooks import Hooks
from swell.scheduler.plan import SchedulerObjects, answer
from swell.scheduler.plugins import PLUGINS, network_topology
from swell.scheduler.session import Session
from tests.property.effect_clusters import cluster_of, is_networked
from tests.property.scheduler_clusters import BORN, GPU
from tests.scheduler_cases import SETTINGS, run

N_CLUSTERS = 600
# The clusters that showed the effects when they were last looked for: they are tried first.
SEEDS_PATH = Path(__file__).parents[1] / "data" / "config_effects.json"
SEEDS: dict[str, int] = json.loads(SEEDS_PATH.read_text(encoding="utf-8"))
NOW = parse_time(BORN) + 7200
NETWORK = network_topology.NAME
GANG = PluginOption("gang", {"enablePreemptable": False, "enableReclaimable": False})
# Values that differ from the default by as much as they can.
VALUES: dict[str, object] = {
    "ancestorReclaimLevel": 1,
    "binpack.weight": 50,
    "binpack.cpu": 50,
    "binpack.memory": 50,
    "binpack.resources": GPU,
    "binpack.resources.": 50,
    "gangpacking.weight": 0,
    "leastrequested.weight": 90,
    "mostrequested.weight": 90,
    "balancedresource.weight": 90,
    "nodeaffinity.weight": 90,
    "podaffinity.weight": 90,
    "tainttoleration.weight": 90,
    "weight": 0,
    "hypernode.binpack.cpu": 50,
    "hypernode.binpack.memory": 50,
    "hypernode.binpack.resources": GPU,
    "hypernode.binpack.resources.": 50,
    "hypernode.binpack.normal-pod.fading": 0,
    "hypernode.gradient.evict.max-hypernodes": 1,
    "topology.labels": "zone",
    "topology.labels.": "zone",
    "overcommit-factor": 1.0,
    "overCommitFactor": 1.0,
    "sla-waiting-time": "1h",
}
# Arguments that mean something only beside others.
BESIDE: dict[str, dict[str, object]] = {
    "binpack.resources.": {"binpack.resources": GPU},
    "hypernode.binpack.resources.": {"hypernode.binpack.resources": GPU},
}
# Switches whose hook forbids nothing that another one of the plugin would allow.
WITHOUT: dict[tuple[str, str], dict[str, bool]] = {
    ("proportion", "enabledOverused"): {"enabledAllocatable": False},
    ("proportion", "enablePreemptive"): {"enabledAllocatable": False, "enabledOverused": False},
}


def _seeds(setting: str) -> Iterator[int]:
    """The seeds of all clusters: the one that is known to show the effect, then likely ones."""
    if setting in SEEDS:
        yield SEEDS[setting]
    is_about_networks = any(word in setting for word in (NETWORK, "SubJob", "HyperNode"))
    yield from sorted(range(N_CLUSTERS), key=lambda seed: is_networked(seed) != is_about_networks)


def _configs(option: PluginOption) -> Iterator[Config]:
    """Configurations in which the plugin has much to say: among all others, and among few."""
    rest = tuple(PluginOption(name) for name in ("conformance", "predicates"))
    if option.name == NETWORK:
        yield Config(("allocate",), ((option,),))
    else:
        rest = (*rest, PluginOption(NETWORK))
    yield replace(DEFAULT, tiers=((option, PluginOption("priority"), GANG, *rest),))
    actions = ("enqueue", "reclaim", "allocate", "backfill", "preempt")
    yield Config(actions, ((option, PluginOption("priority"), *rest),))
    yield Config(actions, ((option,), (GANG, PluginOption("proportion"))))
    yield Config(("allocate",), ((option, PluginOption("nodeorder")),))
    # Preempt and reclaim ask plugins that call a job starving.
    starving = PluginOption("gang", {"enablePreemptable": False, "enableJobPipelined": False})
    yield Config(("allocate", "reclaim", "preempt"), ((option, starving, *rest),))


def _decisions(objects: SchedulerObjects, config: Config) -> object:
    found = answer(run_cycle(objects.snapshot(), config, NOW))
    groups = found.pop("podGroups")
    assert isinstance(groups, dict)
    return found, {key: status["phase"] for key, status in groups.items()}


def _first_difference(setting: str, pairs: list[tuple[Config, Config]]) -> int | None:
    """The seed of a cluster that gets another plan with the one than with the other."""
    for seed in _seeds(setting):
        objects = cluster_of(seed)
        if any(_decisions(objects, left) != _decisions(objects, right) for left, right in pairs):
            return seed
    return None


def _differ(one: PluginOption, other: PluginOption, setting: str) -> bool:
    pairs = list(zip(_configs(one), _configs(other), strict=True))
    return _first_difference(f"{one.name} {setting}", pairs) is not None


# Settings with a recorded cluster that shows their effect: `test_recorded_settings`.
RECORDED = {
    name for path in SETTINGS for name in json.loads(path.read_text(encoding="utf-8"))["settings"]
}
EFFECTIVE_SWITCHES = [
    (plugin, switch)
    for plugin, known in KNOWN.plugins.items()
    for switch in (*known.switches, *known.hierarchical)
]
# It is about time and not about places: `test_preparer` shows it.
BIND_TIMEOUT = "volumebinding.bindTimeoutSeconds"
EFFECTIVE_ARGUMENTS = [
    (plugin, name)
    for plugin, known in KNOWN.plugins.items()
    for name in known.arguments
    if name != BIND_TIMEOUT and f"{plugin} {name}" not in RECORDED
]


@pytest.mark.parametrize(
    ("plugin", "switch"), [one for one in EFFECTIVE_SWITCHES if " ".join(one) not in RECORDED]
)
def test_switch_changes_a_plan(plugin: str, switch: str) -> None:
    """A switch that is accepted without a warning makes a difference when it is turned."""
    others = dict(WITHOUT.get((plugin, switch), {}))
    if switch in KNOWN.plugins[plugin].hierarchical:
        others["enableHierarchy"] = True

    assert _differ(
        PluginOption(plugin, {**others, switch: True}),
        PluginOption(plugin, {**others, switch: False}),
        switch,
    )


@pytest.mark.parametrize(("plugin", "name"), EFFECTIVE_ARGUMENTS)
def test_argument_changes_a_plan(plugin: str, name: str) -> None:
    """An argument that is accepted without a warning makes a difference to its absence."""
    is_flag = KNOWN.plugins[plugin].arguments[name] is ArgumentKind.FLAG
    value = False if is_flag else VALUES[name]
    full = f"{name}{GPU}" if name.endswith(".") else name
    beside = BESIDE.get(name, {})
    tree = {"enableHierarchy": True} if plugin == "capacity" else {}

    assert _differ(
        PluginOption(plugin, tree, Arguments(beside)),
        PluginOption(plugin, tree, Arguments({**beside, full: value})),
        name,
    )


def test_admission_that_counts_victims_changes_a_plan() -> None:
    """The argument of enqueue: a full queue admits a job that could make room."""
    yes, no = (
        replace(DEFAULT, action_arguments={"enqueue": Arguments({COUNT_CLAIMABLE: value})})
        for value in (True, False)
    )

    assert _first_difference("enqueue", [(yes, no)]) is not None


@pytest.mark.parametrize(("value", "evicted"), [(True, ["big"]), (False, ["big", "small"])])
def test_preemption_that_spares_changes_a_plan(value: bool, evicted: list[str]) -> None:
    """The argument of preempt: a victim that turns out not to be needed stays."""
    node = {"name": "n", "allocatable": {"cpu": "5", "memory": "8Gi", "pods": "9"}}
    rows = [("small", 1, "low"), ("big", 4, "middle"), ("new", 4, "high")]
    case = {
        "actions": ["preempt"],
        "actionArgs": {"preempt": {TOPOLOGY_AWARE: value}},
        "tiers": [[{"name": "priority", "enable": ["Preemptable", "JobOrder", "JobStarving"]}]],
        "priorityClasses": {"low": {"value": 1}, "middle": {"value": 2}, "high": {"value": 3}},
        "nodes": [node],
        "queues": [{"name": "q", "weight": 1}],
        "podGroups": [
            {"namespace": "ns", "name": name, "queue": "q", "minMember": 1, "phase": "Running"}
            | {"priorityClassName": priority}
            for name, _, priority in rows
        ],
        "pods": [
            {"namespace": "ns", "name": name, "group": name, "requests": {"cpu": str(cpu)}}
            | ({"phase": "Pending"} if name == "new" else {"phase": "Running", "node": "n"})
            for name, cpu, _ in rows
        ],
    }
    gone = [eviction.task.pod.metadata.name for eviction in run(case).plan.evictions]

    assert sorted(gone) == evicted


NETWORK_ARGUMENTS = [
    (action, name, value)
    for action in ("preempt", "reclaim")
    for name, value in ((MAX_DOMAINS, 1), (ALLOW_WHOLE, False))
]


@pytest.mark.parametrize(("action", "name", "value"), NETWORK_ARGUMENTS)
def test_argument_of_claims_changes_a_plan(action: str, name: str, value: object) -> None:
    """The arguments of preempt and reclaim that are about gangs and domains."""
    given = {action: Arguments({name: value})}
    pairs = [
        (config, replace(config, action_arguments=given))
        for config in _configs(PluginOption(NETWORK))
        if action in config.actions
    ]

    assert _first_difference(f"{NETWORK} {action} {name}", pairs) is not None


def test_actions_have_no_other_arguments() -> None:
    """A new argument of an action needs a test like the three above."""
    names = {(action, name) for action, known in KNOWN.actions.items() for name in known}
    tested = {(action, name) for action, name, _ in NETWORK_ARGUMENTS}

    assert names == {("enqueue", COUNT_CLAIMABLE), ("preempt", TOPOLOGY_AWARE), *tested}


@pytest.mark.parametrize("plugin", KNOWN.plugins)
def test_switches_without_effect_are_warned_of(plugin: str) -> None:
    """One warning names the plugin and the switch, and the rest of the file stays in force."""
    idle = [switch for switch in SWITCHES if (plugin, switch) not in EFFECTIVE_SWITCHES]
    for switch, value in product(idle, (True, False)):
        row = {"name": plugin, switch: value}
        parsed = parse({"tiers": [{"plugins": [row, {"name": "gang"}]}]}, KNOWN)

        begins = f"plugin {plugin}: switch {switch!r} has no effect: "
        assert [one.startswith(begins) for one in parsed.warnings] == [True], (switch, value)
        assert [option.name for option in parsed.config.tiers[0]] == [plugin, "gang"]


HOOKS = {
    "job_key": "enableJobOrder", "queue_key": "enableQueueOrder", "task_key": "enableTaskOrder",
    "shortfall": "enableJobReady", "pipelined": "enableJobPipelined",
    "starving": "enableJobStarving", "enqueueable": "enableJobEnqueued",
    "overused": "enabledOverused", "allowance": "enabledAllocatable",
    "preemptive": "enablePreemptive", "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable", "shuffle_victims": "enabledVictim",
    "node_filter": "enablePredicate", "load_score": "enableNodeOrder",
    "usable_room": "enablePredicate", "relative_score": "enableNodeOrder",
    "queue_filter": "enablePredicate", "queue_score": "enableNodeOrder",
    "gathering_score": "enableNodeOrder", "offers_gradients": "enabledHyperNodeGradient",
    "domain_score": "enabledHyperNodeOrder", "sub_group_shortfall": "enabledSubJobReady",
    "sub_group_pipelined": "enabledSubJobPipelined", "sub_group_key": "enabledSubJobOrder",
}  # fmt: skip


# Arguments without which a plugin has not all of its hooks.
NEEDED: dict[str, dict[str, object]] = {
    "resource-strategy-fit": {"proportional": {"enable": True, "resources": GPU}},
}


@pytest.mark.parametrize("plugin", KNOWN.plugins)
@pytest.mark.parametrize("is_tree", [True, False])
def test_switches_are_those_of_the_hooks(plugin: str, is_tree: bool) -> None:
    """A plugin accepts exactly the switches of the hooks that it registers."""
    network = SchedulerObjects(hyper_nodes=[HyperNode(ObjectMeta(name="leaf"))])
    session = Session(network.snapshot(), DEFAULT, PLUGINS)
    arguments = Arguments(NEEDED.get(plugin, {}))
    option = PluginOption(plugin, {"enableHierarchy": is_tree}, arguments)
    hooks: Hooks = PLUGINS[plugin](session, option)
    known = KNOWN.plugins[plugin]
    expected = {switch for name, switch in HOOKS.items() if getattr(hooks, name)}

    assert expected == {*known.switches, *(known.hierarchical if is_tree else ())} - {
        "enableHierarchy"
    }
