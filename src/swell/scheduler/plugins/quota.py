"""Arithmetic that proportion and capacity share: how much fits below a limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from swell.scheduler.config import COUNT_CLAIMABLE
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.reasons import Limit, Refusal, WaitReason
from swell.scheduler.model.resources import Dimensions, Vector, amount_text, quota_places
from swell.scheduler.model.tasks import Shape

if TYPE_CHECKING:
    from swell.scheduler.session import Session


def copies_below(held: Vector, shape: Shape, limit: Vector, n: int) -> int:
    """How many of n tasks of a shape can be added before a limit on what they ask for."""
    places = shape.quota_places
    if not len(places):
        return n
    amounts = (held[places], shape.request[places], limit[places])
    rows: list[tuple[float, float, float]] = list(
        zip(*(amount.tolist() for amount in amounts), strict=True)
    )
    # One too many is tried first: a division may be off by a hair, the comparison is not.
    fitting = min(n, *((bound - have) / each for have, each, bound in rows))
    count = max(min(math.floor(fitting) + 1, n), 0)
    while count > 0 and any(have + count * each > bound for have, each, bound in rows):
        count -= 1
    return count


class LimitCheck:
    """The limits that are in somebody's way, with the numbers."""

    def __init__(self, dimensions: Dimensions, total: Vector) -> None:
        self._dimensions = dimensions
        self._total = total

    def exceeded(self, queue: str, asked: Vector, held: Vector, limit: Vector) -> tuple[Limit, ...]:
        """Of what is asked for, all that does not fit beside what is held."""
        places = quota_places(asked)
        short = places[asked[places] + held[places] > limit[places]]
        return tuple(
            self._limit(queue, int(p), float(held[p]), float(asked[p]), float(limit[p]))
            for p in short
        )

    def _limit(self, queue: str, place: int, held: float, asked: float, limit: float) -> Limit:
        name = self._dimensions.names[place]
        return Limit(
            queue=queue,
            resource=name,
            held=amount_text(name, held),
            asked=amount_text(name, asked),
            allowed=amount_text(name, limit),
            is_whole=limit >= float(self._total[place]),
        )


def quota_refusal(deed: str, limits: tuple[Limit, ...]) -> Refusal | None:
    """In words, what the queue does to the limits; nothing when there are none."""
    if not limits:
        return None
    numbers = "; ".join(map(str, limits))
    return Refusal(WaitReason.QUEUE_QUOTA, f"queue {limits[0].queue} {deed}: {numbers}", limits)


# MERGED: What a job that waits for admission could make others give up, if it were admitted.
#
# Where a queue is full, admission that looks only at what is free lets nobody in, and who is not in
# can neither preempt nor reclaim. Counted only if the configuration of enqueue asks for it.


class Claimable:
    """Worked out when it is asked for: most sessions refuse nobody."""

    def __init__(self, session: Session) -> None:
        config = session.config
        counts = config.arguments_of("enqueue").flag(COUNT_CLAIMABLE, default=False)
        self._session = session
        self._preempts = counts and "preempt" in config.actions
        self._reclaims = counts and "reclaim" in config.actions
        self._nothing: Vector = 0 * session.total

    def in_queue(self, job: JobInfo) -> Vector:
        """What less important jobs of its queue hold of their minimums; the rest is lent anyway."""
        return self._preemptable(job, lambda other: other.allocated - other.elastic)

    def in_cluster(self, job: JobInfo) -> Vector:
        """All that less important jobs of its queue hold, and what other queues may have to."""
        found = self._preemptable(job, lambda other: other.allocated)
        queue = job.queue
        if not self._reclaims or queue is None or self._session.votes.is_overused(queue):
            return found
        others = self._session.snapshot.queues.values()
        held = (other.allocated for other in others if _gives_way(other, queue))
        return sum(held, start=found)

    def _preemptable(self, job: JobInfo, part: Callable[[JobInfo], Vector]) -> Vector:
        if not self._preempts or job.queue is None:
            return self._nothing
        others = job.queue.jobs.values()
        held = (part(other) for other in others if other.priority < job.priority)
        return sum(held, start=self._nothing)


def _gives_way(queue: QueueInfo, preemptor: QueueInfo) -> bool:
    return queue is not preemptor and queue.reclaimable
