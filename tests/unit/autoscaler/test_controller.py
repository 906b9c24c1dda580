"""The autoscaler at work on an API server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import to_body
from swell.api.core import Event
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    EVENTS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    TRAINING_JOBS,
)
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.controller import AutoscalerMeters, run_autoscaler
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.metrics import Sizes
from swell.autoscaler.settings import AutoscalerSettings
from swell.runtime.cluster import Cluster, merge_patch
from swell.sim.chance import Chance
from swell.sim.loop import VirtualClock, run
from swell.sim.server import SimulatedServer
from tests.autoscaler_cases import a_job, a_node, a_role, a_training_job, in_queue
from tests.sim.undecodable import MARK, HalfBlindCluster

SETTINGS = AutoscalerSettings(scale_period_s=30.0, scale_cooldown_s=60.0)
ROLE = a_role(1, 4, cpu="1", memory="1Gi")


class Ears:
    """Remembers what was measured."""

    def __init__(self) -> None:
        self.sizes: Sizes = {}
        self.loads: Mapping[str, float] = {}
        self.reasons: list[str] = []

    def sized(self, sizes: Sizes) -> None:
        self.sizes = sizes

    def loaded(self, loads: Mapping[str, float]) -> None:
        self.loads = loads

    def decided(self, reason: str) -> None:
        self.reasons.append(reason)


class Stage:
    """A server, a user's client, and a running autoscaler."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = SimulatedServer(self.clock, Chance(1), ())
        self.user: Cluster = self.server.connect("user")
        self.ears = Ears()

    async def autoscale(self) -> None:
        await run_autoscaler(
            HalfBlindCluster(self.server.connect("autoscaler")),
            settings=SETTINGS,
            clock=self.clock,
            random=Random(1),
            meters=AutoscalerMeters(sizes=self.ears),
        )

    async def node(self, name: str, *, marked: str = "", **amounts: object) -> None:
        body = {**to_body(a_node(name, **amounts)), "apiVersion": "v1", "kind": "Node"}  # type: ignore[arg-type]
        if marked:  # from the beginning: this field of it was never readable
            body["metadata"] = {**body["metadata"], "annotations": {MARK: marked}}
        await self.user.create(NODES, body)
        await self.user.patch(NODES, Key("", name), merge_patch({"spec": {"taints": None}}))

    async def job(self, job: AITrainingJob | TrainingJob) -> None:
        is_older = isinstance(job, TrainingJob)
        resource = TRAINING_JOBS.untyped() if is_older else AI_TRAINING_JOBS.untyped()
        body = _submittable(to_body(job), resource.api_version, resource.kind)
        await self.user.create(resource, body)
        status = merge_patch({"status": to_body(job)["status"]})
        await self.user.patch(resource.status, job.metadata.key, status)

    async def pod(self, job: str, index: int, node: str, **spec: object) -> None:
        owner = await self.user.get(AI_TRAINING_JOBS, Key("ns", job))
        requests = {"cpu": "1", "memory": "1Gi"}
        body: Body = {
            "metadata": {
                "name": f"{job}-t-{index}",
                "namespace": "ns",
                "ownerReferences": [
                    {
                        "apiVersion": AI_TRAINING_JOBS.api_version,
                        "kind": "AITrainingJob",
                        "name": job,
                        "uid": owner.metadata.uid,
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
                **spec,
            },
        }
        await self.user.create(PODS, body)

    async def target(self, job: str) -> int:
        return (await self.user.get(AI_TRAINING_JOBS, Key("ns", job))).status.target_replicas["t"]

    async def was_resized(self, job: str) -> bool:
        found = await self.user.get(AI_TRAINING_JOBS, Key("ns", job))
        return bool(found.status.scale_records)

    async def events(self) -> list[Event]:
        return list((await self.user.list(EVENTS)).items)


def _submittable(body: Body, api_version: str, kind: str) -> Body:
    metadata = {"name": body["metadata"]["name"], "namespace": "ns"}
    for role in body["spec"].get("replicaSpecs", {}).values():
        role["template"]["spec"]["containers"][0]["image"] = "i"
    return {**body, "apiVersion": api_version, "kind": kind, "metadata": metadata}


def play(scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
        await stage.user.create(NAMESPACES, namespace)
        working = asyncio.create_task(stage.autoscale())
        try:
            await scene(stage)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    run(main())


def test_running_job_grows_with_record_event_and_metrics() -> None:
    """A target is written on the status of the job, with an event, a record and metrics."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=3, memory="8Gi")
        await stage.job(a_job("a", t=ROLE))
        await stage.pod("a", 0, "n")
        await stage.clock.sleep(35)
        job = await stage.user.get(AI_TRAINING_JOBS, Key("ns", "a"))

        assert job.status.target_replicas == {"t": 2}
        assert [(r.role, r.from_, r.to, r.by.value) for r in job.status.scale_records] == [
            ("t", 1, 2, "autoscaler")
        ]
        assert [(e.reason, e.message) for e in await stage.events()] == [
            ("RoomForMore", "t grows from 1 to 2: there is room for more")
        ]
        assert stage.ears.reasons == ["RoomForMore"]
        assert list(stage.ears.sizes.values()) == [(2, 1)]
        assert stage.ears.loads["cpu"] == 2 / 3

    play(scene)


def test_raise_that_finds_no_room_is_taken_back_and_not_repeated() -> None:
    """The new pod is not bound: after the cooldown the target is what it was."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=3, memory="8Gi")
        await stage.job(a_job("a", t=ROLE))
        await stage.pod("a", 0, "n")
        await stage.clock.sleep(1000)
        job = await stage.user.get(AI_TRAINING_JOBS, Key("ns", "a"))
        sizes = [(record.from_, record.to) for record in job.status.scale_records]
        await stage.node("m", cpu=3, memory="8Gi")
        await stage.clock.sleep(31)

        assert sizes == [(1, 2), (2, 1)]
        assert await stage.target("a") > 1

    play(scene)


def test_pending_job_is_answered_within_a_second() -> None:
    """A job that begins to wait does not wait for the period."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=4, memory="8Gi")
        await stage.job(a_job("a", targets={"t": 4}, t=ROLE))
        for index in range(4):
            await stage.pod("a", index, "n")
        await stage.clock.sleep(65)
        before = await stage.target("a")
        await stage.job(a_job("w", phase="Pending", t=a_role(1, 1, edl="Never", cpu="1")))
        await stage.clock.sleep(1)
        record = (await stage.user.get(AI_TRAINING_JOBS, Key("ns", "a"))).status.scale_records[-1]

        assert (before, await stage.target("a")) == (3, 2)
        assert (record.to, record.for_) == (2, "ns/w")

    play(scene)


def test_trainer_of_a_training_job_is_resized() -> None:
    """The older interface is written in its own fields."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=3, memory="8Gi")
        await stage.job(a_training_job("o", 1, 5, target=1, cpu="1"))
        await stage.clock.sleep(35)
        job = await stage.user.get(TRAINING_JOBS, Key("ns", "o"))

        assert job.status.trainer_target == 2
        assert [(r.from_, r.to, r.by) for r in job.status.scale_records] == [(1, 2, "autoscaler")]

    play(scene)


def test_job_that_cannot_be_written_keeps_nobody_back() -> None:
    """One refused status patch leaves all other jobs as they would be."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=9, memory="80Gi")
        await stage.job(a_job("b", t=ROLE))
        await stage.job(a_job("a", t=ROLE))
        poison = {"status": {"targetReplicas": {"t": 1, **{f"x{n}": 1 for n in range(15)}}}}
        await stage.user.patch(AI_TRAINING_JOBS.status, Key("ns", "a"), merge_patch(poison))
        await stage.clock.sleep(35)

        assert await stage.target("b") == 4

    play(scene)


def test_quiet_cluster_is_left_in_peace() -> None:
    """Where nothing changes nothing is written."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=2, memory="8Gi")
        await stage.job(a_job("a", t=ROLE))
        await stage.pod("a", 0, "n")
        await stage.clock.sleep(100)
        version = stage.server.storage.version
        await stage.clock.sleep(1000)

        assert stage.server.storage.version == version

    play(scene)


async def _mark(stage: Stage, resource: Resource[Any], key: Key, field: str | None) -> None:
    change: Body = {"metadata": {"annotations": {MARK: field}}}
    await stage.user.patch(resource.untyped(), key, merge_patch(change))


def test_status_of_a_queue_is_no_change() -> None:
    """A raise that failed is not tried again because counts of a queue were written."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=3, memory="8Gi")
        queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}}
        await stage.user.create(QUEUES.untyped(), queue)
        await stage.job(a_job("a", t=ROLE))
        await stage.pod("a", 0, "n")
        for number in range(200):
            status = merge_patch({"status": {"running": number, "state": "Open"}})
            await stage.user.patch(QUEUES.untyped().status, Key("", "q"), status)
            await stage.clock.sleep(10)
        job = await stage.user.get(AI_TRAINING_JOBS, Key("ns", "a"))
        assert [(one.from_, one.to) for one in job.status.scale_records] == [(1, 2), (2, 1)]
        change = merge_patch({"spec": {"capability": {"cpu": "9"}}})
        await stage.user.patch(QUEUES.untyped(), Key("", "q"), change)
        await stage.clock.sleep(40)

        assert await stage.target("a") == 2

    play(scene)


@pytest.mark.parametrize("field", ["spec.containers", "status.phase"])
def test_undecodable_pod_keeps_its_room(field: str) -> None:
    """No role grows into the room of a pod that cannot be decoded."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=3, memory="8Gi")
        await stage.job(a_job("other", t=a_role(1, 1, cpu="1", memory="1Gi")))
        for index in range(2):
            await stage.pod("other", index, "n")
        await stage.clock.sleep(5)
        for index in range(2):
            await _mark(stage, PODS, Key("ns", f"other-t-{index}"), field)
        await stage.job(a_job("a", t=ROLE))
        await stage.pod("a", 0, "n")
        await stage.clock.sleep(200)

        assert await stage.target("a") == 1

    play(scene)


def test_pod_that_was_never_decodable_leaves_no_room_on_its_node() -> None:
    """How much it takes is not known; when it is, the rest can be used."""

    async def scene(stage: Stage) -> None:
        await stage.job(a_job("other", t=a_role(1, 1, cpu="1", memory="1Gi")))
        await stage.pod("other", 0, "n")
        await _mark(stage, PODS, Key("ns", "other-t-0"), "spec.containers")
        await stage.job(a_job("a", t=ROLE))
        await stage.pod("a", 0, "n")
        await stage.clock.sleep(5)
        await stage.node("n", cpu=4, memory="8Gi")
        await stage.clock.sleep(100)
        assert await stage.target("a") == 1
        await _mark(stage, PODS, Key("ns", "other-t-0"), None)
        await stage.clock.sleep(40)

        assert await stage.target("a") == 2

    play(scene)


def test_node_that_was_never_decodable_offers_no_room() -> None:
    """Which pods it takes is not known; when it is, there is room."""

    async def scene(stage: Stage) -> None:
        await stage.job(a_job("a", t=ROLE))
        await stage.pod("a", 0, "n")
        await stage.node("n", marked="spec.taints", cpu=4, memory="8Gi")
        await stage.clock.sleep(100)
        assert not await stage.was_resized("a")
        await _mark(stage, NODES, Key("", "n"), None)
        await stage.clock.sleep(40)

        assert await stage.target("a") > 1

    play(scene)


def test_queue_of_unknown_limits_lets_no_role_grow() -> None:
    """A limit that cannot be read is not taken for none."""

    async def scene(stage: Stage) -> None:
        metadata = {"name": "q", "annotations": {MARK: "spec.capability"}}
        queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": metadata}
        await stage.user.create(QUEUES.untyped(), {**queue, "spec": {"capability": {"cpu": "2"}}})
        await stage.node("n", cpu=4, memory="8Gi")
        await stage.job(in_queue(a_job("a", t=ROLE), "q"))
        await stage.pod("a", 0, "n", schedulerName="swell")
        await stage.clock.sleep(100)
        assert not await stage.was_resized("a")
        await _mark(stage, QUEUES, Key("", "q"), None)
        await stage.clock.sleep(40)

        assert await stage.target("a") == 2

    play(scene)


def test_role_does_not_grow_in_a_queue_that_holds_an_unknown_amount() -> None:
    """What is left of its limit is not known while a pod of it was never decodable."""

    async def scene(stage: Stage) -> None:
        queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}}
        await stage.user.create(QUEUES.untyped(), {**queue, "spec": {"capability": {"cpu": "4"}}})
        for name, node in (("other", "n"), ("a", "m")):
            await stage.node(node, cpu=4, memory="8Gi")
            role = a_role(1, 1, cpu="1", memory="1Gi") if name == "other" else ROLE
            await stage.job(in_queue(a_job(name, t=role), "q"))
        await stage.pod("other", 0, "n", schedulerName="swell")
        await _mark(stage, PODS, Key("ns", "other-t-0"), "spec.containers")
        await stage.pod("a", 0, "m", schedulerName="swell")
        await stage.clock.sleep(100)
        assert not await stage.was_resized("a")
        await _mark(stage, PODS, Key("ns", "other-t-0"), None)
        await stage.clock.sleep(40)

        assert await stage.target("a") > 1

    play(scene)


def test_role_does_not_grow_while_its_group_cannot_be_read() -> None:
    """The scheduler places none of its pods then, and the event says why."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=4, memory="8Gi")
        await stage.job(a_job("a", t=ROLE))
        metadata = {"name": "a", "namespace": "ns", "annotations": {MARK: "spec.minMember"}}
        group = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": metadata}
        await stage.user.create(POD_GROUPS.untyped(), {**group, "spec": {"minMember": 1}})
        await stage.pod("a", 0, "n", schedulerName="swell")
        await stage.clock.sleep(100)
        assert not await stage.was_resized("a")
        (event,) = await stage.events()
        assert event.message == "t stays at 1: cannot be read: group ns/a"
        await _mark(stage, POD_GROUPS, Key("ns", "a"), None)
        await stage.clock.sleep(40)

        assert await stage.target("a") > 1

    play(scene)


def test_job_that_cannot_be_decoded_keeps_its_sizes() -> None:
    """What it would accept may have changed with what is not known. Others get the room."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=4, memory="8Gi")
        for name in "ab":
            await stage.job(a_job(name, t=ROLE))
        await _mark(stage, AI_TRAINING_JOBS, Key("ns", "a"), "spec.priority")
        for name in "ab":
            await stage.pod(name, 0, "n")
        await stage.clock.sleep(50)

        assert not await stage.was_resized("a")
        assert await stage.target("b") == 2

    play(scene)


def test_role_that_its_queue_keeps_small_says_so_once() -> None:
    """Its job has an event with the numbers, and no further one while that lasts."""

    async def scene(stage: Stage) -> None:
        queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}}
        await stage.user.create(QUEUES.untyped(), {**queue, "spec": {"capability": {"cpu": "1"}}})
        await stage.node("n", cpu=4, memory="8Gi")
        await stage.job(in_queue(a_job("a", t=ROLE), "q"))
        await stage.pod("a", 0, "n", schedulerName="swell")
        await stage.clock.sleep(200)
        (event,) = (await stage.user.list(EVENTS.untyped())).items

        assert event["reason"] == "QueueRefuses"
        assert event["message"].startswith("t stays at 1: queue q is at its capability")
        assert not event.get("series")

    play(scene)


def test_handler_that_fails_costs_no_sum() -> None:
    """The ledger is counted anew; a pod on which it fails for good leaves no room on its node."""

    async def scene(stage: Stage) -> None:
        await stage.node("n", cpu=4, memory="8Gi")
        await stage.job(a_job("other", t=a_role(1, 1, cpu="1", memory="1Gi")))
        await stage.pod("other", 0, "n")
        await stage.job(a_job("a", t=ROLE))
        with patch.object(Ledger, "put_pod", failing_for("other-t-0", Ledger.put_pod)):
            await stage.pod("a", 0, "n")
            await stage.clock.sleep(100)
            assert await stage.target("a") == 1
        await stage.clock.sleep(340)
        job = await stage.user.get(AI_TRAINING_JOBS, Key("ns", "a"))

        assert [one.to for one in job.status.scale_records][:1] == [2]

    play(scene)


def failing_for(name: str, put: Callable[..., None]) -> Callable[..., None]:
    """Puts a pod, and fails for one that can be read."""

    def put_or_fail(ledger: Ledger, pod: Pod, *, is_unreadable: bool = False) -> None:
        if pod.metadata.name == name and not is_unreadable:
            raise LookupError(name)
        put(ledger, pod, is_unreadable=is_unreadable)

    return put_or_fail
