"""Victims that save are left to the operator, and deleted here if it does not come."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from swell.api.injection import (
    EVICTION_ANNOTATION,
    RELEASE_ANNOTATION,
    REPORT_ANNOTATION,
    SAVED_ANNOTATION,
    EvictionRecord,
)
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body, Key, ObjectMeta, OwnerReference, Uid
from swell.api.pod import Pod
from swell.api.saving import SAVE_SECONDS_ANNOTATION, eviction_note, release_note
from swell.api.times import format_time
from swell.runtime.cluster import merge_patch
from swell.scheduler.live.saving import patience_s
from tests.unit.scheduler.live.stage import DEFAULTS, NAMESPACE, Stage, on_stage

JOB = Key(NAMESPACE, "low")


async def full_of_training(stage: Stage, *, saves: bool, **spec: object) -> str:
    """One node, taken by the gang of a job that trains; a more important gang comes."""
    await stage.nodes(1)
    await stage.priority("high", 10)
    container = {"name": "aitj-c", "image": "i"}
    role = {"replicas": 4, "template": {"spec": {"containers": [container]}}}
    body: Body = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": JOB.name, "namespace": NAMESPACE},
        "spec": {"replicaSpecs": {"worker": role}, **spec},
    }
    job = await stage.user.create(AI_TRAINING_JOBS.untyped(), body)
    told = {"reportedAt": "2026-01-01T00:00:00Z", "saves": saves}
    status = merge_patch({"status": {"phase": "Running", "training": told}})
    await stage.user.patch(AI_TRAINING_JOBS.untyped().status, JOB, status)
    stage.start()
    await stage.sleep(2)
    await stage.gang("low", 4)
    owner = {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": JOB.name,
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    for number in range(4):
        change = merge_patch({"metadata": {"ownerReferences": [owner]}})
        await stage.user.patch(PODS.untyped(), Key(NAMESPACE, f"low-{number}"), change)
    await stage.sleep(2)
    await stage.run_pods()
    await stage.sleep(60)
    await stage.gang("high", 2, priorityClassName="high")
    await stage.sleep(2)
    return format_time(stage.clock.now())


async def leaving(stage: Stage) -> list[str]:
    return [p.metadata.name for p in await stage.pods() if p.metadata.deletion_timestamp]


async def record_of(stage: Stage, name: str) -> Body:
    pod = await stage.read_pod(name)
    assert pod is not None
    text = pod.metadata.annotations.get(EVICTION_ANNOTATION, "{}")
    found: Body = json.loads(text)
    assert not found or found["uid"] == pod.metadata.uid
    return found


@pytest.mark.parametrize(
    ("spec", "saves", "wait_s"), [({}, True, 30), ({"saveSeconds": 5}, False, 5)]
)
def test_victims_that_save_have_time(spec: dict[str, object], saves: bool, wait_s: int) -> None:
    """The record says for whom and until when; 10 s after that the pods are deleted."""

    async def play(stage: Stage) -> None:
        await full_of_training(stage, saves=saves, **spec)
        for number in range(4):
            assert (await record_of(stage, f"low-{number}"))["for"] == "ns/high"
        assert await leaving(stage) == []
        await stage.sleep(wait_s + 5)
        assert await leaving(stage) == []
        await stage.sleep(10)

        assert len(await leaving(stage)) == 4

    on_stage(play)


def test_deadline_outlives_the_scheduler() -> None:
    """The next process goes on from the record, and neither begins the time anew nor ends it."""

    async def play(stage: Stage) -> None:
        await full_of_training(stage, saves=True)
        record = await record_of(stage, "low-0")
        await stage.sleep(20)
        await stage.kill()
        stage.start()
        await stage.sleep(5)
        assert await leaving(stage) == []
        assert await record_of(stage, "low-0") == record
        await stage.sleep(20)

        assert len(await leaving(stage)) == 4

    on_stage(play)


def test_operator_that_asks_late_is_not_silent() -> None:
    """Who was asked after the recorded deadline has the time that the request names."""

    async def play(stage: Stage) -> None:
        await full_of_training(stage, saves=True)
        await stage.sleep(35)
        request = release_note("preempted", stage.clock.now() + 30)
        asked = merge_patch({"metadata": {"annotations": request}})
        await stage.user.patch(PODS.untyped(), Key(NAMESPACE, "low-0"), asked)
        await stage.sleep(15)

        assert sorted(await leaving(stage)) == ["low-1", "low-2", "low-3"]
        await stage.sleep(30)
        assert len(await leaving(stage)) == 4

    on_stage(play)


@pytest.mark.parametrize(("asked_s", "wait_s"), [(None, 0), (5, 15), (2000, 0)])
def test_request_counts_also_where_the_record_is_of_a_clock_set_back(
    asked_s: float | None, wait_s: float
) -> None:
    """A record from before the clock was set back says nothing, and one after it its time."""
    now = 1_000_000.0
    owner = OwnerReference("elasticdeeplearning.ai/v1", "AITrainingJob", "low", Uid("j"), True)
    notes = eviction_note(EvictionRecord(Uid("u"), "ns/high", format_time(now + 1000), ""))
    if asked_s is not None:
        notes |= release_note("makes room", now + asked_s)
    meta = ObjectMeta(
        "low-0", NAMESPACE, uid=Uid("u"), annotations=notes, owner_references=(owner,)
    )

    assert patience_s(Pod(metadata=meta), now, 120) == wait_s


def test_room_is_kept_while_victims_save() -> None:
    """The preemptor is nominated all the time, and gets the room when the operator is done."""

    async def play(stage: Stage) -> None:
        await full_of_training(stage, saves=True)
        waiting = await stage.read_pod("high-0")
        assert waiting is not None
        assert waiting.status.nominated_node_name == "node-0"
        for number in range(4):
            await stage.remove(f"low-{number}")
        await stage.sleep(2)

        assert sorted(await stage.where()) == ["high-0", "high-1"]

    on_stage(play)


@pytest.mark.parametrize("spec", [{}, {"saveSeconds": 0}])
def test_others_go_at_once(spec: dict[str, object]) -> None:
    """A program that does not save has nothing to wait for."""

    async def play(stage: Stage) -> None:
        await full_of_training(stage, saves=False, **spec)

        assert len(await leaving(stage)) == 4

    on_stage(play)


def test_victims_are_told_what_they_cost() -> None:
    """The event and the record on the group have the price of the eviction."""

    async def play(stage: Stage) -> None:
        await full_of_training(stage, saves=True)
        messages = [text for name, reason, text in await stage.events() if reason == "Evicted"]

        assert len(messages) == 4
        assert all("; costs " in text and "CPU-seconds of work" in text for text in messages)

    on_stage(play)


async def full_of_others(stage: Stage, notes: dict[str, str]) -> None:
    """One node, taken by a gang of plain pods with these annotations; an important gang comes."""
    await stage.nodes(1)
    await stage.priority("high", 10)
    stage.start()
    await stage.sleep(2)
    await stage.gang("low", 4)
    for number in range(4):
        change = merge_patch({"metadata": {"annotations": notes}})
        await stage.user.patch(PODS.untyped(), Key(NAMESPACE, f"low-{number}"), change)
    await stage.sleep(2)
    await stage.run_pods()
    await stage.sleep(60)
    await stage.gang("high", 2, priorityClassName="high")
    await stage.sleep(2)


REPORT = json.dumps({"generation": 1, "epoch": 1, "size": 4, "step": 9, "saves": True})


@pytest.mark.parametrize(
    ("notes", "wait_s"),
    [({SAVE_SECONDS_ANNOTATION: "20"}, 20), ({REPORT_ANNOTATION: REPORT}, 30)],
)
def test_plain_pods_are_asked_by_the_scheduler(notes: dict[str, str], wait_s: int) -> None:
    """One that answers goes at once, the others at the deadline."""

    async def play(stage: Stage) -> None:
        await full_of_others(stage, notes)
        for number in range(4):
            pod = await stage.read_pod(f"low-{number}")
            assert pod is not None
            asked = json.loads(pod.metadata.annotations[RELEASE_ANNOTATION])
            assert asked["reason"] == "makes room for ns/high"
            assert asked["deadline"] == (await record_of(stage, f"low-{number}"))["deadline"]
        assert await leaving(stage) == []
        saved = merge_patch({"metadata": {"annotations": {SAVED_ANNOTATION: "saved"}}})
        await stage.user.patch(PODS.untyped(), Key(NAMESPACE, "low-2"), saved)
        await stage.sleep(1)
        assert await leaving(stage) == ["low-2"]
        await stage.sleep(wait_s - 8)
        assert await leaving(stage) == ["low-2"]
        await stage.sleep(8)

        assert len(await leaving(stage)) == 4

    on_stage(play)


def test_scheduler_asks_after_a_crash_what_it_has_marked() -> None:
    """A deadline on a plain pod outlives the scheduler, and is not begun anew."""

    async def play(stage: Stage) -> None:
        await full_of_others(stage, {SAVE_SECONDS_ANNOTATION: "20"})
        record = await record_of(stage, "low-1")
        await stage.sleep(10)
        await stage.kill()
        stage.start()
        await stage.sleep(4)
        assert await leaving(stage) == []
        assert await record_of(stage, "low-1") == record
        await stage.sleep(8)

        assert len(await leaving(stage)) == 4

    on_stage(play)


@pytest.mark.parametrize(
    "notes", [{SAVE_SECONDS_ANNOTATION: "soon"}, {REPORT_ANNOTATION: "no report"}, {}]
)
def test_plain_pods_that_do_not_opt_in_go_at_once(notes: dict[str, str]) -> None:
    """What cannot be read is no promise to save."""

    async def play(stage: Stage) -> None:
        await full_of_others(stage, notes)

        assert len(await leaving(stage)) == 4

    on_stage(play)


def test_limit_of_the_scheduler_counts() -> None:
    """No pod waits longer than the scheduler allows, whatever it asks for."""

    async def play(stage: Stage) -> None:
        await full_of_others(stage, {SAVE_SECONDS_ANNOTATION: "600"})
        assert await leaving(stage) == []
        await stage.sleep(10)

        assert len(await leaving(stage)) == 4

    on_stage(play, replace(DEFAULTS, save_seconds_max=8.0))
