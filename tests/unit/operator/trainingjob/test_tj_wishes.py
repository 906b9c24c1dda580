"""A TrainingJob begins after others, has a deadline, and is scaled by its subresource."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import STOPPED_ANNOTATION
from swell.api.times import parse_time
from swell.api.trainingjob import TrainerScale, TrainingJobPhase, TrainingJobStatus
from swell.autoscaler.job_views import view_job
from swell.autoscaler.needs import NeedsReader
from swell.operator.framework.dependencies import DEPENDENCY_FAILED
from swell.operator.trainingjob.decide import decide
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot
from swell.runtime.plan import Plan
from tests.unit.operator.trainingjob.tj_scene import Scene, a_job, elastic, reported

ENDS = ["Failed", "Timeout", None]
DUE = "2027-01-15T08:01:40Z"


class AfterScene(Scene):
    """A job `fit` after `prepare` and `fetch`, whose states the test sets."""

    def __init__(self, **spec: object) -> None:
        super().__init__(a_job(after=["prepare", "fetch"], **spec))
        self.states: dict[str, str] = {}

    @property
    def snapshot(self) -> TrainingJobSnapshot:
        return dataclasses.replace(super().snapshot, after=dict(self.states))

    def look(self) -> Plan:
        return decide(self.snapshot, self.now)


def condition_of(scene: Scene, kind: str) -> str | None:
    return next((one.status for one in scene.status.conditions if one.type == kind), None)


def edit(scene: Scene, **spec: object) -> Scene:
    scene.job = replace(scene.job, spec=replace(scene.job.spec, **spec))
    return scene


def sizes_of(scene: Scene) -> tuple[int, int | None]:
    return scene.trainer.spec.parallelism, scene.status.trainer_target


def is_auto(scene: Scene) -> bool:
    viewed = view_job(scene.job, NeedsReader())
    assert viewed is not None
    return viewed.roles[0].is_auto


def test_job_waits_for_others_and_has_nothing() -> None:
    """It says for whom it waits, and who is not there yet."""
    scene = AfterScene()
    scene.states = {"prepare": "Waiting"}
    scene.settle()

    assert not scene.held
    assert scene.status.phase is TrainingJobPhase.CREATING
    assert scene.status.reason == "waits for prepare, fetch; there is no fetch yet"
    assert scene.look().actions == ()


def test_job_begins_when_others_have_succeeded() -> None:
    """Also if one of them was deleted since; what becomes of them later does not matter."""
    scene = AfterScene()
    scene.states = {"prepare": "Succeed", "fetch": "Waiting"}
    scene.settle()
    scene.states = {"fetch": "Succeed"}
    scene.running()
    scene.states = {"prepare": "Waiting", "fetch": "Failed"}

    assert scene.look().actions == ()


def test_lost_status_is_no_reason_to_wait_again() -> None:
    """Who had succeeded by then is known from the job's annotation, also if it is gone."""
    scene = AfterScene()
    scene.states = {"prepare": "Succeed", "fetch": "Waiting"}
    scene.settle()
    scene.job = replace(scene.job, status=TrainingJobStatus())
    scene.states = {"fetch": "Succeed"}
    scene.running()

    assert scene.status.phase is TrainingJobPhase.RUNNING


@pytest.mark.parametrize("end", ENDS)
def test_dependency_that_failed_or_is_gone_fails_the_job(end: str | None) -> None:
    """The condition, the event and the reason name it."""
    scene = AfterScene()
    scene.states = {"prepare": "Waiting"}
    scene.settle()
    scene.states = {"prepare": end} if end else {}
    for action in scene.look().each_action():
        scene.apply(action)  # the end of the other is marked on the job first
    told = reported(scene.look())
    scene.settle()

    assert scene.status.phase is TrainingJobPhase.FAILED
    assert scene.status.reason == f"prepare is {end or 'Gone'}"
    assert condition_of(scene, DEPENDENCY_FAILED) == "True"
    assert told[DEPENDENCY_FAILED].message == f"prepare is {end or 'Gone'}"


def test_patient_job_waits_for_another_try_of_the_other() -> None:
    """With afterPolicy Wait; the condition turns when there is one."""
    scene = AfterScene(afterPolicy="Wait")
    scene.states = {"prepare": "Failed", "fetch": "Succeed"}
    scene.settle()
    assert scene.status.phase is TrainingJobPhase.CREATING
    assert condition_of(scene, DEPENDENCY_FAILED) == "True"
    scene.states["prepare"] = "Waiting"
    assert condition_of(scene.settle(), DEPENDENCY_FAILED) == "False"
    scene.states["prepare"] = "Succeed"

    assert scene.running().status.phase is TrainingJobPhase.RUNNING


def test_suspended_job_notes_what_becomes_of_others() -> None:
    """One that succeeded and was deleted meanwhile has succeeded; the other is still waited for."""
    scene = AfterScene(suspend=True)
    scene.states = {"prepare": "Succeed", "fetch": "Waiting"}
    scene.settle()
    scene.states = {"fetch": "Waiting"}
    edit(scene.settle(), suspend=False).settle()
    assert not scene.held
    assert scene.status.reason == "waits for fetch"
    scene.states = {"fetch": "Succeed"}

    assert scene.running().status.phase is TrainingJobPhase.RUNNING


def test_resumed_job_that_has_run_waits_for_nobody() -> None:
    """It came after others once, when it began."""
    scene = AfterScene()
    scene.states = {"prepare": "Succeed", "fetch": "Succeed"}
    edit(scene.running(), suspend=True)
    scene.settle().held.clear()
    scene.states = {"prepare": "Waiting"}
    edit(scene.settle(), suspend=False)

    assert scene.running().status.phase is TrainingJobPhase.RUNNING


def test_waiting_job_can_be_stopped() -> None:
    """It ends without having had anything."""
    scene = AfterScene().settle()
    meta = replace(scene.job.metadata, annotations={STOPPED_ANNOTATION: "enough"})
    scene.job = replace(scene.job, metadata=meta)

    assert scene.settle().status.phase is TrainingJobPhase.FAILED


@pytest.mark.parametrize("suspend", [False, True])
def test_missed_deadline_of_a_trainingjob_stops_nothing(suspend: bool) -> None:
    """The operator looks again at the deadline; it is told once, and has no other consequence."""
    scene = Scene(a_job(deadline=DUE, suspend=suspend))
    scene = scene.settle() if suspend else scene.running()
    before = scene.status.phase
    assert scene.look().wake_at == parse_time(DUE)
    scene.now = parse_time(DUE)
    told = reported(scene.look())
    scene.settle()

    assert told["DeadlineMissed"].message == f"not done at {DUE}"
    assert condition_of(scene, "DeadlineMissed") == "True"
    assert scene.status.phase is before
    assert scene.look().actions == ()


def test_deadline_that_is_no_time_ends_the_job_with_a_sentence() -> None:
    """An older server may have let it through."""
    status = Scene(a_job(deadline="soon")).settle().status

    assert status.phase is TrainingJobPhase.FAILED
    assert status.reason.startswith('spec.deadline: must be a date with time and zone, is "soon"')


def test_scale_is_the_size_of_the_trainers() -> None:
    """From the beginning, and when it changes, with a record of who asked and the answer."""
    scene = Scene(elastic(1, 4, scale={"replicas": 3})).running()
    assert sizes_of(scene) == (3, 3)
    edit(scene, scale=TrainerScale(2)).settle()
    scene.populate().settle()

    assert sizes_of(scene) == (2, 2)
    assert scene.status.scale is not None
    assert (scene.status.scale.replicas, scene.status.scale.selector) == (2, "paddle-job=fit")
    records = [(one.from_, one.to, one.by, one.result) for one in scene.status.scale_records]
    assert records == [(3, 2, "user", "Succeeded")]
    assert scene.look().actions == ()


def test_target_of_a_scaled_job_is_set_back() -> None:
    """Whoever else writes it; and a scale outside of the bounds is taken for the nearest size."""
    scene = Scene(elastic(1, 4, scale={"replicas": 3})).running().targets(1)
    assert sizes_of(scene.settle()) == (3, 3)

    assert sizes_of(edit(scene, scale=TrainerScale(9)).settle()) == (4, 4)


def test_scale_that_is_taken_away_leaves_the_size() -> None:
    """The autoscaler may change it then, and not before."""
    scene = Scene(elastic(1, 4, scale={"replicas": 3})).running()
    assert not is_auto(scene)
    edit(scene, scale=None).settle()

    assert sizes_of(scene) == (3, 3)
    assert scene.status.scale is None
    assert is_auto(scene)


def test_job_of_which_nobody_knows_when_it_ended_expires_all_the_same() -> None:
    """Its time counts from when that was noticed."""
    scene = Scene(a_job(ttlSecondsAfterFinished=60)).running()
    scene.job_says("Complete", succeeded=2).settle()
    assert scene.status.phase is TrainingJobPhase.SUCCEED
    scene.job = replace(scene.job, status=replace(scene.status, conditions=()))
    scene.settle()

    assert scene.look().wake_at == scene.now + 60
