"""Every metric that the runtime exports, on a registry of its own.

prometheus-client is imported only when metrics are made, so that other programs start faster.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from swell import __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Gauge

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)


class PassTracer(Protocol):
    """Is told of every pass and cycle that has ended, as the counters are."""

    def reconciled(self, controller: str, result: str, seconds: float) -> None: ...

    def worked(self, name: str, seconds: float, about: tuple[tuple[str, str], ...]) -> None: ...


class Metrics:
    """Counts reconciles, writes and stalls.

    It is the meter of controller, executor, informers and watchdog.
    """

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry: CollectorRegistry = CollectorRegistry()
        self._passes = Counter(
            "swell_controller_passes",
            "Looks at one key, by how they ended.",
            ("controller", "result"),
            registry=self.registry,
        )
        self._pass_seconds = Histogram(
            "swell_controller_pass_seconds",
            "Duration of a look at one key, its writes included.",
            ("controller",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._queued = Gauge(
            "swell_controller_queued_keys",
            "Keys that wait for a worker.",
            ("controller",),
            registry=self.registry,
        )
        self._writes = Counter(
            "swell_writes",
            "Writes to the cluster, by what came of them.",
            ("resource", "action", "result"),
            registry=self.registry,
        )
        self._malformed = Gauge(
            "swell_malformed_objects",
            "Objects that cannot be decoded.",
            ("resource",),
            registry=self.registry,
        )
        self._handler_failures = Counter(
            "swell_handler_failures",
            "Calls of an informer's handler that raised, and rebuilds of a consumer that did.",
            ("consumer",),
            registry=self.registry,
        )
        self._records = Counter(
            "swell_history_records",
            "Records of ended jobs, by whether they were kept, refused, or not waited for.",
            ("controller", "result"),
            registry=self.registry,
        )
        self._stalls = Counter(
            "swell_event_loop_stalls",
            "Times the event loop stood still for half a second or more.",
            registry=self.registry,
        )
        self._stalled_seconds = Counter(
            "swell_event_loop_stalled_seconds",
            "Seconds for which it did.",
            registry=self.registry,
        )
        self._leading = Gauge("swell_leader", "1 while this process leads.", registry=self.registry)
        self._features = _described(self.registry)
        self.tracer: PassTracer | None = None

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        self._passes.labels(controller, result).inc()
        self._pass_seconds.labels(controller).observe(seconds)
        if self.tracer is not None:
            self.tracer.reconciled(controller, result, seconds)

    def queued(self, controller: str, n_keys: int) -> None:
        self._queued.labels(controller).set(n_keys)

    def wrote(self, resource: str, verb: str, result: str) -> None:
        self._writes.labels(resource, verb, result).inc()

    def malformed_objects(self, resource: str, n_objects: int) -> None:
        self._malformed.labels(resource).set(n_objects)

    def handler_failed(self, consumer: str) -> None:
        self._handler_failures.labels(consumer).inc()

    def recorded(self, controller: str, result: str, n_jobs: int) -> None:
        self._records.labels(controller, result).inc(n_jobs)

    def loop_stalled(self, seconds: float) -> None:
        self._stalls.inc()
        self._stalled_seconds.inc(seconds)

    def set_leading(self, is_leader: bool) -> None:
        self._leading.set(is_leader)

    def set_features(self, states: Iterable[tuple[str, str, bool]]) -> None:
        """Show features by name and stage, and whether they are on."""
        for name, stage, is_on in states:
            self._features.labels(name, stage).set(is_on)

    def exposition(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


def _described(registry: CollectorRegistry) -> Gauge:
    """Register what describes the process itself; returns the gauge of features."""
    from prometheus_client import Gauge

    build = Gauge(
        "swell_build_info",
        "1, with the version of Swell and of Python that this process runs.",
        ("version", "python_version"),
        registry=registry,
    )
    build.labels(__version__, platform.python_version()).set(1)
    return Gauge(
        "swell_feature_enabled",
        "1 for features that are on, by their stage.",
        ("name", "stage"),
        registry=registry,
    )
