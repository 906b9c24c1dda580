"""Metrics of AITrainingJobs beside those of the runtime: jobs by phase, restarts, resizes, faults.

What happens to jobs and nodes is counted by its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from swell.api.aitrainingjob import AITrainingJob
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.operator.aitrainingjob.phases import RESTART_REASONS, JobReason
from swell.operator.framework.gpu_health import FAULTS_HELD
from swell.operator.framework.metrics import CountingSink, TrainingCollector, watch_phases
from swell.runtime.executor import EventSink
from swell.runtime.plan import EmitEvent

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_CAUSES = frozenset(reason.value for reason in RESTART_REASONS)


class JobMetrics:
    """The metrics of all AITrainingJobs of one operator."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge

        self._registry = registry
        self._jobs = Gauge("swell_jobs", "Jobs by phase.", ("phase",), registry=registry)
        self._restarts = Counter(
            "swell_job_restarts", "Restarts by cause.", ("cause",), registry=registry
        )
        self._resizes = Counter("swell_job_resizes", "Changes of a role's size.", registry=registry)
        self._held = Counter(
            "swell_gpu_faults_held",
            "Times that so many nodes reported broken GPUs that no pod was restarted for it.",
            registry=registry,
        )
        for cause in sorted(_CAUSES):
            self._restarts.labels(cause)

    def watch(self, jobs: Callable[[], Iterable[AITrainingJob]]) -> None:
        """Count the jobs by phase, and show their reports, each time the metrics are read."""
        watch_phases(self._jobs, Phase, lambda job: job.status.phase, jobs)
        self._registry.register(TrainingCollector("swell_job", jobs))

    def counting(self, sink: EventSink) -> EventSink:
        return CountingSink(self.note, sink)

    def note(self, event: EmitEvent) -> None:
        if event.reason in _CAUSES:
            self._restarts.labels(event.reason).inc()
        elif event.reason == JobReason.RESIZED.value:
            self._resizes.inc()
        elif event.reason == FAULTS_HELD:
            self._held.inc()
