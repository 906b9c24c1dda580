"""Takes turns: which queue is next, and which of its jobs.

Queues are served by their key at that moment, jobs inside a queue by theirs. A key changes only by
what the queue or job itself gets; where queues form a tree it can also grow by what relatives get,
so there an old key is checked when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from swell.scheduler.model.jobs import Job, QueueEntry
from swell.scheduler.votes import Votes


class Rounds:
    """Jobs of several queues, handed out one at a time."""

    def __init__(self, votes: Votes, jobs: Iterable[Job]) -> None:
        self._votes = votes
        self._jobs: dict[str, list[tuple[tuple[object, ...], Job]]] = {}
        self._queues: list[tuple[tuple[object, ...], QueueEntry]] = []
        for job in jobs:
            self.add(job)

    def add(self, job: Job) -> None:
        """Puts a job in, or back in."""
        queue = job.queue
        if queue is None:
            return
        if queue.name not in self._jobs:
            self._jobs[queue.name] = []
            heappush(self._queues, (self._votes.queue_key(queue), queue))
        heappush(self._jobs[queue.name], (self._votes.job_key(job), job))

    def __iter__(self) -> Iterator[tuple[QueueEntry, Job]]:
        """The next job of the next queue, until none is left."""
        while self._queues:
            key, queue = heappop(self._queues)
            if not self._jobs[queue.name]:
                del self._jobs[queue.name]
                continue
            if self._votes.queue_keys_interact:
                current = self._votes.queue_key(queue)
                if current > key:
                    heappush(self._queues, (current, queue))
                    continue
            _, job = heappop(self._jobs[queue.name])
            yield queue, job
            if queue.name in self._jobs:
                heappush(self._queues, (self._votes.queue_key(queue), queue))

    def drop(self, queue: QueueEntry) -> list[Job]:
        """Takes a queue out with all its jobs."""
        return [job for _, job in self._jobs.pop(queue.name, [])]
