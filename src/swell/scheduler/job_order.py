"""The order of service: which queue is next, and which of its jobs.

Queues are served by the key they have at that moment, jobs inside a queue by theirs. The key of a
queue or job grows by its own allocations only. Where queues form a tree, it also grows by those of
relatives, so a queue's key is computed again when its turn comes. With hierarchical fairness it may
even fall by those of others; then all keys are computed again for every turn.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from swell.scheduler.hooks import Votes
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo

Key = tuple[object, ...]


class _Line:
    """The jobs of one queue in their order. Those before `at` have been served."""

    __slots__ = ("at", "jobs")

    def __init__(self) -> None:
        self.jobs: list[tuple[Key, JobInfo]] = []
        self.at = 0

    def add(self, key: Key, job: JobInfo) -> None:
        insort(self.jobs, (key, job), lo=self.at)


class JobOrder:
    """A heap of queues, each with its jobs in order. Jobs may be added during the iteration."""

    def __init__(self, votes: Votes, jobs: Iterable[JobInfo]) -> None:
        self._votes = votes
        self._lines: dict[str, _Line] = {}
        self._queues: list[tuple[Key, QueueInfo]] = []
        for job in jobs:
            line = self._line_of(job)
            if line is not None:
                line.jobs.append((votes.job_key(job), job))
        for line in self._lines.values():
            line.jobs.sort()

    def add(self, job: JobInfo) -> None:
        """Adds a job, or adds it again with its present key. A job without a queue is ignored."""
        line = self._line_of(job)
        if line is not None:
            line.add(self._votes.job_key(job), job)

    def _line_of(self, job: JobInfo) -> _Line | None:
        """Returns the line of the job's queue, which gets its turns if it has had none."""
        queue = job.queue
        if queue is None:
            return None
        line = self._lines.get(queue.name)
        if line is None:
            line = self._lines[queue.name] = _Line()
            heappush(self._queues, (self._votes.queue_key(queue), queue))
        return line

    def __iter__(self) -> Iterator[tuple[QueueInfo, JobInfo]]:
        """Yields the next job of the next queue until no job is left."""
        while self._queues:
            if self._votes.queue_keys_may_fall:
                self._queues = [(self._votes.queue_key(queue), queue) for _, queue in self._queues]
                heapify(self._queues)
            key, queue = heappop(self._queues)
            line = self._lines[queue.name]
            if line.at == len(line.jobs):
                del self._lines[queue.name]  # a later `add` puts the queue in again
                continue
            if self._votes.queue_keys_interact:
                # A relative's allocation may have moved this queue back since it was pushed.
                current = self._votes.queue_key(queue)
                if current > key:
                    heappush(self._queues, (current, queue))
                    continue
            _, job = line.jobs[line.at]
            line.at += 1
            yield queue, job
            # The caller may have dropped the queue while it had the job.
            if queue.name in self._lines:
                heappush(self._queues, (self._votes.queue_key(queue), queue))

    def drop(self, queue: QueueInfo) -> list[JobInfo]:
        """Removes a queue and returns the jobs that were left in it."""
        line = self._lines.pop(queue.name, _Line())
        return [job for _, job in line.jobs[line.at :]]
