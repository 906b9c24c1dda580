"""Gangs with volumes in real containers: disks made by hand, and disks that a provisioner makes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from swell.api.kinds import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    STORAGE_CLASSES,
)
from swell.api.meta import Body, Key
from swell.api.pod import Pod, PodPhase
from swell.api.storage import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.operator.framework.program import install_crds
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Deletion, Selection
from swell.runtime.events import EventRecorder
from swell.runtime.manager import Manager
from swell.scheduler.config import DEFAULT, Arguments, Config, PluginOption
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from tests.e2e.kubernetes.test_devices import until
from tests.storage_objects import HOST, LOCAL, MADE, a_claim, a_class, a_volume, mounts
from tests.testbed.cluster import BUSYBOX, NODES, RealCluster
from tests.testbed.provisioner import DiskProvisioner

NAMESPACE = "real-volumes"
SCHEDULER = "swell-volumes"  # not the one that other tests install
DEADLINE_S = 20.0
N_LOCAL = 4  # on each node


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster with a scheduler and a provisioner, and the folder of all disks."""

    cluster: Cluster
    disks: Path

    async def pods(self, prefix: str) -> list[Pod]:
        found = (await self.cluster.list(PODS, Selection(NAMESPACE))).items
        return [pod for pod in found if pod.metadata.name.startswith(prefix)]

    async def where(self, prefix: str) -> dict[str, str]:
        return {
            p.metadata.name: p.spec.node_name for p in await self.pods(prefix) if p.spec.node_name
        }

    async def claim(self, name: str) -> PersistentVolumeClaim:
        return await self.cluster.get(PERSISTENT_VOLUME_CLAIMS, Key(NAMESPACE, name))

    async def volumes(self) -> list[PersistentVolume]:
        return list((await self.cluster.list(PERSISTENT_VOLUMES)).items)

    async def until_running(self, prefix: str, n: int) -> dict[str, str]:
        async def are_running() -> bool:
            phases = [pod.status.phase for pod in await self.pods(prefix)]
            return phases.count(PodPhase.RUNNING) == n

        await until(are_running)
        return await self.where(prefix)

    async def have_class(self, name: str, **orders: str) -> None:
        made = {**a_class(MADE), "metadata": {"name": name}, "parameters": orders}
        await self.cluster.create(STORAGE_CLASSES.untyped(), made)

    async def have_gang(self, name: str, n: int, storage: str, preferred: str = "") -> None:
        """Pods that write their name into a volume each, and would like to be on one node."""
        group = {
            "apiVersion": POD_GROUPS.api_version,
            "kind": POD_GROUPS.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"minMember": n, "queue": "default"},
        }
        await self.cluster.create(POD_GROUPS, group)
        for at in range(n):
            made = a_claim(f"{name}-{at}", storage, namespace=NAMESPACE)
            del made["metadata"]["uid"], made["status"]
            await self.cluster.create(PERSISTENT_VOLUME_CLAIMS.untyped(), made)
            await self.cluster.create(PODS, a_pod(name, at, preferred))

    async def remove(self, name: str, n: int) -> None:
        for at in range(n):
            key = Key(NAMESPACE, f"{name}-{at}")
            await self.cluster.delete(PODS, key, Deletion(grace_s=1))
            await self.cluster.delete(PERSISTENT_VOLUME_CLAIMS, key)
        await self.cluster.delete(POD_GROUPS, Key(NAMESPACE, name))

        async def are_gone() -> bool:
            return not await self.pods(f"{name}-")

        await until(are_gone)


def a_pod(gang: str, at: int, preferred: str) -> Body:
    spec: Body = {
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 1,
        "volumes": mounts(f"{gang}-{at}"),
        "containers": [
            {
                "name": "main",
                "image": BUSYBOX,
                "command": ["sh", "-c", f"echo {gang}-{at} > /disk/name; sleep 3600"],
                "volumeMounts": [{"name": "v0", "mountPath": "/disk"}],
            }
        ],
    }
    if preferred:
        term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [preferred]}]}
        liking = [{"weight": 100, "preference": term}]
        spec["affinity"] = {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": liking}
        }
    return {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "metadata": {
            "name": f"{gang}-{at}",
            "namespace": NAMESPACE,
            "annotations": {GROUP_ANNOTATION: gang},
        },
        "spec": spec,
    }


def settings() -> SchedulerSettings:
    """Claims have little time to be bound."""
    hurried = Arguments({"volumebinding.bindTimeoutSeconds": DEADLINE_S})
    tiers = tuple(
        tuple(
            PluginOption(one.name, one.switches, hurried) if one.name == "predicates" else one
            for one in tier
        )
        for tier in DEFAULT.tiers
    )
    config = Config(DEFAULT.actions, tiers)
    return SchedulerSettings(scheduler_names=(SCHEDULER,), config=config)


@asynccontextmanager
async def staged(real: RealCluster, disks: Path) -> AsyncIterator[Stage]:
    clock, manager = SystemClock(), Manager(clock=SystemClock())
    async with connect(read_kubeconfig([real.kubeconfig]), clock, Random(1)) as cluster:
        await install_crds(cluster, clock)
        frame: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await cluster.create(NAMESPACES, frame)
        events = EventRecorder(cluster, "disks", clock=clock, random=Random(3))
        provisioner = DiskProvisioner(cluster, disks, events)
        scheduler = Scheduler(cluster, settings(), clock=clock, random=Random(2))
        manager.add("scheduler", scheduler.run)
        manager.add("provisioner", provisioner.run)
        manager.add("events", events.run)
        running = asyncio.create_task(manager.run())
        try:
            yield Stage(cluster, disks)
        finally:
            manager.stop()
            await running
            await cluster.delete(NAMESPACES, Key("", NAMESPACE))
    await asyncio.sleep(0.25)  # for connections cut off in the middle


def test_gangs_get_their_volumes_in_containers(real_cluster: RealCluster) -> None:
    """Disks by hand, by a provisioner, by one that fails and by one that never ends."""
    disks = real_cluster.site.folder / "disks"

    async def main() -> None:
        async with staged(real_cluster, disks) as stage:
            await local_disks(stage)
            await made_disks(stage)
            await failing_node(stage)
            await hanging_node(stage)

    asyncio.run(main())


async def local_disks(stage: Stage) -> None:
    """With seven disks nothing is written; with the eighth each pod is where its disk is."""
    await stage.cluster.create(STORAGE_CLASSES.untyped(), a_class())
    n = N_LOCAL * len(NODES)
    made = []
    for at in range(n):
        node = NODES[at % len(NODES)]
        path = stage.disks / node / f"local-{at}"
        path.mkdir(parents=True)
        volume = a_volume(f"local-{at}", node, local={"path": str(path)})
        del volume["status"]
        made.append(volume)
    for volume in made[:-1]:
        await stage.cluster.create(PERSISTENT_VOLUMES.untyped(), volume)

    async def are_available() -> bool:
        return {one.status.phase for one in await stage.volumes()} == {"Available"}

    await until(are_available)
    await stage.have_gang("by-hand", n, LOCAL)

    async def is_refused() -> bool:
        found = await stage.cluster.get(POD_GROUPS, Key(NAMESPACE, "by-hand"))
        why = rf"claim {NAMESPACE}/by-hand-\d \(1Gi, class '{LOCAL}'\) has no volume there: "
        return any(re.search(why, one.message) for one in found.status.conditions)

    await until(is_refused)
    assert not any(one.spec.claim_ref for one in await stage.volumes())
    assert not await stage.where("by-hand-")
    await stage.cluster.create(PERSISTENT_VOLUMES.untyped(), made[-1])
    placed = await stage.until_running("by-hand-", n)
    assert sorted(placed.values()) == sorted([*NODES] * N_LOCAL)
    for pod, node in placed.items():
        volume_name = (await stage.claim(pod)).spec.volume_name
        disk = stage.disks / node / volume_name
        await until_written(disk, pod)
    await stage.remove("by-hand", n)


async def made_disks(stage: Stage) -> None:
    """The file that a pod writes is on the disk that was made on its node."""
    await stage.have_class("made")
    await stage.have_gang("asked", 2, "made")
    placed = await stage.until_running("asked-", 2)
    for pod, node in placed.items():
        claim = await stage.claim(pod)
        assert claim.metadata.annotations[SELECTED_NODE] == node
        await until_written(stage.disks / node / f"pvc-{claim.metadata.uid}", pod)
    await stage.remove("asked", 2)

    async def are_given_back() -> bool:
        names = [one.metadata.name for one in await stage.volumes()]
        return not any(name.startswith("pvc-") for name in names)

    await until(are_given_back)
    assert not list(stage.disks.glob("*/pvc-*"))


async def failing_node(stage: Stage) -> None:
    """No disk can be made where the pod would like to be: it ends on the other node."""
    await stage.have_class("failing", failOn=NODES[0])
    await stage.have_gang("failed", 1, "failing", preferred=NODES[0])
    assert await stage.until_running("failed-", 1) == {"failed-0": NODES[1]}
    await stage.remove("failed", 1)


async def hanging_node(stage: Stage) -> None:
    """No pod is bound while one waits for its disk; after the deadline the gang runs elsewhere."""
    await stage.have_class("hanging", hangOn=NODES[0])
    await stage.have_gang("hung", 2, "hanging", preferred=NODES[0])

    async def is_selected() -> bool:
        found = [await stage.claim(f"hung-{at}") for at in range(2)]
        return all(one.metadata.annotations.get(SELECTED_NODE) == NODES[0] for one in found)

    await until(is_selected)
    began = asyncio.get_running_loop().time()
    while await is_selected():
        assert not await stage.where("hung-")
        await asyncio.sleep(0.2)
    assert asyncio.get_running_loop().time() > began + DEADLINE_S / 2
    assert set((await stage.until_running("hung-", 2)).values()) == {NODES[1]}
    await stage.remove("hung", 2)


async def until_written(disk: Path, text: str) -> None:
    async def is_written() -> bool:
        file = disk / "name"
        return file.exists() and file.read_text().strip() == text

    await until(is_written)
