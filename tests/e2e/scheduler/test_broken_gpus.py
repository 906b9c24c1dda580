"""Broken GPUs on a real API server: where pods may go, and who has to leave."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from swell.api.devices import ResourceClaim
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from swell.api.meta import Body, Key
from swell.runtime.cluster import Patch, PatchKind, Selection
from tests.e2e.operator.jobs import job, manifest, pods
from tests.e2e.scheduler.native_world import QUIET_S, World, native_world, until
from tests.resource_objects import a_device_class, a_slice, a_template
from tests.testbed.control_plane import CONTROLLERS, ControlPlane, running_control_plane

CLAIMS = "resourceclaim-controller"
GPU = "nvidia.com/gpu"
XID = "gpu.nvidia.com/xid"


@pytest.fixture(scope="module")
def claiming_plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    """A control plane that makes claims of templates."""
    with running_control_plane(controllers=(*CONTROLLERS, CLAIMS)) as plane:
        yield plane


async def report(world: World, node: str, status: str) -> None:
    condition = {
        "type": "AcceleratedHardwareReady",
        "status": status,
        "reason": "NvidiaXID79Error",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = Patch(PatchKind.STRATEGIC, {"status": {"conditions": [condition]}})
    await world.cluster.patch(NODES.status, Key("", node), patch)


def test_only_pods_without_gpus_go_to_a_faulty_node(claiming_plane: ControlPlane) -> None:
    """H7: a pod with a GPU waits and says why; when the node is mended it starts at once."""

    async def main() -> None:
        nodes: dict[str, Body] = {"a": {}, "b": {}}
        async with native_world(claiming_plane, "gpus", nodes, amounts={GPU: "1"}) as world:
            a, b = (f"gpus-{name}-0" for name in "ab")
            await report(world, a, "False")
            await asyncio.sleep(QUIET_S)
            asked = {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}}
            with_gpu = [{"name": "main", "image": "local", "resources": asked}]
            for name in ("first", "second"):
                await world.cluster.create(PODS, world.pod(name, containers=with_gpu))
                await asyncio.sleep(QUIET_S)
            here = {"for": "gpus", "kubernetes.io/hostname": a}
            await world.cluster.create(PODS, world.pod("plain", nodeSelector=here))
            await world.until_placed("plain", 1)
            assert await world.placed() == {"first": b, "plain": a}

            async def says_why() -> bool:
                conditions = (await world.read("second")).status.conditions
                return any(
                    "AcceleratedHardwareReady=False (NvidiaXID79Error" in one.message
                    for one in conditions
                )

            await until(says_why)
            await report(world, a, "True")
            assert (await world.until_placed("second", 1))["second"] == a

    asyncio.run(main())


@pytest.mark.parametrize("effect", ["NoSchedule", "None"])
def test_pod_of_a_tainted_device_gets_another(claiming_plane: ControlPlane, effect: str) -> None:
    """H5: its pod restarts on the same node, with another device; a taint that informs is none."""
    namespace = f"xid-{effect.lower()}"
    node = f"{namespace}-a-0"

    async def main() -> None:
        async with native_world(claiming_plane, namespace, {"a": {}}, gang_api="volcano") as world:
            cluster = world.cluster
            of_class = a_device_class(f"class-{namespace}")
            template = a_template("one", 1, namespace)
            wanted = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
            wanted["deviceClassName"] = of_class["metadata"]["name"]
            await cluster.create(DEVICE_CLASSES.untyped(), of_class)
            await cluster.create(RESOURCE_SLICES.untyped(), a_slice(node, 3))
            await cluster.create(RESOURCE_CLAIM_TEMPLATES.untyped(), template)
            role = pods(2, restartPolicy="OnNodeFail", restartScope="Pod")
            role["template"]["spec"] |= {
                "nodeSelector": {"for": namespace},
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            }
            await cluster.create(
                AI_TRAINING_JOBS.untyped(), manifest("j", namespace, job({"t": role}))
            )
            await world.until_placed("j-", 2)
            uids, devices = await uids_of(world), await devices_of(world)
            broken = devices["j-t-1"]
            await taint(world, node, broken, effect)

            async def has_another() -> bool:
                return (await uids_of(world)).get("j-t-1", uids["j-t-1"]) != uids["j-t-1"]

            if effect == "None":
                await asyncio.sleep(20)
                assert await uids_of(world) == uids
                return
            await until(has_another)
            assert (await world.until_placed("j-", 2))["j-t-1"] == node
            assert (await uids_of(world))["j-t-0"] == uids["j-t-0"]
            assert (await devices_of(world))["j-t-1"] not in devices.values()

    asyncio.run(main())


async def taint(world: World, node: str, device: str, effect: str) -> None:
    """Publishes the devices of a node anew, one of them with a taint."""
    body = a_slice(node, 3, generation=2)
    for one in body["spec"]["devices"]:
        if one["name"] == device:
            one["taints"] = [{"key": XID, "value": "79", "effect": effect}]
    key = Key("", body["metadata"]["name"])
    change = {"spec": body["spec"]}
    await world.cluster.patch(RESOURCE_SLICES.untyped(), key, Patch(PatchKind.MERGE, change))


async def uids_of(world: World) -> dict[str, str]:
    listed = (await world.cluster.list(PODS, Selection(world.namespace))).items
    return {
        pod.metadata.name: pod.metadata.uid
        for pod in listed
        if pod.metadata.deletion_timestamp is None
    }


async def devices_of(world: World) -> dict[str, str]:
    """Returns the devices of pods by their names."""
    claims = (await world.cluster.list(RESOURCE_CLAIMS, Selection(world.namespace))).items
    return dict(pair for claim in claims for pair in _device_of(claim))


def _device_of(claim: ResourceClaim) -> Iterator[tuple[str, str]]:
    if claim.status.allocation is not None:
        (result,) = claim.status.allocation.devices.results
        for user in claim.status.reserved_for:
            yield user.name, result.device
