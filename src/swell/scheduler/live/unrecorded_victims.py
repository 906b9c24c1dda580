"""Victims whose eviction is decided and not on record yet, and the bindings that wait for it.

A victim frees quota in the snapshot as soon as its eviction is decided, while its node stays taken
until it has left. Where nodes have room, its preemptor could therefore be bound at once. If the
process ended then, before the victims are marked, they would stay for good, and the queue would
hold more than its limit. So a binding that counts on such quota is sent after the record.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np

from swell.api.meta import Key, Uid
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import TOLERANCE
from swell.scheduler.model.tasks import Task, TaskStatus


class UnrecordedVictims:
    """The victims of each writer (a batch of evictions, a training job) that has yet to write."""

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._pods: dict[Hashable, dict[Uid, Key]] = {}
        # Called when a record is written: bindings may have waited for it.
        self.on_recorded: list[Callable[[], None]] = []

    def add(self, writer: Hashable, tasks: Iterable[Task]) -> None:
        pods = {task.pod.metadata.uid: task.pod.metadata.key for task in tasks}
        if pods:
            self._pods.setdefault(writer, {}).update(pods)

    def discard(self, writer: Hashable) -> None:
        """Forget the victims of a writer: they are on record, or will stay."""
        if self._pods.pop(writer, None) is not None:
            for notify in self.on_recorded:
                notify()

    def must_wait(self, job: JobInfo) -> bool:
        """Whether a queue of the job would be over its limit if the victims still counted."""
        if not self._pods or job.queue is None:
            return False
        limited = [queue for queue in job.queue.lineage if np.isfinite(queue.capability).any()]
        held = {queue.name: queue.subtree.copy() for queue in limited}
        for task in self._tasks() if limited else ():
            for queue in task.job.queue.lineage if task.job and task.job.queue else ():
                if queue.name in held:
                    held[queue.name] += task.request
        return any(
            (held[queue.name] > np.maximum(queue.capability, queue.subtree) + TOLERANCE).any()
            for queue in limited
        )

    def _tasks(self) -> Iterator[Task]:
        for pods in self._pods.values():
            for uid, key in pods.items():
                task = self._cache.task_of(key, uid)
                # One that is gone, or is being deleted, is no secret.
                if task is None or task.status is not TaskStatus.RELEASING:
                    continue
                if task.pod.metadata.deletion_timestamp is None:
                    yield task


def is_over_limit(job: JobInfo) -> bool:
    """Whether a queue of the job holds more than its limit, with all that is assumed."""
    lineage = job.queue.lineage if job.queue is not None else ()
    return any((queue.subtree > queue.capability + TOLERANCE).any() for queue in lineage)
