"""A job that yields to others is suspended for as long, and never for longer than it was told."""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobPhase, Yield
from swell.api.times import SKEW_S, format_time
from swell.runtime.plan import PatchStatus
from tests.unit.operator.scene import START, Scene, a_job, deleted, recorded, reported

T0, T1 = "fit-trainer-0", "fit-trainer-1"
HALF_HOUR_S = 1800


def told_to_yield(
    scene: Scene, *, since: float = START, until: float = START + HALF_HOUR_S
) -> Scene:
    """The autoscaler has written that the job is to give its devices to others."""
    record = Yield(format_time(since), format_time(until), "a device is worth 2 elsewhere")
    scene.job = replace(scene.job, status=replace(scene.job.status, yielded=record))
    return scene


def yielding(scene: Scene) -> Scene:
    """Its pods are gone."""
    return told_to_yield(scene).settle().leavers_go().settle()


def test_job_that_yields_gives_back_everything_and_says_why() -> None:
    scene = told_to_yield(Scene(a_job()).running())
    plan = scene.look()

    assert recorded(plan)["suspension"] == {"startedAt": format_time(START)}
    assert recorded(plan)["reason"] == "Yielded"
    assert "worth 2 elsewhere" in recorded(plan)["message"]
    assert deleted(plan) == [T0, T1]
    assert "Yielded" in reported(plan)
    yielding(scene)
    assert (scene.pods, scene.group) == ({}, None)
    assert scene.look().actions == ()


def test_programs_save_before_their_devices_go_to_others() -> None:
    """Pods of a job that saves are asked first, and not deleted before they answer."""
    scene = told_to_yield(Scene(a_job(saveSeconds=60)).running()).settle()

    assert deleted(scene.look()) == []
    assert sorted(scene.pods) == [T0, T1]
    scene.after(61)
    assert deleted(scene.look()) == [T0, T1]


def test_job_goes_on_when_the_record_is_taken_away() -> None:
    scene = yielding(Scene(a_job()).running())
    scene.after(60)
    scene.job = replace(scene.job, status=replace(scene.job.status, yielded=None))
    scene.running()

    assert sorted(scene.pods) == [T0, T1]
    assert scene.status.phase is AITrainingJobPhase.RUNNING
    assert scene.status.restart_counts == {}
    assert scene.status.suspension is None


def test_job_goes_on_at_the_latest_when_its_time_is_over() -> None:
    """Without any autoscaler: the operator looks again by itself, and takes the record away."""
    scene = yielding(Scene(a_job()).running())
    assert scene.look().wake_at == START + HALF_HOUR_S
    scene.after(HALF_HOUR_S - 1)
    assert scene.look().actions == ()
    scene.after(1).running()

    assert sorted(scene.pods) == [T0, T1]
    assert scene.status.yielded is None


def test_record_that_is_over_before_it_was_seen_stops_nothing() -> None:
    scene = told_to_yield(Scene(a_job()).running())
    plan = scene.after(HALF_HOUR_S).look()

    assert deleted(plan) == []
    assert recorded(plan)["yielded"] is None


def test_record_of_the_future_is_of_a_clock_that_was_set_back() -> None:
    """It would hold the job for as long as the clock jumped."""
    scene = Scene(a_job()).running()
    day_s = 86_400.0
    told_to_yield(scene, since=START + day_s, until=START + day_s + HALF_HOUR_S)

    assert deleted(scene.look()) == []
    told_to_yield(scene, since=START + SKEW_S - 1)
    assert deleted(scene.look()) == [T0, T1]


def test_suspend_false_ends_a_yield_and_forbids_the_next() -> None:
    scene = yielding(Scene(a_job()).running()).edit(suspend=False).running()
    assert sorted(scene.pods) == [T0, T1]
    assert scene.status.yielded is None

    assert deleted(told_to_yield(scene).look()) == []


def test_suspended_job_stays_suspended_when_its_yield_is_over() -> None:
    scene = yielding(Scene(a_job()).running()).edit(suspend=True).settle()
    scene.after(HALF_HOUR_S).settle()

    assert (scene.pods, scene.status.reason) == ({}, "Suspended")


def test_record_without_times_is_none() -> None:
    scene = Scene(a_job()).running()
    scene.job = replace(scene.job, status=replace(scene.job.status, yielded=Yield("?", "never")))
    plan = scene.look()

    assert deleted(plan) == []
    writes = [one for one in plan.each_action() if isinstance(one, PatchStatus)]
    assert writes[0].status["yielded"] is None
