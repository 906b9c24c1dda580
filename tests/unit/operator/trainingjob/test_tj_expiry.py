"""A TrainingJob that has ended is deleted once its time to live is over."""

from __future__ import annotations

import pytest

from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.runtime.plan import DeleteObject
from tests.unit.operator.trainingjob.tj_scene import START, Scene, a_job, deleted, reported


def done(ttl: int | None, *, autoclean: bool = False) -> Scene:
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    scene = Scene(
        a_job(is_nccl=True, **spec), settings=TrainingJobSettings(autoclean=autoclean)
    ).running()
    scene.ends(0, "Succeeded").ends(1, "Succeeded").job_says("Complete", active=0)
    return scene


def settled(scene: Scene) -> Scene:
    """As far as it goes before the job itself is deleted."""
    for _ in range(20):
        plan = scene.look()
        if "TrainingJob fit" in deleted(plan) or not plan.actions:
            return scene
        for action in plan.each_action():
            scene.apply(action)
    raise AssertionError("never settles")


@pytest.mark.parametrize("autoclean", [False, True])
def test_ended_job_expires(autoclean: bool) -> None:
    """Not a second before, and in the state that was seen."""
    scene = settled(done(60, autoclean=autoclean))
    assert scene.look().wake_at == START + 60
    scene.now = START + 60
    plan = scene.look()
    assert reported(plan)["Expired"].message.startswith("deleted 60 s after its end")
    gone = next(one for one in plan.each_action() if isinstance(one, DeleteObject))
    assert gone.version == scene.job.metadata.resource_version
    assert gone.uid == scene.job.metadata.uid


def test_zero_means_at_once() -> None:
    assert deleted(settled(done(0)).look()) == ["TrainingJob fit"]


def test_others_stay() -> None:
    """Without the field, and while a job runs."""
    scene = settled(done(None))
    scene.now += 10**8
    assert not scene.look().actions
    running = Scene(a_job(ttlSecondsAfterFinished=0)).running()
    running.now += 10**6
    assert not deleted(running.look())
