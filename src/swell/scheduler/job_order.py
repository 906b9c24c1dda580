"""The order of service: which queue is next, and which of its jobs.

Queues are served by the key they have at that moment, jobs inside a queue by theirs. The key of a
queue or job grows by its own allocations only. Where queues form a tree, it also grows by those of
relatives, so a queue's key is computed again when its turn comes. With hierarchical fairness it may
even fall by those of others; then all keys are computed again for every turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from swell.scheduler.hooks import Votes
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo


class JobOrder:
    """A heap of queues, each with a heap of jobs. Jobs may be added during the iteration."""

    def __init__(self, votes: Votes, jobs: Iterable[JobInfo]) -> None:
        self._votes = votes
        self._jobs: dict[str, list[tuple[tuple[object, ...], JobInfo]]] = {}
        self._queues: list[tuple[tuple[object, ...], QueueInfo]] = []
        for job in jobs:
            self.add(job)

    def add(self, job: JobInfo) -> None:
        """Adds a job, or adds it again with its present key. A job without a queue is ignored."""
        queue = job.queue
        if queue is None:
            return
        if queue.name not in self._jobs:
            self._jobs[queue.name] = []
            heappush(self._queues, (self._votes.queue_key(queue), queue))
        heappush(self._jobs[queue.name], (self._votes.job_key(job), job))

    def __iter__(self) -> Iterator[tuple[QueueInfo, JobInfo]]:
        """Yields the next job of the next queue until no job is left."""
        while self._queues:
            if self._votes.queue_keys_may_fall:
                self._queues = [(self._votes.queue_key(queue), queue) for _, queue in self._queues]
                heapify(self._queues)
            key, queue = heappop(self._queues)
            if not self._jobs[queue.name]:
                del self._jobs[queue.name]  # a later `add` puts the queue in again
                continue
            if self._votes.queue_keys_interact:
                # A relative's allocation may have moved this queue back since it was pushed.
                current = self._votes.queue_key(queue)
                if current > key:
                    heappush(self._queues, (current, queue))
                    continue
            _, job = heappop(self._jobs[queue.name])
            yield queue, job
            # The caller may have dropped the queue while it had the job.
            if queue.name in self._jobs:
                heappush(self._queues, (self._votes.queue_key(queue), queue))

    def drop(self, queue: QueueInfo) -> list[JobInfo]:
        """Removes a queue and returns the jobs that were left in it."""
        return [job for _, job in self._jobs.pop(queue.name, [])]
