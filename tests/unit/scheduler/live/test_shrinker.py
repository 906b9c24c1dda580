"""Making room by shrinking an elastic training job."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body, Key
from swell.runtime.cluster import merge_patch
from swell.runtime.plan import PatchStatus
from swell.scheduler.live.shrinker import Shrink, plan_shrink
from tests.unit.runtime.world import failure
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage

ROLE: Body = {"replicas": 4, "minReplicas": 2, "maxReplicas": 4, "edlPolicy": "Auto"}


def job_body(target: int = 4) -> Body:
    container = {"name": "aitj-c", "image": "i"}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": "e", "namespace": NAMESPACE, "resourceVersion": "7", "uid": "u"},
        "spec": {"replicaSpecs": {"worker": {**ROLE, "template": template}}},
        "status": {"targetReplicas": {"worker": target}, "phase": "Running"},
    }


def test_shrink_is_one_conditional_write_with_a_record() -> None:
    """The record has the author and the preemptor; the patch has the version decided from."""
    job = convert(job_body(), AITrainingJob)
    plan = plan_shrink(job, {"worker": Shrink(2, "ns/high")}, 0.0)

    write = next(iter(plan.each_action()))
    assert isinstance(write, PatchStatus)
    assert write.version == "7"
    assert write.status["targetReplicas"] == {"worker": 2}
    (record,) = write.status["scaleRecords"]
    assert (record["by"], record["for"]) == ("scheduler", "ns/high")
    assert (record["from"], record["to"]) == (4, 2)


def test_target_that_is_low_enough_is_left_alone() -> None:
    """Neither raised, nor lowered below the minimum."""
    job = convert(job_body(target=3), AITrainingJob)

    assert not plan_shrink(job, {"worker": Shrink(3, "ns/high")}, 0.0).actions
    assert not plan_shrink(job, {"worker": Shrink(1, "ns/high")}, 0.0).actions
    assert not plan_shrink(job, {"other": Shrink(2, "ns/high")}, 0.0).actions


async def elastic_job(stage: Stage, **group: object) -> None:
    """A running job of four on one node, of which two may leave; a more important gang comes."""
    await stage.nodes(1)
    await stage.priority("high", 10)
    body = job_body()
    body["metadata"] = {"name": "e", "namespace": NAMESPACE}
    await stage.user.create(AI_TRAINING_JOBS.untyped(), body)
    change = merge_patch({"status": body["status"]})
    await stage.user.patch(AI_TRAINING_JOBS.untyped().status, Key(NAMESPACE, "e"), change)
    stage.start()
    await stage.sleep(2)
    await stage.group("e", 2, **group)
    for index in range(4):
        await stage.pod(f"e-worker-{index}", "e")
        labels = {
            "TrainingJobName": "e",
            "TrainingJobReplicaName": "worker",
            "TrainingJobReplicaIndex": str(index),
        }
        change = merge_patch({"metadata": {"labels": labels}})
        await stage.user.patch(PODS.untyped(), Key(NAMESPACE, f"e-worker-{index}"), change)
    await stage.sleep(2)
    await stage.run_pods()
    assert len(await stage.where()) == 4


async def target(stage: Stage) -> int:
    job = await stage.user.get(AI_TRAINING_JOBS, Key(NAMESPACE, "e"))
    return job.status.target_replicas["worker"]


def test_elastic_job_is_shrunk_instead_of_evicted() -> None:
    """Its target falls, no pod is deleted by us, and the preemptor gets the freed room."""

    async def play(stage: Stage) -> None:
        await elastic_job(stage)
        stage.lines[-1].fail_before["patch"] = [failure(409), failure(500)]
        await stage.gang("high", 2, priorityClassName="high")
        await stage.sleep(3)

        assert await target(stage) == 2
        assert not [p for p in await stage.pods() if p.metadata.deletion_timestamp]
        await stage.remove("e-worker-2")
        await stage.remove("e-worker-3")
        await stage.sleep(2)
        assert {"high-0", "high-1"} <= set(await stage.where())

    on_stage(play)


def test_pod_that_stays_beyond_its_grace_is_evicted() -> None:
    """The operator did not delete it, so the scheduler does."""

    async def play(stage: Stage) -> None:
        await elastic_job(stage)
        await stage.gang("high", 2, priorityClassName="high")
        await stage.sleep(45)

        leaving = [p.metadata.name for p in await stage.pods() if p.metadata.deletion_timestamp]
        assert leaving == ["e-worker-2", "e-worker-3"]

    on_stage(play)
