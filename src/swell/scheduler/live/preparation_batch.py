"""The tasks of one job whose devices and volumes are prepared together, and whom they wait for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

from swell.api.meta import Key, Uid
from swell.scheduler.live.binder import still_takes
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.model.devices.preparation import DeviceProgress
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.tasks import Task, TaskStatus


@dataclass(slots=True, eq=False)
class PreparationBatch:
    """One cycle decided on these tasks. Compared by identity."""

    job: str
    pods: tuple[tuple[Key, Uid], ...]
    is_whole: bool  # with these the gang had its minimum when it was decided
    deadline: float
    since: str  # when preparation began, for people
    devices: DeviceProgress = field(default_factory=DeviceProgress)
    written: set[str] = field(default_factory=set)  # volume claims whose write has succeeded
    n_lost: dict[str, int] = field(default_factory=dict)  # claim -> volumes lost to others
    is_uncertain: bool = False  # a write was sent, and may be done or still under way
    must_read: bool = False  # the cache may not show what is stored
    is_failed: bool = False
    again_at: float = 0.0  # when it has backed off, once it has failed

    is_over: bool = False  # it has backed off, and its devices are given back

    def others(
        self, batches: Iterable[PreparationBatch], *, is_failed: bool
    ) -> tuple[PreparationBatch, ...]:
        """Returns the other batches of its job that have failed, or those that have not."""
        return tuple(
            one
            for one in batches
            if one.job == self.job and one is not self and one.is_failed == is_failed
        )

    def awaited(
        self, batches: Iterable[PreparationBatch], job: JobInfo
    ) -> tuple[PreparationBatch, ...]:
        """Returns the earlier batches without which its gang would not have its minimum.

        They may yet be released, and then its tasks would be a part of a gang that is bound alone.
        """
        before = takewhile(lambda one: one is not self, batches)
        earlier = tuple(one for one in before if one.job == self.job)
        n_unready = sum(len(one.pods) for one in earlier)
        is_short = job.counts.ready - n_unready < job.min_member
        return earlier if self.is_whole and is_short else ()

    def has_lost_others(self, batches: Iterable[PreparationBatch], job: JobInfo | None) -> bool:
        """Whether one that it waits for has failed."""
        return job is not None and any(one.is_failed for one in self.awaited(batches, job))


def standing(cache: SchedulerCache, batch: PreparationBatch) -> list[Task] | None:
    """Returns the tasks of a batch, or None if they cannot be bound as decided any more."""
    snapshot = cache.snapshot
    job = snapshot.jobs.get(batch.job)
    tasks: list[Task] = []
    for key, uid in batch.pods:
        task = cache.task_of(key, uid)
        if task is None or task.status is not TaskStatus.BINDING or task.job is not job:
            return None
        tasks.append(task)
    if job is None or (batch.is_whole and job.counts.ready < job.min_member):
        return None
    return tasks if all(still_takes(snapshot, task) for task in tasks) else None
