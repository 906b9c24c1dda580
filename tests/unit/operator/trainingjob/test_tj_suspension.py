"""A suspended TrainingJob gives back everything, trainers first, and begins anew."""

from __future__ import annotations

import json

from msgspec.structs import replace

from swell.api.aitrainingjob import QUEUE_LABEL, STOPPED_ANNOTATION
from swell.api.injection import RELEASE_ANNOTATION, SAVED_ANNOTATION
from swell.api.kinds import JOBS, PODS
from swell.api.saving import SAVE_SECONDS_ANNOTATION
from swell.api.trainingjob import TrainingJobPhase, TrainingJobStatus
from swell.autoscaler.job_views import view_job
from swell.autoscaler.needs import NeedsReader
from swell.runtime.plan import PatchStatus
from tests.unit.operator.trainingjob.tj_scene import (
    START,
    Scene,
    a_job,
    deleted,
    elastic,
    reported,
    writes,
)

MULTI = {"type": "multi"}


def edit(scene: Scene, **spec: object) -> Scene:
    scene.job = replace(scene.job, spec=replace(scene.job.spec, **spec))
    return scene


def pods_go(scene: Scene, prefix: str) -> Scene:
    for pod in scene.pods(prefix):
        scene.remove(PODS, pod.metadata.name)
    return scene


def names(scene: Scene) -> list[str]:
    return sorted(name for _, name in scene.held)


def condition_of(scene: Scene) -> tuple[str, str] | None:
    found = (c for c in scene.status.conditions if c.type == "Suspended")
    return next(((c.status, c.reason) for c in found), None)


def saver() -> Scene:
    scene = Scene(elastic(2, 4)).targets(3).running()
    for index in range(3):
        note(scene, index, **{SAVE_SECONDS_ANNOTATION: "20"})
    return scene


def note(scene: Scene, index: int, **notes: str) -> None:
    scene.change(PODS, f"fit-trainer-{index}", {"metadata": {"annotations": notes}})


def test_pods_go_before_what_they_need() -> None:
    """The record is written first; trainers go before pservers and the master."""
    job = a_job(fault_tolerant=True, frame_work=MULTI, pserver={"min-instance": 1})
    scene = edit(Scene(job).running(), suspend=True)
    plan = scene.look()
    first = writes(plan)[0]
    assert isinstance(first, PatchStatus)
    assert first.status["suspension"]
    assert deleted(plan) == ["Job fit-trainer", "PodGroup fit"]
    assert "Suspended" in reported(plan)

    assert deleted(pods_go(scene.settle(), "fit-trainer").look()) == [
        "ReplicaSet fit-master",
        "ReplicaSet fit-pserver",
    ]
    pods_go(scene.settle(), "fit-")
    assert not scene.pods()
    assert scene.settle().status.phase is TrainingJobPhase.CREATING
    assert condition_of(scene) == ("True", "Suspended")
    assert "suspended" in scene.status.reason


def test_resumed_job_begins_anew_with_its_target() -> None:
    """After a consistent read; the time of its first start stays, the pause does not count."""
    scene = Scene(elastic(1, 4, annotations={"walltime": 100})).targets(3).running()
    began = scene.status.start_time
    scene.now += 10
    pods_go(edit(scene, suspend=True).settle(), "fit-").settle()
    scene.now += 1000
    plan = edit(scene, suspend=False).look()
    assert plan.needs_consistent_read
    assert "Resumed" in reported(plan)
    scene.settle().populate()
    scene.settle()

    assert scene.status.phase is TrainingJobPhase.RUNNING
    assert scene.trainer.spec.parallelism == 3
    assert scene.status.start_time == began
    assert scene.status.paused_seconds == 1000
    assert condition_of(scene) == ("False", "Resumed")
    scene.now += 89
    assert scene.settle().status.phase is TrainingJobPhase.RUNNING
    scene.now += 2
    assert scene.settle().status.phase is TrainingJobPhase.TIMEOUT


def test_change_of_mind_loses_all_pods_first() -> None:
    """Nothing is created while anything is left of before."""
    scene = edit(Scene(a_job()).running(), suspend=True).settle()
    edit(scene, suspend=False).settle()
    assert (str(JOBS), "fit-trainer") not in scene.held
    assert scene.status.suspension is not None

    pods_go(pods_go(scene, "fit-trainer").settle(), "fit-").settle()
    assert (str(JOBS), "fit-trainer") in scene.held
    assert scene.status.suspension is None


def test_trainers_that_save_are_asked_first() -> None:
    """The Job stays until all have answered, or their time is up."""
    scene = edit(saver(), suspend=True).settle()
    asked = [pod for pod in scene.pods("fit-trainer") if RELEASE_ANNOTATION in _notes(pod)]
    assert len(asked) == 3
    assert "suspended" in json.loads(_notes(asked[0])[RELEASE_ANNOTATION])["reason"]
    assert (str(JOBS), "fit-trainer") in scene.held
    assert scene.look().wake_at == START + 20
    note(scene, 0, **{SAVED_ANNOTATION: "saved"})
    note(scene, 1, **{SAVED_ANNOTATION: "saved"})
    assert (str(JOBS), "fit-trainer") in scene.settle().held
    scene.now = START + 20

    assert (str(JOBS), "fit-trainer") not in scene.settle().held


def _notes(pod: object) -> dict[str, str]:
    found: dict[str, str] = pod.metadata.annotations  # type: ignore[attr-defined]
    return found


def test_trainer_that_ends_because_it_was_asked_proves_nothing() -> None:
    """Neither that the job has failed, nor that it is done."""
    scene = edit(saver(), suspend=True).settle().ends(0, "Succeeded").ends(1, "Failed")
    scene.job_says("Failed", failed_indexes="1")

    assert scene.settle().status.phase is TrainingJobPhase.CREATING


def test_status_lost_while_trainers_save_is_a_suspension_again() -> None:
    """Also if nobody wants it any more: trainers that were asked must not count as done."""
    scene = edit(saver(), suspend=True).settle()
    scene.job = replace(scene.job, status=TrainingJobStatus())

    assert edit(scene, suspend=False).settle().status.suspension is not None


def test_job_may_be_suspended_from_the_beginning() -> None:
    """Nothing is created; a missing field means so with Kueue's label."""
    scene = Scene(a_job(suspend=True)).settle()
    assert names(scene) == []
    assert condition_of(scene) == ("True", "Suspended")
    assert edit(scene, suspend=False).running().status.paused_seconds == 0

    job = a_job()
    job.metadata.labels[QUEUE_LABEL] = "team"
    assert names(Scene(job).settle()) == []


def test_suspended_job_can_be_stopped() -> None:
    """And ends as stopped."""
    scene = edit(Scene(a_job()).running(), suspend=True).settle()
    notes = {**scene.job.metadata.annotations, STOPPED_ANNOTATION: "enough"}
    scene.job = replace(scene.job, metadata=replace(scene.job.metadata, annotations=notes))
    scene.settle()

    assert scene.status.phase is TrainingJobPhase.FAILED
    assert scene.status.suspension is None


def test_autoscaler_leaves_suspended_jobs_alone() -> None:
    """From the wish on, until they are to run again."""

    def is_live(scene: Scene) -> bool:
        view = view_job(scene.job, NeedsReader())
        assert view is not None
        return view.is_live

    scene = Scene(elastic()).running()
    assert is_live(scene)
    assert not is_live(edit(scene, suspend=True))
    assert not is_live(edit(scene.settle(), suspend=False))
