"""The metrics of the scheduler, by Volcano's names where Volcano has one, otherwise with `swell_`.

Gauges are computed from the snapshot when they are scraped; only events are counted as they happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from swell.scheduler.cycle import SchedulingPlan
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.resources import CPU, MEMORY, Shares, Vector
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import TaskStatus

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

_MILLISECONDS: Final = (1, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000)
_MS = 1000.0


class SchedulerMetrics:
    """Implements the meters of the loop, the binder and the configuration file."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(name, text, buckets=_MILLISECONDS, registry=registry)

        self._registry = registry
        self._cycle_ms = histogram(
            "volcano_e2e_scheduling_latency_milliseconds", "Duration of a cycle."
        )
        self._bind_ms = histogram(
            "volcano_task_scheduling_latency_milliseconds", "Duration of a binding."
        )
        attempts = counter(
            "volcano_schedule_attempts", "Pods a session placed or did not, and errors.", "result"
        )
        self._attempts = {
            result: attempts.labels(result) for result in ("scheduled", "unschedulable", "error")
        }
        self._victims = Gauge(
            "volcano_pod_preemption_victims", "Pods the last claim evicted.", registry=registry
        )
        self._claims = counter("volcano_total_preemption_attempts", "Cycles that evicted pods.")
        self._evictions = counter("volcano_eviction_transactions", "Pods evicted.", "action")
        self._shrinks = counter("swell_scheduler_shrinks", "Roles shrunk to make room.")
        self._released = counter("swell_scheduler_released_gangs", "Gangs given up half bound.")
        self._reloads = counter(
            "swell_scheduler_config_reloads", "Times the configuration was read.", "result"
        )
        self._config_valid = Gauge(
            "swell_scheduler_config_valid", "0 while the file cannot be used.", registry=registry
        )
        self._config_warnings = Gauge(
            "swell_scheduler_config_warnings",
            "Settings of the configuration in force that have no effect.",
            registry=registry,
        )

    def watch(self, snapshot: SchedulerSnapshot) -> None:
        """Compute the gauges of queues and waiting jobs from this snapshot at every scrape."""
        self._registry.register(_SnapshotCollector(snapshot))

    def cycled(self, plan: SchedulingPlan, seconds: float) -> None:
        self._cycle_ms.observe(seconds * _MS)
        if plan.evictions:
            self._claims.inc()
            self._victims.set(len(plan.evictions))
            for eviction in plan.evictions:
                self._evictions.labels(eviction.action).inc()
        self._shrinks.inc(len(plan.shrinks))
        refused = sum(status.refusal is not None for status in plan.groups.values())
        self._attempts["unschedulable"].inc(refused)

    def bound(self, result: str, seconds: float) -> None:
        self._attempts[result].inc()
        self._bind_ms.observe(seconds * _MS)

    def released(self) -> None:
        self._released.inc()

    def configured(self, *, is_valid: bool, n_warnings: int = 0) -> None:
        self._reloads.labels("valid" if is_valid else "invalid").inc()
        self._config_valid.set(is_valid)
        if is_valid:  # otherwise the configuration before stays, with its warnings
            self._config_warnings.set(n_warnings)


class _SnapshotCollector:
    """Computes gauges from the snapshot when they are scraped."""

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        self._snapshot = snapshot

    def describe(self) -> list[GaugeMetricFamily]:
        """Returns nothing, which keeps Prometheus from collecting once at registration."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        waiting = [job for job in self._snapshot.active_jobs() if job.counts[TaskStatus.PENDING]]
        yield GaugeMetricFamily(
            "volcano_unschedule_job_count", "Jobs with pods that have no node.", len(waiting)
        )
        tasks = GaugeMetricFamily(
            "volcano_unschedule_task_count", "Pods without a node.", labels=("job_id",)
        )
        for job in waiting:
            tasks.add_metric((job.key,), job.counts[TaskStatus.PENDING])
        yield tasks
        yield from self._queues()

    def _queues(self) -> Iterator[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        def family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"volcano_queue_{name}", text, labels=("queue_name", *labels))

        queues = [self._snapshot.queues[name] for name in sorted(self._snapshot.queues)]
        names = self._snapshot.dimensions.names
        for word, amount in _AMOUNTS.items():
            cpu = family(f"{word}_milli_cpu", f"Processors: {word}.")
            memory = family(f"{word}_memory_bytes", f"Memory: {word}.")
            others = family(f"{word}_scalar_resources", f"Other resources: {word}.", "resource")
            for queue in queues:
                held = amount(queue)
                cpu.add_metric((queue.name,), float(held[CPU]))
                memory.add_metric((queue.name,), float(held[MEMORY]))
                for place in range(len(names)):
                    if place not in {CPU, MEMORY} and held[place]:
                        others.add_metric((queue.name, names[place]), float(held[place]))
            yield from (cpu, memory, others)
        weight, share = (
            family("weight", "Its weight."),
            family("share", "Part of what it deserves."),
        )
        for queue in queues:
            weight.add_metric((queue.name,), queue.weight)
            share.add_metric((queue.name,), Shares(queue.deserved).dominant(queue.allocated))
        yield from (weight, share)


def _requested(queue: QueueInfo) -> Vector:
    wanted: Vector = queue.allocated + queue.pending
    return wanted


_AMOUNTS: Final[dict[str, Callable[[QueueInfo], Vector]]] = {
    "allocated": lambda queue: queue.allocated,
    "request": _requested,
    "deserved": lambda queue: queue.deserved,
    "inqueue": lambda queue: queue.reserved,
    "capacity": lambda queue: queue.capability,
}
