"""Reports of trainers: who is asked for them, how often they are written, where they are shown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from swell.api.codec import encode
from swell.api.injection import REPORT_ANNOTATION
from swell.api.kinds import JOBS, PODS
from swell.api.meta import Key
from swell.api.training import TrainingStatus
from swell.api.trainingjob import TrainingJob, TrainingJobPhase
from swell.cli.objects.top import report_rows
from swell.operator.framework.reports import ReceivedReport, read_report
from swell.operator.framework.training import REPORT_TOKEN, TRAINING
from swell.operator.trainingjob.kind import report_target
from swell.operator.trainingjob.metrics import TrainingJobMetrics
from swell.runtime.plan import PatchStatus, Plan
from tests.unit.operator.trainingjob.tj_scene import Scene, elastic


def asking(job: TrainingJob) -> TrainingJob:
    meta = job.metadata
    notes = {TRAINING: "true", REPORT_TOKEN: "t"}
    return replace(job, metadata=replace(meta, annotations=notes))


def reporting() -> Scene:
    return Scene(asking(elastic(2, 4))).running()


def hears(scene: Scene, step: int) -> Plan:
    """The plan after the program has reported a step."""
    fields = {"generation": 1, "epoch": 1, "size": 2, "step": step, "lastPauseSeconds": 0.2}
    scene.report = ReceivedReport(read_report(encode(fields)), scene.now, "trainer", 0)
    return scene.look()


def writes(plan: Plan) -> list[PatchStatus]:
    return [one for one in plan.each_action() if isinstance(one, PatchStatus)]


def test_first_report_is_written_at_once_and_only_once() -> None:
    scene = reporting()
    (write,) = writes(hears(scene, 5))

    assert write.status["training"]["step"] == 5
    scene.settle()
    assert writes(scene.look()) == []


def test_reports_alone_are_written_six_times_a_minute() -> None:
    scene = reporting()
    n_writes = 0
    for second in range(300):
        scene.now += 1
        plan = hears(scene, second)
        for action in writes(plan):
            n_writes += 1
            scene.apply(action)
        assert plan.wake_at is None or plan.wake_at > scene.now

    assert 28 <= n_writes <= 31


def test_last_report_stays_after_the_end() -> None:
    scene = reporting()
    hears(scene, 5)
    scene.settle()
    scene.now += 1
    hears(scene, 9)
    scene.job_says("Complete", succeeded=2, completed_indexes="0-1").settle()

    assert scene.status.phase is TrainingJobPhase.SUCCEED
    assert scene.status.training is not None
    assert scene.status.training.step == 9


def test_time_that_no_operator_wrote_is_dropped() -> None:
    """Users can write into a status."""
    scene = reporting()
    bad = TrainingStatus(reported_at="soon", step=1)
    scene.job = replace(scene.job, status=replace(scene.status, training=bad))

    assert scene.settle().status.training is None


def informers(scene: Scene) -> Any:
    """The caches that a target is read from, with the scene's objects in them."""

    def job_of(key: Key) -> Any:
        return scene.held.get((str(JOBS), key.name))

    return SimpleNamespace(
        batch_jobs=SimpleNamespace(get=job_of),
        pods=SimpleNamespace(by_index=lambda _, uid: scene.pods() if uid else []),
    )


def test_running_trainers_are_asked_in_order_of_their_indexes() -> None:
    scene = reporting()
    for index in (0, 1):
        note = {REPORT_ANNOTATION: "{}"} if index else {}
        change = {"status": {"podIP": f"10.0.0.{index}"}, "metadata": {"annotations": note}}
        scene.change(PODS, f"fit-trainer-{index}", change)
    target = report_target(scene.job, informers(scene))

    assert target is not None
    assert (target.token, target.port) == ("t", 23232)
    assert [(one.index, one.address, one.written) for one in target.sources] == [
        (0, "10.0.0.0", ""),
        (1, "10.0.0.1", "{}"),
    ]


def test_jobs_that_have_ended_or_do_not_report_are_not_asked() -> None:
    silent = Scene(elastic(2, 4)).running()
    ended = reporting()
    status = replace(ended.status, phase=TrainingJobPhase.SUCCEED)

    assert report_target(silent.job, informers(silent)) is None
    assert report_target(replace(ended.job, status=status), informers(ended)) is None


def test_reports_are_shown_by_metrics_and_top() -> None:
    scene = reporting()
    hears(scene, 5)
    job = scene.settle().job
    registry = CollectorRegistry()
    TrainingJobMetrics(registry).watch(lambda: (job,))
    text = generate_latest(registry).decode()

    assert 'swell_training_job_last_pause_seconds{job="fit",namespace="team"} 0.2' in text
    assert report_rows([job])[1][0] == "TrainingJob/fit"
