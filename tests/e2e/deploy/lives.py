"""Lives of jobs in which the operator needs every right it has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random

from swell.api.core import Taint
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    NATIVE_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    TRAINING_JOBS,
)
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.assembly import HOLLOW_CAPACITY, add_hollow_agent, node_names
from swell.node.hollow import PREFIX
from swell.node.nodes import NodeShape
from swell.operator.framework.program import install_crds
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Deletion, Selection, merge_patch
from swell.runtime.errors import AlreadyExistsError, NotFoundError
from swell.runtime.manager import Manager
from swell.scheduler.live.controller import Scheduler
from tests.e2e.deploy.installed import Installed
from tests.e2e.deploy.rights import Right
from tests.e2e.operator.actions import (
    changes,
    deletes_job,
    ends,
    loses_node,
    scales,
    somebody_deletes,
)
from tests.e2e.operator.checks import (
    becomes,
    group_asks_for,
    is_reported,
    nothing_is_left,
    pods_are,
    restarts,
    runs,
)
from tests.e2e.operator.jobs import OWN_NODES, job, manifest, pods
from tests.e2e.operator.observation import NamespaceObserver
from tests.e2e.operator.scenario import Scenario, Trial, scenario

PART = "operator"
WITHIN_S = 60.0
CLOSE_S = 0.25  # for connections cut off in the middle
NATIVELY = "--gang-api=native"
FLAGS = ["--gc-period=2s", "--node-lost-after=2s", "--node-fence-after=1s", "--adopt-original"]
ELASTIC: Body = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 3}

# fmt: off
STORIES: tuple[Scenario, ...] = (
    scenario("grows", job({"a": pods(1, **ELASTIC)}),
          runs(), scales("a", 3), pods_are("a-0", "a-1", "a-2"),
          changes({"replicaSpecs": {"a": {"minReplicas": 2}}}), group_asks_for(2),
          scales("a", 2), pods_are("a-0", "a-1"),
          ends("a-0", "a-1"), becomes("Succeed"), deletes_job(), nothing_is_left()),
    scenario("fails", job({"a": pods(2, restartPolicy="Always", restartLimit=1)}),
          runs(), ends("a-0", code=1), restarts("a-0", "a-1"), somebody_deletes("a-1"),
          restarts("a-0", "a-1"), ends("a-0", code=1), becomes("Failed"), deletes_job(),
          nothing_is_left()),
    scenario("trains", job({"a": pods(1)}, reporting=True),
          runs(), ends("a-0"), becomes("Succeed"), deletes_job(), nothing_is_left()),
    scenario("expires", job({"a": pods(1)}, ttlSecondsAfterFinished=0),
          runs(), ends("a-0"), nothing_is_left()),
    scenario("fails-on", job({"a": pods(1, restartPolicy="Always")}),
          runs(), ends("a-0", code=1), restarts("a-0"), ends("a-0", code=1), restarts("a-0")),
)
# Only for an operator that sees nodes.
OF_NODES: tuple[Scenario, ...] = (
    scenario("loses-its-node", job({"a": pods(1)}),
          runs(), loses_node("a-0"), becomes("NodeFail"), is_reported("TrainingJobNodeFail"),
          n_nodes=1),
)
# For an operator that writes PodGroups of Kubernetes itself.
NATIVE: Scenario = scenario(
    "native", job({"a": pods(1)}),
    runs(), ends("a-0"), becomes("Succeed"), deletes_job(), nothing_is_left(),
)
# fmt: on


# Objects of somebody else, whose names are those that jobs would give to theirs.
CONTAINER: Body = {"name": "main", "image": "local"}
SELECTED: Body = {"app": "somebody"}
TEMPLATE: Body = {"metadata": {"labels": SELECTED}, "spec": {"containers": [CONTAINER]}}
TAKEN: dict[str, tuple[Resource[object], Body]] = {
    "pod-a-0": (PODS, {"spec": {"schedulerName": "nobody", "containers": [CONTAINER]}}),
    "service-a-0": (SERVICES, {"spec": {"clusterIP": "None"}}),
    "configmap-members": (CONFIG_MAPS, {}),
    "podgroup": (POD_GROUPS, {"spec": {"minMember": 1}}),
    "replicaset-pserver": (
        REPLICA_SETS,
        {"spec": {"replicas": 0, "selector": {"matchLabels": SELECTED}, "template": TEMPLATE}},
    ),
    "job-trainer": (
        JOBS,
        {
            "spec": {
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
            }
        },
    ),
}

LOOKS = [Right("get", resource.group, resource.plural) for resource, _ in TAKEN.values()]


@dataclass(frozen=True, slots=True)
class Life:
    """Where jobs live, and what happens to them."""

    installed: Installed
    namespace: str
    stories: tuple[Scenario, ...]


@asynccontextmanager
async def _world(life: Life) -> AsyncIterator[tuple[Cluster, NamespaceObserver]]:
    """A cluster with nodes in which pods pretend to run, seen by its administrator."""
    clock, namespace = SystemClock(), life.namespace
    access = read_kubeconfig([life.installed.plane.kubeconfig])
    async with connect(access, clock, Random(1)) as admin:
        await install_crds(admin, clock)
        with contextlib.suppress(AlreadyExistsError):
            body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await admin.create(NAMESPACES.untyped(), body)
        observation = NamespaceObserver(admin, namespace, clock, Random(2))
        manager = Manager(clock=clock)
        observation.add_to(manager)
        own = tuple(node for one in OF_NODES for node in one.nodes)
        common = NodeShape(HOLLOW_CAPACITY, boot_id="rbac")
        private = replace(common, taints=(Taint(key=OWN_NODES, effect="NoSchedule"),))
        for names, shape in ((node_names("common", 2), common), (own, private)):
            add_hollow_agent(manager, admin, names, shape, clock=clock, random=Random(3))
        manager.add("scheduler", Scheduler(admin, clock=clock, random=Random(4)).run)
        running = asyncio.create_task(manager.run())
        try:
            await observation.wait_synced()
            yield admin, observation
        finally:
            manager.stop()
            await running
    await asyncio.sleep(CLOSE_S)


async def live(life: Life) -> None:
    """Jobs of both kinds, from submission to the end, and jobs whose names are taken."""
    async with _world(life) as (admin, observation):
        played = [one.run(admin, observation) for one in life.stories]
        await asyncio.gather(
            *played,
            _training_job(admin, life),
            _expiring_training_job(admin, life),
            _taken(admin, life),
            _original(admin, life),
        )
        if all(one in life.stories for one in OF_NODES):
            # The loss of the node is marked on it.
            await life.installed.until_used(PART, Right("patch", "", NODES.plural))


async def live_on(life: Life) -> None:
    """What happened in a former life of the operator happens twice more; the second is counted."""
    async with _world(life) as (admin, observation):
        play = Trial("fails-on", admin, observation, ())
        again = (ends("a-0", code=1), restarts("a-0"), runs())
        for step in (runs(), *again, *again):
            await step.act(play)
        await life.installed.until_used(PART, Right("patch", "events.k8s.io", "events"))


async def live_natively(life: Life) -> None:
    """A job with a PodGroup of Kubernetes itself, and one whose group's name is taken."""
    taken, namespace = "taken", life.namespace
    frame = {"apiVersion": NATIVE_GROUPS.api_version, "kind": NATIVE_GROUPS.kind}
    meta = {"name": taken, "namespace": namespace}
    spec: Body = {"schedulingPolicy": {"basic": {}}}
    async with _world(life) as (admin, observation):
        await admin.create(NATIVE_GROUPS.untyped(), {**frame, "metadata": meta, "spec": spec})
        wanted = manifest(taken, namespace, job({"a": pods(1)}))
        await admin.create(AI_TRAINING_JOBS.untyped(), wanted)
        await NATIVE.run(admin, observation)
        for verb in ("get", "delete"):
            right = Right(verb, NATIVE_GROUPS.group, NATIVE_GROUPS.plural)
            await life.installed.until_used(PART, right)


async def _training_job(admin: Cluster, life: Life) -> None:
    """A TrainingJob that runs and is deleted."""
    await admin.create(TRAINING_JOBS.untyped(), _paddle("paddle", life.namespace))
    key = Key(life.namespace, "paddle")
    async with asyncio.timeout(WITHIN_S):
        while True:
            held = await admin.get(TRAINING_JOBS.untyped(), key)
            if held.get("status", {}).get("phase") == "Running":
                break
            await asyncio.sleep(0.2)
    await admin.delete(TRAINING_JOBS, key, Deletion())


async def _expiring_training_job(admin: Cluster, life: Life) -> None:
    """A TrainingJob whose trainers end, and which is deleted because it has ended."""
    body = _paddle("expires-too", life.namespace)
    body["spec"]["ttlSecondsAfterFinished"] = 0
    await admin.create(TRAINING_JOBS.untyped(), body)
    ended = merge_patch({"metadata": {"annotations": {f"{PREFIX}duration": "0"}}})
    trainers = Selection(life.namespace, labels="paddle-job=expires-too")
    async with asyncio.timeout(WITHIN_S):
        while not (found := (await admin.list(PODS, trainers)).items):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    for pod in found:
        await admin.patch(PODS, pod.metadata.key, ended)
    await _until_gone(admin, TRAINING_JOBS, Key(life.namespace, "expires-too"))


async def _original(admin: Cluster, life: Life) -> None:
    """The original controller left a ReplicaSet behind, which is collected."""
    labels = {"paddle-job-pserver": "long-gone"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    body: Body = {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {"name": "long-gone-pserver", "namespace": life.namespace, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    await admin.create(REPLICA_SETS.untyped(), body)
    await _until_gone(admin, REPLICA_SETS, Key(life.namespace, "long-gone-pserver"))


async def _until_gone(admin: Cluster, resource: Resource[object], key: Key) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                await admin.get(resource.untyped(), key)
            except NotFoundError:
                return
            await asyncio.sleep(0.2)


async def _taken(admin: Cluster, life: Life) -> None:
    await take_names(admin, life.namespace)
    for right in LOOKS:
        await life.installed.until_used(PART, right)


async def take_names(admin: Cluster, namespace: str) -> None:
    """Jobs that cannot have an object because somebody else has it: the operator looks at it."""
    for name, (resource, body) in TAKEN.items():
        owner = name.partition("-")[0]
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        metadata = {"name": name, "namespace": namespace}
        await admin.create(resource.untyped(), {**whole, "metadata": metadata})
        if resource.plural in {"replicasets", "jobs"}:
            await admin.create(TRAINING_JOBS.untyped(), _paddle(owner, namespace))
        else:
            wanted = manifest(owner, namespace, job({"a": pods(1)}))
            await admin.create(AI_TRAINING_JOBS.untyped(), wanted)


def _paddle(name: str, namespace: str) -> Body:
    return {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "image": "local",
            "fault_tolerant": True,
            "trainer": {"entrypoint": "train", "min-instance": 1, "max-instance": 2},
            "pserver": {"min-instance": 1},
        },
    }
