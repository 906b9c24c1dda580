"""Bind windows: the time in which a gang that is being bound must become complete.

The states of one gang:

                 begin                    all bound in time
    no window ----------> open ----------------------------------> complete
        ^                  |                                           |
        |                  | deadline passed                           | no pod left
        |                  v                                           v
        |               overdue                                      empty
        |                  | its bound pods are deleted                | begin
        +------------------+ (close)                                   +-------> open

A complete gang needs no window: if it loses pods, the others are kept. Times and names are kept
here and nothing else; the loop deletes the pods of gangs that are overdue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.api.meta import Key, Uid
from swell.api.scheduling import PodGroupPhase
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.native_groups import was_scheduled
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus

# Phases of groups that were complete. Not Unknown: a single running pod makes a group Unknown.
_STARTED = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED})
_HOLDING = (TaskStatus.BOUND, TaskStatus.RUNNING)


@dataclass(slots=True)
class BindWindow:
    """One attempt to bind a gang: the deadline, and the pods that are being bound."""

    group: Uid
    deadline: float
    pods: dict[Uid, Key]
    is_over: bool = False  # the deadline has passed: becoming complete no longer helps


class BindWindows:
    """The windows of all gangs, by job. Times are of the monotonic clock."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        # Off where the configuration does not keep gangs together: parts of gangs are legal then.
        self.is_enabled = True
        self._open: dict[str, BindWindow] = {}
        self._complete: dict[str, Uid] = {}
        # Gangs of which no pod was left, except ended ones. Their status may still say that they
        # were complete, so this has to be remembered.
        self._empty: dict[str, Uid] = {}

    def __contains__(self, job: str) -> bool:
        return job in self._open

    def begin(self, job: JobInfo, tasks: Iterable[Task], now: float) -> None:
        """Open a window for a gang, or add tasks to it, unless the gang was complete before."""
        # A gang of one is complete with its only binding.
        if not self.is_enabled or job.min_member <= 1 or self.was_complete(job):
            return
        uid = job.group.metadata.uid
        window = self._open.get(job.key)
        if window is None or window.group != uid:
            window = self._open[job.key] = BindWindow(uid, now + self._length_s, {})
        window.pods.update((t.pod.metadata.uid, t.pod.metadata.key) for t in tasks)

    def observe(self, job: JobInfo, now: float) -> None:
        """Update the state of a gang. One found bound in part, after a restart, gets a window."""
        if job.min_member <= 1:
            return
        n_scheduled, n_alive = n_placed(job), n_holding(job)
        if not n_alive:
            self._complete.pop(job.key, None)
            self._empty[job.key] = job.group.metadata.uid
        if n_scheduled >= job.min_member and is_whole(job):
            window = self._open.get(job.key)
            # An overdue gang is released even if it becomes complete now: some of its pods are
            # being deleted already.
            if window is None or not window.is_over:
                self._open.pop(job.key, None)
                self._complete[job.key] = job.group.metadata.uid
                self._empty.pop(job.key, None)
        elif n_alive and job.key not in self._open and not self.was_complete(job):
            self.begin(job, job.evictable(), now)

    def was_complete(self, job: JobInfo) -> bool:
        """Whether the gang once had its minimum, and has not lost all of its pods since."""
        uid, status = job.group.metadata.uid, job.group.status
        if self._complete.get(job.key) == uid:
            return True
        if self._empty.get(job.key) == uid:
            return False
        return (
            job.phase in _STARTED
            or status.phase in _STARTED
            or any(c.type == "Scheduled" and c.status == "True" for c in status.conditions)
            or was_scheduled(job.group)
        )

    def forget_missing(self, jobs: dict[str, JobInfo]) -> None:
        """Drop the states of groups that are gone, or were replaced by others of the same name."""
        for known in (self._open, self._complete, self._empty):
            for key in [key for key in known if key not in jobs]:
                del known[key]
        for key, window in list(self._open.items()):
            if window.group != jobs[key].group.metadata.uid:
                del self._open[key]

    def overdue(self, now: float) -> dict[str, BindWindow]:
        """Returns the windows whose deadline has passed.

        The caller closes each when it is released.
        """
        due = {key: window for key, window in self._open.items() if window.deadline <= now}
        for window in due.values():
            window.is_over = True
        return due

    def close(self, job: str) -> None:
        self._open.pop(job, None)

    def next_deadline(self) -> float | None:
        return min((w.deadline for w in self._open.values() if not w.is_over), default=None)


def is_whole(job: JobInfo) -> bool:
    """Whether every role has its minimum. Bindings that are not confirmed do not count."""
    return all(
        job.role(role).scheduled + job.role(role)[TaskStatus.RELEASING] >= minimum
        for role, minimum in job.role_minimums.items()
    )


def n_placed(job: JobInfo) -> int:
    """Returns how many pods have a node, including those that have ended or are leaving."""
    return job.counts.scheduled + _n_leaving(job)


def n_holding(job: JobInfo) -> int:
    """Returns how many pods have a node and have not ended.

    A gang of which only ended pods are left holds nothing. What comes of it again begins together.
    """
    return job.counts.of(_HOLDING) + _n_leaving(job)


def _n_leaving(job: JobInfo) -> int:
    return job.counts[TaskStatus.RELEASING] and sum(
        task.node != NOWHERE for task in job.in_status(TaskStatus.RELEASING)
    )
