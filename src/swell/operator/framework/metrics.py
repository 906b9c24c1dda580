"""Metrics in the form that every job kind has them: jobs by phase, and counts of events.

Acts are counted by their events, which a plan emits after the status that records them has been
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeVar

from swell.api.meta import ObjectMeta
from swell.api.training import TrainingStatus
from swell.runtime.executor import EventSink
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent

if TYPE_CHECKING:
    from prometheus_client import Gauge
    from prometheus_client.core import Metric

log = get_logger(__name__)

T = TypeVar("T")


class ReportingStatus(Protocol):
    """The status of a job whose program reports."""

    @property
    def training(self) -> TrainingStatus | None: ...


class ReportingJob(Protocol):
    """A job whose program reports."""

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def status(self) -> ReportingStatus: ...


def watch_phases(
    gauge: Gauge,
    phases: Iterable[Enum],
    phase_of: Callable[[T], Enum],
    jobs: Callable[[], Iterable[T]],
) -> None:
    """Have a gauge count the jobs by phase, each time the metrics are read."""

    def count(phase: Enum) -> Callable[[], float]:
        return lambda: float(sum(phase_of(job) is phase for job in jobs()))

    for phase in phases:
        gauge.labels(phase.value or "New").set_function(count(phase))


class TrainingCollector:
    """The last reports of training programs as metrics, read from the jobs at each scrape.

    Each kind of job has families of its own: a family may be told only once in a scrape.
    """

    def __init__(self, prefix: str, jobs: Callable[[], Iterable[ReportingJob]]) -> None:
        self._prefix, self._jobs = prefix, jobs

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        families = {
            "rate": ("samples_per_second", "Samples a second, as the program reports."),
            "progress": ("progress_ratio", "Samples used of all samples."),
            "pause": ("last_pause_seconds", "The last pause for a change of the group."),
        }
        made = {
            name: GaugeMetricFamily(f"{self._prefix}_{family}", text, labels=("namespace", "job"))
            for name, (family, text) in families.items()
        }
        for job in self._jobs():
            if job.status.training is not None:
                names = [job.metadata.namespace, job.metadata.name]
                for name, value in _training_values(job.status.training):
                    made[name].add_metric(names, value)
        yield from made.values()


def _training_values(training: TrainingStatus) -> Iterator[tuple[str, float]]:
    texts = {"rate": training.rate, "pause": training.last_pause_seconds}
    for name, text in texts.items():
        try:
            value = float(text)
        except ValueError:
            continue  # it is not known, or users have written into the status
        yield name, value
    if training.total_samples:
        yield "progress", min(1.0, training.samples / training.total_samples)


class CountingSink:
    """An event sink that has the events it passes on counted."""

    def __init__(self, count: Callable[[EmitEvent], None], sink: EventSink) -> None:
        self._count = count
        self._sink = sink

    def record(self, event: EmitEvent) -> None:
        self._count(event)
        self._sink.record(event)


class LoggingSink:
    """An event sink that logs the events it passes on: they tell what was decided, and why.

    Events expire after an hour, and their repetitions are merged; a log keeps all of them.
    """

    def __init__(self, controller: str, sink: EventSink) -> None:
        self._controller = controller
        self._sink = sink

    def record(self, event: EmitEvent) -> None:
        log.info(
            "decided", controller=self._controller, key=str(event.key), uid=event.uid,
            reason=event.reason, message=event.message,
        )  # fmt: skip
        self._sink.record(event)
