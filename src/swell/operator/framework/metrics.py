"""Metrics in the form that every job kind has them: jobs by phase, and counts of events.

Acts are counted by their events, which a plan emits after the status that records them has been
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from swell.runtime.executor import EventSink
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent

if TYPE_CHECKING:
    from prometheus_client import Gauge

log = get_logger(__name__)

T = TypeVar("T")


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
            "decided", controller=self._controller, key=str(event.key), reason=event.reason,
            message=event.message,
        )  # fmt: skip
        self._sink.record(event)
