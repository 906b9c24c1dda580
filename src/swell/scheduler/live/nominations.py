"""How long promised room is kept, and how long groups may hold admission without using it.

A promise ends when it is kept, or when its time is over: some time beyond the longest grace period
of the pods it waits for. An admitted group that finds no place in time goes back and waits for a
while before it may ask again. Keeps times only; times are of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from swell.api.backoff import Backoff
from swell.api.meta import Uid
from swell.api.scheduling import PodGroupPhase
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus

DEFAULT_GRACE_S: Final = 30
_OUT_AGAIN = Backoff(base_s=30.0, cap_s=600.0)


def grace_s(task: Task) -> float:
    """How long the pod may take to end."""
    pod = task.pod
    asked = pod.metadata.deletion_grace_period_seconds
    if asked is None:
        asked = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if asked is None else asked


class Nominations:
    """Until when each job's promised room is kept."""

    def __init__(self, snapshot: SchedulerSnapshot, slack_s: float) -> None:
        self._snapshot = snapshot
        self._slack_s = slack_s
        self._until: dict[str, float] = {}

    def look_at(self, waiting: Iterable[Task], now: float) -> None:
        """Takes note of all promises there are; those made before keep their time."""
        longest: dict[str, float] = {}
        for task in waiting:
            if task.job is not None:
                known = longest.get(task.job.key, 0.0)
                longest[task.job.key] = max(known, self._grace_on(task.node))
        self._until = {
            key: self._until.get(key, now + grace + self._slack_s) for key, grace in longest.items()
        }

    def broken(self, now: float) -> list[JobInfo]:
        """Jobs whose promises have run out of time; they are forgotten here."""
        due = [key for key, until in self._until.items() if until <= now]
        for key in due:
            del self._until[key]
        jobs = self._snapshot.jobs
        return [jobs[key] for key in due if key in jobs]

    def next_deadline(self) -> float | None:
        return min(self._until.values(), default=None)

    def _grace_on(self, node: int) -> float:
        if node == NOWHERE:
            return 0.0
        leaving = (
            grace_s(task)
            for task in self._snapshot.nodes.tasks[node].values()
            if task.status is TaskStatus.RELEASING
        )
        return max(leaving, default=0.0)


class Admissions:
    """Since when each job is admitted without having its minimum, and who has to wait."""

    def __init__(self, snapshot: SchedulerSnapshot, timeout_s: float) -> None:
        self._snapshot = snapshot
        self._timeout_s = timeout_s
        self._since: dict[str, tuple[Uid, float]] = {}
        self._waits: dict[str, float] = {}
        self._times_out: dict[str, tuple[Uid, int]] = {}

    def look_at(self, job: JobInfo, now: float) -> None:
        """Starts or stops the job's time. Whoever is promised room does use its admission."""
        uid, counts = job.group.metadata.uid, job.counts
        if job.phase is not PodGroupPhase.INQUEUE or counts.ready + counts.waiting >= max(
            job.min_member, 1
        ):
            self._since.pop(job.key, None)
            if counts.ready >= max(job.min_member, 1):
                self._times_out.pop(job.key, None)
        elif self._since.get(job.key, ("", 0.0))[0] != uid:
            self._since[job.key] = (uid, now)

    def expire(self, now: float) -> list[JobInfo]:
        """Takes admission back where it was of no use; answers whose."""
        jobs, backed_off = self._snapshot.jobs, self._snapshot.backed_off
        for key in [key for key, until in self._waits.items() if until <= now or key not in jobs]:
            del self._waits[key]
            backed_off.pop(key, None)
        out: list[JobInfo] = []
        for key, (uid, since) in list(self._since.items()):
            job = jobs.get(key)
            if job is None or job.group.metadata.uid != uid:
                del self._since[key]
            elif since + self._timeout_s <= now:
                del self._since[key]
                self._send_back(job, now)
                out.append(job)
        for key in [key for key in self._times_out if key not in jobs]:
            del self._times_out[key]
        return out

    def next_deadline(self) -> float | None:
        since = min((at for _, at in self._since.values()), default=None)
        times = [*self._waits.values()] + ([] if since is None else [since + self._timeout_s])
        return min(times, default=None)

    def _send_back(self, job: JobInfo, now: float) -> None:
        uid = job.group.metadata.uid
        known, n = self._times_out.get(job.key, (uid, 0))
        n = n + 1 if known == uid else 1
        self._times_out[job.key] = (uid, n)
        wait_s = _OUT_AGAIN.full_s(n)
        self._waits[job.key] = now + wait_s
        self._snapshot.set_phase(job, PodGroupPhase.PENDING)
        self._snapshot.backed_off[job.key] = Refusal(
            WaitReason.BACK_OFF,
            f"was admitted for {self._timeout_s:.0f} s and found no place; "
            f"asks again after {wait_s:.0f} s",
        )
