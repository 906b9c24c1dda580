"""Plain rules of network topology, by trying every domain; and random small trees to try them on.

A gang of equal pods fits a domain if the domain's nodes have as many slots as pods are missing.
No arrays, no order, no scores: only whether there is a domain at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

Row = dict[str, Any]
CPU = 1  # what one pod asks for


@dataclass
class PlainTree:
    """The domains by name, each with its tier and the names of its nodes; the root included."""

    tiers: dict[str, int]
    nodes: dict[str, set[str]]

    def allowed(self, limit: int | None, holding: set[str]) -> list[str]:
        """The domains within a limit that have all these nodes."""
        return [
            name
            for name, tier in self.tiers.items()
            if (limit is None or tier <= limit) and holding <= self.nodes[name]
        ]


def plain_tree(case: Row) -> PlainTree:
    rows = {row["name"]: row for row in case["hyperNodes"]}

    def below(name: str) -> set[str]:
        found: set[str] = set()
        for member in rows[name]["members"]:
            found |= below(member) if member in rows else {member}
        return found

    known = {row["name"] for row in case["nodes"]}
    tiers = {name: row["tier"] for name, row in rows.items()}
    nodes = {name: below(name) & known for name in rows}
    tiers["root"], nodes["root"] = max(tiers.values(), default=0) + 1, known
    return PlainTree(tiers, nodes)


def free_slots(case: Row) -> dict[str, int]:
    free = {row["name"]: int(row["allocatable"]["cpu"]) for row in case["nodes"]}
    for pod in case["pods"]:
        if pod.get("node"):
            free[pod["node"]] -= CPU
    return free


def limit_of(case: Row, topology: Row | None, soft: int) -> int | None:
    if topology is None:
        return None
    if topology["mode"] == "soft":
        return soft
    if "highestTierName" in topology:
        named = {row.get("tierName"): row["tier"] for row in case["hyperNodes"]}
        return named.get(topology["highestTierName"])
    return topology.get("highestTier")


def fits(case: Row) -> bool:
    """Whether the pending gang of a case can start: the whole missing minimum, somewhere."""
    tree, free = plain_tree(case), free_slots(case)
    group = next(g for g in case["podGroups"] if g["name"] == "g")
    mine = [pod for pod in case["pods"] if pod["group"] == "g"]
    held = {pod["node"] for pod in mine if pod.get("node")}
    limit = limit_of(case, group.get("topology"), tree.tiers["root"])
    domains = tree.allowed(limit, held)
    if "subGroups" in group:
        return any(_parts_fit(case, tree, free, group, limit, name) for name in domains)
    missing = group["minMember"] - len(held_pods(mine))
    return any(sum(free[node] for node in tree.nodes[name]) >= missing for name in domains)


def held_pods(pods: list[Row]) -> list[Row]:
    return [pod for pod in pods if pod.get("node")]


def _parts_fit(
    case: Row, tree: PlainTree, free: dict[str, int], group: Row, limit: int | None, inside: str
) -> bool:
    """Whether as many equal sub-groups fit into a domain as must start together."""
    (policy,) = group["subGroups"]
    soft = tree.tiers["root"] if limit is None else limit
    own = limit_of(case, policy.get("topology"), soft)
    narrow = [
        name
        for name in tree.allowed(own, set())
        if own is not None and tree.nodes[name] <= tree.nodes[inside]
    ] or ([inside] if own is None else [])
    # The widest of these count: a sub-group may use all of one, and never two of them.
    widest = [
        name for name in narrow if not any(tree.nodes[name] < tree.nodes[other] for other in narrow)
    ]
    distinct = {frozenset(tree.nodes[name]) for name in widest}
    size = policy["subGroupSize"]
    n = sum(sum(free[node] for node in nodes) // size for nodes in distinct)
    return bool(n >= policy["minSubGroups"])


def is_allowed(case: Row, group: Row, nodes: dict[str, str]) -> bool:
    """Whether pods of a group on these nodes, with those that run, keep its constraints."""
    tree = plain_tree(case)
    at = {
        pod["name"]: pod["node"]
        for pod in case["pods"]
        if pod["group"] == group["name"] and pod.get("node")
    } | nodes
    limit = limit_of(case, group.get("topology"), tree.tiers["root"])
    if not tree.allowed(limit, set(at.values())):
        return False
    if "subGroups" not in group:
        return True
    (policy,) = group["subGroups"]
    own = limit_of(case, policy.get("topology"), tree.tiers["root"])
    parts: dict[str, set[str]] = {}
    for pod in case["pods"]:
        if pod["name"] in at and pod["group"] == group["name"]:
            parts.setdefault(pod["labels"]["part"], set()).add(at[pod["name"]])
    return all(tree.allowed(own, held) for held in parts.values())


# --- random cases


def random_case(chance: Random) -> Row:
    """A tree of up to three tiers, some pods that run, and one gang that waits."""
    n_racks = chance.randint(1, 5)
    nodes, hyper_nodes = [], []
    for rack in range(n_racks):
        names = [f"n{n}-r{rack}" for n in range(chance.randint(0, 3))]
        nodes += names
        members = [*names, *([f"gone-{rack}"] if chance.random() < 0.2 or not names else [])]
        hyper_nodes.append({"name": f"r{rack}", "tier": 1, "tierName": "rack", "members": members})
    per_block = chance.randint(1, 3)
    for block in range(n_racks // per_block):
        members = [f"r{block * per_block + k}" for k in range(per_block)]
        hyper_nodes.append({"name": f"b{block}", "tier": 2, "members": members})
    nodes += [f"out-{n}" for n in range(chance.randint(0, 2))]
    chance.shuffle(hyper_nodes)
    case: Row = {
        "nodes": [_node(name, chance.randint(1, 4)) for name in nodes or ["out-0"]],
        "hyperNodes": hyper_nodes if chance.random() < 0.95 else [],
        "queues": [{"name": "q1", "weight": 1}],
        "podGroups": [],
        "pods": [],
    }
    _add_running(case, chance)
    _add_gang(case, chance)
    return case


def _node(name: str, cpu: int) -> Row:
    return {"name": name, "allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}}


def _add_running(case: Row, chance: Random) -> None:
    case["podGroups"].append(_group("old", 1))
    for row in case["nodes"]:
        for _ in range(chance.randint(0, int(row["allocatable"]["cpu"]))):
            if chance.random() < 0.4:
                case["pods"].append(_pod("old", len(case["pods"]), node=row["name"]))


def _add_gang(case: Row, chance: Random) -> None:
    topology = _topology(chance)
    if chance.random() < 0.35:
        size, n = chance.randint(1, 3), chance.randint(1, 3)
        policy = {
            "name": "part", "matchLabelKeys": ["part"], "subGroupSize": size, "minSubGroups": n,
            "topology": _topology(chance),
        }  # fmt: skip
        group = _group("g", size * n, subGroups=[policy])
        for part in range(n):
            for _ in range(size):
                case["pods"].append(_pod("g", len(case["pods"]), labels={"part": str(part)}))
    else:
        n = chance.randint(1, 8)
        group = _group("g", chance.randint(1, n))
        for _ in range(n):
            case["pods"].append(_pod("g", len(case["pods"])))
        _start_some(case, chance)
    if topology is not None and chance.random() < 0.9:
        group["topology"] = topology
    case["podGroups"].append(group)


def _start_some(case: Row, chance: Random) -> None:
    """Some pods of the gang run already, wherever it was."""
    if chance.random() < 0.7:
        return
    free = free_slots(case)
    open_nodes = [name for name, n in free.items() if n > 0]
    for pod in [pod for pod in case["pods"] if pod["group"] == "g"][: chance.randint(1, 2)]:
        if open_nodes:
            pod["node"], pod["phase"] = open_nodes.pop(0), "Running"


def _topology(chance: Random) -> Row:
    if chance.random() < 0.2:
        return {"mode": "soft"}
    if chance.random() < 0.1:
        return {"mode": "hard", "highestTierName": chance.choice(["rack", "nothing"])}
    return {"mode": "hard", "highestTier": chance.randint(0, 3)}


def _group(name: str, least: int, **more: Any) -> Row:
    return {
        "namespace": "ns", "name": name, "queue": "q1", "minMember": least, "phase": "Inqueue",
        **more,
    }  # fmt: skip


def _pod(job: str, number: int, **more: Any) -> Row:
    return {
        "namespace": "ns", "name": f"{job}-w-{number}", "group": job,
        "phase": "Running" if "node" in more else "Pending",
        "requests": {"cpu": str(CPU), "memory": "1Gi"}, **more,
    }  # fmt: skip
