"""One scheduling session: a snapshot, the open plugins, and what has been decided so far.

Actions work on it; `close` ends it with a plan. Bindings and evictions that were decided stay in
the snapshot as assumed, promises stay as pipelined tasks; whatever was only tried leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swell.api.scheduling import PodGroupPhase
from swell.scheduler.claimable import Claimable
from swell.scheduler.config import Config
from swell.scheduler.eviction_units import Unit
from swell.scheduler.hooks import Plugin
from swell.scheduler.model.jobs import Job
from swell.scheduler.model.reasons import Reason, Refusal
from swell.scheduler.model.snapshot import Snapshot
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.placement import Placer
from swell.scheduler.statement import Statement
from swell.scheduler.votes import Votes

_ASK_THE_NODES = frozenset({Reason.NOT_ENOUGH_RESOURCES, Reason.QUEUE_QUOTA, Reason.QUEUE_OVERUSED})


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that has to go, by which action, for which group."""

    task: Task
    action: str
    claimer: str


class Session:
    """What actions read and change. `now` is None where time-based rules are off."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        plugins: Mapping[str, Plugin],
        now: float | None = None,
    ) -> None:
        snapshot.settle()
        self.snapshot = snapshot
        self.config = config
        self.now = now
        self.total = snapshot.nodes.total()
        self.jobs = snapshot.active_jobs()
        # What earlier sessions promised; allocate looks whether it can start now.
        self.promises = {
            job.key: list(job.in_status(TaskStatus.PIPELINED))
            for job in self.jobs
            if job.counts.waiting
        }
        self.binds: list[Task] = []
        self.evictions: list[Eviction] = []
        self.shrinks: dict[str, dict[str, int]] = {}
        self.shrunk_for: dict[tuple[str, str], str] = {}
        # The last reason each job heard, for those that stay behind.
        self.refusals: dict[str, Refusal] = {}
        self.notes: dict[str, list[str]] = {}
        # Of jobs that found no room: the task no node took.
        self.stuck: dict[str, Task] = {}
        # Jobs others had to leave for: they do not have to leave in the same session.
        self.claimers: set[str] = set()
        self._held: dict[str, Statement] = {}
        self.claimable = Claimable(self)
        tiers = [
            [(option, plugins[option.name](self, option)) for option in tier]
            for tier in config.tiers
        ]
        self.votes = Votes(tiers)
        self.placer = Placer(snapshot, tiers)

    @property
    def admits_on_allocate(self) -> bool:
        """Without the enqueue action every job counts as admitted."""
        return "enqueue" not in self.config.actions

    def statement(self) -> Statement:
        return Statement(self)

    def refuse(self, job: Job, refusal: Refusal) -> None:
        self.refusals[job.key] = refusal

    def admit(self, job: Job) -> None:
        self.snapshot.set_phase(job, PodGroupPhase.INQUEUE)
        self.refusals.pop(job.key, None)

    def takes_part(self, job: Job) -> bool:
        """Admitted, and complete enough to be worth a try."""
        if not job.is_admitted:
            return False
        refusal = self.votes.invalid(job)
        if refusal is not None:
            self.refuse(job, refusal)
        return refusal is None

    def hold(self, job: Job, statement: Statement) -> None:
        """Keeps the nodes of a job that waits for room, without deciding anything."""
        earlier = self._held.setdefault(job.key, statement)
        if earlier is not statement:  # served twice: for what it was promised, and for the rest
            earlier.take_over(statement)

    def release_hold(self, job: Job) -> Statement | None:
        return self._held.pop(job.key, None)

    def bind(self, tasks: Sequence[Task]) -> None:
        self.snapshot.confirm(tasks)
        self.binds.extend(tasks)

    def evict(self, unit: Unit, action: str, claimer: str) -> None:
        self.claimers.add(claimer)
        if unit.role is None:
            for task in unit.tasks:
                task.is_doomed = True
            self.evictions.extend(Eviction(task, action, claimer) for task in unit.tasks)
            return
        role = unit.role
        self.shrinks.setdefault(role.job, {})[role.role] = role.target
        self.shrunk_for[role.job, role.role] = claimer

    def reason_for(self, job: Job) -> Refusal | None:
        """Why the job is left waiting, with the numbers as they are now."""
        refusal, task = self.refusals.get(job.key), self.stuck.get(job.key)
        if refusal is None or task is None or refusal.reason not in _ASK_THE_NODES:
            return refusal
        if refusal.reason is not Reason.NOT_ENOUGH_RESOURCES and self._has_room(job, task):
            return refusal  # only the quota is in the way
        texts = (self.placer.why_not(task), refusal.message, *self.notes.get(job.key, ()))
        text = "; ".join(filter(None, texts))
        return Refusal(Reason.NOT_ENOUGH_RESOURCES, text, refusal.limits)

    def _has_room(self, job: Job, task: Task) -> bool:
        """Whether what the gang lacks of tasks like this one would find nodes now."""
        alike = sum(other.shape is task.shape for other in job.in_status(TaskStatus.PENDING))
        n_missing = min(max(job.min_member - job.counts.ready, 1), alike)
        return self.placer.place(task) is not None and self.placer.n_slots(task.shape) >= n_missing

    def note(self, job: Job, text: str) -> None:
        """Something to know about a job that finds no room."""
        self.notes.setdefault(job.key, []).append(text)

    def close(self) -> None:
        """Turns what is held into promises."""
        for statement in self._held.values():
            statement.hold()
        self._held.clear()
