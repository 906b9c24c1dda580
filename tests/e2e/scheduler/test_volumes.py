"""Gangs with volumes made by hand, on a real API server with the real volume controller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from swell.api.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    STORAGE_CLASSES,
)
from swell.api.meta import Body, Key
from swell.api.storage import PersistentVolume
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from tests.e2e.scheduler.native_world import World, native_world, until
from tests.storage_objects import LOCAL, a_claim, a_class, a_volume, mounts
from tests.testbed.control_plane import CONTROLLERS, ControlPlane, running_control_plane

BINDER = "persistentvolume-binder-controller"
DISK = "e2e/disk"
SIZE = 8


@pytest.fixture(scope="module")
def storage_plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    """A control plane that binds claims."""
    with running_control_plane(controllers=(*CONTROLLERS, BINDER)) as plane:
        yield plane


def volume(at: int) -> Body:
    """A folder of one of two nodes, in turn."""
    node = "ab"[at % 2]
    term = {"matchExpressions": [{"key": DISK, "operator": "In", "values": [node]}]}
    made = a_volume(
        f"disk-{node}-{at}",
        nodeAffinity={"required": {"nodeSelectorTerms": [term]}},
        local={"path": f"/disks/{at}"},
    )
    del made["status"]
    return made


async def have_gang(world: World) -> None:
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": "gang", "namespace": world.namespace},
        "spec": {"minMember": SIZE, "queue": "default"},
    }
    await world.cluster.create(POD_GROUPS, group)
    for at in range(SIZE):
        claim = a_claim(f"data-{at}", LOCAL, namespace=world.namespace)
        del claim["metadata"]["uid"], claim["status"]
        await world.cluster.create(PERSISTENT_VOLUME_CLAIMS.untyped(), claim)
        pod = world.pod(f"gang-{at}", volumes=mounts(f"data-{at}"))
        pod["metadata"]["annotations"] = {GROUP_ANNOTATION: "gang"}
        await world.cluster.create(PODS, pod)


async def volumes_of(world: World) -> tuple[PersistentVolume, ...]:
    return (await world.cluster.list(PERSISTENT_VOLUMES)).items


async def are_available(world: World) -> bool:
    return all(one.status.phase == "Available" for one in await volumes_of(world))


def test_gang_waits_for_the_last_volume_and_runs_where_they_are(
    storage_plane: ControlPlane,
) -> None:
    """With seven volumes nothing is written; with the eighth each pod is on its volume's node."""

    async def main() -> None:
        nodes = {"a": {DISK: "a"}, "b": {DISK: "b"}}
        async with native_world(storage_plane, "volumes", nodes) as world:
            await world.cluster.create(STORAGE_CLASSES.untyped(), a_class())
            for at in range(SIZE - 1):
                await world.cluster.create(PERSISTENT_VOLUMES.untyped(), volume(at))
            await until(lambda: are_available(world))
            await have_gang(world)

            async def is_refused() -> bool:
                found = await world.cluster.get(POD_GROUPS, Key(world.namespace, "gang"))
                texts = [condition.message for condition in found.status.conditions]
                return any("has no volume there" in text for text in texts)

            await until(is_refused)
            assert [one.spec.claim_ref for one in await volumes_of(world)] == [None] * (SIZE - 1)
            assert not await world.placed("gang-")
            await world.cluster.create(PERSISTENT_VOLUMES.untyped(), volume(SIZE - 1))
            where = await world.until_placed("gang-", SIZE)
            claims = (await world.cluster.list(PERSISTENT_VOLUME_CLAIMS)).items

            for claim in claims:
                node = where[f"gang-{claim.metadata.name.removeprefix('data-')}"]
                assert claim.spec.volume_name.split("-")[1] in node.split("-")
            assert len({claim.spec.volume_name for claim in claims}) == SIZE

    asyncio.run(main())
