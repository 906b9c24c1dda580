"""The vectorised allocate decides exactly as the plain reference does.

`make test` checks some hundred random clusters; `python -m
tests.property.test_scheduler_equivalence 2000` checks as many as given.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from swell.api.core import Node
from swell.api.meta import ObjectMeta, Uid
from swell.api.topology import (
    ExactMatch,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    MemberSelector,
)
from swell.scheduler import placement
from swell.scheduler.config import DEFAULT
from swell.scheduler.cycle import run_cycle
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.plan import SchedulerObjects, plan_schedule
from tests.property.allocate_reference import Reference
from tests.property.scheduler_clusters import Traits, random_cluster
from tests.scheduler_cases import pod_of

ALLOCATE = replace(DEFAULT, actions=("allocate",))
N_IN_MAKE_TEST = 300
BATCH = 50


def differing(seeds: range) -> list[str]:
    """Returns the seeds whose clusters are placed differently, with both answers."""
    found = []
    for seed in seeds:
        chance = Random(seed)
        traits = Traits(pod_affinity=False, ports=seed % 3 == 0, best_effort=seed % 2 == 0)
        cluster = random_cluster(chance, traits)
        expected = Reference(cluster).run()
        got = {task.key: node for task, node in plan_schedule(cluster, ALLOCATE).binds.items()}
        if got != expected:
            found.append(f"seed {seed}: want {expected}, got {got}")
    return found


@pytest.mark.parametrize("start", range(0, N_IN_MAKE_TEST, BATCH))
def test_equivalence_with_plain_reference(start: int) -> None:
    """Same clusters, same bindings."""
    assert differing(range(start, start + BATCH)) == []


def churn(snapshot: SchedulerSnapshot, nodes: list[Node], chance: Random) -> None:
    """Nodes come and go, some with a pod that leaves after them."""
    guests: list[str] = []
    for number in range(chance.randrange(200)):
        name = f"guest-{number}"
        model = chance.choice(nodes)
        meta = structs.replace(model.metadata, name=name)
        snapshot.put_node(structs.replace(model, metadata=meta))
        requests = {"cpu": f"{chance.randrange(9)}"}
        pod = {"namespace": "guests", "name": name, "phase": "Running", "node": name}
        snapshot.put_pod(pod_of({**pod, "requests": requests}))
        guests.append(name)
        if chance.random() < 0.7:
            _leave(snapshot, guests.pop(chance.randrange(len(guests))), chance)
    for name in guests:
        _leave(snapshot, name, chance)


def _leave(snapshot: SchedulerSnapshot, name: str, chance: Random) -> None:
    node_first = chance.random() < 0.5
    if node_first:
        snapshot.remove_node(name)
    snapshot.remove_pod(f"guests/{name}")
    snapshot.remove_node(name)


@pytest.mark.parametrize("seed", range(40))
def test_churn_changes_no_decision(seed: int) -> None:
    """After any nodes and pods came and went, the bindings are those of the plain reference."""
    chance = Random(seed)
    traits = Traits(pod_affinity=False, ports=seed % 3 == 0, best_effort=seed % 2 == 0)
    cluster = random_cluster(chance, traits)
    snapshot = cluster.snapshot()
    n_columns, n_shapes = len(snapshot.nodes), snapshot.n_shapes
    churn(snapshot, cluster.nodes, chance)

    got = {task.key: node for task, node in run_cycle(snapshot, ALLOCATE).binds.items()}

    assert got == Reference(cluster).run()
    assert len(snapshot.nodes) - snapshot.nodes.n_free == n_columns
    assert snapshot.n_shapes == n_shapes


def drawn_network(names: list[str], chance: Random) -> list[HyperNode]:
    """Racks and blocks of some of these nodes; others are in no domain, or in a block only."""
    racks: dict[str, list[str]] = {}
    blocks: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        if chance.random() < 0.9:
            racks.setdefault(f"rack-{chance.randrange(1 + len(names) // 3)}", []).append(name)
        elif chance.random() < 0.5:
            blocks.setdefault("block-0", []).append(("Node", name))
    for rack in sorted(racks):
        if chance.random() < 0.8:
            blocks.setdefault(f"block-{chance.randrange(3)}", []).append(("HyperNode", rack))
    rows = [(rack, 1, [("Node", name) for name in own]) for rack, own in racks.items()]
    rows += [(block, 2, own) for block, own in blocks.items()]
    return [hyper_node(name, tier, members) for name, tier, members in rows]


def hyper_node(name: str, tier: int, members: list[tuple[str, str]]) -> HyperNode:
    selected = tuple(
        HyperNodeMember(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=member)))
        for kind, member in members
    )
    meta = ObjectMeta(name=name, uid=Uid(name))
    return HyperNode(metadata=meta, spec=HyperNodeSpec(tier=tier, members=selected))


def bound_in(cluster: SchedulerObjects) -> dict[str, str]:
    return {task.key: node for task, node in plan_schedule(cluster, ALLOCATE).binds.items()}


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_gathering_ahead_is_what_one_by_one_gives(
    start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal pods that gather in a network get the nodes that each would get after the others."""
    for seed in range(start, start + 40):
        chance = Random(seed)
        cluster = random_cluster(chance, Traits(pod_affinity=False, ports=False))
        names = [node.metadata.name for node in cluster.nodes]
        cluster.hyper_nodes = drawn_network(names, chance)
        ahead = bound_in(cluster)
        with monkeypatch.context() as one_by_one:
            one_by_one.setattr(placement, "CHUNK", 1)
            assert bound_in(cluster) == ahead, f"seed {seed}"


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    wrong = differing(range(n))
    sys.stdout.write("\n".join([*wrong, f"{n - len(wrong)} of {n} random clusters placed alike\n"]))
    sys.exit(bool(wrong))
