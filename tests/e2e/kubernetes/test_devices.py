"""Gangs with devices in real containers: a driver of ours hands them out through the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

from swell.api.devices import DeviceResult, ResourceClaim
from swell.api.kinds import (
    DEVICE_CLASSES,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from swell.api.meta import Body, Key
from swell.api.pod import Pod, PodPhase
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.operator.framework.program import install_crds
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Deletion, Selection
from swell.runtime.manager import Manager
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from tests.resource_objects import DRIVER, a_device_class, a_template
from tests.testbed.cluster import BUSYBOX, NODES, RealCluster
from tests.testbed.kubectl import Kubectl

NAMESPACE = "real-devices"
SCHEDULER = "swell-devices"  # not the one that other tests install
N_DEVICES = 4
CARD = "example.com/card"
WITHIN_S = 180.0


def test_gangs_get_devices_in_their_containers(
    real_cluster: RealCluster, cluster_kubectl: Kubectl
) -> None:
    """D1, D2: eight containers print eight devices; nine pods get none; all are free afterwards."""
    devices: list[Body] = [{"name": f"gpu-{at}"} for at in range(N_DEVICES)]
    for node in NODES:
        real_cluster.publish_devices(node, {"devices": devices})

    async def main() -> None:
        async with scheduling(real_cluster) as cluster:
            await have_gang(cluster, "eight", 2 * N_DEVICES)
            await until(lambda: is_running(cluster, "eight-", 2 * N_DEVICES))
            printed = [
                cluster_kubectl.ok("logs", f"eight-{at}", "-n", NAMESPACE).strip()
                for at in range(2 * N_DEVICES)
            ]
            claims = await claims_of(cluster)
            given = {
                claim.status.reserved_for[0].name: [
                    (one.pool, one.device) for one in results(claim)
                ]
                for claim in claims
            }
            placed = {pod.metadata.name: pod.spec.node_name for pod in await pods_of(cluster)}
            assert {
                f"eight-{at}": [(placed[f"eight-{at}"], printed[at])] for at in range(8)
            } == given
            assert len({pair for pairs in given.values() for pair in pairs}) == 2 * N_DEVICES
            await have_gang(cluster, "nine", 2 * N_DEVICES + 1)
            await until(lambda: is_refused(cluster, "nine"))
            for claim in await claims_of(cluster):
                is_of_nine = claim.metadata.name.startswith("nine-")
                assert (claim.status.allocation is None) is is_of_nine
                assert bool(claim.metadata.finalizers) is not is_of_nine
            await remove(cluster, "nine", 2 * N_DEVICES + 1)
            await remove(cluster, "eight", 2 * N_DEVICES)
            await until(lambda: has_no_claims(cluster))
            await have_gang(cluster, "again", 2 * N_DEVICES)
            await until(lambda: is_running(cluster, "again-", 2 * N_DEVICES))
            await remove(cluster, "again", 2 * N_DEVICES)
            await until(lambda: has_no_claims(cluster))
            await tainted_device(cluster, real_cluster)
            await extended_resources(cluster, cluster_kubectl)

    asyncio.run(main())


async def tainted_device(cluster: Cluster, real: RealCluster) -> None:
    """D6: Kubernetes evicts the pod that has it; the next one on that node gets another."""
    await have_gang(cluster, "taint", 1)
    await until(lambda: is_running(cluster, "taint-", 1))
    (pod,) = await pods_of(cluster)
    (claim,) = await claims_of(cluster)
    (result,) = results(claim)
    node = pod.spec.node_name
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    devices: list[Body] = [
        {"name": f"gpu-{at}", "taints": [taint]}
        if f"gpu-{at}" == result.device
        else {"name": f"gpu-{at}"}
        for at in range(N_DEVICES)
    ]
    real.publish_devices(node, {"devices": devices})
    await until(lambda: has_no_claims(cluster))
    other = next(name for name in NODES if name != node)
    real.publish_devices(other, {"devices": []})
    await cluster.delete(POD_GROUPS, Key(NAMESPACE, "taint"))
    await have_gang(cluster, "again", N_DEVICES - 1)
    await until(lambda: is_running(cluster, "again-", N_DEVICES - 1))
    given = {one.device for claim in await claims_of(cluster) for one in results(claim)}
    assert given == {f"gpu-{at}" for at in range(N_DEVICES)} - {result.device}
    await remove(cluster, "again", N_DEVICES - 1)
    await until(lambda: has_no_claims(cluster))
    for name in NODES:
        whole: list[Body] = [{"name": f"gpu-{at}"} for at in range(N_DEVICES)]
        real.publish_devices(name, {"devices": whole})
    await until(lambda: are_published(cluster))


async def extended_resources(cluster: Cluster, kubectl: Kubectl) -> None:
    """Devices stand for a resource that no device plugin offers, and are free afterwards."""
    of_class = a_device_class("cards")
    of_class["spec"]["extendedResourceName"] = CARD
    await cluster.create(DEVICE_CLASSES.untyped(), of_class)
    n = 2 * N_DEVICES
    await have_gang(cluster, "cards", n, {"resources": {"limits": {CARD: "1"}}})
    await until(lambda: is_running(cluster, "cards-", n))
    printed = [
        (pod.spec.node_name, kubectl.ok("logs", pod.metadata.name, "-n", NAMESPACE).strip())
        for pod in await pods_of(cluster)
    ]
    given = [(one.pool, one.device) for c in await claims_of(cluster) for one in results(c)]
    assert sorted(printed) == sorted(given)
    assert len(set(given)) == n
    await remove(cluster, "cards", n)
    await until(lambda: has_no_claims(cluster))
    await cluster.delete(DEVICE_CLASSES, Key("", "cards"))


@asynccontextmanager
async def scheduling(real: RealCluster) -> AsyncIterator[Cluster]:
    """Runs a scheduler of ours beside the cluster, with a class and a template for devices."""
    clock, manager = SystemClock(), Manager(clock=SystemClock())
    async with connect(read_kubeconfig([real.kubeconfig]), clock, Random(1)) as cluster:
        await install_crds(cluster, clock)
        frame: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await cluster.create(NAMESPACES, frame)
        await cluster.create(DEVICE_CLASSES.untyped(), a_device_class())
        template = a_template("one", 1, NAMESPACE)
        await cluster.create(RESOURCE_CLAIM_TEMPLATES.untyped(), template)
        await until(lambda: are_published(cluster))
        settings = SchedulerSettings(scheduler_names=(SCHEDULER,))
        scheduler = Scheduler(cluster, settings, clock=clock, random=Random(2))
        manager.add("scheduler", scheduler.run)
        running = asyncio.create_task(manager.run())
        try:
            yield cluster
        finally:
            manager.stop()
            await running
            await cluster.delete(NAMESPACES, Key("", NAMESPACE))
            await cluster.delete(DEVICE_CLASSES, Key("", DRIVER))
    await asyncio.sleep(0.25)  # for connections cut off in the middle


async def have_gang(cluster: Cluster, name: str, n: int, asked: Body | None = None) -> None:
    """Pods with a device each: by a template of claims, or by what their container asks for."""
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": n, "queue": "default"},
    }
    await cluster.create(POD_GROUPS, group)
    container: Body = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["sh", "-c", "echo $SWELL_DEVICES; sleep 3600"],
        **(asked or {"resources": {"claims": [{"name": "gpu"}]}}),
    }
    claims: Body = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    for at in range(n):
        body: Body = {
            "apiVersion": "v1",
            "kind": PODS.kind,
            "metadata": {
                "name": f"{name}-{at}",
                "namespace": NAMESPACE,
                "annotations": {GROUP_ANNOTATION: name},
            },
            "spec": {
                "schedulerName": SCHEDULER,
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                **({} if asked else claims),
            },
        }
        await cluster.create(PODS, body)


async def remove(cluster: Cluster, name: str, n: int) -> None:
    for at in range(n):
        await cluster.delete(PODS, Key(NAMESPACE, f"{name}-{at}"), Deletion(grace_s=1))
    await cluster.delete(POD_GROUPS, Key(NAMESPACE, name))

    async def are_gone() -> bool:
        return not any(one.metadata.name.startswith(f"{name}-") for one in await pods_of(cluster))

    await until(are_gone)


async def pods_of(cluster: Cluster) -> list[Pod]:
    return list((await cluster.list(PODS, Selection(NAMESPACE))).items)


async def claims_of(cluster: Cluster) -> tuple[ResourceClaim, ...]:
    return (await cluster.list(RESOURCE_CLAIMS, Selection(NAMESPACE))).items


def results(claim: ResourceClaim) -> tuple[DeviceResult, ...]:
    return () if claim.status.allocation is None else claim.status.allocation.devices.results


async def are_published(cluster: Cluster) -> bool:
    slices = (await cluster.list(RESOURCE_SLICES)).items
    return sum(len(one.spec.get("devices", ())) for one in slices) == len(NODES) * N_DEVICES


async def is_running(cluster: Cluster, prefix: str, n: int) -> bool:
    running = [
        pod
        for pod in await pods_of(cluster)
        if pod.metadata.name.startswith(prefix) and pod.status.phase is PodPhase.RUNNING
    ]
    return len(running) == n


async def is_refused(cluster: Cluster, name: str) -> bool:
    found = await cluster.get(POD_GROUPS, Key(NAMESPACE, name))
    return any("in use" in one.message for one in found.status.conditions)


async def has_no_claims(cluster: Cluster) -> bool:
    return not await claims_of(cluster)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.2)
