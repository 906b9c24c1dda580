"""Gangs of Kubernetes itself on a real API server: by our scheduler, and by kube-scheduler beside.

The control plane has every feature gate for them; the last test has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping

import pytest

from swell.api.kinds import AI_TRAINING_JOBS, JOBS, NATIVE_GROUPS, POD_GROUPS, PODS
from swell.api.meta import Body, Key
from swell.api.pod import PodPhase
from swell.runtime.cluster import Patch, PatchKind, Selection
from tests.e2e.scheduler.native_world import (
    HIGH,
    KUBES,
    OURS,
    QUIET_S,
    World,
    native_world,
    until,
)
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.native_gangs import (
    API_SERVER_FLAGS,
    MANAGER_FLAGS,
    NATIVE_CONTROLLERS,
    running_kube_scheduler,
)

Play = Callable[[World], Awaitable[None]]
ONE: Mapping[str, Mapping[str, str]] = {"a": {}}
RACKS: Mapping[str, Mapping[str, str]] = {"a": {"rack": "1"}, "b": {"rack": "2"}, "c": {}}
BY_RACK: Body = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


@pytest.fixture(scope="module")
def plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    with (
        running_control_plane(
            controllers=NATIVE_CONTROLLERS,
            api_server_flags=API_SERVER_FLAGS,
            controller_manager_flags=MANAGER_FLAGS,
        ) as found,
        running_kube_scheduler(found),
    ):
        yield found


def played(
    plane: ControlPlane,
    namespace: str,
    play: Play,
    nodes: Mapping[str, Mapping[str, str]] = ONE,
    cpu: int = 4,
    gang_api: str = "",
) -> None:
    async def main() -> None:
        async with native_world(plane, namespace, nodes, cpu, gang_api) as world:
            await play(world)

    asyncio.run(main())


@pytest.mark.parametrize("scheduler", [OURS, KUBES])
def test_gang_starts_whole_when_there_is_room(plane: ControlPlane, scheduler: str) -> None:
    """The same objects, with the same end, under our scheduler and under kube-scheduler."""

    async def play(world: World) -> None:
        await world.cluster.create(PODS, world.pod("filler"))
        await world.until_placed("filler", 1)
        await world.group("g", 4)
        await world.pods("g", 4, scheduler=scheduler)
        said = "NotEnoughResources: 4/4 tasks in gang unschedulable" if scheduler == OURS else ""
        await world.until_condition("g", "False", said)
        assert await world.placed("g-") == {}
        await world.remove("filler")
        await world.until_placed("g-", 4)
        await world.until_condition("g", "True")
        group = await world.read_group("g")
        generations = [c.observed_generation for c in group.status.conditions]
        assert generations == [group.metadata.generation]
        assert (await world.condition("g"))[1] == "Scheduled"

    played(plane, f"whole-{scheduler}", play)


@pytest.mark.parametrize("scheduler", [OURS, KUBES])
def test_surplus_goes_along_and_scheduled_stays_true(plane: ControlPlane, scheduler: str) -> None:
    async def play(world: World) -> None:
        await world.group("g", 3)
        await world.pods("g", 5, scheduler=scheduler)
        await world.until_placed("g-", 4)
        await world.until_condition("g", "True")
        await world.remove(next(iter(await world.placed("g-"))))
        await world.until_placed("g-", 4)
        assert (await world.condition("g"))[0] == "True"

    played(plane, f"surplus-{scheduler}", play)


@pytest.mark.parametrize("scheduler", [OURS, KUBES])
def test_pods_wait_for_their_group(plane: ControlPlane, scheduler: str) -> None:
    async def play(world: World) -> None:
        await world.pods("g", 2, scheduler=scheduler)
        await asyncio.sleep(QUIET_S)
        assert await world.placed("g-") == {}
        if scheduler == OURS:
            conditions = (await world.read("g-0")).status.conditions
            assert any(c.message.startswith("PodGroupNotFound") for c in conditions)
        await world.group("g", 3)
        await asyncio.sleep(QUIET_S)
        assert await world.placed("g-") == {}
        if scheduler == OURS:
            assert (await world.condition("g"))[2].startswith("NotEnoughTasks: ")
        await world.pods("g", 1, scheduler=scheduler, first=2)
        await world.until_placed("g-", 3)

    played(plane, f"late-{scheduler}", play)


@pytest.mark.parametrize("scheduler", [OURS, KUBES])
def test_pods_of_a_basic_group_start_as_they_fit(plane: ControlPlane, scheduler: str) -> None:
    async def play(world: World) -> None:
        await world.group("g", 0)
        await world.pods("g", 5, scheduler=scheduler)
        await world.until_placed("g-", 4)
        await world.until_condition("g", "True")

    played(plane, f"basic-{scheduler}", play)


def indexed_job(world: World, scheduler: str) -> Body:
    template = {"spec": {**world.pod_spec("", scheduler), "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": world.namespace},
        "spec": {
            "completionMode": "Indexed",
            "completions": 3,
            "parallelism": 3,
            "template": template,
        },
    }


def test_indexed_job_is_a_gang_and_recovers_after_one_has_finished(plane: ControlPlane) -> None:
    """The Job controller makes the group. kube-scheduler would never look at the lost pod again."""

    async def play(world: World) -> None:
        await world.cluster.create(PODS, world.pod("filler-0"))
        await world.cluster.create(PODS, world.pod("filler-1"))
        await world.until_placed("filler", 2)
        await world.cluster.create(JOBS, indexed_job(world, OURS))

        async def waits() -> bool:
            groups = (await world.cluster.list(NATIVE_GROUPS, Selection(world.namespace))).items
            return any(c.status == "False" for g in groups for c in g.status.conditions)

        await until(waits)
        assert await world.placed("train-") == {}
        await world.remove("filler-0")
        first, second, *_ = sorted(await world.until_placed("train-", 3))
        body: Body = {"status": {"phase": "Succeeded"}}
        done = Key(world.namespace, first)
        await world.cluster.patch(PODS.status, done, Patch(PatchKind.MERGE, body))
        lost = (await world.read(second)).metadata.uid
        await world.remove(second)

        async def is_back() -> bool:
            listed = (await world.cluster.list(PODS, Selection(world.namespace))).items
            prefix = second.rpartition("-")[0]
            return any(
                pod.metadata.name.startswith(prefix)
                and pod.metadata.uid != lost
                and bool(pod.spec.node_name)
                for pod in listed
            )

        await until(is_back)

    played(plane, "indexed", play)


@pytest.mark.parametrize("scheduler", [OURS, KUBES])
def test_label_keeps_a_group_on_one_value(plane: ControlPlane, scheduler: str) -> None:
    """Nodes of 4 cores: 5 pods have no value, 4 have one, and a lost one comes back to it."""

    async def play(world: World) -> None:
        await world.group("wide", 5, **BY_RACK)
        await world.pods("wide", 5, scheduler=scheduler)
        # Before the last pod has come the group waits for another reason.
        said = "0 of 2 domains of label rack hold 5 pods" if scheduler == OURS else ""
        await world.until_condition("wide", "False", said)
        await world.group("g", 3, **BY_RACK)
        await world.pods("g", 3, scheduler=scheduler)
        places = await world.until_placed("g-", 3)
        assert len(set(places.values())) == 1
        await world.remove("g-1")

        async def is_gone() -> bool:
            return "g-1" not in await world.placed()

        await until(is_gone)
        await asyncio.sleep(QUIET_S)
        await world.pods("g", 1, scheduler=scheduler, first=1)
        assert await world.until_placed("g-", 3) == places
        assert await world.placed("wide-") == {}

    played(plane, f"rack-{scheduler}", play, RACKS)


def test_important_group_clears_the_nodes_of_one_value(plane: ControlPlane) -> None:
    """kube-scheduler never preempts for a group with a constraint; ours does, in one value."""

    async def play(world: World) -> None:
        await world.group("low", 4, **BY_RACK)
        await world.group("mid", 4, **BY_RACK)
        await world.pods("low", 4)
        await world.until_placed("low-", 4)
        await world.pods("mid", 4)
        await world.until_placed("mid-", 4)
        await world.group("g", 4, priorityClassName=HIGH, **BY_RACK)
        await world.pods("g", 4)
        await world.until_placed("g-", 4)
        left = {len(await world.placed("low-")), len(await world.placed("mid-"))}
        assert left == {0, 4}

    played(plane, "clears", play, RACKS)


@pytest.mark.parametrize(("mode", "n_left"), [("PodGroup", 0), ("Pod", 2)])
def test_group_leaves_whole_or_its_surplus(plane: ControlPlane, mode: str, n_left: int) -> None:
    """The condition is on the group and on its pods before the first of them is deleted."""

    async def play(world: World) -> None:
        await world.group("v", 2, disruptionMode=mode)
        for index in range(6):
            body = world.pod(f"v-{index}", "v")
            body["metadata"]["finalizers"] = ["e2e.swell/keep"]
            await world.cluster.create(PODS, body)
        await world.until_placed("v-", 6)
        await world.group("g", 4, priorityClassName=HIGH)
        await world.pods("g", 4)

        async def is_leaving() -> bool:
            return len(await world.placed("v-")) == n_left

        await until(is_leaving)
        marked = (await world.condition("v", "DisruptionTarget"))[:2]
        assert marked == (("True", "PreemptionByScheduler") if not n_left else ("", ""))
        listed = (await world.cluster.list(PODS, Selection(world.namespace))).items
        for pod in listed:
            if pod.metadata.deletion_timestamp is not None:
                assert any(c.type == "DisruptionTarget" for c in pod.status.conditions)
                body = {"metadata": {"finalizers": None}}
                await world.cluster.patch(PODS, pod.metadata.key, Patch(PatchKind.MERGE, body))
        await world.until_placed("g-", 4)

    played(plane, f"leaves-{mode.lower()}", play, cpu=6)


def test_groups_of_both_kinds_with_one_name_are_two_gangs(plane: ControlPlane) -> None:
    async def play(world: World) -> None:
        await world.group("g", 2)
        frame = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
        meta = {"name": "g", "namespace": world.namespace}
        spec = {"minMember": 2, "queue": "default"}
        await world.cluster.create(POD_GROUPS, {**frame, "metadata": meta, "spec": spec})
        await world.pods("g", 1)
        body = world.pod("x-0")
        body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        await world.cluster.create(PODS, body)
        await asyncio.sleep(QUIET_S)
        assert await world.placed() == {}  # one of two is there, of either gang
        await world.pods("g", 1, first=1)
        assert set(await world.until_placed("", 2)) == {"g-0", "g-1"}

    played(plane, "twofold", play)


def elastic_job(world: World, scheduler: str) -> Body:
    """2 to 4 pods, each restarted alone when it is lost; 4 are wanted."""
    spec = {key: value for key, value in world.pod_spec().items() if key != "schedulerName"}
    (container,) = spec["containers"]
    role: Body = {
        "replicas": 4,
        "minReplicas": 2,
        "maxReplicas": 4,
        "edlPolicy": "Manual",
        "restartPolicy": "Always",
        "restartScope": "Pod",
        "template": {"spec": {**spec, "containers": [{**container, "name": "aitj-main"}]}},
    }
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": "fit", "namespace": world.namespace},
        "spec": {"schedulerName": scheduler, "replicaSpecs": {"t": role}},
    }


def test_operator_runs_an_elastic_job_on_the_stock_scheduler(plane: ControlPlane) -> None:
    """It starts with its minimum, grows, loses a pod and recovers, also after one has finished."""

    async def play(world: World) -> None:
        for index in range(2):
            await world.cluster.create(PODS, world.pod(f"filler-{index}"))
        await world.until_placed("filler", 2)
        await world.cluster.create(AI_TRAINING_JOBS, elastic_job(world, KUBES))
        assert set(await world.until_placed("fit-t", 2)) == {"fit-t-0", "fit-t-1"}
        group = await world.read_group("fit")
        assert group.spec.scheduling_policy.gang is not None
        assert group.spec.scheduling_policy.gang.min_count == 2
        await world.remove("filler-0")
        await world.remove("filler-1")
        await world.until_placed("fit-t", 4)
        await world.remove("fit-t-1")
        await world.until_placed("fit-t", 4)
        for name in ("fit-t-0", "fit-t-1", "fit-t-2"):
            await finish(world, name)
        await world.remove("fit-t-3")

        async def is_back() -> bool:
            listed = (await world.cluster.list(PODS, Selection(world.namespace))).items
            found = {p.metadata.name: p for p in listed if p.metadata.deletion_timestamp is None}
            pod = found.get("fit-t-3")
            group = pod.spec.scheduling_group if pod else None
            return bool(pod and pod.spec.node_name and group and group.pod_group_name == "fit-r1")

        await until(is_back)

    played(plane, "elastic", play, gang_api="native")


async def finish(world: World, name: str) -> None:
    body: Body = {"metadata": {"annotations": {"elasticdeeplearning.ai/hollow-duration": "0s"}}}
    key = Key(world.namespace, name)
    await world.cluster.patch(PODS, key, Patch(PatchKind.MERGE, body))

    async def has_finished() -> bool:
        return (await world.read(name)).status.phase is PodPhase.SUCCEEDED

    await until(has_finished)


def test_both_kinds_of_groups_have_the_same_placements(plane: ControlPlane) -> None:
    """The same job with one role, under our scheduler."""
    places: dict[str, dict[str, str]] = {}

    async def play(world: World) -> None:
        await world.cluster.create(AI_TRAINING_JOBS, elastic_job(world, OURS))
        found = await world.until_placed("fit-t", 4)
        kept = {name: node.removeprefix(f"{world.namespace}-") for name, node in found.items()}
        places[world.namespace] = kept

    nodes: Mapping[str, Mapping[str, str]] = {"a": {}, "b": {}}
    played(plane, "alike-volcano", play, nodes, cpu=3, gang_api="volcano")
    played(plane, "alike-native", play, nodes, cpu=3, gang_api="native")
    assert places["alike-volcano"] == places["alike-native"]


def test_without_the_gates_pods_have_no_group_and_nothing_breaks(
    control_plane: ControlPlane,
) -> None:
    async def play(world: World) -> None:
        await world.pods("g", 2)
        assert (await world.read("g-0")).spec.scheduling_group is None
        await world.until_placed("g-", 2)

    played(control_plane, "ungated", play)
