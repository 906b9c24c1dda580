"""The metrics of the scheduler, by Volcano's names where Volcano has one, otherwise with `swell_`.

Events are counted as they happen. What describes queues and jobs is computed when it is scraped
(`snapshot_metrics`), so nothing has to be removed when a queue or job goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from swell.api.meta import Uid
from swell.api.times import parse_time
from swell.runtime.clock import Clock
from swell.runtime.metrics import Metrics, PassTracer
from swell.scheduler.config import Config
from swell.scheduler.cycle import SchedulingPlan
from swell.scheduler.live.snapshot_metrics import JobLatencies, SnapshotCollector
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import Task, TaskStatus

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Histogram

_MILLISECONDS: Final = (1, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000)
# From the creation of a job or pod on: up to hours.
_WAITING_MS: Final = (
    50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000,
    14_400_000,
)  # fmt: skip
_MS = 1000.0
_UNBOUND: Final = (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED,
    TaskStatus.BINDING)  # fmt: skip


class SchedulerMetrics:
    """Implements the meters of the loop, the binder and the configuration file."""

    tracer: PassTracer | None = None  # where spans of cycles go

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, registry=registry)

        def histogram(
            name: str, text: str, *labels: str, buckets: tuple[int, ...] = _MILLISECONDS
        ) -> Histogram:
            return Histogram(
                f"{name}_milliseconds", text, labels, buckets=buckets, registry=registry
            )

        self._registry = registry
        self._clock = clock
        self._latencies: JobLatencies = {}
        self._collector: SnapshotCollector | None = None
        self._cycle_ms = histogram("volcano_e2e_scheduling_latency", "Duration of a cycle.")
        self._open_ms = histogram("volcano_open_session_duration", "Opening of a session.")
        self._action_ms = histogram(
            "volcano_action_scheduling_latency", "Duration of an action in a cycle.", "action"
        )
        self._plugin_ms = histogram(
            "volcano_plugin_scheduling_latency",
            "Duration of opening a plugin in a cycle.",
            "plugin",
            "OnSession",
        )
        self._task_ms = histogram(
            "volcano_task_scheduling_latency",
            "From the creation of a pod until it is bound.",
            buckets=_WAITING_MS,
        )
        self._job_ms = histogram(
            "volcano_e2e_job_scheduling_latency",
            "From the creation of a group until all its pods are bound, the first time.",
            buckets=_WAITING_MS,
        )
        self._bind_s = _bind_seconds(registry)
        attempts = counter(
            "volcano_schedule_attempts", "Pods a session placed or did not, and errors.", "result"
        )
        self._attempts = {
            result: attempts.labels(result) for result in ("scheduled", "unschedulable", "error")
        }
        self._victims = gauge(
            "volcano_pod_preemption_victims", "Pods that the last cycle with evictions evicted."
        )
        # A gauge that only grows: a counter would get another name than Volcano's.
        self._claims = gauge(
            "volcano_total_preemption_attempts", "Groups for which pods were evicted so far."
        )
        self._evictions = counter("volcano_eviction_transactions", "Pods evicted.", "action")
        self._shrinks = counter("swell_scheduler_shrinks", "Roles shrunk to make room.")
        self._released = counter("swell_scheduler_released_gangs", "Gangs given up half bound.")
        text = "Groups and sub-groups with a network topology that got nodes."
        self._placements = counter("swell_scheduler_topology_placements", text, "mode", "tier")
        self._reloads = counter(
            "swell_scheduler_config_reloads", "Times the configuration was read.", "result"
        )
        self._config_valid = gauge(
            "swell_scheduler_config_valid", "0 while the file cannot be used."
        )
        self._config_warnings = gauge(
            "swell_scheduler_config_warnings",
            "Settings of the configuration in force that have no effect.",
        )

    def watch(self, snapshot: SchedulerSnapshot, config: Callable[[], Config]) -> None:
        """Compute what describes queues, jobs and domains from this snapshot at every scrape."""
        self._collector = SnapshotCollector(snapshot, self._latencies, config)
        self._registry.register(self._collector)

    def cycled(self, plan: SchedulingPlan, seconds: float) -> None:
        self._cycle_ms.observe(seconds * _MS)
        if self.tracer is not None:
            sizes = ("evictions", str(len(plan.evictions))), ("groups", str(len(plan.groups)))
            self.tracer.worked("cycle", seconds, sizes)
        if self._collector is not None:
            self._collector.describe_queues_by(plan.queue_share)
        preemptors = {eviction.preemptor for eviction in plan.evictions}
        preemptors.update(plan.shrunk_for.values())
        self._claims.inc(len(preemptors))
        if plan.evictions:
            self._victims.set(len(plan.evictions))
            for eviction in plan.evictions:
                self._evictions.labels(eviction.action).inc()
        self._shrinks.inc(len(plan.shrinks))
        for chosen in plan.domains.values():
            self._placements.labels(chosen.mode, str(chosen.tier)).inc()
        refused = sum(status.refusal is not None for status in plan.groups.values())
        self._attempts["unschedulable"].inc(refused)

    def stepped(self, kind: str, name: str, seconds: float) -> None:
        if kind == "action":
            self._action_ms.labels(name).observe(seconds * _MS)
        elif kind == "plugin":
            self._plugin_ms.labels(name, "OnSessionOpen").observe(seconds * _MS)
        else:
            self._open_ms.observe(seconds * _MS)

    def bound(self, result: str, seconds: float) -> None:
        self._attempts[result].inc()
        self._bind_s.observe(seconds)

    def task_scheduled(self, task: Task) -> None:
        """Measure how long a pod that has just been bound waited, and its job if it was the last.

        A job is measured once: a pod that is bound later, after a restart or a resize, says nothing
        about how long the job waited.
        """
        now = self._clock.now()
        self._task_ms.observe(_since(task.pod.metadata.creation_timestamp, now) * _MS)
        job = task.job
        if job is None or any(job.counts[status] for status in _UNBOUND):
            return
        meta = job.group.metadata
        known = self._latencies.get(job.key)
        was_complete = any(c.type == "Scheduled" for c in job.group.status.conditions)
        if was_complete or (known is not None and known[0] == meta.uid):
            return
        seconds = _since(meta.creation_timestamp, now)
        self._latencies[job.key] = (Uid(meta.uid), seconds)
        self._job_ms.observe(seconds * _MS)

    def released(self) -> None:
        self._released.inc()

    def configured(self, *, is_valid: bool, n_warnings: int = 0) -> None:
        self._reloads.labels("valid" if is_valid else "invalid").inc()
        self._config_valid.set(is_valid)
        if is_valid:  # otherwise the configuration before stays, with its warnings
            self._config_warnings.set(n_warnings)


def _since(created: str | None, now: float) -> float:
    return max(now - parse_time(created), 0.0) if created else 0.0


def scheduler_metrics(metrics: Metrics | None, clock: Clock) -> SchedulerMetrics | None:
    """The scheduler's metrics beside those of its process; None where there are none."""
    if metrics is None:
        return None
    made = SchedulerMetrics(metrics.registry, clock)
    made.tracer = metrics.tracer
    return made


def _bind_seconds(registry: CollectorRegistry) -> Histogram:
    from prometheus_client import Histogram

    return Histogram(
        "swell_scheduler_bind_duration_seconds",
        "Duration of a binding.",
        buckets=[ms / _MS for ms in _MILLISECONDS],
        registry=registry,
    )
