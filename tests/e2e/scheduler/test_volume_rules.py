"""Rules about volumes on a real API server: shared claims, refusals that are mended, storage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from swell.api.kinds import (
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    STORAGE_CLASSES,
)
from swell.api.meta import Body, Key
from swell.api.storage import SELECTED_NODE
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Deletion, merge_patch
from swell.runtime.events import EventRecorder
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from tests.e2e.scheduler.native_world import QUIET_S, World, native_world, until
from tests.storage_objects import HOST, MADE, PROVISIONER, a_claim, a_class, a_volume, mounts
from tests.testbed.control_plane import CONTROLLERS, ControlPlane, running_control_plane
from tests.testbed.provisioner import DiskProvisioner

BINDER = "persistentvolume-binder-controller"
EPHEMERAL = "ephemeral-volume-controller"

Story = Callable[[World], Awaitable[None]]


@pytest.fixture(scope="module")
def storage_plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    """A control plane that binds claims, and makes those of ephemeral volumes."""
    with running_control_plane(controllers=(*CONTROLLERS, BINDER, EPHEMERAL)) as plane:
        yield plane


def played(plane: ControlPlane, disks: Path, namespace: str, story: Story) -> None:
    """Plays a story on two nodes with room for two pods each, with a provisioner of disks."""

    async def main() -> None:
        nodes = {name: {HOST: f"{namespace}-{name}-0"} for name in "ab"}
        async with native_world(plane, namespace, nodes, cpu=2) as world:
            events = EventRecorder(world.cluster, "disks", clock=SystemClock(), random=Random(7))
            provisioner = DiskProvisioner(world.cluster, disks, events)
            running = [asyncio.create_task(one.run()) for one in (provisioner, events)]
            try:
                await story(world)
            finally:
                for one in running:
                    one.cancel()
                await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(main())


async def have_class(
    world: World, name: str, mode: str = "WaitForFirstConsumer", **fields: object
) -> None:
    made = {**a_class(MADE, mode, **fields), "metadata": {"name": name}}
    await world.cluster.create(STORAGE_CLASSES.untyped(), made)


async def have_claim(
    world: World, name: str, of_class: str, size: str = "1Gi", mode: str = "ReadWriteOnce"
) -> None:
    made = a_claim(name, of_class, size, (mode,), namespace=world.namespace)
    del made["metadata"]["uid"], made["status"]
    await world.cluster.create(PERSISTENT_VOLUME_CLAIMS.untyped(), made)


async def have_gang(world: World, name: str, *volumes: list[Body]) -> None:
    """A gang with a pod for each of these lists of volumes."""
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"minMember": len(volumes), "queue": "default"},
    }
    await world.cluster.create(POD_GROUPS, group)
    for at, one in enumerate(volumes):
        pod = world.pod(f"{name}-{at}", volumes=one)
        pod["metadata"]["annotations"] = {GROUP_ANNOTATION: name}
        await world.cluster.create(PODS, pod)


async def until_refused(world: World, name: str, text: str) -> None:
    async def is_refused() -> bool:
        found = await world.cluster.get(POD_GROUPS, Key(world.namespace, name))
        return any(text in condition.message for condition in found.status.conditions)

    await until(is_refused)
    assert not await world.placed(f"{name}-")


async def remove(world: World, name: str, n: int) -> None:
    for at in range(n):
        key = Key(world.namespace, f"{name}-{at}")
        await world.cluster.delete(PODS, key, Deletion(grace_s=0))
    await world.cluster.delete(POD_GROUPS, Key(world.namespace, name))


@pytest.mark.parametrize("delay", ["0s", "3s"])
def test_gang_shares_a_claim_over_two_nodes(
    storage_plane: ControlPlane, tmp_path: Path, delay: str
) -> None:
    """V7: four pods on two nodes, whose claim is made where all nodes reach it, sooner or later."""

    async def story(world: World) -> None:
        name = f"anywhere-{delay}"
        await have_class(world, name, parameters={"anywhere": "true", "delay": delay})
        await have_claim(world, "shared", name, mode="ReadWriteMany")
        await have_gang(world, "four", *([mounts("shared")] * 4))
        where = await world.until_placed("four-", 4)

        assert sorted(where.values()) == sorted([f"{world.namespace}-{n}-0" for n in "ab"] * 2)

    played(storage_plane, tmp_path, f"shared-{delay}", story)


def test_refused_claims_are_mended(storage_plane: ControlPlane, tmp_path: Path) -> None:
    """V8: missing, immediate, lost and deleted claims are refused by name until they are there."""

    async def story(world: World) -> None:
        await have_class(world, "mended-now", "Immediate")
        await have_class(world, "mended-later")
        await have_gang(world, "missing", mounts("later"))
        await until_refused(world, "missing", "claim mended/later does not exist")
        await have_claim(world, "later", "mended-later")
        await world.until_placed("missing-", 1)

        await have_claim(world, "now", "mended-now")
        await have_gang(world, "immediate", mounts("now"))
        text = "pod has unbound immediate PersistentVolumeClaims: mended/now"
        await until_refused(world, "immediate", text)
        volume = a_volume("mended-now", "", "mended-now", hostPath={"path": "/x"})
        del volume["status"]
        await world.cluster.create(PERSISTENT_VOLUMES.untyped(), volume)
        await world.until_placed("immediate-", 1)

        await remove(world, "immediate", 1)
        change = {"metadata": {"finalizers": None}}
        key = Key("", "mended-now")
        await world.cluster.patch(PERSISTENT_VOLUMES, key, merge_patch(change))
        await world.cluster.delete(PERSISTENT_VOLUMES, key)
        await have_gang(world, "lost", mounts("now"))
        await until_refused(world, "lost", "has lost its volume mended-now")
        await remove(world, "lost", 1)

        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "mended-later",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        own: Body = {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
        await have_gang(world, "ephemeral", [own])
        await world.until_placed("ephemeral-", 1)

        # It is used, so Kubernetes keeps it; a second pod may not start with it.
        await world.cluster.delete(PERSISTENT_VOLUME_CLAIMS, Key(world.namespace, "later"))
        await have_gang(world, "deleted", mounts("later"))
        await until_refused(world, "deleted", "claim mended/later is being deleted")

    played(storage_plane, tmp_path, "mended", story)


def test_storage_that_is_left_is_promised_once(storage_plane: ControlPlane, tmp_path: Path) -> None:
    """V6: of 100 Gi on one node a gang of two cannot have 60 Gi each; of more it can."""

    async def story(world: World) -> None:
        body = {"apiVersion": CSI_DRIVERS.api_version, "kind": CSI_DRIVERS.kind}
        spec = {"storageCapacity": True, "attachRequired": False}
        driver = {**body, "metadata": {"name": PROVISIONER}, "spec": spec}
        await world.cluster.create(CSI_DRIVERS.untyped(), driver)
        await have_class(world, "storage")
        capacity: Body = {
            "apiVersion": CSI_STORAGE_CAPACITIES.api_version,
            "kind": CSI_STORAGE_CAPACITIES.kind,
            "metadata": {"name": "a", "namespace": world.namespace},
            "storageClassName": "storage",
            "nodeTopology": {"matchLabels": {HOST: f"{world.namespace}-a-0"}},
            "capacity": "100Gi",
        }
        await world.cluster.create(CSI_STORAGE_CAPACITIES.untyped(), capacity)
        for name in ("first", "second"):
            await have_claim(world, name, "storage", "60Gi")
        await have_gang(world, "pair", mounts("first"), mounts("second"))
        await until_refused(world, "pair", "too little storage is left to provision")
        await asyncio.sleep(QUIET_S)
        for name in ("first", "second"):
            key = Key(world.namespace, name)
            claim = await world.cluster.get(PERSISTENT_VOLUME_CLAIMS, key)
            assert SELECTED_NODE not in claim.metadata.annotations
        key = Key(world.namespace, "a")
        more = merge_patch({"capacity": "120Gi"})
        await world.cluster.patch(CSI_STORAGE_CAPACITIES, key, more)
        where = await world.until_placed("pair-", 2)
        assert set(where.values()) == {f"{world.namespace}-a-0"}
        await world.cluster.delete(CSI_DRIVERS, Key("", PROVISIONER))

    played(storage_plane, tmp_path, "storage", story)


def test_claim_for_one_pod_waits_for_its_user(storage_plane: ControlPlane, tmp_path: Path) -> None:
    """V6: a ReadWriteOncePod claim has one pod at a time; two pods of a gang can never share it."""

    async def story(world: World) -> None:
        await have_class(world, "single")
        await have_claim(world, "one", "single", mode="ReadWriteOncePod")
        await have_gang(world, "user", mounts("one"))
        await world.until_placed("user-", 1)
        await have_gang(world, "next", mounts("one"))
        await until_refused(world, "next", "is ReadWriteOncePod and used by pod single/user-0")
        await remove(world, "user", 1)
        await world.until_placed("next-", 1)
        await have_gang(world, "both", mounts("one"), mounts("one"))
        await until_refused(world, "both", "is ReadWriteOncePod and used by pod")

    played(storage_plane, tmp_path, "single", story)
