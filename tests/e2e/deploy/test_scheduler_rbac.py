"""The scheduler on a real control plane, as the ServiceAccount of the deploy files and no more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from swell.api.kinds import (
    AI_TRAINING_JOBS,
    HYPER_NODES,
    NAMESPACES,
    NATIVE_GROUPS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
)
from swell.api.meta import Body, Key
from swell.api.pod import Pod, PodPhase
from swell.api.resource import Resource
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.assembly import add_hollow_agent, node_names
from swell.node.nodes import NodeShape
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import operate
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.errors import AlreadyExistsError, NotFoundError
from swell.runtime.manager import Manager
from tests.e2e.deploy.devices import BINDING, need_device, need_it_no_more
from tests.e2e.deploy.devices import RIGHTS as DEVICE_RIGHTS
from tests.e2e.deploy.installed import WITHIN_S, Installed, rights_of
from tests.e2e.deploy.queues import close_and_open
from tests.e2e.deploy.rights import Right
from tests.e2e.deploy.scraping import (
    READER,
    STRANGER,
    accounts,
    free_port,
    metrics_flags,
    until_answered,
)
from tests.e2e.deploy.volumes import RIGHTS, need_them_no_more, need_volumes

PART = "scheduler"
# Every node, by any name.
RACK = {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "."}}}]}
NAMESPACE = "gangs"
CLOSE_S = 0.25  # for connections cut off in the middle
NODES: Body = {"for": NAMESPACE}
SHAPE = NodeShape({"cpu": "4", "memory": "16Gi", "pods": "20"}, boot_id="rbac", labels=NODES)


def test_scheduler_has_the_rights_it_needs_and_no_others(installed: Installed) -> None:
    """No request of a life of gangs and queues is refused, and every right granted is used."""
    port, tokens = free_port(), accounts(installed)
    with installed.running(PART):
        asyncio.run(_live(installed))
    with installed.running(PART, metrics_flags(port)):
        asyncio.run(_live_on(installed))
        asyncio.run(_scrape(port, tokens))
    uses = installed.uses(PART)
    asked = {use.right for use in uses}

    assert sorted({str(use.right) for use in uses if not use.is_allowed}) == []
    assert sorted(map(str, rights_of(PART) - asked - {BINDING})) == []


async def _scrape(port: int, tokens: dict[str, str]) -> None:
    """Metrics are for those with the right to them; others are told what they lack."""
    assert "swell_" in await until_answered(port, tokens[READER], 200)
    assert "may not get the path /metrics" in await until_answered(port, tokens[STRANGER], 403)
    assert "bearer token" in await until_answered(port, "guessed", 401)
    assert "bearer token" in await until_answered(port, "", 401)


async def _live(installed: Installed) -> None:
    """Gangs start, wait, take the room of others and make an elastic job smaller."""
    async with _world(installed) as user:
        for name, value in (("low", 1), ("high", 9)):
            await user.create(PRIORITY_CLASSES, _object(PRIORITY_CLASSES, name, value=value))
        with contextlib.suppress(NotFoundError):
            await user.delete(QUEUES, Key("", "default"))  # comes again
        await user.create(HYPER_NODES, _object(HYPER_NODES, "rack", spec=RACK))
        await user.create(AI_TRAINING_JOBS, _elastic())
        await _until_running(user, "elastic-t-", 4)
        await _gang(user, "claims", 2, "2", "high", networkTopology={"mode": "soft"})
        await _until_running(user, "claims-", 2)
        # The domain that it got is written on its group.
        await installed.until_used(PART, Right("patch", POD_GROUPS.group, POD_GROUPS.plural))
        await user.delete(AI_TRAINING_JOBS, Key(NAMESPACE, "elastic"))
        await _gang(user, "rigid", 1, "2", "low")
        await user.create(AI_TRAINING_JOBS, _saving())
        await _until_running(user, "rigid-", 1)
        await _until_running(user, "saving-t-", 1)
        await _gang(user, "evicts", 2, "2", "high")
        await _until_running(user, "evicts-", 2)
        await _native_gang(user, "native", 2)
        await _until_running(user, "native-", 2)
        status = f"{NATIVE_GROUPS.plural}/status"
        await installed.until_used(PART, Right("patch", NATIVE_GROUPS.group, status))
        await need_volumes(user, NAMESPACE)
        for right in RIGHTS:
            await installed.until_used(PART, right)
        await need_them_no_more(user, NAMESPACE)
        device_node = node_names(NAMESPACE, 2)[0]
        await need_device(user, NAMESPACE, device_node)
        for right in DEVICE_RIGHTS:
            await installed.until_used(PART, right)
        await _until_running(user, "device", 1)
        await need_it_no_more(user, NAMESPACE, device_node)
        await _gang(user, "waits", 1, "100", "low")
        await close_and_open(user)
        await close_and_open(user)


async def _live_on(installed: Installed) -> None:
    """What happened in a former life of the scheduler happens twice more."""
    async with _world(installed) as user:
        await close_and_open(user)
        await close_and_open(user)
        await installed.until_used(PART, Right("patch", "events.k8s.io", "events"))


@asynccontextmanager
async def _world(installed: Installed) -> AsyncIterator[Cluster]:
    """A cluster with an operator, and nodes in which pods pretend to run."""
    clock = SystemClock()
    access = read_kubeconfig([installed.plane.kubeconfig])
    async with connect(access, clock, Random(1)) as admin:
        with contextlib.suppress(AlreadyExistsError):
            await admin.create(NAMESPACES, _object(NAMESPACES, NAMESPACE))
        manager = Manager(clock=clock)
        names = node_names(NAMESPACE, 2)
        add_hollow_agent(manager, admin, names, SHAPE, clock=clock, random=Random(3))
        settings = AITrainingJobSettings(namespace=NAMESPACE)
        manager.add(
            "operator",
            lambda: operate(ai_training_job_kind(settings), admin, clock=clock, random=Random(4)),
        )
        running = asyncio.create_task(manager.run())
        try:
            yield admin
        finally:
            manager.stop()
            await running
    await asyncio.sleep(CLOSE_S)


def _object(resource: Resource[object], name: str, **more: object) -> Body:
    metadata = {"name": name, **({"namespace": NAMESPACE} if resource.namespaced else {})}
    frame = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return {**frame, **more}


def _spec(cpu: str) -> Body:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    container = {"name": "aitj-main", "image": "local", "resources": resources}
    return {
        "nodeSelector": NODES,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }


def _elastic() -> Body:
    role = {"replicas": 4, "minReplicas": 1, "maxReplicas": 4, "edlPolicy": "Auto"}
    roles = {"t": {**role, "template": {"spec": _spec("2")}}}
    spec = {"schedulerName": "swell", "priority": "low", "replicaSpecs": roles}
    return _object(AI_TRAINING_JOBS, "elastic", spec=spec)


def _saving() -> Body:
    """A victim that may save first: the scheduler writes on it until when."""
    roles = {"t": {"replicas": 1, "template": {"spec": _spec("2")}}}
    spec = {"schedulerName": "swell", "priority": "low", "saveSeconds": 1, "replicaSpecs": roles}
    return _object(AI_TRAINING_JOBS, "saving", spec=spec)


async def _gang(user: Cluster, name: str, n: int, cpu: str, priority: str, **more: object) -> None:
    spec: Body = {"minMember": n, "queue": "default", "priorityClassName": priority, **more}
    await user.create(POD_GROUPS, _object(POD_GROUPS, name, spec=spec))
    for index in range(n):
        pod_spec = {**_spec(cpu), "schedulerName": "swell", "priorityClassName": priority}
        body = _object(PODS, f"{name}-{index}", spec=pod_spec)
        body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
        await user.create(PODS, body)


async def _native_gang(user: Cluster, name: str, n: int) -> None:
    spec: Body = {"schedulingPolicy": {"gang": {"minCount": n}}}
    await user.create(NATIVE_GROUPS, _object(NATIVE_GROUPS, name, spec=spec))
    # The cores are taken by then; memory is not.
    container: Body = {"name": "aitj-main", "image": "local"}
    container["resources"] = {"requests": {"memory": "1Mi"}}
    for index in range(n):
        group = {"schedulingGroup": {"podGroupName": name}}
        own: Body = {"schedulerName": "swell", "containers": [container], **group}
        await user.create(PODS, _object(PODS, f"{name}-{index}", spec={**_spec("1"), **own}))


async def _until_running(user: Cluster, prefix: str, n: int) -> None:
    def counts(pod: Pod) -> bool:
        is_there = pod.metadata.deletion_timestamp is None
        return is_there and pod.status.phase is PodPhase.RUNNING

    await _until(user, lambda pods: sum(counts(p) for p in pods if _has(p, prefix)) == n)


def _has(pod: Pod, prefix: str) -> bool:
    return pod.metadata.name.startswith(prefix)


async def _until(user: Cluster, holds: Callable[[tuple[Pod, ...]], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds((await user.list(PODS, Selection(NAMESPACE))).items):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
