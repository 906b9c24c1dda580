"""What a job that waits for admission could make others give up, if it were admitted.

Where a queue is full, admission that looks only at what is free lets nobody in, and who is not in
can neither preempt nor reclaim. Counted only if the configuration of enqueue asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from swell.scheduler.config import COUNT_CLAIMABLE
from swell.scheduler.model.jobs import Job, QueueEntry
from swell.scheduler.model.resources import Vector

if TYPE_CHECKING:
    from swell.scheduler.session import Session


class Claimable:
    """Worked out when it is asked for: most sessions refuse nobody."""

    def __init__(self, session: Session) -> None:
        config = session.config
        counts = config.arguments_of("enqueue").flag(COUNT_CLAIMABLE, default=False)
        self._session = session
        self._preempts = counts and "preempt" in config.actions
        self._reclaims = counts and "reclaim" in config.actions
        self._nothing: Vector = 0 * session.total

    def in_queue(self, job: Job) -> Vector:
        """What less important jobs of its queue hold of their minimums; the rest is lent anyway."""
        return self._preemptable(job, lambda other: other.allocated - other.elastic)

    def in_cluster(self, job: Job) -> Vector:
        """All that less important jobs of its queue hold, and what other queues may have to."""
        found = self._preemptable(job, lambda other: other.allocated)
        queue = job.queue
        if not self._reclaims or queue is None or self._session.votes.is_overused(queue):
            return found
        others = self._session.snapshot.queues.values()
        held = (other.allocated for other in others if _gives_way(other, queue))
        return sum(held, start=found)

    def _preemptable(self, job: Job, part: Callable[[Job], Vector]) -> Vector:
        if not self._preempts or job.queue is None:
            return self._nothing
        others = job.queue.jobs.values()
        held = (part(other) for other in others if other.priority < job.priority)
        return sum(held, start=self._nothing)


def _gives_way(queue: QueueEntry, claimer: QueueEntry) -> bool:
    return queue is not claimer and queue.reclaimable
