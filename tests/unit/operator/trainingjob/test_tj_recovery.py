"""The status of a TrainingJob that was lost or damaged is rebuilt from the job's objects."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from swell.api.codec import convert, to_body
from swell.api.kinds import CONFIG_MAPS, JOBS, PODS
from swell.api.trainingjob import TrainerScaleRecord, TrainingJobPhase, TrainingJobStatus
from swell.operator.framework.recovery import salvaged
from swell.operator.trainingjob import labels
from swell.operator.trainingjob.decide import decide
from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.runtime.plan import DeleteObject, PatchObject, PatchStatus
from tests.unit.operator.trainingjob.tj_scene import Scene, elastic, reported, writes

Phase = TrainingJobPhase
RECORD = TrainerScaleRecord(time="2027-01-15T08:00:00Z", from_=1, to=3)


def a_scene(*, autoclean: bool = False, **spec: object) -> Scene:
    return Scene(elastic(1, 4, **spec), settings=TrainingJobSettings(autoclean=autoclean))


def completed(scene: Scene) -> Scene:
    """All trainers have succeeded, and the Job says so."""
    for index in range(size_of(scene)):
        scene.ends(index, "Succeeded")
    indexes = f"0-{size_of(scene) - 1}"
    return scene.job_says("Complete", completed_indexes=indexes, active=0)


def wiped(scene: Scene) -> Scene:
    scene.job = replace(scene.job, status=TrainingJobStatus())
    return scene


def damaged(scene: Scene, **values: object) -> Scene:
    scene.job = replace(scene.job, status=replace(scene.job.status, **values))
    return scene


def reasons(scene: Scene) -> list[str]:
    return [c.reason for c in scene.job.status.conditions if c.type == "StatusRecovered"]


def size_of(scene: Scene) -> int:
    trainer = scene.snapshot.trainer
    assert trainer is not None
    return trainer.spec.parallelism


def test_lost_status_of_a_running_job_keeps_its_size() -> None:
    """The Job's size is the target: no trainer that the autoscaler added is taken away."""
    scene = a_scene().targets(3).running()
    assert (size_of(scene), reasons(scene)) == (3, [])

    plan = wiped(scene).look()
    scene.settle()

    assert isinstance(plan.actions[0], PatchStatus)
    assert not any(isinstance(a, (DeleteObject, PatchObject)) for a in plan.each_action())
    assert "StatusRecovered" in reported(plan)
    assert scene.job.status.phase is Phase.RUNNING
    assert (scene.job.status.trainer_target, size_of(scene)) == (3, 3)
    assert reasons(scene) == ["StatusLost"]


def test_size_is_kept_without_the_addresses() -> None:
    """If the ConfigMap is gone as well, the Job says how many trainers there are."""
    scene = wiped(a_scene().targets(3).running())
    scene.held = {ref: one for ref, one in scene.held.items() if ref[0] != str(CONFIG_MAPS)}
    scene.settle()

    assert (scene.job.status.trainer_target, size_of(scene)) == (3, 3)


def test_start_of_the_job_is_found_again() -> None:
    """It is the latest start of a trainer's container: the time limit counts from there."""
    scene = a_scene().targets(2).running()
    times = ("2027-01-15T08:00:10Z", "2027-01-15T08:00:20Z")
    for index, at in enumerate(times):
        running = {"name": "trainer", "state": {"running": {"startedAt": at}}}
        scene.change(PODS, f"fit-trainer-{index}", {"status": {"containerStatuses": [running]}})

    wiped(scene).settle()

    assert scene.job.status.start_time == times[1]


@pytest.mark.parametrize("field", TrainingJobStatus.__struct_fields__)
def test_any_single_field_may_be_lost(field: str) -> None:
    """Whichever part is missing, the job goes on with the same trainers."""
    scene = a_scene().targets(3).running()

    damaged(scene, **{field: getattr(TrainingJobStatus(), field)}).settle()

    assert scene.job.status.phase is Phase.RUNNING
    assert (scene.job.status.trainer_target, size_of(scene)) == (3, 3)


@pytest.mark.parametrize("value", [-1, 9_000_000_000])
def test_target_that_nobody_wrote_is_replaced(value: int) -> None:
    """By the number of trainers there are, not by a bound of the spec."""
    scene = a_scene().targets(3).running()

    damaged(scene, trainer_target=value).settle()

    assert (scene.job.status.trainer_target, size_of(scene)) == (3, 3)
    assert reasons(scene) == ["StatusDamaged"]


@pytest.mark.parametrize("autoclean", [True, False])
@pytest.mark.parametrize("way", ["lost", "set running", "released too early"])
def test_ended_job_stays_ended(autoclean: bool, way: str) -> None:
    """The mark on the job says how it ended, whatever its status has become."""
    scene = completed(a_scene(autoclean=autoclean).running()).settle()
    assert scene.job.status.phase is Phase.SUCCEED
    reason, was_released = scene.job.status.reason, scene.job.status.released

    if way == "lost":
        wiped(scene)
    elif way == "set running":
        damaged(scene, phase=Phase.RUNNING)
    else:
        damaged(scene, phase=Phase.SCALING, released=True)
    scene.settle()

    assert (scene.job.status.phase, scene.job.status.reason) == (Phase.SUCCEED, reason)
    assert scene.job.status.released is was_released


@pytest.mark.parametrize("way", ["lost", "set running"])
def test_ended_job_stays_ended_when_nothing_else_is_left(way: str) -> None:
    """Somebody deleted what it owned: the mark alone says that it is not to begin anew."""
    scene = completed(a_scene(autoclean=True).running()).settle()
    scene.held = {}
    scene = wiped(scene) if way == "lost" else damaged(scene, phase=Phase.RUNNING, released=False)
    scene.settle()

    assert scene.job.status.phase is Phase.SUCCEED
    assert scene.held == {}


def test_released_trainers_without_a_mark_are_an_end() -> None:
    """A job that an older release ended is not started again; that its end is unknown is said."""
    scene = wiped(a_scene(autoclean=True).running())
    scene.change(JOBS, "fit-trainer", {"spec": {"parallelism": 0}})

    for action in writes(scene.look()):
        scene.apply(action)

    assert scene.job.status.phase is Phase.FAILED
    assert "the end is not known" in scene.job.status.reason


def test_living_job_is_never_released() -> None:
    """`released` without an end would stop the operator from ever looking at the job again."""
    scene = a_scene().running()

    damaged(scene, released=True).settle()

    assert (scene.job.status.phase, scene.job.status.released) == (Phase.RUNNING, False)


def test_time_that_is_none_does_not_stop_the_job() -> None:
    """It is found again from the trainers' containers, or begins anew."""
    scene = a_scene(annotations={"walltime": 100}).running()

    damaged(scene, start_time="at dawn").settle()

    assert scene.job.status.phase is Phase.RUNNING
    assert scene.job.status.start_time != "at dawn"


def test_fields_that_cannot_be_decoded_are_replaced() -> None:
    """An unknown phase or a wrong type costs that field, not the job."""
    scene = a_scene().targets(3).running()
    damaged(scene, scale_records=(RECORD,))
    stored = {**to_body(scene.job.status), "phase": "Levitating", "trainer_target": "some"}
    status = convert(salvaged(stored, TrainingJobStatus), TrainingJobStatus)
    assert status.scale_records == (RECORD,)
    scene.job = replace(scene.job, status=status)

    plan = decide(dataclasses.replace(scene.snapshot, stored_status=stored), scene.now)

    (write,) = [step for step in plan.actions if isinstance(step, PatchStatus)]
    assert write.status["phase"] == "Running"
    assert write.status["trainer_target"] == 3


def test_mark_names_the_end_and_the_job() -> None:
    """It is written with the end, and for this UID alone."""
    scene = completed(a_scene().running())
    (mark,) = [a for a in scene.look().each_action() if isinstance(a, PatchObject)]
    assert isinstance(mark.patch.body, dict)
    text = mark.patch.body["metadata"]["annotations"][labels.ENDING]

    assert '"phase":"Succeed"' in text
    assert f'"uid":"{scene.job.metadata.uid}"' in text


def only_addresses(scene: Scene) -> Scene:
    """Of all that the job owns, the ConfigMap of addresses alone is left, and no status."""
    scene.held = {ref: one for ref, one in scene.held.items() if ref[0] == str(CONFIG_MAPS)}
    assert scene.snapshot.addresses is not None
    return wiped(scene)


def test_addresses_alone_prove_that_the_job_began() -> None:
    """The ConfigMap knows the size that the trainers had."""
    scene = only_addresses(a_scene().targets(3).running()).settle()

    assert (scene.job.status.trainer_target, size_of(scene)) == (3, 3)
    assert reasons(scene) == ["StatusLost"]


@pytest.mark.parametrize(("text", "target"), [("", 1), ("many", 1), ("-1", 1), ("99", 4)])
def test_size_that_no_operator_published_is_not_believed(text: str, target: int) -> None:
    """The job goes on within its limits, whatever was written there."""
    scene = only_addresses(a_scene().targets(3).running())
    scene.change(CONFIG_MAPS, "fit-addresses", {"data": {"PADDLE_TRAINERS_NUM": text}})

    assert size_of(scene.settle()) == target


def test_lost_status_leaves_the_addresses_as_they_were() -> None:
    """Containers that start meanwhile find the same peers."""
    scene = a_scene().targets(3).running()
    held = scene.snapshot.addresses
    wiped(scene).settle()

    assert held is not None
    assert scene.snapshot.addresses == held
