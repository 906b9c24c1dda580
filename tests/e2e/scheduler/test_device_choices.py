"""Random device problems against kube-scheduler: the same devices, or none where it finds none.

Every problem has a driver of its own, so all of them are solved at once in one cluster. As a
program it solves any number of them, a batch at a time, from any seed on: `python -m
tests.e2e.scheduler.test_device_choices 500 10000`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence

import pytest

from swell.api import codec
from swell.api.devices import ResourceClaim
from swell.api.kinds import (
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.runtime.cluster import Selection, merge_patch
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.plan import SchedulerObjects, plan_schedule
from tests.device_problems import NODE_LABEL, DeviceProblem, a_problem, given_status
from tests.e2e.scheduler.native_world import KUBES, World, native_world, until
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.native_gangs import (
    API_SERVER_FLAGS,
    MANAGER_FLAGS,
    NATIVE_CONTROLLERS,
    running_kube_scheduler,
)

N_PROBLEMS = 60
Devices = list[tuple[str, str, str]]  # request, pool and device
Choices = dict[str, dict[str, Devices] | None]  # by problem and claim


@pytest.fixture(scope="module")
def judged_plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    """A control plane with kube-scheduler."""
    with (
        running_control_plane(
            controllers=NATIVE_CONTROLLERS,
            api_server_flags=API_SERVER_FLAGS,
            controller_manager_flags=MANAGER_FLAGS,
        ) as plane,
        running_kube_scheduler(plane),
    ):
        yield plane


def pod_of(world: World, problem: DeviceProblem) -> Body:
    made = world.pod(f"pod-{problem.name}", scheduler=KUBES)
    made["spec"]["nodeSelector"] |= {NODE_LABEL: problem.node}
    names = [claim["metadata"]["name"] for claim in problem.claims]
    made["spec"]["resourceClaims"] = [{"name": one, "resourceClaimName": one} for one in names]
    made["spec"]["containers"] = [{"name": "main", "image": "local"}]
    return made


async def have(world: World, problems: Sequence[DeviceProblem], nodes: Mapping[str, str]) -> None:
    cluster, namespace = world.cluster, world.namespace
    # Without the label the server forbids admin access.
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await cluster.patch(NAMESPACES, Key("", namespace), merge_patch(labels))
    for problem in problems:
        for one in problem.classes:
            await cluster.create(DEVICE_CLASSES.untyped(), one)
        for one in problem.slices:
            await cluster.create(RESOURCE_SLICES.untyped(), one)
        for one in problem.claims:
            await cluster.create(RESOURCE_CLAIMS.untyped(), in_namespace(one, namespace))
        if problem.given is not None:
            key = Key(namespace, problem.claims[0]["metadata"]["name"])
            change = merge_patch({"status": given_status(problem, nodes[problem.node])})
            await cluster.patch(RESOURCE_CLAIMS.untyped().status, key, change)
        if problem.used:
            made = await cluster.create(
                RESOURCE_CLAIMS.untyped(), in_namespace(problem.used_claim, namespace)
            )
            key = Key(namespace, made["metadata"]["name"])
            change = merge_patch({"status": problem.used_status})
            await cluster.patch(RESOURCE_CLAIMS.untyped().status, key, change)


def in_namespace(one: Body, namespace: str) -> Body:
    return {**one, "metadata": {**one["metadata"], "namespace": namespace}}


def ours(world: World, problem: DeviceProblem, seen: SchedulerObjects) -> dict[str, Devices] | None:
    """Returns the devices that we would choose; None where we find no way."""
    body = pod_of(world, problem)
    body["metadata"] |= {"uid": "x", "annotations": {GROUP_ANNOTATION: "g"}}
    seen.pods = [codec.convert(body, Pod)]
    group: Body = {"metadata": {"name": "g", "namespace": world.namespace}}
    group |= {"spec": {"minMember": 1, "queue": "default"}, "status": {"phase": "Inqueue"}}
    seen.groups = [codec.convert(group, PodGroup)]
    plan = plan_schedule(seen, scheduler_names=(KUBES,))
    if not plan.binds:
        return None
    (choice,) = plan.devices.values()
    found = {
        claim: [(one.request, one.pool, one.device) for one in allocation.devices.results]
        for claim, allocation in choice.allocations.items()
    }
    claims = {str(one.metadata.key): one for one in seen.resource_claims}
    return found | {claim: written_in(claims[claim]) for claim in choice.reserved}


async def observed(world: World) -> SchedulerObjects:
    """Returns the cluster as both schedulers see it before the pods come."""
    cluster = world.cluster
    return SchedulerObjects(
        nodes=list((await cluster.list(NODES)).items),
        queues=[codec.convert({"metadata": {"name": "default"}}, Queue)],
        resource_slices=list((await cluster.list(RESOURCE_SLICES)).items),
        device_classes=list((await cluster.list(DEVICE_CLASSES)).items),
        resource_claims=list((await cluster.list(RESOURCE_CLAIMS)).items),
        are_whole=True,
    )


async def theirs(world: World, problems: Sequence[DeviceProblem]) -> Choices:
    """Returns the devices that kube-scheduler chose; None where it found no way."""

    async def are_decided() -> bool:
        pods = (await world.cluster.list(PODS, Selection(world.namespace))).items
        decided = [
            pod
            for pod in pods
            if pod.spec.node_name
            or any(c.type == "PodScheduled" and c.status == "False" for c in pod.status.conditions)
        ]
        return len(decided) == len(problems)

    await until(are_decided)
    placed = await world.placed("pod-")
    claims = (await world.cluster.list(RESOURCE_CLAIMS, Selection(world.namespace))).items
    by_key = {str(one.metadata.key): one for one in claims}
    return {
        problem.name: {
            key: written_in(by_key[key])
            for claim in problem.claims
            for key in [f"{world.namespace}/{claim['metadata']['name']}"]
        }
        if f"pod-{problem.name}" in placed
        else None
        for problem in problems
    }


def written_in(claim: ResourceClaim) -> Devices:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return [(one.request, one.pool, one.device) for one in results]


async def differing(
    plane: ControlPlane, namespace: str, numbers: Sequence[int]
) -> tuple[list[object], int]:
    """Solves problems by both; returns those with different answers, and how many were solved."""
    labels = {name: {NODE_LABEL: name} for name in "ab"}
    async with native_world(plane, namespace, labels, n_pods=len(numbers)) as world:
        problems = [a_problem(number) for number in numbers]
        listed = (await world.cluster.list(NODES, Selection(labels=f"for={namespace}"))).items
        nodes = {node.metadata.labels[NODE_LABEL]: node.metadata.name for node in listed}
        for problem in problems:
            on_real_nodes(problem, nodes)
        await have(world, problems, nodes)
        seen = await observed(world)
        chosen = {problem.name: ours(world, problem, seen) for problem in problems}
        for problem in problems:
            await world.cluster.create(PODS, pod_of(world, problem))
        found = await theirs(world, problems)
        wrong: list[object] = [
            (name, devices, chosen[name])
            for name, devices in found.items()
            if devices != chosen[name]
        ]
        return wrong, sum(devices is not None for devices in found.values())


def on_real_nodes(problem: DeviceProblem, nodes: Mapping[str, str]) -> None:
    """Gives the slices the names of the nodes of this world."""
    for one in problem.slices:
        for place in (one["spec"], *one["spec"].get("devices", ())):
            if "nodeName" in place:
                place["nodeName"] = nodes[place["nodeName"]]


def test_devices_are_those_of_kube_scheduler(judged_plane: ControlPlane) -> None:
    """Where kube-scheduler finds devices, so do we, and the same; and nowhere else."""
    wrong, n_placed = asyncio.run(differing(judged_plane, "devices", range(N_PROBLEMS)))

    assert wrong == []
    assert n_placed > N_PROBLEMS / 5


def main(n: int, start: int = 0) -> int:
    """Solves n problems, from one seed on, with a control plane of its own."""
    wrong: list[object] = []
    n_placed = 0
    with (
        running_control_plane(
            controllers=NATIVE_CONTROLLERS,
            api_server_flags=API_SERVER_FLAGS,
            controller_manager_flags=MANAGER_FLAGS,
        ) as plane,
        running_kube_scheduler(plane),
    ):
        for first in range(start, start + n, N_PROBLEMS):
            numbers = range(first, min(first + N_PROBLEMS, start + n))
            found, placed = asyncio.run(differing(plane, f"devices-{first}", numbers))
            wrong += found
            n_placed += placed
    for one in wrong:
        print(one)  # noqa: T201
    print(f"{n} device problems, {n_placed} with a solution, {len(wrong)} answered differently")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
