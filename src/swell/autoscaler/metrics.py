"""The metrics of the autoscaler, on the registry of the program it runs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from swell.autoscaler.policies.interface import RoleId

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Sizes = Mapping[RoleId, tuple[int, int]]  # desired, actual


class AutoscalerMeter(Protocol):
    """Receives the sizes, the load and the decisions of each pass."""

    def sized(self, sizes: Sizes) -> None: ...

    def loaded(self, loads: Mapping[str, float]) -> None: ...

    def decided(self, reason: str) -> None: ...


class AutoscalerMetrics:
    """Implements the meter with Prometheus metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge

        role = ("kind", "namespace", "job", "role")
        self._desired = Gauge(
            "swell_autoscaler_desired_replicas",
            "Replicas an elastic role should have.",
            role,
            registry=registry,
        )
        self._actual = Gauge(
            "swell_autoscaler_actual_replicas",
            "Replicas of an elastic role that have their room.",
            role,
            registry=registry,
        )
        self._load = Gauge(
            "swell_autoscaler_cluster_load",
            "Requested share of the cluster's allocatable amount.",
            ("resource",),
            registry=registry,
        )
        self._decisions = Counter(
            "swell_autoscaler_decisions",
            "Sizes written, by the reason they were chosen for.",
            ("reason",),
            registry=registry,
        )
        self._known: dict[RoleId, tuple[int, int]] = {}

    def sized(self, sizes: Sizes) -> None:
        # A series of a job that is gone would be reported for ever.
        for id_ in self._known.keys() - sizes.keys():
            self._desired.remove(*_labels(id_))
            self._actual.remove(*_labels(id_))
        for id_, (desired, actual) in sizes.items():
            if self._known.get(id_) != (desired, actual):
                self._desired.labels(*_labels(id_)).set(desired)
                self._actual.labels(*_labels(id_)).set(actual)
        self._known = dict(sizes)

    def loaded(self, loads: Mapping[str, float]) -> None:
        for name, load in loads.items():
            self._load.labels(name).set(load)

    def decided(self, reason: str) -> None:
        self._decisions.labels(reason).inc()


def _labels(id_: RoleId) -> tuple[str, str, str, str]:
    return id_.job.kind.value, id_.job.namespace, id_.job.name, id_.role
