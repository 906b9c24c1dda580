"""Gangs that are being bound: each has a window of time in which to become complete.

A gang that was complete once has no window: what is left of it is never given up. Keeps times and
names only; whoever asks `overdue` gives the gangs up, by deleting what was bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.api.meta import Key, Uid
from swell.api.scheduling import PodGroupPhase
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.tasks import NOWHERE, SCHEDULED, Task, TaskStatus

# Unknown says nothing: one pod that runs without the others makes a group so.
_STARTED = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED})


@dataclass(slots=True)
class BindWindow:
    """One attempt to start a gang: until when, and with which pods."""

    group: Uid
    deadline: float
    pods: dict[Uid, Key]
    is_over: bool = False


class BindWindows:
    """See the module's docstring. Times are of the monotonic clock."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        # Where no plugin keeps gangs together, a part of one is nothing to be ashamed of.
        self.are_kept = True
        self._open: dict[str, BindWindow] = {}
        self._complete: dict[str, Uid] = {}
        # Gangs of which nothing was left: whatever they were before, they begin anew.
        self._empty: dict[str, Uid] = {}

    def __contains__(self, job: str) -> bool:
        return job in self._open

    def begin(self, job: JobInfo, tasks: Iterable[Task], now: float) -> None:
        """Binding these tasks begins; or they are found bound, and their gang is not complete."""
        if not self.are_kept or job.min_member <= 1 or self.was_complete(job):
            return
        uid = job.group.metadata.uid
        window = self._open.get(job.key)
        if window is None or window.group != uid:
            window = self._open[job.key] = BindWindow(uid, now + self._length_s, {})
        window.pods.update((t.pod.metadata.uid, t.pod.metadata.key) for t in tasks)

    def look_at(self, job: JobInfo, now: float) -> None:
        """Sees whether a gang has become complete, or is found to be bound in part."""
        if job.min_member <= 1:
            return
        n_scheduled = n_placed(job)
        if not n_scheduled:
            self._complete.pop(job.key, None)
            self._empty[job.key] = job.group.metadata.uid
        if n_scheduled >= job.min_member and is_whole(job):
            window = self._open.get(job.key)
            if window is None or not window.is_over:
                self._open.pop(job.key, None)
                self._complete[job.key] = job.group.metadata.uid
                self._empty.pop(job.key, None)
        elif n_scheduled and job.key not in self._open and not self.was_complete(job):
            self.begin(job, job.evictable(), now)

    def was_complete(self, job: JobInfo) -> bool:
        """Whether all of the minimum was there at one time, and something ever since."""
        uid, status = job.group.metadata.uid, job.group.status
        if self._complete.get(job.key) == uid:
            return True
        if self._empty.get(job.key) == uid:
            return False
        return (
            job.phase in _STARTED
            or status.phase in _STARTED
            or any(c.type == "Scheduled" and c.status == "True" for c in status.conditions)
        )

    def forget_missing(self, jobs: dict[str, JobInfo]) -> None:
        """Drops what concerns groups that are gone, or replaced by others of their name."""
        for known in (self._open, self._complete, self._empty):
            for key in [key for key in known if key not in jobs]:
                del known[key]
        for key, window in list(self._open.items()):
            if window.group != jobs[key].group.metadata.uid:
                del self._open[key]

    def overdue(self, now: float) -> dict[str, BindWindow]:
        """Windows that have closed on incomplete gangs; `close` those that are dealt with."""
        due = {key: window for key, window in self._open.items() if window.deadline <= now}
        for window in due.values():
            window.is_over = True
        return due

    def close(self, job: str) -> None:
        self._open.pop(job, None)

    def next_deadline(self) -> float | None:
        return min((w.deadline for w in self._open.values() if not w.is_over), default=None)


def is_whole(job: JobInfo) -> bool:
    """Whether every role has its minimum, bindings under way not counted."""
    return all(
        job.role(role).of(SCHEDULED) + job.role(role)[TaskStatus.RELEASING] >= minimum
        for role, minimum in job.role_minimums.items()
    )


def n_placed(job: JobInfo) -> int:
    """How many pods have a node, those that have ended or are about to included."""
    counts = job.counts
    leaving = counts[TaskStatus.RELEASING] and sum(
        task.node != NOWHERE for task in job.in_status(TaskStatus.RELEASING)
    )
    return counts.of(SCHEDULED) + leaving
