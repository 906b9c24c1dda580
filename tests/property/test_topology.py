"""Gangs with a network topology, against plain rules that try every domain of a small tree.

`python -m tests.property.test_topology 5000` checks as many clusters as given.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import pytest

from swell.scheduler.config import DEFAULT, Config
from swell.scheduler.plan import plan_schedule
from tests.property.topology_reference import Row, fits, held_pods, is_allowed, random_case
from tests.scheduler_cases import objects_of
from tests.topology_clusters import with_labels

ALLOCATE = replace(DEFAULT, actions=("allocate",))
BY_LABELS = replace(with_labels("block, rack"), actions=("allocate",))
N_IN_MAKE_TEST = 400
BATCH = 100


def wrong_in(case: Row, config: Config = ALLOCATE) -> str:
    """Returns how the decision breaks the rules; empty if it does not."""
    objects = objects_of(case)
    if config is not ALLOCATE:
        objects.hyper_nodes.clear()  # the labels of the nodes say the same
    plan = plan_schedule(objects, config)
    bound = {task.pod.metadata.name: node for task, node in plan.binds.items()}
    group = next(g for g in case["podGroups"] if g["name"] == "g")
    mine = [pod for pod in case["pods"] if pod["group"] == "g"]
    n_running = len(held_pods(mine))
    if bound and not is_allowed(case, group, bound):
        return f"forbidden: {bound}"
    can_start = fits(case)
    if group["minMember"] > n_running and can_start != bool(bound):
        refusal = plan.groups["ns/g"].refusal
        return f"fits: {can_start}, bound: {bound}, {refusal}"
    if bound and len(bound) + n_running < group["minMember"]:
        return f"torn: {bound}"
    return ""


def labelled(case: Row, random: Random) -> Row:
    """Returns the case with blocks and racks of its nodes drawn anew, as HyperNodes and as labels.

    Racks of different blocks have the same names; some nodes have no labels, or not all.
    """
    members: dict[str, dict[str, None]] = {}
    nodes = []
    for place, row in enumerate(case["nodes"]):
        block, rack = f"b{random.randint(0, 1)}", f"r{random.randint(0, 1)}"
        labels = {"block": block, "rack": rack}
        if place and random.random() < 0.15:
            labels.pop(random.choice(["block", "rack"]))
        else:
            members.setdefault(block, {})[f"{block}-{rack}"] = None
            members.setdefault(f"{block}-{rack}", {})[row["name"]] = None
        nodes.append({**row, "labels": labels})
    rows = [
        {"name": name, "tier": tier, "tierName": ("rack", "block")[tier - 1], "members": [*found]}
        for name, found in members.items()
        for tier in (1 if "-" in name else 2,)
    ]
    return {**case, "nodes": nodes, "hyperNodes": rows}


def failing(seeds: range, *, by_labels: bool = False) -> list[str]:
    found = []
    for seed in seeds:
        random = Random(seed)
        case = random_case(random)
        wrong = wrong_in(labelled(case, random), BY_LABELS) if by_labels else wrong_in(case)
        if wrong:
            found.append(f"seed {seed}: {wrong}")
    return found


@pytest.mark.parametrize("start", range(0, N_IN_MAKE_TEST, BATCH))
def test_domains_are_kept_and_found(start: int) -> None:
    """No placement is forbidden, and none is missed that trying every domain finds."""
    assert failing(range(start, start + BATCH)) == []


@pytest.mark.parametrize("start", range(0, N_IN_MAKE_TEST // 2, BATCH))
def test_domains_of_labels_are_kept_and_found(start: int) -> None:
    """The same where labels of nodes describe the network."""
    assert failing(range(start, start + BATCH), by_labels=True) == []


if __name__ == "__main__":
    wrong = failing(range(int(sys.argv[1])))
    wrong += failing(range(int(sys.argv[1])), by_labels=True)
    sys.stdout.write("\n".join([*wrong, f"{len(wrong)} wrong\n"]))
