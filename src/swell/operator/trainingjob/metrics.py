"""Metrics of TrainingJobs beside those of the runtime: jobs by phase, and resizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from swell.api.trainingjob import TrainingJob
from swell.api.trainingjob import TrainingJobPhase as Phase
from swell.operator.framework.metrics import CountingSink, TrainingCollector, watch_phases
from swell.operator.trainingjob.status import SCALED
from swell.runtime.executor import EventSink
from swell.runtime.plan import EmitEvent

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class TrainingJobMetrics:
    """The metrics of all TrainingJobs of one operator."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge

        self._registry = registry
        self._jobs = Gauge(
            "swell_training_jobs", "TrainingJobs by phase.", ("phase",), registry=registry
        )
        self._resizes = Counter(
            "swell_training_job_resizes",
            "Changes of the number of trainers that were made, or given up.",
            registry=registry,
        )

    def watch(self, jobs: Callable[[], Iterable[TrainingJob]]) -> None:
        """Count the jobs by phase, and show their reports, each time the metrics are read."""
        watch_phases(self._jobs, Phase, lambda job: job.status.phase, jobs)
        self._registry.register(TrainingCollector("swell_training_job", jobs))

    def counting(self, sink: EventSink) -> EventSink:
        return CountingSink(self.note, sink)

    def note(self, event: EmitEvent) -> None:
        if event.reason == SCALED:
            self._resizes.inc()
