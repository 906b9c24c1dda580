"""Gauges of queues and jobs, computed from the snapshot when they are scraped.

Deserved amounts, limits and shares are those of the plugin that was in charge in the last cycle.
Labels are bounded: queues are few, and of jobs only so many are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from swell.api.meta import Uid
from swell.scheduler.config import Config
from swell.scheduler.domains import tree_of
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo, QueueShare
from swell.scheduler.model.resources import CPU, MEMORY, Shares, Vector
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import TaskStatus

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

# Jobs that have gauges of their own; beyond that those with the largest values.
JOBS_MAX: Final = 1000
# By job: the UID of its group, and how long it waited until all its pods were bound.
JobLatencies = dict[str, tuple[Uid, float]]


class SnapshotCollector:
    """Computes gauges from the snapshot, and those of queues by the plugins of the last cycle."""

    def __init__(
        self, snapshot: SchedulerSnapshot, latencies: JobLatencies, config: Callable[[], Config]
    ) -> None:
        self._snapshot = snapshot
        self._config = config
        self._latencies = latencies
        self._queue_share: Callable[[QueueInfo], QueueShare | None] = lambda _: None
        self._width = 0

    def describe_queues_by(self, queue_share: Callable[[QueueInfo], QueueShare | None]) -> None:
        """Ask this function about queues until the next cycle."""
        self._queue_share = queue_share
        self._width = self._snapshot.dimensions.width

    def describe(self) -> list[GaugeMetricFamily]:
        """Returns nothing, which keeps Prometheus from collecting once at registration."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._jobs()
        yield from self._queues()
        yield from self._domains()
        yield self._devices()

    def _devices(self) -> GaugeMetricFamily:
        from prometheus_client.core import GaugeMetricFamily

        name, text = "swell_scheduler_devices_used_twice", "Devices that several claims have."
        n_devices = len(self._snapshot.devices.objects.doubly_used())
        return GaugeMetricFamily(name, text, value=n_devices)

    def _domains(self) -> Iterator[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        text = "Domains of the network by tier, without the whole cluster."
        family = GaugeMetricFamily("swell_scheduler_topology_domains", text, labels=["tier"])
        tree = tree_of(self._snapshot, self._config())
        tiers = [] if tree is None else tree.tiers[: tree.root].tolist()
        for tier, n in sorted(Counter(tiers).items()):
            family.add_metric((str(tier),), n)
        yield family

    def _jobs(self) -> Iterator[GaugeMetricFamily]:
        waiting = [job for job in self._snapshot.active_jobs() if job.counts[TaskStatus.PENDING]]
        yield _gauge("unschedule_job_count", "Jobs with pods that have no node.", len(waiting))
        tasks = _gauge("unschedule_task_count", "Pods without a node.", "job_id")
        for n, job in _largest([job.counts[TaskStatus.PENDING] for job in waiting], waiting):
            tasks.add_metric((job.key,), n)
        yield tasks
        share = _gauge(
            "job_share", "Dominant share of the cluster that a job holds.", "job_ns", "job_id"
        )
        jobs = list(self._snapshot.jobs.values())
        for value, job in _largest(self._shares_of(jobs), jobs):
            if value:
                share.add_metric((job.group.metadata.namespace, job.group.metadata.name), value)
        yield share
        yield from self._durations()

    def _shares_of(self, jobs: Sequence[JobInfo]) -> list[float]:
        if not jobs:
            return []
        held = np.array([job.allocated for job in jobs])
        shares: list[float] = Shares(self._snapshot.nodes.total()).dominant_of_rows(held).tolist()
        return shares

    def _durations(self) -> Iterator[GaugeMetricFamily]:
        jobs = self._snapshot.jobs
        for key, (uid, _) in list(self._latencies.items()):
            if key not in jobs or jobs[key].group.metadata.uid != uid:
                del self._latencies[key]
        labels = ("job_name", "queue", "job_namespace")
        family = _gauge(
            "e2e_job_scheduling_duration", "How long a job waited, in milliseconds.", *labels
        )
        measured = [jobs[key] for key in self._latencies]
        for seconds, job in _largest([s for _, s in self._latencies.values()], measured):
            meta = job.group.metadata
            family.add_metric((meta.name, job.queue_name, meta.namespace), seconds * 1000)
        yield family

    def _queues(self) -> Iterator[GaugeMetricFamily]:
        queues = [self._snapshot.queues[name] for name in sorted(self._snapshot.queues)]
        # Vectors of the last cycle do not compare with those of the snapshot once it has learnt of
        # more resources; the cycle that follows at once knows them.
        is_current = self._width == self._snapshot.dimensions.width
        shares = {queue.name: self._queue_share(queue) if is_current else None for queue in queues}
        for word, amount in _AMOUNTS.items():
            found = {queue.name: amount(queue, shares[queue.name]) for queue in queues}
            yield from self._amounts(word, found)
        weight = _gauge("queue_weight", "Its weight.", "queue_name")
        part = _gauge("queue_share", "Part of what it deserves.", "queue_name")
        overused = _gauge("queue_overused", "1 if it has all it deserves.", "queue_name")
        for queue in queues:
            weight.add_metric((queue.name,), queue.weight)
            share = shares[queue.name]
            if share is not None:
                part.add_metric((queue.name,), share.share)
                overused.add_metric((queue.name,), float(share.is_overused))
        yield from (weight, part, overused)

    def _amounts(self, word: str, found: dict[str, Vector | None]) -> Iterator[GaugeMetricFamily]:
        names = self._snapshot.dimensions.names
        text = word.replace("_", " ")
        cpu = _gauge(f"queue_{word}_milli_cpu", f"Processors: {text}.", "queue_name")
        memory = _gauge(f"queue_{word}_memory_bytes", f"Memory: {text}.", "queue_name")
        others = _gauge(
            f"queue_{word}_scalar_resources", f"Other resources: {text}.", "queue_name", "resource"
        )
        for queue, amount in found.items():
            if amount is None:
                continue
            cpu.add_metric((queue,), float(amount[CPU]))
            memory.add_metric((queue,), float(amount[MEMORY]))
            for place in range(MEMORY + 1, len(names)):
                if amount[place]:
                    others.add_metric((queue, names[place]), float(amount[place]))
        yield from (cpu, memory, others)


def _gauge(name: str, text: str, *labels: str | float) -> GaugeMetricFamily:
    """Returns a family with labels, or with the one value that is given instead."""
    from prometheus_client.core import GaugeMetricFamily

    if len(labels) == 1 and not isinstance(labels[0], str):
        return GaugeMetricFamily(f"volcano_{name}", text, value=labels[0])
    return GaugeMetricFamily(f"volcano_{name}", text, labels=list(map(str, labels)))


def _largest(values: Sequence[float], jobs: Sequence[JobInfo]) -> list[tuple[float, JobInfo]]:
    """Returns each value with its job, those of the largest values if there are too many jobs."""
    pairs = list(zip(values, jobs, strict=True))
    if len(pairs) > JOBS_MAX:
        pairs.sort(key=lambda pair: (-pair[0], pair[1].key))
    return pairs[:JOBS_MAX]


def _requested(queue: QueueInfo, _: QueueShare | None) -> Vector:
    wanted: Vector = queue.allocated + queue.pending
    return wanted


# Without a plugin in charge of quotas, amounts that only such a plugin knows are left out.
_AMOUNTS: Final[dict[str, Callable[[QueueInfo, QueueShare | None], Vector | None]]] = {
    "allocated": lambda queue, share: share.held if share else queue.allocated,
    "request": _requested,
    "deserved": lambda _, share: share.deserved if share else None,
    "inqueue": lambda queue, _: queue.reserved,
    "capacity": lambda queue, _: queue.capability,
    "real_capacity": lambda _, share: share.limit if share else None,
}
