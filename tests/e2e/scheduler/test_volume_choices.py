"""Random volume problems against kube-scheduler: the same volume, and yes wherever it says yes.

Every problem has a class of its own, so all of them are solved at once in one cluster. As a
program it solves any number of them, a batch at a time, from any seed on: `python -m
tests.e2e.scheduler.test_volume_choices 500 10000`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence

import pytest

from swell.api import codec
from swell.api.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.runtime.cluster import Selection
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.model.volumes.claims import selected_node
from swell.scheduler.plan import SchedulerObjects, plan_schedule
from tests.e2e.scheduler.native_world import KUBES, WITHIN_S, World, native_world, until
from tests.storage_objects import mounts
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.native_gangs import (
    API_SERVER_FLAGS,
    MANAGER_FLAGS,
    NATIVE_CONTROLLERS,
    running_kube_scheduler,
)
from tests.volume_problems import DISK, NODE_LABELS, VolumeProblem

BINDER = "persistentvolume-binder-controller"
N_PROBLEMS = 60


@pytest.fixture(scope="module")
def judged_plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    """A control plane that binds claims, with kube-scheduler."""
    with (
        running_control_plane(
            controllers=(*NATIVE_CONTROLLERS, BINDER),
            api_server_flags=API_SERVER_FLAGS,
            controller_manager_flags=MANAGER_FLAGS,
        ) as plane,
        running_kube_scheduler(plane),
    ):
        yield plane


def pod_of(world: World, problem: VolumeProblem) -> Body:
    names = [claim["metadata"]["name"] for claim in problem.claims]
    made = world.pod(f"pod-{problem.name}", scheduler=KUBES, volumes=mounts(*names))
    made["spec"]["nodeSelector"] |= {DISK: problem.node}
    made["spec"]["containers"] = [{"name": "main", "image": "local"}]
    return made


async def have(world: World, problems: Sequence[VolumeProblem]) -> None:
    cluster = world.cluster
    nodes = {name: f"{world.namespace}-{name}-0" for name in NODE_LABELS}
    for problem in problems:
        await cluster.create(STORAGE_CLASSES.untyped(), problem.storage_class)
        for driver in problem.drivers:
            await cluster.create(CSI_DRIVERS.untyped(), driver)
        for capacity in problem.capacities:
            await cluster.create(CSI_STORAGE_CAPACITIES.untyped(), capacity)
        for volume in problem.volumes:
            await cluster.create(PERSISTENT_VOLUMES.untyped(), volume)
        for claim in problem.claims:
            await cluster.create(PERSISTENT_VOLUME_CLAIMS.untyped(), claim)
        for volume_name, node in problem.attachments:
            attachment = an_attachment(volume_name, problem.driver, nodes[node])
            await cluster.create(VOLUME_ATTACHMENTS.untyped(), attachment)
    for name, node in nodes.items():
        await cluster.create(CSI_NODES.untyped(), limits_of(node, name, problems))
    wanted = {key: volume for problem in problems for key, volume in problem.bound.items()}
    names = {volume["metadata"]["name"] for problem in problems for volume in problem.volumes}

    async def are_settled() -> bool:
        volumes = (await cluster.list(PERSISTENT_VOLUMES)).items
        claims = (await cluster.list(PERSISTENT_VOLUME_CLAIMS, Selection(world.namespace))).items
        bound = {c.metadata.name: c.spec.volume_name for c in claims if c.status.phase == "Bound"}
        phases = {v.status.phase for v in volumes if v.metadata.name in names}
        return bound == wanted and phases <= {"Available", "Bound"}

    await until(are_settled)


def limits_of(node: str, name: str, problems: Sequence[VolumeProblem]) -> Body:
    drivers = [
        {"name": problem.driver, "nodeID": node, "allocatable": {"count": problem.limits[name]}}
        for problem in problems
        if name in problem.limits
    ]
    head = {"apiVersion": CSI_NODES.api_version, "kind": CSI_NODES.kind}
    return {**head, "metadata": {"name": node}, "spec": {"drivers": drivers}}


def an_attachment(volume: str, driver: str, node: str) -> Body:
    head = {"apiVersion": VOLUME_ATTACHMENTS.api_version, "kind": VOLUME_ATTACHMENTS.kind}
    source = {"persistentVolumeName": volume}
    spec = {"attacher": driver, "nodeName": node, "source": source}
    return {**head, "metadata": {"name": f"{volume}-on-{node}"}, "spec": spec}


def ours(world: World, problem: VolumeProblem, seen: SchedulerObjects) -> dict[str, str] | None:
    """Returns the volumes and nodes that we would choose for claims; None where we find no way."""
    body = pod_of(world, problem)
    body["metadata"] |= {"uid": "x", "annotations": {GROUP_ANNOTATION: "g"}}
    seen.pods = [codec.convert(body, Pod)]
    group: Body = {"metadata": {"name": "g", "namespace": world.namespace}}
    group |= {"spec": {"minMember": 1, "queue": "default"}, "status": {"phase": "Inqueue"}}
    seen.groups = [codec.convert(group, PodGroup)]
    plan = plan_schedule(seen, scheduler_names=(KUBES,))
    if not plan.binds:
        return None
    found: dict[str, str] = {}
    for one in plan.volumes.values():
        found |= one.volumes
        found |= dict.fromkeys(one.provisions, f"made on {one.node}")
    return found


async def observed(world: World) -> SchedulerObjects:
    """Returns the cluster as both schedulers see it before the pods come."""
    cluster = world.cluster
    return SchedulerObjects(
        nodes=list((await cluster.list(NODES)).items),
        queues=[codec.convert({"metadata": {"name": "default"}}, Queue)],
        claims=list((await cluster.list(PERSISTENT_VOLUME_CLAIMS)).items),
        volumes=list((await cluster.list(PERSISTENT_VOLUMES)).items),
        storage_classes=list((await cluster.list(STORAGE_CLASSES)).items),
        csi_nodes=list((await cluster.list(CSI_NODES)).items),
        csi_drivers=list((await cluster.list(CSI_DRIVERS)).items),
        storage_capacities=list((await cluster.list(CSI_STORAGE_CAPACITIES)).items),
        volume_attachments=list((await cluster.list(VOLUME_ATTACHMENTS)).items),
        are_whole=True,
    )


async def theirs(
    world: World, problems: Sequence[VolumeProblem]
) -> dict[str, dict[str, str] | None]:
    """Returns what kube-scheduler chose for claims that had no volume; None if it found no way.

    A pod whose claims are to be provisioned is not bound: there is no provisioner here.
    """
    while True:
        async with asyncio.timeout(WITHIN_S):
            pods = (await world.cluster.list(PODS, Selection(world.namespace))).items
            chosen = await written(world)
            found: dict[str, dict[str, str] | None] = {}
            for problem in problems:
                pod = next(p for p in pods if p.metadata.name == f"pod-{problem.name}")
                names = {claim["metadata"]["name"] for claim in problem.claims}
                open_ones = {f"{world.namespace}/{name}" for name in names - set(problem.bound)}
                ours_only = {key: chosen[key] for key in open_ones if key in chosen}
                if pod.spec.node_name or (open_ones and set(ours_only) == open_ones):
                    found[problem.name] = ours_only
                elif any(
                    c.type == "PodScheduled" and c.status == "False" for c in pod.status.conditions
                ):
                    found[problem.name] = None
            if len(found) == len(problems):
                return found
            await asyncio.sleep(0.2)


async def written(world: World) -> dict[str, str]:
    """Returns the volume that each claim is given, or the node where it is to be made."""
    found: dict[str, str] = {}
    for one in (await world.cluster.list(PERSISTENT_VOLUMES)).items:
        if (ref := one.spec.claim_ref) is not None and ref.uid:  # or else it is only reserved
            found[f"{ref.namespace}/{ref.name}"] = one.metadata.name
    for claim in (await world.cluster.list(PERSISTENT_VOLUME_CLAIMS)).items:
        if node := selected_node(claim):
            found[str(claim.metadata.key)] = f"made on {node}"
    return found


async def compared(
    plane: ControlPlane, namespace: str, numbers: Sequence[int]
) -> tuple[list[object], int, int]:
    """Solves problems by both.

    Returns those with different answers, how many kube-scheduler solved, and how many only we did.
    """
    async with native_world(plane, namespace, NODE_LABELS, n_pods=len(numbers)) as world:
        problems = [VolumeProblem(number, world.namespace) for number in numbers]
        await have(world, problems)
        seen = await observed(world)
        chosen = {problem.name: ours(world, problem, seen) for problem in problems}
        for problem in problems:
            await world.cluster.create(PODS, pod_of(world, problem))
        found = await theirs(world, problems)
        differing: list[object] = [
            (name, volumes, chosen[name])
            for name, volumes in found.items()
            if volumes is not None and volumes != chosen[name]
        ]
        n_placed = sum(volumes is not None for volumes in found.values())
        n_more = sum(v is None and chosen[name] is not None for name, v in found.items())
        return differing, n_placed, n_more


def test_volumes_are_those_of_kube_scheduler(judged_plane: ControlPlane) -> None:
    """Where kube-scheduler finds volumes, so do we, and the same; we may find more."""
    differing, n_placed, n_more = asyncio.run(compared(judged_plane, "choices", range(N_PROBLEMS)))

    assert differing == []
    assert n_placed > N_PROBLEMS / 4
    assert n_more <= N_PROBLEMS / 10  # of two claims, where taking the smallest fails


def main(n: int, start: int = 0) -> int:
    """Solves n problems, from one seed on, with a control plane of its own."""
    differing: list[object] = []
    n_placed, n_more = 0, 0
    with (
        running_control_plane(
            controllers=(*NATIVE_CONTROLLERS, BINDER),
            api_server_flags=API_SERVER_FLAGS,
            controller_manager_flags=MANAGER_FLAGS,
        ) as plane,
        running_kube_scheduler(plane),
    ):
        for first in range(start, start + n, N_PROBLEMS):
            numbers = range(first, min(first + N_PROBLEMS, start + n))
            found, placed, more = asyncio.run(compared(plane, f"choices-{first}", numbers))
            differing += found
            n_placed, n_more = n_placed + placed, n_more + more
    for one in differing:
        print(one)  # noqa: T201
    print(  # noqa: T201
        f"{n} volume problems: {n_placed} solved by kube-scheduler, {n_more} only by us, "
        f"{len(differing)} answered differently"
    )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
