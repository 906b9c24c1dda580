"""Rules that no plan may break, over random clusters and several configurations.

`python -m tests.property.test_scheduler_properties 5000` checks as many clusters as given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swell.scheduler import eviction_units, hooks
from swell.scheduler.config import DEFAULT, Arguments, Config, PluginOption
from swell.scheduler.model import affinity, nodes, tasks
from swell.scheduler.plan import SchedulerObjects, answer, plan_schedule
from swell.scheduler.plugins import priority
from tests.property.plan_checker import violations
from tests.property.scheduler_clusters import Traits, random_cluster, shuffled

CAPACITY = Config(
    actions=("enqueue", "reclaim", "allocate", "backfill", "preempt"),
    tiers=(
        (
            PluginOption("priority"),
            PluginOption("gang", {"enablePreemptable": False, "enableReclaimable": False}),
            PluginOption("conformance"),
            PluginOption("capacity"),
        ),
        (PluginOption("predicates"), PluginOption("nodeorder")),
    ),
)
SURPLUS_ONLY = replace(
    DEFAULT,
    tiers=(
        tuple(PluginOption(name) for name in ("priority", "gang", "drf", "proportion")),
        DEFAULT.tiers[1],
    ),
)
SPARING = replace(
    DEFAULT,
    action_arguments={"preempt": Arguments({"enableTopologyAwarePreemption": True})},
)
# With reclaim before allocate, siblings below a full parent take back from each other.
TREE = replace(
    CAPACITY,
    tiers=(
        (
            *CAPACITY.tiers[0][:3],
            PluginOption(
                "capacity", {"enableHierarchy": True}, Arguments({"ancestorReclaimLevel": 1})
            ),
        ),
        CAPACITY.tiers[1],
    ),
    action_arguments={"enqueue": Arguments({"countClaimable": True})},
)
CONFIGS = {
    "default": DEFAULT,
    "capacity": CAPACITY,
    "surplus only": SURPLUS_ONLY,
    "sparing": SPARING,
    "tree": TREE,
}
TRAITS = {"tree": Traits(tree=True)}
chances = st.randoms(use_true_random=False)


def problems(cluster: SchedulerObjects, config: Config, chance: Random) -> list[str]:
    decided = answer(plan_schedule(cluster, config))
    again = answer(plan_schedule(shuffled(cluster, chance), config))
    differs = ["the order of the input changes the answer"] if decided != again else []
    return violations(cluster, decided) + differs


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=60, deadline=None)
@given(chance=chances)
def test_plan_breaks_no_rule(name: str, chance: Random) -> None:
    """No plan over-commits, tears a gang, breaks a predicate or evicts for nothing."""
    cluster = random_cluster(chance, TRAITS.get(name, Traits()))

    assert problems(cluster, CONFIGS[name], Random(0)) == []


Plant = Callable[[pytest.MonkeyPatch], None]


def plant(target: object, name: str, value: object) -> Plant:
    return lambda patch: patch.setattr(target, name, value)


PREEMPT = sys.modules["swell.scheduler.actions.preempt"]
RECLAIM = sys.modules["swell.scheduler.actions.reclaim"]
# Bugs that only a tree of queues shows.
IN_A_TREE = frozenset({"victims of any queue free room below a parent"})
PLANTED: dict[str, tuple[str, Plant]] = {
    "pods are taken one by one": (
        "torn_victims",
        plant(PREEMPT, "eviction_units", eviction_units.single_task_units),
    ),
    "every job may be preempted": (
        "preempted_equals",
        plant(priority, "_may_give_way", lambda preemptor, job: True),
    ),
    "evictions for half a gang": (
        "evictions_without_effect",
        plant(hooks.Votes, "is_pipelined", lambda self, job: True),
    ),
    "half a gang is ready": ("torn_gangs", plant(hooks.Votes, "is_ready", lambda self, job: True)),
    "what nearly fits fits": ("overcommitted_nodes", plant(tasks, "TOLERANCE", 1500.0)),
    "ports are never taken": (
        "clashing_host_ports",
        plant(nodes.NodeTable, "port_is_free", lambda self, port, at_once: self.ready),
    ),
    "pod affinity is ignored": (
        "violated_anti_affinity",
        plant(affinity.AffinityIndex, "concerns", lambda self, task: False),
    ),
    "queues have no limit": (
        "exceeded_queues",
        plant(hooks.Votes, "allowance", lambda self, queue, shape, n: n),
    ),
    "victims of any queue free room below a parent": (
        "exceeded_parents",
        plant(RECLAIM, "is_allocatable", lambda session, task: True),
    ),
    "no pod is protected": (
        "protected_victims",
        plant(tasks, "_is_preemptable", lambda labels, notes: True),
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_checker_sees_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker finds each planted bug, so that finding nothing means something."""
    rule, do_plant = PLANTED[bug]
    do_plant(monkeypatch)

    traits, config = (TRAITS["tree"], TREE) if bug in IN_A_TREE else (Traits(), DEFAULT)
    clusters = (random_cluster(Random(seed), traits) for seed in range(400))
    found = (violations(cluster, answer(plan_schedule(cluster, config))) for cluster in clusters)

    assert any(problem.startswith(rule) for plan in found for problem in plan)


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for seed in range(n):
        for name, config in CONFIGS.items():
            cluster = random_cluster(Random(seed), TRAITS.get(name, Traits()))
            for problem in problems(cluster, config, Random(seed)):
                sys.stdout.write(f"seed {seed}, {name}: {problem}\n")
    sys.stdout.write(f"{n} clusters, {len(CONFIGS)} configurations looked at\n")
