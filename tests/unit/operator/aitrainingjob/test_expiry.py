"""A job that has ended is deleted when its time has come, and no other job is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.kinds import AI_TRAINING_JOBS
from swell.runtime.plan import DeleteObject, Plan
from tests.unit.operator.scene import START, UID, Scene, a_job, reported

T0, T1 = "fit-trainer-0", "fit-trainer-1"


def expires(plan: Plan) -> list[DeleteObject]:
    """The deletes of the job itself."""
    return [
        one
        for one in plan.each_action()
        if isinstance(one, DeleteObject) and one.resource is AI_TRAINING_JOBS
    ]


def ended(ttl: int | None) -> Scene:
    scene = Scene(a_job(ttlSecondsAfterFinished=ttl)).running().succeeds(T0, T1)
    return scene.settle() if ttl else _without_expiry(scene)


def _without_expiry(scene: Scene) -> Scene:
    while not expires(plan := scene.look()) and plan.actions:
        for action in plan.each_action():
            scene.apply(action)
    return scene


def test_job_is_deleted_as_long_after_its_end_as_it_says() -> None:
    """Not a second earlier; the operator looks again at that moment."""
    scene = ended(60)
    assert scene.look() == Plan(wake_at=START + 60)
    plan = scene.after(60).look()
    (delete,) = expires(plan)

    assert delete.uid == UID
    assert delete.version == scene.job.metadata.resource_version
    assert reported(plan) == ["Expired"]


def test_zero_means_at_once() -> None:
    """As soon as the end is on record and all is cleaned up."""
    assert len(expires(ended(0).look())) == 1


@pytest.mark.parametrize("ttl", [None, 60])
def test_job_that_goes_on_is_not_deleted(ttl: int | None) -> None:
    """However old it is, and whatever its field says."""
    scene = Scene(a_job(ttlSecondsAfterFinished=ttl)).running().after(10_000)

    assert expires(scene.look()) == []


def test_without_the_field_a_job_stays() -> None:
    """For ever, as before."""
    assert ended(None).after(10**7).look() == Plan()


def test_end_without_a_record_does_not_expire() -> None:
    """A status that lost its times or its ending is not believed."""
    for damage in ({"end_time": None}, {"ending": None}, {"end_time": "soon"}):
        scene = ended(60).after(600)
        scene._write_job(status=replace(scene.status, **damage))

        assert expires(scene.look()) == []
