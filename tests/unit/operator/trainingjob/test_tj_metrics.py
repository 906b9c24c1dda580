"""What is counted and logged of TrainingJobs."""

from __future__ import annotations

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from swell.api.trainingjob import TrainingJobPhase
from swell.operator.framework.metrics import LoggingSink
from swell.operator.trainingjob.metrics import TrainingJobMetrics
from swell.runtime.plan import EmitEvent
from tests.unit.operator.trainingjob.tj_scene import Scene, a_job, elastic, reported


class Sink:
    """Keeps the events it is given."""

    def __init__(self) -> None:
        self.events: list[EmitEvent] = []

    def record(self, event: EmitEvent) -> None:
        self.events.append(event)


def test_jobs_are_counted_by_phase_and_resizes_when_they_end() -> None:
    """Under names of their own, since phases of the other kind are others."""
    registry = CollectorRegistry()
    metrics, sink = TrainingJobMetrics(registry), Sink()
    job = a_job()
    running = replace(job, status=replace(job.status, phase=TrainingJobPhase.RUNNING))
    metrics.watch(lambda: (job, running))
    scene = Scene(elastic(1, 4)).running().targets(3).settle()
    scene.populate()
    counting = metrics.counting(sink)
    for event in reported(scene.look()).values():
        counting.record(event)
    text = generate_latest(registry).decode()

    assert 'swell_training_jobs{phase="Running"} 1.0' in text
    assert 'swell_training_jobs{phase="New"} 1.0' in text
    assert "swell_training_job_resizes_total 1.0" in text
    assert sink.events


def test_decisions_are_logged_with_their_reasons() -> None:
    """One line for each event, which expires; a log does not."""
    sink = Sink()
    plan = Scene(a_job(image="")).look()
    with capture_logs() as logged:
        for event in reported(plan).values():
            LoggingSink("trainingjob", sink).record(event)

    assert [(one["event"], one["key"], one["reason"]) for one in logged] == [
        ("decided", "team/fit", "TrainingJobFailed")
    ]
    assert "image" in logged[0]["message"]
    assert logged[0]["uid"] == sink.events[0].uid != ""
    assert len(sink.events) == 1
