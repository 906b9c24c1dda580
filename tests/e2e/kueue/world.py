"""A control plane with hollow nodes, our operator and scheduler, and a Kueue with two flavors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from swell.api.core import Taint
from swell.api.kinds import AI_TRAINING_JOBS, NAMESPACES, PODS, PRIORITY_CLASSES
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.assembly import HOLLOW_CAPACITY, add_hollow_agent, node_names
from swell.node.hollow import PREFIX
from swell.node.nodes import NodeShape
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import install_crds, operate
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Selection, merge_patch
from swell.runtime.errors import NotFoundError
from swell.runtime.manager import Manager
from swell.scheduler.live.controller import Scheduler
from tests.e2e.operator.jobs import job, manifest, pods
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kueue import CLUSTER_QUEUES, FLAVORS, LOCAL_QUEUES, running_kueue

JOBS = "jobs"  # the namespace
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
FLAVOR_LABEL, FLAVOR_TAINT = "tests/flavor", "tests/reserved"
WITHIN_S, POLL_S, CLOSE_S = 90.0, 0.2, 0.25
QUOTA_CPUS = 4


@dataclass(frozen=True, slots=True)
class KueueWorld:
    """What a story needs: the cluster as its user sees it."""

    user: Cluster

    async def submit(self, name: str, roles: dict[str, Body], /, **spec: object) -> None:
        body = manifest(name, JOBS, job(roles, **spec))
        body["metadata"]["labels"] = {QUEUE_LABEL: "queue"}
        await self.user.create(AI_TRAINING_JOBS.untyped(), body)

    async def job(self, name: str) -> Body:
        return await self.user.get(AI_TRAINING_JOBS.untyped(), Key(JOBS, name))

    async def pods(self, name: str) -> list[Body]:
        """The pods of a job, by name."""
        found = await self.user.list(PODS.untyped(), Selection(namespace=JOBS))
        own = (pod for pod in found.items if _owner(pod) == name)
        return sorted(own, key=lambda pod: str(pod["metadata"]["name"]))

    async def only(self, resource: Resource[Body], owner: str) -> Body:
        """The one object of a kind that belongs to a job."""
        found = await self.user.list(resource, Selection(namespace=JOBS))
        (own,) = (body for body in found.items if _owner(body) == owner)
        return own

    async def edit(self, name: str, **spec: object) -> None:
        await self.user.patch(AI_TRAINING_JOBS, Key(JOBS, name), merge_patch({"spec": spec}))

    async def end(self, pod: str, code: int = 0) -> None:
        """A running pod ends with this exit code."""
        said = {PREFIX + "duration": "0", PREFIX + "exit-code": str(code)}
        change = merge_patch({"metadata": {"annotations": said}})
        await self.user.patch(PODS, Key(JOBS, pod), change)

    async def until_job(self, name: str, holds: Callable[[Body], bool], what: str) -> Body:
        """Wait until a job is as it should be; with the last state of it where it never is."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while not holds(seen := await self.job(name)):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"{name}: {what}; it is {await self.job(name)}") from None
        return seen

    async def until_phase(self, name: str, phase: str) -> Body:
        return await self.until_job(name, lambda body: phase_of(body) == phase, phase)

    async def until_gone(self, name: str) -> None:
        async with asyncio.timeout(WITHIN_S):
            while await self.pods(name):  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)

    async def delete(self, name: str) -> None:
        await self.user.delete(AI_TRAINING_JOBS, Key(JOBS, name))
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    await self.job(name)
                except NotFoundError:
                    return
                await asyncio.sleep(POLL_S)


def phase_of(body: Body) -> str:
    return str(body.get("status", {}).get("phase", ""))


def condition_of(body: Body, kind: str) -> str:
    """A condition's status; empty if there is none of this type."""
    conditions = body.get("status", {}).get("conditions", [])
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "")


def a_role(n: int, cpus: int = 1, **fields: object) -> Body:
    """A role of n pods of so many cpus that run until they are told to end."""
    role = pods(n, **fields)  # type: ignore[arg-type]
    requests = {"cpu": str(cpus), "memory": "64Mi"}
    role["template"]["spec"]["containers"][0]["resources"] = {"requests": requests}
    return role


@asynccontextmanager
async def kueue_world(
    plane: ControlPlane, folder: Path, *, knows_our_kind: bool
) -> AsyncIterator[KueueWorld]:
    clock = SystemClock()
    async with connect(read_kubeconfig([plane.kubeconfig]), clock, Random(1)) as admin:
        await install_crds(admin, clock)
        manager = Manager(clock=clock)
        _add_nodes(manager, admin, clock)
        manager.add("scheduler", Scheduler(admin, clock=clock, random=Random(4)).run)
        settings = AITrainingJobSettings(gc_period_s=3.0, namespace=JOBS)

        async def work() -> None:
            kind = ai_training_job_kind(settings)
            await operate(kind, admin, clock=clock, random=Random(6))

        manager.add("operator", work)
        running = asyncio.create_task(manager.run())
        try:
            async with running_kueue(plane, admin, folder, knows_our_kind=knows_our_kind):
                await _queues(admin)
                yield KueueWorld(admin)
        finally:
            manager.stop()
            await running
    await asyncio.sleep(CLOSE_S)


def _add_nodes(manager: Manager, admin: Cluster, clock: SystemClock) -> None:
    """One node that only the flavor leads to, and one for everybody."""
    reserved = NodeShape(
        HOLLOW_CAPACITY,
        boot_id="reserved",
        labels={FLAVOR_LABEL: "reserved"},
        taints=(Taint(key=FLAVOR_TAINT, effect="NoSchedule"),),
    )
    common = NodeShape(HOLLOW_CAPACITY, boot_id="common")
    for name, shape in (("reserved", reserved), ("common", common)):
        names = node_names(name, 1)
        add_hollow_agent(manager, admin, names, shape, clock=clock, random=Random(5))


async def _queues(admin: Cluster) -> None:
    """A quota of some cpus on the reserved node, for which more important jobs preempt."""
    await admin.create(NAMESPACES.untyped(), {"metadata": {"name": JOBS}})
    for name, value in (("low", 1), ("high", 9)):
        await admin.create(PRIORITY_CLASSES.untyped(), {"metadata": {"name": name}, "value": value})
    taint = {"key": FLAVOR_TAINT, "operator": "Exists", "effect": "NoSchedule"}
    flavor = {"nodeLabels": {FLAVOR_LABEL: "reserved"}, "tolerations": [taint]}
    covered = ["cpu", "memory"]
    amounts = (
        {"name": "cpu", "nominalQuota": QUOTA_CPUS},
        {"name": "memory", "nominalQuota": "1Ti"},
    )
    quota = {"coveredResources": covered, "flavors": [{"name": "flavor", "resources": amounts}]}
    queue = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [quota],
    }
    await _create(admin, FLAVORS, "", "flavor", flavor)
    await _create(admin, CLUSTER_QUEUES, "", "all", queue)
    await _create(admin, LOCAL_QUEUES, JOBS, "queue", {"clusterQueue": "all"})


async def _create(
    admin: Cluster, resource: Resource[Body], namespace: str, name: str, spec: Body
) -> None:
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    frame = {"apiVersion": resource.api_version, "kind": resource.kind}
    await admin.create(resource, {**frame, "metadata": meta, "spec": spec})


def _owner(body: Body) -> str:
    owners = body["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("name", ""))
