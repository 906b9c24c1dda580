"""Phases, conditions, numbers, and how seldom they are written."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobPhase
from swell.api.scheduling import PodGroupCondition, PodGroupStatus
from swell.operator.aitrainingjob.phases import (
    REASON_TEXT,
    TRANSITIONS,
    JobReason,
)
from swell.operator.framework.status import IllegalTransitionError, advance
from tests.unit.operator.scene import Scene, a_job, a_role, phases, recorded

T0, T1 = "fit-trainer-0", "fit-trainer-1"


@pytest.mark.parametrize("old", AITrainingJobPhase)
@pytest.mark.parametrize("new", AITrainingJobPhase)
def test_table_decides_which_phase_may_follow(
    old: AITrainingJobPhase, new: AITrainingJobPhase
) -> None:
    """What the table does not allow is a bug of ours, and raised as one."""
    if new is old or new in TRANSITIONS[old]:
        assert advance(TRANSITIONS, old, new) is new
    else:
        with pytest.raises(IllegalTransitionError):
            advance(TRANSITIONS, old, new)


def test_final_phases_are_left_by_nothing() -> None:
    """And the living ones end only by way of Terminating."""
    assert all(not TRANSITIONS[phase] for phase in FINAL_PHASES)
    assert not TRANSITIONS[AITrainingJobPhase.RUNNING] & FINAL_PHASES


def test_every_reason_is_explained() -> None:
    """One list feeds status, events and docs."""
    assert set(REASON_TEXT) == set(JobReason)


def test_rigid_job_runs_when_all_its_pods_do() -> None:
    """Pending, Creating, Running: the first that holds."""
    scene = Scene(a_job()).settle()
    scene.binds(T0)
    scene.settle()
    scene.binds(T1)
    scene.settle()
    scene.starts(T0)
    scene.settle()
    scene.starts(T1)
    scene.settle()

    assert phases(scene) == [
        AITrainingJobPhase.PENDING,
        AITrainingJobPhase.CREATING,
        AITrainingJobPhase.RUNNING,
    ]
    assert scene.status.start_running_time


def test_elastic_job_runs_with_its_minimum() -> None:
    """Every elastic role needs at least its minimum."""
    role = a_role(replicas=3, minReplicas=1, maxReplicas=3, edlPolicy="Auto")
    scene = Scene(a_job({"trainer": role})).settle()
    scene.starts(T1)

    assert scene.settle().status.phase is AITrainingJobPhase.RUNNING


def test_finished_pods_count_as_active() -> None:
    """A job stays Running while some of its pods have finished and others work on."""
    role = a_role(replicas=2, failPolicy="None")
    scene = Scene(a_job({"trainer": role})).running().succeeds(T0).fails(T1)

    status = scene.after(10).settle().status

    assert status.phase is AITrainingJobPhase.RUNNING
    assert status.ready == "2/2"
    assert status.replica_statuses["trainer"].succeeded == 1
    assert status.replica_statuses["trainer"].failed == 1


def test_conditions_are_one_a_phase_and_three_more() -> None:
    """True only for the current phase; Scheduled, Ready and Completed serve kubectl wait."""
    scene = Scene(a_job()).running()
    now = {c.type: (c.status, c.reason) for c in scene.status.conditions}

    assert now == {
        "Pending": ("False", "TrainingJobPending"),
        "Running": ("True", "TrainingJobRunning"),
        "Scheduled": ("True", "Scheduled"),
        "Ready": ("True", "Running"),
        "Completed": ("False", "Running"),
    }
    assert all(c.last_transition_time for c in scene.status.conditions)


@pytest.mark.parametrize("key", ["Failed", "NodeFail", "Preempted"])
def test_completed_says_how(key: str) -> None:
    """True in every final phase, reason = the phase; the ending's message is in its condition."""
    scene = Scene(a_job()).running().annotate(key, "so it is").settle().leavers_go().settle()
    now = {c.type: c for c in scene.status.conditions}

    assert (now["Completed"].status, now["Completed"].reason) == ("True", key)
    assert (now[key].status, now[key].message) == ("True", "so it is")
    assert now["Ready"].status == "False"
    assert (now["Scheduled"].status, now["Scheduled"].reason) == ("False", key)


def test_pending_says_what_the_scheduler_says() -> None:
    """The group's Unschedulable condition is the job's message."""
    scene = Scene(a_job()).settle()
    assert scene.group is not None
    why = PodGroupCondition(type="Unschedulable", status="True", message="2 of 3 nodes too small")
    scene.group = replace(scene.group, status=PodGroupStatus(conditions=(why,)))

    assert recorded(scene.after(60).look())["message"] == "2 of 3 nodes too small"
    assert scene.settle().status.reason == "WaitingForRoom"


def test_numbers_are_counted_every_pod_in_one_place() -> None:
    """pending, scheduled, active, succeeded, restarting, failed."""
    role = a_role(replicas=5, failPolicy="None", restartPolicy="ExitCode", restartScope="Pod")
    scene = Scene(a_job({"trainer": role}, restartingExitCode=9)).settle()
    for index in range(1, 5):
        scene.starts(f"fit-trainer-{index}")
    scene.succeeds("fit-trainer-2").fails("fit-trainer-3", codes={"aitj-main": 9})
    scene.fails("fit-trainer-4")

    counted = recorded(scene.after(60).look())["replicaStatuses"]["trainer"]

    assert counted == {"pending": 1, "active": 1, "failed": 1, "restarting": 1, "succeeded": 1}


def test_numbers_alone_wait_to_be_written() -> None:
    """A job of many pods must not cost a write for each of their steps."""
    scene = Scene(a_job({"trainer": a_role(replicas=8)})).settle()
    scene.starts(T0)

    plan = scene.look()

    assert plan.actions == ()
    assert plan.wake_at == scene.now + 10
    assert recorded(scene.after(10).look())["ready"] == "1/8"


def test_half_of_a_job_that_ends_together_is_not_counted_before_the_other_half() -> None:
    """The ends of a gang come within seconds, and the ending has the same numbers."""
    scene = Scene(a_job({"trainer": a_role(replicas=4)})).running().after(600)

    assert scene.succeeds(T0, T1).look().actions == ()
    assert scene.look().wake_at == scene.now + 10
    others = [name for name in scene.pods if name not in {T0, T1}]
    assert recorded(scene.after(9).succeeds(*others).look())["phase"] == "Terminating"


def test_half_of_the_pods_finished_is_reported_when_no_more_end() -> None:
    """And the group follows the same numbers."""
    scene = Scene(a_job({"trainer": a_role(replicas=4)})).running()

    assert scene.succeeds(T0).look().actions == ()
    assert scene.succeeds(T1).look().actions == ()
    assert "replicaStatuses" in recorded(scene.after(10).look())
    scene.settle()
    assert scene.group is not None
    assert scene.group.spec.min_member == 2


def test_ends_of_pods_that_go_on_and_on_are_counted_within_a_minute() -> None:
    """Pods that end every few seconds do not put the numbers off for ever."""
    scene = Scene(a_job({"trainer": a_role(replicas=40)})).running()
    began = scene.now
    for name in list(scene.pods)[:30]:
        if "replicaStatuses" in recorded(scene.succeeds(name).look()):
            break
        scene.after(6)

    assert scene.now - began <= 10 + 60 + 6


def test_last_reconcile_time_is_written_only_with_another_change() -> None:
    """A quiet job sees no writes."""
    scene = Scene(a_job()).running()

    assert scene.look().actions == ()
    assert scene.after(3600).look().actions == ()


def test_history_is_the_last_twenty() -> None:
    """Bounded, like everything that grows."""
    role = a_role(replicas=1, restartPolicy="Always")
    scene = Scene(a_job({"trainer": role})).running()
    for _ in range(10):
        scene.fails(T0).settle().after(300).settle()
        scene.starts(T0)
        scene.settle()

    assert len(scene.status.phase_history) == 20


def test_status_is_of_the_current_generation() -> None:
    """observedGeneration follows every edit."""
    scene = Scene(a_job()).running().edit(timeLimit=7).settle()

    assert scene.status.observed_generation == scene.job.metadata.generation == 2
    assert {one.observed_generation for one in scene.status.conditions} == {2}


def test_conditions_of_the_release_before_are_left_as_they_are() -> None:
    """They name no generation: an upgrade alone does not write the status of every job."""
    scene = Scene(a_job()).running()
    old = [replace(one, observed_generation=0) for one in scene.status.conditions]
    scene.job = replace(scene.job, status=replace(scene.status, conditions=tuple(old)))
    assert recorded(scene.look()) == {}

    scene.fails(T0)
    scene.settle()

    assert {one.observed_generation for one in scene.status.conditions if one.status == "True"} == {
        scene.job.metadata.generation
    }
