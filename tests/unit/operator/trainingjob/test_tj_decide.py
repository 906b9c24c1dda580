"""The life of a TrainingJob: setup, creating, running, scaling, and what its status says."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.kinds import JOBS, POD_GROUPS, PODS, REPLICA_SETS
from swell.api.times import format_time
from swell.api.trainingjob import TrainerScaleRecord, TrainingJobPhase
from swell.operator.framework.status import IllegalTransitionError, advance
from swell.operator.trainingjob.labels import FINALIZER
from swell.operator.trainingjob.phases import TRANSITIONS
from swell.runtime.plan import PatchObject, PatchStatus
from tests.unit.operator.trainingjob.tj_scene import (
    START,
    Scene,
    a_job,
    created,
    deleted,
    elastic,
    patched,
    recorded,
    reported,
    writes,
)


def sizes(scene: Scene) -> tuple[int, int | None]:
    return scene.trainer.spec.parallelism, scene.trainer.spec.completions


# -- setup -----------------------------------------------------------------------------------


def test_finalizer_comes_before_everything() -> None:
    """Nothing is recorded or created for a job that could go without us."""
    job = a_job()
    scene = Scene(replace(job, metadata=replace(job.metadata, finalizers=())))

    (action,) = writes(scene.look())
    assert patched(scene.look())["TrainingJob fit"]["metadata"]["finalizers"] == [FINALIZER]
    assert isinstance(action, PatchObject)


def test_setup_starts_at_the_minimum() -> None:
    """The target starts at min-instance, and is on record before anything is created."""
    plan = Scene(elastic(2, 6)).look()
    first = next(iter(plan.each_action()))

    assert isinstance(first, PatchStatus)
    assert recorded(plan)["trainer_target"] == 2
    assert recorded(plan)["phase"] == "Creating"
    assert created(plan)["Job fit-trainer"]["spec"]["parallelism"] == 2


def test_setup_keeps_a_target_that_is_there() -> None:
    """An autoscaler that was faster is not overruled."""
    assert "trainer_target" not in recorded(Scene(elastic(2, 6)).targets(4).look())


def test_invalid_job_fails_with_every_reason() -> None:
    """Each problem is named, and nothing is created."""
    job = a_job(trainer={"min-instance": 4, "max-instance": 2, "entrypoint": "it's"}, image="")
    plan = Scene(job).look()
    status = recorded(plan)

    assert status["phase"] == "Failed"
    assert all(word in status["reason"] for word in ("min-instance", "image", "entrypoint"))
    assert created(plan) == {}
    assert Scene(job).settle().held == {}


def test_elastic_trainer_must_be_fault_tolerant() -> None:
    """min below max without fault_tolerant is no valid job."""
    status = recorded(Scene(a_job(trainer={"min-instance": 1, "max-instance": 2})).look())

    assert "fault_tolerant" in status["reason"]


# -- creating --------------------------------------------------------------------------------


def test_creating_makes_only_what_is_missing() -> None:
    """What exists is left alone; a second look makes nothing."""
    scene = Scene(a_job(fault_tolerant=True)).settle()

    assert writes(scene.look()) == []
    scene.remove(REPLICA_SETS, "fit-pserver")
    assert created(scene.look()).keys() == {"ReplicaSet fit-pserver"}


@pytest.mark.parametrize("lacking", ["fit-master", "fit-pserver", "fit-trainer-1"])
def test_running_needs_everybody(lacking: str) -> None:
    """Ready replicas of master and pserver, and as many trainers as run in parallel."""
    scene = Scene(a_job(fault_tolerant=True)).settle().populate()
    if lacking == "fit-trainer-1":
        scene.change(PODS, lacking, {"status": {"phase": "Pending"}})
    else:
        scene.change(REPLICA_SETS, lacking, {"status": {"readyReplicas": 0}})

    assert "phase" not in recorded(scene.look())


def test_succeeded_trainers_count_as_running() -> None:
    """Running or succeeded: a quick trainer does not keep the job from running."""
    scene = Scene(a_job()).settle().populate().ends(0, "Succeeded")

    assert recorded(scene.look())["phase"] == "Running"


def test_trainer_given_up_is_not_waited_for() -> None:
    """An index that failed for good will never run; the others make the job run."""
    scene = Scene(a_job(fault_tolerant=True)).settle().populate()
    scene.remove(PODS, "fit-trainer-1").job_says(failed_indexes="1")

    assert recorded(scene.look())["phase"] == "Running"


def test_start_time_is_set_once() -> None:
    """It is when the job first ran, whatever comes later."""
    scene = Scene(elastic(1, 3)).running()
    began = scene.status.start_time
    scene.now += 100
    scene.targets(2).settle().populate().settle()

    assert began == format_time(START)
    assert scene.status.phase is TrainingJobPhase.RUNNING
    assert scene.status.start_time == began


def test_job_done_at_once_was_running_first() -> None:
    """Trainers that are done when they are first seen do not skip a phase."""
    scene = Scene(a_job()).settle().populate().ends(0, "Succeeded").ends(1, "Succeeded")
    scene.job_says("Complete", completed_indexes="0,1")

    assert recorded(scene.look())["phase"] == "Running"
    assert scene.settle().status.phase is TrainingJobPhase.SUCCEED


def test_resized_replica_set_is_set_right() -> None:
    """Somebody else's idea of how many pservers there are does not last."""
    scene = Scene(a_job(pserver={"min-instance": 2})).running()
    scene.change(REPLICA_SETS, "fit-pserver", {"spec": {"replicas": 5}})

    assert patched(scene.look())["ReplicaSet fit-pserver"]["spec"] == {"replicas": 2}


def test_refused_object_is_reported() -> None:
    """What the API server does not accept is the reason, and an event, once."""
    scene = Scene(a_job()).settle()
    scene.refused = "ReplicaSet fit-pserver: exceeded quota"
    plan = scene.look()
    scene.settle()

    assert recorded(plan)["reason"] == "ReplicaSet fit-pserver: exceeded quota"
    assert "ObjectRefused" in reported(plan)
    assert reported(scene.look()) == {}


def test_waiting_for_room_is_reported() -> None:
    """What the scheduler says about the group is the reason."""
    scene = Scene(a_job()).settle()
    condition = {"type": "Unschedulable", "status": "True", "message": "no room"}
    scene.change(POD_GROUPS, "fit", {"status": {"conditions": [condition]}})

    assert recorded(scene.look())["reason"] == "no room"


# -- status ----------------------------------------------------------------------------------


def test_status_is_written_only_when_it_differs() -> None:
    """No change in the world, no write."""
    scene = Scene(elastic()).running()
    scene.now += 1000

    assert writes(scene.look()) == []


def test_status_carries_its_version() -> None:
    """It is written to the status, for the version it was computed from."""
    (status, *_) = Scene(a_job()).look().each_action()

    assert isinstance(status, PatchStatus)
    assert status.version == "1"


def test_status_describes_the_generation() -> None:
    """observedGeneration follows the spec, also after the end, and in every condition."""
    scene = Scene(a_job()).running()
    scene.job = replace(scene.job, metadata=replace(scene.job.metadata, generation=5))
    written = recorded(scene.look())

    assert set(written) == {"observedGeneration", "conditions"}
    assert written["observedGeneration"] == 5
    assert {one["observedGeneration"] for one in written["conditions"]} == {5}


def test_status_counts_pods_by_role() -> None:
    """As their workloads count them."""
    scene = Scene(a_job(fault_tolerant=True)).running()
    counts = scene.status.replica_statuses

    assert counts["master"].ready == 1
    assert (counts["trainer"].active, counts["trainer"].ready) == (2, 2)


def test_phases_follow_the_table() -> None:
    """What the table rules out is a bug."""
    scaling = TrainingJobPhase.SCALING
    assert advance(TRANSITIONS, TrainingJobPhase.RUNNING, scaling) is scaling
    for old, new in [
        (TrainingJobPhase.SUCCEED, TrainingJobPhase.RUNNING),
        (TrainingJobPhase.FAILED, TrainingJobPhase.CREATING),
        (TrainingJobPhase.EMPTY, TrainingJobPhase.RUNNING),
        (TrainingJobPhase.CREATING, TrainingJobPhase.TIMEOUT),
    ]:
        with pytest.raises(IllegalTransitionError):
            advance(TRANSITIONS, old, new)


# -- scaling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [1, 3, 4])
def test_scaling_moves_both_numbers_in_one_update(target: int) -> None:
    """Record first, then parallelism and completions together, for the version that was seen."""
    scene = Scene(elastic(1, 4)).targets(2).running().targets(target)
    plan = scene.look()
    first, *others = writes(plan)

    assert isinstance(first, PatchStatus)
    assert recorded(plan)["phase"] == "Scaling"
    assert all(isinstance(other, PatchObject) for other in others)
    assert patched(plan).keys() == {"ConfigMap fit-addresses", "Job fit-trainer"}
    assert patched(plan)["Job fit-trainer"] == {
        "metadata": {"uid": scene.trainer.metadata.uid, "resourceVersion": "1"},
        "spec": {"parallelism": target, "completions": target},
    }


def test_scaling_is_recorded_with_its_result() -> None:
    """A record says from what to what; when the size holds, the result is in it."""
    scene = Scene(elastic(1, 4)).running().targets(3)
    scene.settle()
    open_record = scene.status.scale_records[-1]
    scene.populate()
    plan = scene.look()
    scene.settle()

    assert (open_record.from_, open_record.to, open_record.result) == (1, 3, "")
    assert scene.status.phase is TrainingJobPhase.RUNNING
    assert scene.status.scale_records[-1].result == "Succeeded"
    assert "Scaled" in reported(plan)


def test_record_of_the_autoscaler_is_used() -> None:
    """Whoever asked for the size may have recorded it; there is one record, not two."""
    scene = Scene(elastic(1, 4)).running().targets(3)
    record = TrainerScaleRecord(from_=1, to=3, by="autoscaler", reason="idle room")
    scene.job = replace(scene.job, status=replace(scene.status, scale_records=(record,)))
    scene.settle().populate().settle()

    assert scene.status.scale_records == (replace(record, result="Succeeded"),)


def test_newer_target_supersedes_the_older() -> None:
    """A size that was never reached is closed as superseded."""
    scene = Scene(elastic(1, 4)).running().targets(4).settle().targets(2).settle()
    scene.populate().settle()

    assert [(r.to, r.result) for r in scene.status.scale_records] == [
        (4, "Superseded"),
        (2, "Succeeded"),
    ]


@pytest.mark.parametrize(("target", "wanted"), [(9, 4), (0, 1)])
def test_target_is_kept_within_the_spec(target: int, wanted: int) -> None:
    """In [min, max], whatever was asked for."""
    scene = Scene(elastic(1, 4)).targets(2).running().targets(target)

    assert sizes(scene.settle()) == (wanted, wanted)


def test_target_follows_a_narrowed_spec() -> None:
    """A maximum below the present size shrinks the job."""
    scene = Scene(elastic(1, 4)).targets(4).running()
    trainer = replace(scene.job.spec.trainer, max_instance=2)
    scene.job = replace(scene.job, spec=replace(scene.job.spec, trainer=trainer))

    assert sizes(scene.settle()) == (2, 2)


def test_scaling_down_waits_for_the_surplus_to_go() -> None:
    """Back to Running when the size holds: the highest indexes are gone."""
    scene = Scene(elastic(1, 4)).targets(3).running().targets(1).settle()

    assert scene.status.phase is TrainingJobPhase.SCALING
    assert scene.populate().settle().status.phase is TrainingJobPhase.RUNNING


def test_surplus_trainer_that_failed_is_no_failure() -> None:
    """A pod that scaling down took away may end as failed; nobody minds."""
    scene = Scene(elastic(1, 4)).targets(3).running().targets(1).settle().ends(2, "Failed")

    assert scene.settle().status.phase is TrainingJobPhase.SCALING


def test_creating_job_takes_a_new_target() -> None:
    """A size that does not fit can be taken back before the job ever ran."""
    scene = Scene(elastic(1, 4)).targets(4).settle().targets(2).settle()

    assert scene.status.phase is TrainingJobPhase.CREATING
    assert sizes(scene) == (2, 2)


def test_records_are_bounded() -> None:
    """The last twenty are kept."""
    scene = Scene(elastic(1, 4)).running()
    for turn in range(25):
        scene.targets(2 + turn % 2).settle().populate().settle()

    assert len(scene.status.scale_records) == 20


def test_operator_never_writes_the_target() -> None:
    """The target is the autoscaler's, after setup."""
    scene = Scene(elastic(1, 4)).running().targets(3)

    assert "trainer_target" not in recorded(scene.look())


def test_trainer_job_deleted_by_others_is_made_again() -> None:
    """What is missing is created in every living phase."""
    scene = Scene(elastic()).running().remove(JOBS, "fit-trainer")

    assert created(scene.look()).keys() == {"Job fit-trainer"}
    assert deleted(scene.look()) == []
