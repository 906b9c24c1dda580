"""Queues with nodes of their own, on a real API server."""

from __future__ import annotations

import asyncio
import json

from swell.api.kinds import POD_GROUPS, PODS, QUEUES
from swell.api.meta import Body
from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.plugins.nodegroup import GROUP_LABEL, LIMITS_ANNOTATION
from tests.e2e.scheduler.native_world import OURS, World, native_world, until
from tests.testbed.control_plane import ControlPlane

CONFIG = parse(
    {
        "actions": "enqueue, allocate, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "proportion"}]},
            {
                "plugins": [
                    {"name": "predicates"},
                    {"name": "nodeorder"},
                    {"name": "nodegroup", "enableHierarchy": True},
                ]
            },
        ],
    },
    KNOWN,
).config
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


async def gang(world: World, name: str, queue: str, n: int) -> None:
    """Create a group with all its pods."""
    body: Body = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"minMember": n, "queue": queue},
    }
    await world.cluster.create(POD_GROUPS, body)
    for at in range(n):
        pod = world.pod(f"{name}-{at}", scheduler=OURS)
        pod["metadata"]["annotations"] = {GROUP_ANNOTATION: name}
        await world.cluster.create(PODS, pod)


async def queue(world: World, name: str, parent: str = "", **lists: list[str]) -> None:
    spec: Body = {"weight": 1, "parent": parent} if parent else {"weight": 1}
    notes: Body = {}
    if lists:
        near = {REQUIRED: lists["required"], PREFERRED: lists["preferred"]}
        spec["affinity"] = {"nodeGroupAffinity": near}
        notes = {LIMITS_ANNOTATION: json.dumps({"gold": {"cpu": "2"}})}
    body = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "spec": spec}
    await world.cluster.create(QUEUES, {**body, "metadata": {"name": name, "annotations": notes}})


def test_queues_use_their_groups_of_nodes(control_plane: ControlPlane) -> None:
    """Two pods fill the limit of the first group, and the next ones go to the other; a queue below
    inherits the groups without the limit; one without groups waits with the reason.
    """

    async def main() -> None:
        nodes = {"a": {GROUP_LABEL: "gold"}, "b": {GROUP_LABEL: "tin"}, "c": {}}
        async with native_world(control_plane, "groups", nodes, config=CONFIG) as world:
            await queue(world, "e2e-top", required=["gold"], preferred=["tin"])
            await queue(world, "e2e-low", parent="e2e-top")
            await queue(world, "e2e-none")
            await gang(world, "over", "e2e-top", 4)
            placed = await world.until_placed("over", 4)
            found = sorted(node.removeprefix("groups-")[0] for node in placed.values())
            assert found == ["a", "a", "b", "b"]
            await gang(world, "heir", "e2e-low", 2)
            placed = await world.until_placed("heir", 2)
            assert {node.removeprefix("groups-")[0] for node in placed.values()} == {"a"}
            await gang(world, "none", "e2e-none", 1)
            await until_refused(world, "none-0", "of a node group that the queue may not use")

    asyncio.run(main())


async def until_refused(world: World, name: str, text: str) -> None:
    """Wait until the condition of a pod says so; it has no node then."""

    async def holds() -> bool:
        pod = await world.read(name)
        assert not pod.spec.node_name
        return any(text in c.message for c in pod.status.conditions if c.type == "PodScheduled")

    await until(holds)
