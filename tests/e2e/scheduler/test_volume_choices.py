"""Random volume problems against kube-scheduler: the same volume, and yes wherever it says yes.

Every problem has a class of its own, so all of them are solved at once in one cluster. Sizes
differ, since kube-scheduler takes any of equal volumes. As a program it solves any number of them,
a batch at a time, from any seed on: `python -m tests.e2e.scheduler.test_volume_choices 500 10000`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from swell.api import codec
from swell.api.kinds import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.runtime.cluster import Selection
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.plan import SchedulerObjects, plan_schedule
from tests.e2e.scheduler.native_world import KUBES, World, native_world, until
from tests.storage_objects import LOCAL, a_claim, a_class, a_volume, mounts
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.native_gangs import (
    API_SERVER_FLAGS,
    MANAGER_FLAGS,
    NATIVE_CONTROLLERS,
    running_kube_scheduler,
)

BINDER = "persistentvolume-binder-controller"
DISK = "e2e/disk"
N_PROBLEMS = 60
MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")


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


class Problem:
    """A class, some volumes, one or two claims, and a pod that may go to one node."""

    def __init__(self, number: int, namespace: str) -> None:
        chance = Random(number)
        self.name = f"c{number}"
        self.storage_class = {**a_class(LOCAL), "metadata": {"name": self.name}}
        sizes = chance.sample(range(1, 12), chance.randint(1, 5))
        self.volumes = [self._volume(chance, at, size) for at, size in enumerate(sizes)]
        self.claims = [self._claim(chance, at, namespace) for at in range(chance.choice((1, 1, 2)))]
        self.node = chance.choice("ab")

    def _volume(self, chance: Random, at: int, size: int) -> Body:
        spec: Body = {"local": {"path": f"/disks/{self.name}/{at}"}}
        nodes = chance.choice((["a"], ["b"], ["a", "b"]))
        term = {"matchExpressions": [{"key": DISK, "operator": "In", "values": nodes}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        spec["volumeMode"] = chance.choice(("Filesystem", "Filesystem", "Block"))
        modes = tuple(chance.sample(MODES, chance.randint(1, 3)))
        labels = {"tier": chance.choice(("gold", "tin"))}
        name = f"{self.name}-{at}"
        made = a_volume(name, "", self.name, f"{size}Gi", modes, labels=labels, **spec)
        del made["status"]
        return made

    def _claim(self, chance: Random, at: int, namespace: str) -> Body:
        modes = tuple(chance.sample(MODES, chance.choice((1, 1, 2))))
        spec: Body = {}
        if chance.random() < 0.3:
            spec["selector"] = {"matchLabels": {"tier": "gold"}}
        size = f"{chance.randint(1, 8)}Gi"
        name = f"{self.name}-{at}"
        made = a_claim(name, self.name, size, modes, namespace=namespace, **spec)
        del made["metadata"]["uid"], made["status"]
        return made

    def pod(self, world: World) -> Body:
        names = [claim["metadata"]["name"] for claim in self.claims]
        made = world.pod(f"pod-{self.name}", scheduler=KUBES, volumes=mounts(*names))
        made["spec"]["nodeSelector"] = {DISK: self.node}
        container = {"name": "main", "image": "local"}
        made["spec"]["containers"] = [container]
        return made


async def have(world: World, problems: list[Problem]) -> None:
    for problem in problems:
        await world.cluster.create(STORAGE_CLASSES.untyped(), problem.storage_class)
        for volume in problem.volumes:
            await world.cluster.create(PERSISTENT_VOLUMES.untyped(), volume)
        for claim in problem.claims:
            await world.cluster.create(PERSISTENT_VOLUME_CLAIMS.untyped(), claim)

    names = {volume["metadata"]["name"] for problem in problems for volume in problem.volumes}

    async def are_available() -> bool:
        found = (await world.cluster.list(PERSISTENT_VOLUMES)).items
        return all(one.status.phase == "Available" for one in found if one.metadata.name in names)

    await until(are_available)


def ours(world: World, problem: Problem, seen: SchedulerObjects) -> dict[str, str] | None:
    """Returns the volumes that we would choose; None where we find no way."""
    body = problem.pod(world)
    body["metadata"] |= {"uid": "x", "annotations": {GROUP_ANNOTATION: "g"}}
    seen.pods = [codec.convert(body, Pod)]
    group: Body = {"metadata": {"name": "g", "namespace": world.namespace}}
    group |= {"spec": {"minMember": 1, "queue": "default"}, "status": {"phase": "Inqueue"}}
    seen.groups = [codec.convert(group, PodGroup)]
    plan = plan_schedule(seen, scheduler_names=(KUBES,))
    if not plan.binds:
        return None
    return {claim: name for one in plan.volumes.values() for claim, name in one.volumes.items()}


async def observed(world: World) -> SchedulerObjects:
    """Returns the cluster as both schedulers see it before the pods come."""
    cluster = world.cluster
    return SchedulerObjects(
        nodes=list((await cluster.list(NODES)).items),
        queues=[codec.convert({"metadata": {"name": "default"}}, Queue)],
        claims=list((await cluster.list(PERSISTENT_VOLUME_CLAIMS)).items),
        volumes=list((await cluster.list(PERSISTENT_VOLUMES)).items),
        storage_classes=list((await cluster.list(STORAGE_CLASSES)).items),
        are_whole=True,
    )


async def theirs(world: World, problems: list[Problem]) -> dict[str, dict[str, str] | None]:
    """Returns the volumes that kube-scheduler chose; None where it found no way."""

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
    found: dict[str, dict[str, str] | None] = {
        problem.name: {} if f"pod-{problem.name}" in placed else None for problem in problems
    }
    for one in (await world.cluster.list(PERSISTENT_VOLUMES)).items:
        ref, chosen = one.spec.claim_ref, found.get(one.spec.storage_class_name)
        if ref is not None and chosen is not None:
            chosen[f"{ref.namespace}/{ref.name}"] = one.metadata.name
    return found


async def compared(
    plane: ControlPlane, namespace: str, numbers: Sequence[int]
) -> tuple[list[object], int, int]:
    """Solves problems by both.

    Returns those with different answers, how many kube-scheduler solved, and how many only we did.
    """
    labels = {"a": {DISK: "a"}, "b": {DISK: "b"}}
    async with native_world(plane, namespace, labels, n_pods=len(numbers)) as world:
        problems = [Problem(number, world.namespace) for number in numbers]
        await have(world, problems)
        seen = await observed(world)
        chosen = {problem.name: ours(world, problem, seen) for problem in problems}
        for problem in problems:
            await world.cluster.create(PODS, problem.pod(world))
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
