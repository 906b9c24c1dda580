"""Quota arithmetic that proportion, capacity and overcommit share.

How many tasks fit below a limit, which limits are exceeded by how much, and what admission may
count on because the job could evict it once it is admitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from swell.scheduler.config import COUNT_CLAIMABLE
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import QueueLimit, Refusal, WaitReason
from swell.scheduler.model.resources import Dimensions, Vector, amount_text, quota_places
from swell.scheduler.model.tasks import Shape

if TYPE_CHECKING:
    from swell.scheduler.session import Session


def copies_below(held: Vector, shape: Shape, limit: Vector, n: int) -> int:
    """How many of n tasks of a shape fit below a limit, on the resources that they ask for."""
    if not shape.quota_amounts:
        return n
    have_of: list[float] = held.tolist()
    bound_of: list[float] = limit.tolist()
    rows = [(have_of[place], each, bound_of[place]) for place, each in shape.quota_amounts]
    # Start one too high and count down: the division may be rounded, the comparison is exact.
    fitting = min(n, *((bound - have) / each for have, each, bound in rows))
    count = max(min(math.floor(fitting) + 1, n), 0)
    while count > 0 and any(have + count * each > bound for have, each, bound in rows):
        count -= 1
    return count


def frees_some(held: Vector, shape: Shape, limit: Vector, amount: Vector) -> bool:
    """Whether an amount that leaves has some of what one more task of a shape lacks to fit."""
    places = shape.quota_places
    is_short = held[places] + shape.request[places] > limit[places]
    return bool((amount[places] > 0)[is_short].any())


class LimitCheck:
    """Finds the limits that a request would exceed, with the numbers for people."""

    def __init__(self, dimensions: Dimensions, total: Vector) -> None:
        self._dimensions = dimensions
        self._total = total

    def exceeded(
        self, queue: str, asked: Vector, held: Vector, limit: Vector
    ) -> tuple[QueueLimit, ...]:
        """Returns the limits of all resources that are asked for and do not fit beside `held`.

        Without a queue name the limit is the cluster's.
        """
        places = quota_places(asked)
        short = places[asked[places] + held[places] > limit[places]]
        return tuple(
            self._limit(queue, int(p), float(held[p]), float(asked[p]), float(limit[p]))
            for p in short
        )

    def _limit(self, queue: str, place: int, held: float, asked: float, limit: float) -> QueueLimit:
        name = self._dimensions.names[place]
        return QueueLimit(
            queue=queue,
            resource=name,
            held=amount_text(name, held),
            asked=amount_text(name, asked),
            allowed=amount_text(name, limit),
            # The limit is the cluster itself: raising it would not help.
            is_whole=limit >= float(self._total[place]),
        )


def quota_refusal(what: str, limits: tuple[QueueLimit, ...]) -> Refusal | None:
    """Returns the refusal "queue Q <what>: <limits>"; None without limits.

    A queue whose limits are all that the cluster has is not limited: the cluster is full.
    """
    if not limits:
        return None
    if all(limit.is_whole for limit in limits):
        return Refusal(WaitReason.CLUSTER_FULL, "; ".join(map(_full_text, limits)), limits)
    numbers = "; ".join(map(str, limits))
    return Refusal(WaitReason.QUEUE_QUOTA, f"queue {limits[0].queue} {what}: {numbers}", limits)


def _full_text(limit: QueueLimit) -> str:
    there = f"the cluster has {limit.allowed} {limit.resource} in all"
    return f"{there}; {limit.held} in use or promised, {limit.asked} more asked for"


class Claimable:
    """Computes what a job that waits for admission could evict once admitted (ADR 13).

    In a full queue, admission by free resources alone admits no job, and a job that is not admitted
    can neither preempt nor reclaim. Counted only if enqueue has the argument `countClaimable`.
    Computed on demand, because most sessions refuse no job.
    """

    def __init__(self, session: Session) -> None:
        config = session.config
        counts = config.arguments_of("enqueue").flag(COUNT_CLAIMABLE, default=False)
        self._session = session
        self._preempts = counts and "preempt" in config.actions
        # Whether victims in other queues count, too.
        self.reclaims = counts and "reclaim" in config.actions
        self._nothing: Vector = 0 * session.total

    def in_queue(self, job: JobInfo) -> Vector:
        """Returns what less important jobs of its queue hold of their minimums.

        What they hold beyond those is not counted against the queue anyway (`elastic`).
        """
        return self._preemptable(job, lambda other: other.allocated - other.elastic)

    def in_cluster(self, job: JobInfo) -> Vector:
        """Returns all that less important jobs of its queue hold, and all of reclaimable queues."""
        found = self._preemptable(job, lambda other: other.allocated)
        queue = job.queue
        # A queue that has what it deserves takes nothing back from others.
        if not self.reclaims or queue is None or self._session.votes.is_overused(queue):
            return found
        others = self._session.snapshot.queues.values()
        held = (other.allocated for other in others if other is not queue and other.reclaimable)
        return sum(held, start=found)

    def _preemptable(self, job: JobInfo, part: Callable[[JobInfo], Vector]) -> Vector:
        if not self._preempts or job.queue is None:
            return self._nothing
        others = job.queue.jobs.values()
        held = (part(other) for other in others if other.priority < job.priority)
        return sum(held, start=self._nothing)
