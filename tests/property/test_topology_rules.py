"""Whole allocations on random networks, pod by pod the same as by the plain rules.

`python -m tests.property.test_topology_rules 1000 2000` tries these seeds.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import pytest

from swell.scheduler.plan import plan_schedule
from tests.property.plain_tree import Row
from tests.property.topology_rules import Allocation, Gang, Pod
from tests.scheduler_cases import config_of, objects_of

N_IN_MAKE_TEST = 300
BATCH = 100
GIB = "Gi"
GANG = ["JobOrder", "JobReady", "JobPipelined", "JobStarving"]
GANG += ["SubJobReady", "SubJobPipelined", "SubJobOrder"]
NETWORK = ["HyperNodeGradient", "HyperNodeOrder", "NodeOrder"]
TIERS = [
    [
        {"name": "gang", "enable": GANG},
        {"name": "predicates", "enable": ["Predicate"]},
        {"name": "network-topology-aware", "enable": NETWORK},
    ]
]


class _Network:
    """Nodes, and HyperNodes above them: of unequal depth, some of them contradictory."""

    def __init__(self, random: Random) -> None:
        self.nodes: list[Row] = []
        self.rows: list[Row] = []
        self._random = random
        tiers = random.choice([(1, 2, 3), (1, 2, 3), (2, 5, 6), (0, 1, 3)])
        for _ in range(random.randint(0, 2)):
            blocks = [self._block(tiers) for _ in range(random.randint(1, 2))]
            if random.random() < 0.5:
                self._domain(tiers[2], blocks)
        self._some_nodes(0 if self.nodes else 1, 2)
        for row in self.rows:
            self._contradict(row)

    def _block(self, tiers: tuple[int, int, int]) -> str:
        random = self._random
        racks = [
            self._domain(tiers[0], self._some_nodes(0, 3)) for _ in range(random.randint(1, 3))
        ]
        # Nodes right below a block, and a member that does not exist.
        racks += self._some_nodes(0, 1) if random.random() < 0.3 else []
        racks += ["gone"] if random.random() < 0.2 else []
        return self._domain(tiers[1], racks)

    def _some_nodes(self, least: int, most: int) -> list[str]:
        random, found = self._random, []
        for _ in range(random.randint(least, most)):
            # So that the order of names is not the order of racks.
            name = f"n{random.randint(0, 9)}-{len(self.nodes)}"
            self.nodes.append({"name": name, "size": (random.randint(1, 4), random.randint(2, 8))})
            found.append(name)
        return found

    def _domain(self, tier: int, members: list[str]) -> str:
        random = self._random
        row: Row = {"name": f"h{random.randint(0, 9)}-{len(self.rows)}", "tier": tier}
        row["members"] = members
        if random.random() < 0.4:
            row["tierName"] = random.choice(["rack", "block", f"t{tier}"])
        if random.random() < 0.3:
            row["created"] = f"2025-01-0{random.randint(1, 3)}T00:00:00Z"
        self.rows.append(row)
        return str(row["name"])

    def _contradict(self, row: Row) -> None:
        random = self._random
        if random.random() < 0.05:
            row["members"] = [*row["members"], random.choice(self.rows)["name"]]
        if random.random() < 0.05:
            row["members"] = [*row["members"], random.choice(self.nodes)["name"]]
        if random.random() < 0.03:
            row["tier"] = random.randint(0, 3)
        row["members"] = list(dict.fromkeys(row["members"])) or ["nobody"]


def random_topology(random: Random, tiers: list[int]) -> Row:
    kind = random.random()
    if kind < 0.2:
        return {"mode": "soft"}
    if kind < 0.35:
        return {"mode": "hard", "highestTierName": random.choice(["rack", "block", "none"])}
    if kind < 0.4:
        return {"mode": "hard"}
    return {"mode": "hard", "highestTier": random.choice(tiers)}


def random_gang(random: Random, name: str, tiers: list[int]) -> Gang:
    topology = random_topology(random, tiers) if random.random() < 0.75 else None
    policies: list[Row] = []
    for place in range(random.choice([0, 0, 1, 1, 2])):
        policy: Row = {"name": f"p{place}", "subGroupSize": random.randint(1, 3)}
        policy["minSubGroups"] = random.randint(0, 3)
        if random.random() < 0.8:
            policy["matchLabelKeys"] = ["part", f"in-{place}"]
        else:
            policy["labelSelector"] = {"matchLabels": {f"in-{place}": "yes"}}
        if random.random() < 0.8:
            policy["topology"] = random_topology(random, tiers)
        policies.append(policy)
    pods: list[Pod] = []
    for place, policy in enumerate(policies):
        size, has_keys = policy["subGroupSize"], "matchLabelKeys" in policy
        for part in range(max(policy["minSubGroups"], 1) if has_keys else 1):
            n = max(size + random.choice([0, 0, 0, 1, -1]), 1)
            value = str(part * 10) if has_keys else ""  # "10" sorts after "9" as a number only
            pods += [Pod("", (place, value), "") for _ in range(n)]
        if not has_keys:
            policy["minSubGroups"] = min(policy["minSubGroups"], 1)
    if not policies or random.random() < 0.3:
        pods += [Pod("", (-1, ""), "") for _ in range(random.randint(1, 6))]
    random.shuffle(pods)
    for index, pod in enumerate(pods):
        pod.name = f"{name}-w-{index}"
    request = (random.randint(1, 2), random.randint(1, 3))
    least = random.randint(1, len(pods))
    asked = None
    if random.random() < 0.3:
        asked = (request[0] * least, request[1] * random.randint(0, least))
    return Gang(name, least, topology, policies, pods, request, asked)


def start_some(random: Random, nodes: list[Row], gangs: list[Gang]) -> None:
    """Some pods run already, wherever there is room."""
    free = {row["name"]: list(row["size"]) for row in nodes}
    for gang in gangs:
        share = 0.9 if gang.name == "old" else random.choice([0, 0, 0, 0.3, 0.6])
        for pod in gang.pods:
            node = random.choice(nodes)["name"]
            has_room = all(free[node][k] >= gang.request[k] for k in (0, 1))
            if random.random() < share and has_room:
                pod.node = node
                for k in (0, 1):
                    free[node][k] -= gang.request[k]


def drawn(seed: int) -> tuple[Row, list[Gang]]:
    random = Random(seed)
    network = _Network(random)
    nodes, rows = network.nodes, network.rows
    tiers = sorted({row["tier"] for row in rows} | {0, 1, 2, 9})
    old = Gang("old", 1, None, [], [], (1, 2), None)
    old.pods = [Pod(f"old-w-{k}", (-1, ""), "") for k in range(random.randint(0, 6))]
    gangs = [random_gang(random, name, tiers) for name in "gh"[: random.randint(1, 2)]]
    start_some(random, nodes, [*gangs, old])
    old.pods = [pod for pod in old.pods if pod.node]
    old.least = len(old.pods)
    return {"nodes": nodes, "hyperNodes": rows}, [*gangs, old]


def as_case(network: Row, gangs: list[Gang]) -> Row:
    """Returns the rows of a recorded case."""
    nodes = [
        {
            "name": row["name"],
            "allocatable": {
                "cpu": str(row["size"][0]), "memory": f"{row['size'][1]}{GIB}", "pods": "110",
            },
        }
        for row in network["nodes"]
    ]  # fmt: skip
    return {
        "actions": ["allocate"],
        "tiers": TIERS,
        "nodes": nodes,
        "hyperNodes": network["hyperNodes"],
        "queues": [{"name": "q1", "weight": 1}],
        "podGroups": [_group_row(gang) for gang in gangs],
        "pods": [_pod_row(gang, pod) for gang in gangs for pod in gang.pods],
    }


def _group_row(gang: Gang) -> Row:
    row: Row = {
        "namespace": "ns", "name": gang.name, "queue": "q1", "minMember": gang.least,
        "phase": "Inqueue",
    }  # fmt: skip
    if gang.topology is not None:
        row["topology"] = gang.topology
    if gang.policies:
        row["subGroups"] = gang.policies
    if gang.asked is not None:
        row["minResources"] = {"cpu": str(gang.asked[0]), "memory": f"{gang.asked[1]}{GIB}"}
    return row


def _pod_row(gang: Gang, pod: Pod) -> Row:
    row: dict[str, Any] = {
        "namespace": "ns", "name": pod.name, "group": gang.name,
        "phase": "Running" if pod.node else "Pending",
        "requests": {"cpu": str(gang.request[0]), "memory": f"{gang.request[1]}{GIB}"},
    }  # fmt: skip
    if pod.node:
        row["node"] = pod.node
    place, value = pod.part
    if place >= 0:
        row["labels"] = {f"in-{place}": "yes", **({"part": value} if value else {})}
    return row


def difference(seed: int) -> str:
    """Returns how the decision differs from the plain rules; empty if it does not."""
    network, gangs = drawn(seed)
    case = as_case(network, gangs)
    plan = plan_schedule(objects_of(case), config_of(case))
    found = {task.pod.metadata.name: node for task, node in plan.binds.items()}
    expected = Allocation(network, gangs).run()
    return "" if found == expected else f"seed {seed}: expected {expected}, found {found}"


@pytest.mark.parametrize("start", range(0, N_IN_MAKE_TEST, BATCH))
def test_pods_get_the_nodes_of_the_plain_rules(start: int) -> None:
    assert [wrong for seed in range(start, start + BATCH) if (wrong := difference(seed))] == []


if __name__ == "__main__":
    seeds = range(int(sys.argv[1]), int(sys.argv[2]))
    wrong = [text for seed in seeds if (text := difference(seed))]
    sys.stdout.write("\n".join([*wrong, f"{len(wrong)} of {len(seeds)} wrong\n"]))
