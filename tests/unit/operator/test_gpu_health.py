"""Broken devices of claims and GPUs that a device plugin withdraws: a server with an operator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from swell.api.aitrainingjob import AITrainingJobPhase
from swell.api.kinds import (
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from swell.api.meta import Body, Key
from swell.cluster.embedded.builtin.devices import DEVICES
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.gpu_health import FAULTS_HELD, GPUS_WITHDRAWN
from swell.operator.framework.gpu_states import FAULT, REPORT
from swell.runtime.cluster import merge_patch
from tests.resource_objects import DRIVER, a_resource_claim, a_slice
from tests.unit.operator.scene import a_role, with_gpu
from tests.unit.operator.stage import NAMESPACE, Stage, play, staged

GPU = "nvidia.com/gpu"
XID = "gpu.nvidia.com/xid"
PODS_OF_JOB = ("fit-trainer-0", "fit-trainer-1")


def played(test: Callable[[Stage], Awaitable[None]], **settings: Any) -> None:
    async def whole() -> None:
        chosen = AITrainingJobSettings(gpu_drivers=(DRIVER,), **settings)
        async with staged(chosen, gates=frozenset({DEVICES})) as stage:
            await test(stage)

    play(whole())


async def running(stage: Stage, role: Body) -> None:
    """Two pods of one job run on one node with eight GPUs and two devices."""
    await stage.add_node()
    await allocatable(stage, 8)
    await stage.submit(roles={"trainer": role})
    while len(await stage.pods()) < len(PODS_OF_JOB):
        await stage.clock.sleep(0.25)
    await stage.bind(*PODS_OF_JOB)
    await stage.report(*PODS_OF_JOB, phase="Running")


def of_pods(**fields: Any) -> Body:
    role = a_role(replicas=2, restartScope="Pod", restartPolicy="OnNodeFail")
    role["template"]["spec"] |= fields
    return role


async def allocatable(stage: Stage, n: int) -> None:
    body: Body = {"status": {"capacity": {GPU: "8"}, "allocatable": {GPU: str(n)}}}
    await stage.user.patch(NODES.status, Key("", "node-a"), merge_patch(body))


async def restarts_within(stage: Stage, seconds: float) -> list[str]:
    """The pods that were restarted by then, by the reason of the job's events."""
    uids = {pod.metadata.uid for pod in (await stage.user.list(PODS)).items}
    await stage.clock.sleep(seconds)
    left = (await stage.user.list(PODS)).items
    stayed = {
        pod.metadata.name
        for pod in left
        if pod.metadata.uid in uids and pod.metadata.deletion_timestamp is None
    }
    return [name for name in PODS_OF_JOB if name not in stayed]


# --- devices of claims


async def with_devices(stage: Stage, tolerations: tuple[Body, ...] = ()) -> None:
    """Each pod has a device by a claim of its own: gpu-0 and gpu-1."""
    claims = [{"name": "gpu", "resourceClaimName": "common"}]
    await running(stage, of_pods(resourceClaims=claims))
    await stage.user.create(RESOURCE_SLICES.untyped(), a_slice("node-a", 2))
    await stage.user.create(RESOURCE_CLAIMS.untyped(), a_resource_claim("common", 1, NAMESPACE))
    result: Body = {"request": "gpu", "driver": DRIVER, "pool": "node-a", "device": "gpu-0"}
    users = (await stage.user.list(PODS)).items
    status: Body = {
        "allocation": {"devices": {"results": [{**result, "tolerations": list(tolerations)}]}},
        "reservedFor": [
            {"resource": "pods", "name": one.metadata.name, "uid": one.metadata.uid}
            for one in users
        ],
    }
    await stage.user.patch(
        RESOURCE_CLAIMS.status, Key(NAMESPACE, "common"), merge_patch({"status": status})
    )
    await stage.clock.sleep(1)


async def taint(stage: Stage, device: str, effect: str) -> None:
    body = a_slice("node-a", 2)
    for one in body["spec"]["devices"]:
        if one["name"] == device:
            one["taints"] = [{"key": XID, "value": "79", "effect": effect}]
    key = Key("", body["metadata"]["name"])
    await stage.user.patch(RESOURCE_SLICES, key, merge_patch({"spec": body["spec"]}))


@pytest.mark.parametrize(
    ("device", "effect", "is_broken"),
    [
        ("gpu-0", "NoSchedule", True),
        ("gpu-0", "NoExecute", True),
        ("gpu-0", "None", False),
        ("gpu-1", "NoSchedule", False),
    ],
)
def test_tainted_device_restarts_the_pods_that_have_it(
    device: str, effect: str, is_broken: bool
) -> None:
    """After fifteen seconds, and their node is not avoided: its other devices are whole."""

    async def test(stage: Stage) -> None:
        await with_devices(stage)
        await taint(stage, device, effect)
        assert await restarts_within(stage, 14) == []
        assert await restarts_within(stage, 60) == (list(PODS_OF_JOB) if is_broken else [])
        job = await stage.job()
        assert job.status.avoid_nodes == ()
        if is_broken:
            events = (await stage.user.list(EVENTS)).items
            texts = [one.message for one in events if one.reason == "GPUFault"]
            assert any(f"{DRIVER}/node-a/gpu-0 has the taint {XID}=79" in text for text in texts)

    played(test)


def test_taint_that_passes_or_is_tolerated_is_no_fault() -> None:
    async def test(stage: Stage) -> None:
        await with_devices(stage)
        for _ in range(6):
            await taint(stage, "gpu-0", "NoSchedule")
            await stage.clock.sleep(5)
            await taint(stage, "gpu-0", "None")
            await stage.clock.sleep(5)
        assert await restarts_within(stage, 30) == []

    async def tolerated(stage: Stage) -> None:
        await with_devices(stage, ({"key": XID, "operator": "Exists"},))
        await taint(stage, "gpu-0", "NoSchedule")
        assert await restarts_within(stage, 60) == []

    played(test)
    played(tolerated)


def test_fault_of_a_node_concerns_pods_with_gpus_by_claims() -> None:
    """A pod that requests no GPU as a resource may have one all the same."""

    async def test(stage: Stage) -> None:
        await with_devices(stage)
        conditions = [
            {"type": "Ready", "status": "True"},
            {"type": "GPUUnhealthy", "status": "True"},
        ]
        body = merge_patch({"status": {"conditions": conditions}})
        await stage.user.patch(NODES.status, Key("", "node-a"), body)
        assert await restarts_within(stage, 60) == list(PODS_OF_JOB)

    played(test)


# --- faults of nodes


async def report_fault(stage: Stage, node: str, status: str) -> None:
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "GPUUnhealthy", "status": status},
    ]
    body: Body = {"status": {"conditions": conditions, "capacity": {GPU: "8"}}}
    await stage.user.patch(NODES.status, Key("", node), merge_patch(body))


def test_monitor_that_is_away_has_a_minute() -> None:
    async def test(stage: Stage) -> None:
        await with_gpus(stage)
        await report_fault(stage, "node-a", "Unknown")
        assert await restarts_within(stage, 55) == []
        assert await restarts_within(stage, 30) == list(PODS_OF_JOB)

    played(test, gpu_fault_conditions=("GPUUnhealthy=Unknown",))


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_many_faulty_nodes_are_held_back_and_counted(share: float) -> None:
    """From which share on is a setting. An event and a metric tell it."""

    async def test(stage: Stage) -> None:
        await with_gpus(stage)
        others = [f"node-{at}" for at in range(3)]
        for name in others:
            await stage.add_node(name)
            await report_fault(stage, name, "False")
        await stage.clock.sleep(1)
        for name in (*others[1:], "node-a"):
            await report_fault(stage, name, "True")
        is_held = share < 0.75
        expected = [] if is_held else list(PODS_OF_JOB)
        assert await restarts_within(stage, 60) == expected
        events = (await stage.user.list(EVENTS)).items
        assert any(one.reason == FAULTS_HELD for one in events) is is_held
        text = stage.metrics.exposition().decode()
        assert f"swell_gpu_faults_held_total {float(is_held)}" in text

    played(test, gpu_fault_max_share=share)


# --- GPUs that a device plugin withdraws


async def with_gpus(stage: Stage) -> None:
    role = with_gpu(of_pods())
    role["template"]["spec"]["containers"][0]["resources"]["limits"] = {GPU: "4"}
    await running(stage, role)
    await stage.clock.sleep(1)


async def withdrawals(stage: Stage) -> list[str]:
    events = (await stage.user.list(EVENTS)).items
    return [one.message for one in events if one.reason == GPUS_WITHDRAWN]


@pytest.mark.parametrize("drop", [REPORT, FAULT])
def test_fewer_gpus_than_pods_have_are_reported_or_a_fault(drop: str) -> None:
    async def test(stage: Stage) -> None:
        await with_gpus(stage)
        await allocatable(stage, 7)
        assert await restarts_within(stage, 55) == []
        assert await withdrawals(stage) == []
        expected = list(PODS_OF_JOB) if drop == FAULT else []
        assert await restarts_within(stage, 30) == expected
        texts = await withdrawals(stage)
        assert len(texts) == (drop == REPORT)
        if texts:
            assert "7 of 8 nvidia.com/gpu can be allocated, and its pods have 8" in texts[0]

    played(test, gpu_allocatable_drop=drop)


def test_plugin_that_restarts_withdraws_nothing() -> None:
    """Nothing can be allocated for half a minute; also long after one GPU was found broken."""

    async def test(stage: Stage) -> None:
        await with_gpus(stage)
        await allocatable(stage, 0)
        assert await restarts_within(stage, 30) == []
        await allocatable(stage, 8)
        assert await restarts_within(stage, 300) == []
        assert await withdrawals(stage) == []

    played(test, gpu_allocatable_drop=FAULT)


def test_pod_whose_status_names_the_broken_gpu_restarts_alone() -> None:
    """After it has stood for fifteen seconds."""

    async def test(stage: Stage) -> None:
        await with_gpus(stage)
        await allocatable(stage, 7)
        device = {"resourceID": "GPU-3", "health": "Unhealthy"}
        status = {
            "name": "aitj-main",
            "allocatedResourcesStatus": [{"name": GPU, "resources": [device]}],
        }
        body = merge_patch({"status": {"containerStatuses": [status]}})
        await stage.user.patch(PODS.status, Key(NAMESPACE, PODS_OF_JOB[1]), body)
        assert await restarts_within(stage, 14) == []
        assert await restarts_within(stage, 120) == [PODS_OF_JOB[1]]
        assert await withdrawals(stage) == []

    played(test, gpu_allocatable_drop=FAULT)


def test_operator_works_where_no_devices_are_served() -> None:
    async def test() -> None:
        async with staged() as stage:
            await running(stage, of_pods())
            assert await restarts_within(stage, 60) == []
            assert (await stage.job()).status.phase is AITrainingJobPhase.RUNNING

    play(test())
