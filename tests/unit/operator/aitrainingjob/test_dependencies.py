"""A job that comes after others begins when they have succeeded."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobStatus
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.meta import Uid
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.decide import decide
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.dependencies import marked, state_of
from swell.runtime.plan import EmitEvent, Plan
from tests.unit.operator.scene import Scene, a_job, recorded


class AfterScene(Scene):
    """A job `fit` after `prepare` and `fetch`, whose phases the test sets."""

    def __init__(self, **spec: object) -> None:
        super().__init__(a_job(after=["prepare", "fetch"], **spec))
        self.phases: dict[str, Phase] = {}

    @property
    def snapshot(self) -> AITrainingJobSnapshot:
        states = {
            name: state_of(phase.value, is_final=phase in FINAL_PHASES)
            for name, phase in self.phases.items()
        }
        return dataclasses.replace(super().snapshot, after=states)

    def look(self) -> Plan:
        return decide(self.snapshot, self.now)


def conditions(scene: Scene) -> dict[str, str]:
    return {one.type: one.status for one in scene.status.conditions}


def test_job_waits_and_has_nothing() -> None:
    """It says for whom it waits, and who is not there yet; it does not start."""
    scene = AfterScene()
    scene.phases = {"prepare": Phase.RUNNING}
    scene.settle()

    assert (scene.pods, scene.group, scene.members) == ({}, None, None)
    assert (scene.status.phase, scene.status.reason) == (Phase.PENDING, "WaitingForJobs")
    assert scene.status.message == "waits for prepare, fetch; there is no fetch yet"
    assert scene.status.start_time is None
    assert scene.look().actions == ()


def test_job_begins_when_all_have_succeeded() -> None:
    """Also if one of them was deleted since."""
    scene = AfterScene()
    scene.phases = {"prepare": Phase.SUCCEED, "fetch": Phase.RUNNING}
    scene.settle()
    assert scene.status.dependencies == {"prepare": "Succeed", "fetch": "Waiting"}
    scene.phases = {"fetch": Phase.SUCCEED}
    scene.running()

    assert scene.status.phase is Phase.RUNNING
    assert scene.status.start_time is not None


@pytest.mark.parametrize("end", [Phase.FAILED, Phase.TIMEOUT, Phase.NODE_FAIL, None])
def test_failed_or_gone_dependency_fails_the_job(end: Phase | None) -> None:
    """The condition and the message name it; a job that never was is waited for."""
    scene = AfterScene()
    scene.phases = {"prepare": Phase.RUNNING}
    scene.settle()
    scene.phases = {"prepare": end} if end else {}
    scene.settle()

    assert (scene.status.phase, scene.status.reason) == (Phase.FAILED, "DependencyFailed")
    assert scene.status.message == f"prepare is {end.value if end else 'Gone'}"
    assert conditions(scene)["DependencyFailed"] == "True"


def test_patient_job_waits_for_another_try() -> None:
    """With afterPolicy Wait a dependency may be created again."""
    scene = AfterScene(afterPolicy="Wait")
    scene.phases = {"prepare": Phase.FAILED, "fetch": Phase.SUCCEED}
    scene.settle()
    assert (scene.status.phase, scene.status.reason) == (Phase.PENDING, "DependencyFailed")
    assert conditions(scene)["DependencyFailed"] == "True"
    scene.phases["prepare"] = Phase.RUNNING
    scene.settle()
    assert conditions(scene)["DependencyFailed"] == "False"
    scene.phases["prepare"] = Phase.SUCCEED

    assert scene.running().status.phase is Phase.RUNNING


def test_job_that_has_started_is_not_stopped() -> None:
    """What becomes of the others later does not matter."""
    scene = AfterScene()
    scene.phases = {"prepare": Phase.SUCCEED, "fetch": Phase.SUCCEED}
    scene.running()
    scene.phases = {}

    assert scene.look().actions == ()


def test_waiting_job_can_be_ended() -> None:
    """By the annotations that end every job."""
    scene = AfterScene().settle().annotate("Preempted", "no use").settle()

    assert scene.status.phase is Phase.PREEMPTED


def test_missed_deadline_is_told_and_stops_nothing() -> None:
    """The operator looks again at the deadline: a condition and one event, and no end."""
    scene = Scene(a_job(deadline="2027-01-15T08:01:40Z")).running()
    due = scene.look().wake_at
    assert due is not None
    scene.after(due - scene.now)
    plan = scene.look()
    told = [one.reason for one in plan.each_action() if isinstance(one, EmitEvent)]

    assert told == ["DeadlineMissed"]
    assert "ending" not in recorded(plan)
    scene.settle()
    assert conditions(scene)["DeadlineMissed"] == "True"
    assert scene.look().actions == ()
    assert scene.status.phase is Phase.RUNNING


def test_resumed_job_still_waits_for_the_others() -> None:
    """A suspension of a job that has not begun changes nothing about what it comes after."""
    scene = AfterScene(suspend=True)
    scene.phases = {"prepare": Phase.RUNNING, "fetch": Phase.SUCCEED}
    scene.settle().edit(suspend=False).settle()

    assert (scene.pods, scene.status.start_time) == ({}, None)
    assert scene.status.reason == "WaitingForJobs"
    scene.phases = {"prepare": Phase.SUCCEED}
    assert scene.running().status.phase is Phase.RUNNING


def test_suspended_job_remembers_who_succeeded() -> None:
    """Also if that one is deleted before the job goes on."""
    scene = AfterScene(suspend=True)
    scene.phases = {"prepare": Phase.RUNNING, "fetch": Phase.RUNNING}
    scene.settle()
    scene.phases = {"prepare": Phase.SUCCEED, "fetch": Phase.SUCCEED}
    scene.settle()
    scene.phases = {}
    scene.settle().edit(suspend=False)

    assert scene.running().status.phase is Phase.RUNNING


@pytest.mark.parametrize("phases", [{}, {"fetch": Phase.SUCCEED}])
def test_lost_status_is_no_reason_to_wait_again(phases: dict[str, Phase]) -> None:
    """Who had succeeded by then is known from the job's annotation, also if it is gone."""
    scene = AfterScene()
    scene.phases = {"prepare": Phase.SUCCEED, "fetch": Phase.RUNNING}
    scene.settle()
    scene.job = replace(scene.job, status=AITrainingJobStatus())
    scene.phases = phases
    scene.settle()

    if phases:
        assert scene.running().status.phase is Phase.RUNNING
    else:
        assert scene.status.message == "fetch is Gone"


def test_mark_of_another_job_counts_nothing() -> None:
    """A job is submitted with the annotations of the one that its manifest was copied from."""
    scene = AfterScene()
    scene.phases = {"prepare": Phase.SUCCEED, "fetch": Phase.SUCCEED}
    scene.settle()
    assert scene.pods
    copied = AfterScene()
    copied.job = replace(copied.job, metadata=replace(scene.job.metadata, uid=Uid("copy")))
    copied.settle()

    assert copied.status.message == "waits for prepare, fetch; there is no prepare, fetch yet"


@pytest.mark.parametrize("text", ["", "null", "7", "{", '{"uid": 3}', '{"states": {"fetch": 1}}'])
def test_mark_that_cannot_be_read_is_replaced(text: str) -> None:
    scene = AfterScene()
    scene.annotate(labels.AFTER, text)
    scene.phases = {"prepare": Phase.SUCCEED, "fetch": Phase.SUCCEED}

    assert scene.running().status.phase is Phase.RUNNING
    assert marked(scene.job.metadata, labels.AFTER) == {"prepare": "Succeed", "fetch": "Succeed"}
