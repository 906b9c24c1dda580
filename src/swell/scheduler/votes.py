"""How the answers of plugins become one: tier by tier, each hook by its own rule.

Differs from Volcano in one point: victims are what all enabled plugins of all tiers agree on, and
an empty agreement is final (see docs/adr/0010-victims-by-agreement.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import Unit
from swell.scheduler.hooks import Hooks, VictimVote, Vote
from swell.scheduler.model.jobs import Job, QueueEntry
from swell.scheduler.model.reasons import Refusal
from swell.scheduler.model.tasks import Shape, Task

Opened = tuple[PluginOption, Hooks]
Tiers = Sequence[Sequence[Opened]]
JobSieve = Callable[[Task, Job], bool]
F = TypeVar("F")


def by_tier(tiers: Tiers, pick: Callable[[Hooks], F | None], switch: str = "") -> list[list[F]]:
    """One hook of all plugins that have it and have it switched on."""
    return [
        [
            hook
            for option, hooks in tier
            if (hook := pick(hooks)) is not None and (not switch or option.is_on(switch))
        ]
        for tier in tiers
    ]


def flat(tiers: Tiers, pick: Callable[[Hooks], F | None], switch: str = "") -> list[F]:
    return [hook for tier in by_tier(tiers, pick, switch) for hook in tier]


class Votes:
    """All open plugins, asked together."""

    def __init__(self, tiers: Tiers) -> None:
        self._job_keys = flat(tiers, lambda h: h.job_key, "enableJobOrder")
        self._queue_keys = flat(tiers, lambda h: h.queue_key, "enableQueueOrder")
        self.queue_keys_interact = any(h.queue_keys_interact for tier in tiers for _, h in tier)
        self._task_keys = flat(tiers, lambda h: h.task_key, "enableTaskOrder")
        self._victim_queue_keys = flat(tiers, lambda h: h.victim_queue_key)
        self._valid = flat(tiers, lambda h: h.job_valid)
        self._shortfall = flat(tiers, lambda h: h.shortfall, "enableJobReady")
        self._pipelined = by_tier(tiers, lambda h: h.pipelined, "enableJobPipelined")
        self._starving = by_tier(tiers, lambda h: h.starving, "enableJobStarving")
        self._enqueueable = by_tier(tiers, lambda h: h.enqueueable, "enableJobEnqueued")
        self._admitted = flat(tiers, lambda h: h.admitted, "enableJobEnqueued")
        self._overused = flat(tiers, lambda h: h.overused, "enabledOverused")
        self._allowance = flat(tiers, lambda h: h.allowance, "enabledAllocatable")
        self._quota_refusal = flat(tiers, lambda h: h.quota_refusal, "enabledAllocatable")
        self._preemptive = flat(tiers, lambda h: h.preemptive, "enablePreemptive")
        self._preemptable = flat(tiers, lambda h: h.preemptable, "enablePreemptable")
        self._preemptable_job = flat(tiers, lambda h: h.preemptable_job, "enablePreemptable")
        self._reclaimable = flat(tiers, lambda h: h.reclaimable, "enableReclaimable")
        self._reclaimable_job = flat(tiers, lambda h: h.reclaimable_job, "enableReclaimable")
        self._shuffle_victims = by_tier(tiers, lambda h: h.shuffle_victims, "enabledVictim")
        self._unschedulable = flat(tiers, lambda h: h.unschedulable)

    # --- order: the first plugin that sees a difference decides

    def job_key(self, job: Job) -> tuple[object, ...]:
        """A gang that has lost pods comes before jobs that have not started."""
        return (not job.was_running, *self.importance_of(job))

    def importance_of(self, job: Job) -> tuple[object, ...]:
        return (*(key(job) for key in self._job_keys), job.created, job.key)

    def queue_key(self, queue: QueueEntry) -> tuple[object, ...]:
        return (*(key(queue) for key in self._queue_keys), queue.created, queue.name)

    def task_key(self, task: Task) -> tuple[object, ...]:
        return (*(key(task) for key in self._task_keys), task.order)

    def tasks_in_order(self, tasks: Iterator[Task]) -> list[Task]:
        if len(self._task_keys) == 1:  # as always; tens of thousands of tasks are sorted
            (first,) = self._task_keys
            return sorted(tasks, key=lambda task: (first(task), task.order))
        return sorted(tasks, key=self.task_key)

    def victims_in_order(self, claimer: Task, tasks: Sequence[Task]) -> list[Task]:
        """The least important first: nearest queue, last queue, last job, last task."""
        known: dict[str, tuple[object, ...]] = {}

        def rank(task: Task) -> tuple[object, ...]:
            job = task.job
            if job is None or job.queue is None:
                return ()
            if job.key not in known:
                near = tuple(key(claimer, job.queue) for key in self._victim_queue_keys)
                known[job.key] = (near, self.queue_key(job.queue), self.importance_of(job))
            return (*known[job.key], self.task_key(task))

        return sorted(tasks, key=rank, reverse=True)

    # --- jobs

    def invalid(self, job: Job) -> Refusal | None:
        """Why the job cannot be scheduled as it is, if any plugin says so."""
        return next((refusal for vote in self._valid if (refusal := vote(job))), None)

    def shortfall(self, job: Job, role: str = "") -> int:
        """How many more tasks of a role make the job ready in everybody's eyes."""
        return max((vote(job, role) for vote in self._shortfall), default=0)

    def is_ready(self, job: Job) -> bool:
        return self.shortfall(job) == 0

    def is_pipelined(self, job: Job) -> bool:
        for tier in self._pipelined:
            votes = [vote(job) for vote in tier]
            if Vote.REJECT in votes:
                return False
            if Vote.PERMIT in votes:
                return True
        return True

    def is_starving(self, job: Job) -> bool:
        """Nobody to say so means no."""
        tier = next((tier for tier in self._starving if tier), [])
        return bool(tier) and all(vote(job) for vote in tier)

    # --- admission and quota

    def refuses_admission(self, job: Job) -> Refusal | None:
        for tier in self._enqueueable:
            votes = [vote(job) for vote in tier]
            refusal = next((vote for vote in votes if isinstance(vote, Refusal)), None)
            if refusal is not None:
                return refusal
            if Vote.PERMIT in votes:
                return None
        return None

    def admitted(self, job: Job) -> None:
        for hook in self._admitted:
            hook(job)

    def is_overused(self, queue: QueueEntry) -> bool:
        return any(vote(queue) for vote in self._overused)

    def allowance(self, queue: QueueEntry, shape: Shape, n: int) -> int:
        """How many of n tasks of a shape the queue may take by everybody's leave."""
        for vote in self._allowance:
            n = min(n, vote(queue, shape, n))
        return n

    def quota_refusal(self, queue: QueueEntry, shape: Shape, n: int) -> Refusal | None:
        """Why the queue may not take all of n tasks."""
        return next((r for vote in self._quota_refusal if (r := vote(queue, shape, n))), None)

    def is_preemptive(self, queue: QueueEntry, task: Task) -> bool:
        return all(vote(queue, task) for vote in self._preemptive)

    # --- victims

    def preemptable(self, claimer: Task, units: Sequence[Unit]) -> list[Unit]:
        return _agreed(self._preemptable, claimer, units)

    def reclaimable(self, claimer: Task, units: Sequence[Unit]) -> list[Unit]:
        return _agreed(self._reclaimable, claimer, units)

    def may_preempt(self, claimer: Task, job: Job) -> bool:
        return bool(self._preemptable) and all(v(claimer, job) for v in self._preemptable_job)

    def may_reclaim(self, claimer: Task, job: Job) -> bool:
        return bool(self._reclaimable) and all(v(claimer, job) for v in self._reclaimable_job)

    def shuffle_victims(self, tasks: Sequence[Task]) -> list[Task]:
        """What the first tier that names anything wants moved."""
        for tier in self._shuffle_victims:
            named = {task.key: task for vote in tier for task in vote(tasks)}
            if named:
                return [named[key] for key in sorted(named)]
        return []

    # --- the end

    def unschedulable(self, job: Job) -> Refusal | None:
        return next((r for vote in self._unschedulable if (r := vote(job))), None)


def _agreed(votes: Sequence[VictimVote], claimer: Task, units: Sequence[Unit]) -> list[Unit]:
    """What everybody lets go; nobody to ask means nobody goes."""
    if not votes:
        return []
    granted = {id(unit) for unit in units}
    for vote in votes:
        granted &= {id(unit) for unit in vote(claimer, units)}
    return [
        unit
        for unit in units
        if id(unit) in granted and all(id(before) in granted for before in unit.after)
    ]
