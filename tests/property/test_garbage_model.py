"""Garbage collection on random graphs of owners, circles included, deleted in every way."""

from __future__ import annotations

import os

import hypothesis.strategies as st
from hypothesis import given, settings

from swell.api.meta import Body
from swell.cluster.embedded.controllers.garbage import GarbageCollector
from swell.cluster.embedded.verbs.requests import DeleteOptions
from swell.runtime.errors import NotFoundError
from tests.unit.cluster.embedded.world import NAMESPACE, World, a_world

N_OBJECTS = 6
NODES = st.integers(0, N_OBJECTS - 1)
EDGES = st.lists(st.tuples(NODES, NODES, st.booleans()), max_size=10, unique_by=lambda e: e[:2])
POLICIES = st.sampled_from(["Background", "Foreground", "Orphan", None])
DELETES = st.lists(st.tuples(NODES, POLICIES, st.integers(0, 4)), max_size=4)
EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "60"))


def a_graph(world: World, edges: list[tuple[int, int, bool]]) -> list[str]:
    """Objects n0, n1, …; an edge makes the first the owner of the second. Returns their UIDs."""
    uids = [world.create("configmaps", f"n{n}").uid for n in range(N_OBJECTS)]
    for dependent in range(N_OBJECTS):
        owners: list[Body] = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": f"n{owner}",
                "uid": uids[owner],
                "blockOwnerDeletion": blocks,
            }
            for owner, owned, blocks in edges
            if owned == dependent
        ]
        if owners:
            world.patch("configmaps", f"n{dependent}", {"metadata": {"ownerReferences": owners}})
    return uids


@settings(max_examples=EXAMPLES, deadline=None)
@given(edges=EDGES, deletes=DELETES)
def test_collection_ends_with_nothing_half_gone(
    edges: list[tuple[int, int, bool]], deletes: list[tuple[int, str | None, int]]
) -> None:
    """However owners go, in the end nobody waits, nobody refers to the dead, nobody else went."""
    world = a_world()
    collector = GarbageCollector(world.api)
    uids = a_graph(world, edges)
    for n, policy, n_steps in deletes:
        try:
            world.delete("configmaps", f"n{n}", DeleteOptions(propagation=policy))
        except NotFoundError:
            continue
        for _ in range(n_steps):
            collector.step()
    collector.drain()

    left = {stored.uid: stored for _, stored in world.storage.list("configmaps", NAMESPACE).items}
    for stored in left.values():
        owners = [owner["uid"] for owner in stored.metadata.get("ownerReferences") or ()]

        assert "deletionTimestamp" not in stored.metadata
        assert all(uid in left for uid in owners)
    asked = {uids[n] for n, _, _ in deletes}
    owned = {uids[dependent] for _, dependent, _ in edges}
    assert not asked & set(left)
    assert set(uids) - asked - owned <= set(left)
    assert collector.idle
