"""How long nominated room is kept, and how long a group may stay admitted without a place.

A nomination ends when its pods are bound, or some time after the victims that it waits for have
had their time to save and to end. An admitted group that finds no place in time becomes Pending
again, and backs off before it may be admitted once more. Only times are kept here, those of the
monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from swell.api.backoff import Backoff
from swell.api.meta import Uid
from swell.api.scheduling import PodGroupPhase
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus

# The default of Kubernetes for terminationGracePeriodSeconds.
DEFAULT_GRACE_S: Final = 30
_READMISSION_BACKOFF = Backoff(base_s=30.0, cap_s=600.0)
# A group without any pod asks ever more rarely, up to once a day: most of them were left behind,
# and each admission costs writes. A controller that creates pods on admission still gets it.
_EMPTY_BACKOFF = Backoff(base_s=30.0, cap_s=86_400.0)


def grace_s(task: Task) -> float:
    """Returns how long the pod may take to end."""
    pod = task.pod
    asked = pod.metadata.deletion_grace_period_seconds
    if asked is None:
        asked = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if asked is None else asked


class Nominations:
    """The time until which each job's nominated room is kept."""

    def __init__(
        self,
        snapshot: SchedulerSnapshot,
        slack_s: float,
        save_s: Callable[[Task], float] = lambda _: 0.0,
    ) -> None:
        self._snapshot = snapshot
        self._slack_s = slack_s
        self._save_s = save_s  # how long a victim may take to save before it is deleted
        self._until: dict[str, float] = {}

    def observe(self, waiting: Iterable[Task], now: float) -> None:
        """Record all nominations that exist; earlier ones keep their time."""
        # The slowest victim on any of the job's nodes decides: the gang starts as a whole.
        longest: dict[str, float] = {}
        for task in waiting:
            if task.job is not None:
                known = longest.get(task.job.key, 0.0)
                longest[task.job.key] = max(known, self._grace_on(task.node))
        self._until = {
            key: self._until.get(key, now + grace + self._slack_s) for key, grace in longest.items()
        }

    def expired(self, now: float) -> list[JobInfo]:
        """Returns the jobs whose nominations have run out, and forgets them."""
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
            grace_s(task) + self._save_s(task)
            for task in self._snapshot.nodes.tasks[node].values()
            if task.status is TaskStatus.RELEASING
        )
        return max(leaving, default=0.0)


class Admissions:
    """Since when each job is admitted without its minimum, and which jobs back off."""

    def __init__(self, snapshot: SchedulerSnapshot, timeout_s: float) -> None:
        self._snapshot = snapshot
        self._timeout_s = timeout_s
        self._since: dict[str, tuple[Uid, float]] = {}
        self._barred_until: dict[str, float] = {}
        self._barred_empty: set[str] = set()  # those of them that had no pods
        self._n_timeouts: dict[str, tuple[Uid, int]] = {}

    def observe(self, job: JobInfo, now: float) -> None:
        """Start or stop the job's time. A job with nominated room does use its admission."""
        uid, counts = job.group.metadata.uid, job.counts
        if job.phase is not PodGroupPhase.INQUEUE or counts.ready + counts.waiting >= max(
            job.min_member, 1
        ):
            self._since.pop(job.key, None)
            # Placed: its earlier failures no longer count.
            if counts.ready >= max(job.min_member, 1):
                self._n_timeouts.pop(job.key, None)
        elif self._since.get(job.key, ("", 0.0))[0] != uid:
            self._since[job.key] = (uid, now)

    def expire(self, now: float) -> list[JobInfo]:
        """Revoke admissions that were not used in time, and return their jobs."""
        jobs, backed_off = self._snapshot.jobs, self._snapshot.backed_off
        # The first pod of an empty group ends its wait: it may have been a long one.
        filled = [key for key in self._barred_empty if key not in jobs or jobs[key].tasks]
        for key in {
            *(key for key, until in self._barred_until.items() if until <= now or key not in jobs),
            *filled,
        }:
            del self._barred_until[key]
            self._barred_empty.discard(key)
            backed_off.pop(key, None)
        out: list[JobInfo] = []
        for key, (uid, since) in list(self._since.items()):
            job = jobs.get(key)
            if job is None or job.group.metadata.uid != uid:
                del self._since[key]
            elif since + self._timeout_s <= now:
                del self._since[key]
                self._revoke(job, now)
                out.append(job)
        for key in [key for key in self._n_timeouts if key not in jobs]:
            del self._n_timeouts[key]
        return out

    def next_deadline(self) -> float | None:
        since = min((at for _, at in self._since.values()), default=None)
        times = [*self._barred_until.values()] + (
            [] if since is None else [since + self._timeout_s]
        )
        return min(times, default=None)

    def _revoke(self, job: JobInfo, now: float) -> None:
        uid = job.group.metadata.uid
        known, n = self._n_timeouts.get(job.key, (uid, 0))
        n = n + 1 if known == uid else 1  # a new group of the same name starts anew
        self._n_timeouts[job.key] = (uid, n)
        wait_s = (_READMISSION_BACKOFF if job.tasks else _EMPTY_BACKOFF).full_s(n)
        if not job.tasks:
            self._barred_empty.add(job.key)
        self._barred_until[job.key] = now + wait_s
        self._snapshot.set_phase(job, PodGroupPhase.PENDING)
        self._snapshot.backed_off[job.key] = Refusal(
            WaitReason.BACK_OFF,
            f"was admitted for {self._timeout_s:.0f} s and found no place; "
            f"asks again after {wait_s:.0f} s",
        )
