"""Every setting that a configuration accepts changes some plan, or is warned of.

The settings are those that the code knows, so a new one without an effect fails here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from msgspec.structs import replace as changed

from swell.api import codec
from swell.api.core import Node, Taint
from swell.api.meta import Body
from swell.api.pod import Affinity, NodeAffinity, Pod
from swell.api.policy import PodDisruptionBudget
from swell.api.scheduling import PodGroup, Queue
from swell.api.storage import PersistentVolumeClaim
from swell.api.times import parse_time
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
from swell.scheduler.hooks import Hooks
from swell.scheduler.plan import SchedulerObjects, answer
from swell.scheduler.plugins import PLUGINS
from swell.scheduler.session import Session
from tests.property.scheduler_clusters import BORN, GPU, Traits, random_cluster
from tests.scheduler_cases import run

N_CLUSTERS = 600
NOW = parse_time(BORN) + 7200
GANG = PluginOption("gang", {"enablePreemptable": False, "enableReclaimable": False})
# Values that differ from the default by as much as they can.
VALUES: dict[str, object] = {
    "ancestorReclaimLevel": 1,
    "binpack.weight": 50,
    "binpack.cpu": 50,
    "binpack.memory": 50,
    "binpack.resources": GPU,
    "binpack.resources.": 50,
    "leastrequested.weight": 90,
    "mostrequested.weight": 90,
    "balancedresource.weight": 90,
    "nodeaffinity.weight": 90,
    "podaffinity.weight": 90,
    "tainttoleration.weight": 90,
    "overcommit-factor": 1.0,
    "overCommitFactor": 1.0,
    "sla-waiting-time": "1h",
}
# Arguments that mean something only beside others.
BESIDE: dict[str, dict[str, object]] = {"binpack.resources.": {"binpack.resources": GPU}}
# Switches whose hook forbids nothing that another one of the plugin would allow.
WITHOUT: dict[tuple[str, str], dict[str, bool]] = {
    ("proportion", "enabledOverused"): {"enabledAllocatable": False},
    ("proportion", "enablePreemptive"): {"enabledAllocatable": False, "enabledOverused": False},
}


def _clusters() -> Iterator[SchedulerObjects]:
    """Random clusters with everything that any plugin looks at."""
    for seed in range(N_CLUSTERS):
        chance = Random(seed)
        objects = random_cluster(chance, Traits(tree=chance.random() < 0.3))
        objects.nodes = [_disliked(chance, node) for node in objects.nodes]
        objects.pods = [_picky(chance, pod) for pod in objects.pods]
        objects.queues = [_in_a_tree(chance, queue) for queue in objects.queues]
        objects.groups = [_urgent(chance, group) for group in objects.groups]
        for label in "uv":
            body: Body = {
                "metadata": {"name": label, "namespace": "ns"},
                "spec": {"selector": {"matchLabels": {"app": label}}},
                "status": {"disruptionsAllowed": chance.randint(0, 2)},
            }
            objects.budgets.append(codec.convert(body, PodDisruptionBudget))
        claim: Body = {"metadata": {"name": "data", "namespace": "ns"}}
        objects.claims.append(codec.convert(claim, PersistentVolumeClaim))
        yield objects


def _disliked(chance: Random, node: Node) -> Node:
    if chance.random() < 0.6:
        return node
    taints = (*node.spec.taints, Taint(key="rather-not", effect="PreferNoSchedule"))
    return changed(node, spec=changed(node.spec, taints=taints))


def _picky(chance: Random, pod: Pod) -> Pod:
    """Adds preferences, a volume claim, or a priority that protects the pod."""
    spec = pod.spec
    if spec.node_name:
        critical = "system-node-critical" if chance.random() < 0.15 else ""
        return changed(pod, spec=changed(spec, priority_class_name=critical))
    if chance.random() < 0.3:
        term: Body = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        rule = {"weight": 10, "preference": term}
        body = {"preferredDuringSchedulingIgnoredDuringExecution": [rule]}
        affinity = spec.affinity or Affinity()
        spec = changed(
            spec, affinity=changed(affinity, node_affinity=codec.convert(body, NodeAffinity))
        )
    elif chance.random() < 0.3 and spec.affinity is None:
        near: Body = {
            "weight": 10,
            "podAffinityTerm": {
                "topologyKey": "zone",
                "labelSelector": {"matchLabels": {"app": "u"}},
            },
        }
        nearness = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near]}}
        spec = changed(spec, affinity=codec.convert(nearness, Affinity))
    if chance.random() < 0.1:
        claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
        spec = changed(spec, volumes=codec.convert(claim, type(spec)).volumes)
    return changed(pod, spec=spec)


def _in_a_tree(chance: Random, queue: Queue) -> Queue:
    path = f"root/{chance.choice('xy')}/{queue.metadata.name}"
    notes = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": "1/1/2"}
    return changed(queue, metadata=changed(queue.metadata, annotations=notes))


def _urgent(chance: Random, group: PodGroup) -> PodGroup:
    if chance.random() < 0.7:
        return group
    notes = {"volcano.sh/sla-waiting-time": chance.choice(["10m", "5h"])}
    return changed(group, metadata=changed(group.metadata, annotations=notes))


@cache
def _all_clusters() -> tuple[SchedulerObjects, ...]:
    return tuple(_clusters())


def _configs(option: PluginOption) -> Iterator[Config]:
    """Configurations in which the plugin has much to say: among all others, and among few."""
    rest = tuple(PluginOption(name) for name in ("conformance", "predicates"))
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


def _differ(one: PluginOption, other: PluginOption) -> bool:
    """Whether some cluster gets another plan with the one than with the other."""
    pairs = list(zip(_configs(one), _configs(other), strict=True))
    return any(
        _decisions(objects, left) != _decisions(objects, right)
        for objects in _all_clusters()
        for left, right in pairs
    )


EFFECTIVE_SWITCHES = [
    (plugin, switch)
    for plugin, known in KNOWN.plugins.items()
    for switch in (*known.switches, *known.hierarchical)
]
EFFECTIVE_ARGUMENTS = [
    (plugin, name) for plugin, known in KNOWN.plugins.items() for name in known.arguments
]


@pytest.mark.parametrize(("plugin", "switch"), EFFECTIVE_SWITCHES)
def test_switch_changes_a_plan(plugin: str, switch: str) -> None:
    """A switch that is accepted without a warning makes a difference when it is turned."""
    others = dict(WITHOUT.get((plugin, switch), {}))
    if switch in KNOWN.plugins[plugin].hierarchical:
        others["enableHierarchy"] = True

    assert _differ(
        PluginOption(plugin, {**others, switch: True}),
        PluginOption(plugin, {**others, switch: False}),
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
    )


def test_admission_that_counts_victims_changes_a_plan() -> None:
    """The argument of enqueue: a full queue admits a job that could make room."""
    plans = [
        replace(DEFAULT, action_arguments={"enqueue": Arguments({COUNT_CLAIMABLE: value})})
        for value in (True, False)
    ]

    assert any(
        _decisions(objects, plans[0]) != _decisions(objects, plans[1])
        for objects in _all_clusters()
    )


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


def test_actions_have_no_other_arguments() -> None:
    """A new argument of an action needs a test like the two above."""
    names = [(action, name) for action, known in KNOWN.actions.items() for name in known]

    assert names == [("enqueue", COUNT_CLAIMABLE), ("preempt", TOPOLOGY_AWARE)]


IDLE_SWITCHES = [
    (plugin, switch)
    for plugin in KNOWN.plugins
    for switch in SWITCHES
    if (plugin, switch) not in EFFECTIVE_SWITCHES
]


@pytest.mark.parametrize(("plugin", "switch"), IDLE_SWITCHES)
@pytest.mark.parametrize("value", [True, False])
def test_switch_without_effect_is_warned_of(plugin: str, switch: str, value: bool) -> None:
    """One warning names the plugin and the switch, and the rest of the file stays in force."""
    row = {"name": plugin, switch: value}
    parsed = parse({"tiers": [{"plugins": [row, {"name": "gang"}]}]}, KNOWN)

    assert len(parsed.warnings) == 1
    assert parsed.warnings[0].startswith(f"plugin {plugin}: switch {switch!r} has no effect: ")
    assert [option.name for option in parsed.config.tiers[0]] == [plugin, "gang"]


HOOKS = {
    "job_key": "enableJobOrder", "queue_key": "enableQueueOrder", "task_key": "enableTaskOrder",
    "shortfall": "enableJobReady", "pipelined": "enableJobPipelined",
    "starving": "enableJobStarving", "enqueueable": "enableJobEnqueued",
    "overused": "enabledOverused", "allowance": "enabledAllocatable",
    "preemptive": "enablePreemptive", "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable", "shuffle_victims": "enabledVictim",
    "node_filter": "enablePredicate", "load_score": "enableNodeOrder",
}  # fmt: skip


@pytest.mark.parametrize("plugin", KNOWN.plugins)
@pytest.mark.parametrize("is_tree", [True, False])
def test_switches_are_those_of_the_hooks(plugin: str, is_tree: bool) -> None:
    """A plugin accepts exactly the switches of the hooks that it registers."""
    session = Session(SchedulerObjects().snapshot(), DEFAULT, PLUGINS)
    hooks: Hooks = PLUGINS[plugin](session, PluginOption(plugin, {"enableHierarchy": is_tree}))
    known = KNOWN.plugins[plugin]
    expected = {switch for name, switch in HOOKS.items() if getattr(hooks, name) is not None}

    assert expected == {*known.switches, *(known.hierarchical if is_tree else ())} - {
        "enableHierarchy"
    }
