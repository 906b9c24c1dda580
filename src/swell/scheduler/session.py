"""One scheduling session, and the transactions (statements) in which actions change it.

A session works on the snapshot itself, not on a copy (ADR 12). Actions place and evict tasks
through a `Statement`, whose steps take effect at once and can be undone. What a session decided
stays in the snapshot: bound tasks as BINDING, victims as RELEASING, tasks whose node is still being
freed as PIPELINED. What was only tried leaves no trace.

    statement = session.statement()
        |  allocate, pipeline, evict, ...      mark / rollback undo a part
        |
        +-- commit()    ALLOCATED becomes BINDING, evictions are decided, PIPELINED stays
        +-- hold()      nothing is decided, ALLOCATED becomes PIPELINED (via Session.hold/close)
        +-- discard()   every step is undone
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from swell.api.scheduling import PodGroupPhase
from swell.scheduler.config import Config
from swell.scheduler.domains import Domains
from swell.scheduler.eviction_units import EvictionCost, EvictionUnit
from swell.scheduler.hooks import OpenPlugin, Plugin, Votes
from swell.scheduler.model.elastic import ElasticRole
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import LIMIT_REASONS, Refusal, WaitReason
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus
from swell.scheduler.model.unmeasured import unmeasured_queues
from swell.scheduler.placement import NodeChoices, Placer

# Refusals whose text is completed at the end of a session with what the nodes lack.
_NODE_DEPENDENT = frozenset(
    {WaitReason.NOT_ENOUGH_RESOURCES, WaitReason.QUEUE_OVERUSED, *LIMIT_REASONS}
)


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod to evict, with the action that decided it and the group it makes room for."""

    task: Task
    action: str
    preemptor: str


def on_hold(job: JobInfo) -> Refusal | None:
    """Returns the refusal of a job that is barred, or whose group or queue cannot be read."""
    if job.barred is not None:
        return job.barred
    why = job.on_hold
    return Refusal(WaitReason.UNREADABLE, f"cannot be read: {why}") if why else None


def barred(job: JobInfo, unmeasured: Mapping[str, str]) -> Refusal | None:
    """Why a job gets nothing whatever room there is; None if it may get something.

    `unmeasured` has the limited queues that hold an unknown amount.
    """
    refusal = on_hold(job)
    if refusal is not None or not unmeasured or job.queue is None:
        return refusal
    why = next(filter(None, (unmeasured.get(level.name) for level in job.queue.lineage)), None)
    return Refusal(WaitReason.UNREADABLE, f"cannot be read: {why}") if why else None


class Session:
    """The state that actions read and change. `now` is None where time-based rules are off."""

    def __init__(
        self,
        snapshot: SchedulerSnapshot,
        config: Config,
        plugins: Mapping[str, Plugin],
        now: float | None = None,
        on_opened: Callable[[str], None] = lambda _: None,
    ) -> None:
        snapshot.settle()
        self.snapshot = snapshot
        self.config = config
        self.now = now
        self.total = snapshot.nodes.total()
        self.jobs = snapshot.active_jobs()
        self._unmeasured = unmeasured_queues(snapshot.unreadable_tasks.values(), snapshot.queues)
        # Tasks that earlier sessions pipelined; allocate checks whether they can start now.
        self.pipelined_before = {
            job.key: list(job.in_status(TaskStatus.PIPELINED))
            for job in self.jobs
            if job.counts.waiting
        }
        self.binds: list[Task] = []
        self.evictions: list[Eviction] = []
        self.shrinks: dict[str, dict[str, int]] = {}  # training job -> role -> new target
        self.shrunk_for: dict[tuple[str, str], str] = {}  # (training job, role) -> preemptor
        # The last refusal of each job; only those of jobs that still wait at the end are read.
        self.refusals: dict[str, Refusal] = {}
        self.notes: dict[str, list[str]] = {}
        # Of each job that found no room: a task that no node took.
        self.stuck: dict[str, Task] = {}
        # Jobs for which others are evicted. They are not victims themselves in this session.
        self.preemptors: set[str] = set()
        self._held: dict[str, Statement] = {}
        self._label_domains: dict[str, Domains] = {}
        # Plugins are opened last: their functions may read all of the above.
        tiers: list[list[OpenPlugin]] = []
        for tier in config.tiers:
            tiers.append([])
            for option in tier:
                tiers[-1].append((option, plugins[option.name](self, option)))
                on_opened(option.name)
        self.votes = Votes(tiers)
        self.placer = Placer(snapshot, tiers)

    @cached_property
    def domains(self) -> Domains:
        """The parts of the network. Made on first use: sessions without topologies do without."""
        return Domains(self)

    def domains_for(self, job: JobInfo) -> Domains:
        """Returns the parts of the network that the job's constraints are about."""
        key = "" if job.native is None else job.native.topology_key
        if not key:
            return self.domains
        found = self._label_domains.get(key)
        if found is None:
            found = self._label_domains[key] = Domains(self, key)
        return found

    @property
    def admits_on_allocate(self) -> bool:
        """Whether every job counts as admitted because no enqueue action is configured."""
        return "enqueue" not in self.config.actions

    def statement(self) -> Statement:
        return Statement(self)

    def refuse(self, job: JobInfo, refusal: Refusal) -> None:
        self.refusals[job.key] = refusal

    def note(self, job: JobInfo, text: str) -> None:
        """Adds a sentence to the refusal of a job that finds no room."""
        self.notes.setdefault(job.key, []).append(text)

    def admit(self, job: JobInfo) -> None:
        self.snapshot.set_phase(job, PodGroupPhase.INQUEUE)
        self.refusals.pop(job.key, None)

    def takes_part(self, job: JobInfo) -> bool:
        """Whether the job is admitted and valid. An invalid job gets its refusal here."""
        if not job.is_admitted:
            return False
        refusal = self.barred(job) or self._topology_refusal(job) or self.votes.invalid(job)
        if refusal is not None:
            self.refuse(job, refusal)
        return refusal is None

    def barred(self, job: JobInfo) -> Refusal | None:
        """Why the job gets nothing whatever room there is; None if it may get something."""
        return barred(job, self._unmeasured)

    def _topology_refusal(self, job: JobInfo) -> Refusal | None:
        if self.snapshot.hyper_nodes.are_hidden and job.is_constrained:
            hidden = self.domains_for(job).hidden_tree(job)
            if hidden is not None:
                return hidden
        if not job.is_annotated:
            return None
        return job.topology_refusal or self.domains.unknown_level(job)

    def hold(self, job: JobInfo, statement: Statement) -> None:
        """Keeps the nodes of a job that waits for room until the session closes."""
        earlier = self._held.setdefault(job.key, statement)
        # A job may be served twice: for its pipelined tasks, and for the rest.
        if earlier is not statement:
            earlier.take_over(statement)

    def release_hold(self, job: JobInfo) -> Statement | None:
        return self._held.pop(job.key, None)

    def bind(self, tasks: Sequence[Task]) -> None:
        self.snapshot.confirm(tasks)
        self.binds += tasks

    def bind_alike(self, tasks: Sequence[Task]) -> None:
        """Does the same for tasks of one shape and role."""
        self.snapshot.confirm_alike(tasks)
        self.binds += tasks

    def evict(self, unit: EvictionUnit, action: str, preemptor: str) -> None:
        """Records the decision to evict a unit, or to shrink its elastic role instead."""
        self.preemptors.add(preemptor)
        if unit.role is None:
            for task in unit.tasks:
                task.marked_for_deletion = True
            self.evictions.extend(Eviction(task, action, preemptor) for task in unit.tasks)
            return
        role = unit.role
        self.shrinks.setdefault(role.job, {})[role.role] = role.target
        self.shrunk_for[role.job, role.role] = preemptor

    def reason_for(self, job: JobInfo) -> Refusal | None:
        """Why the job still waits, with the numbers of nodes as they are at this moment."""
        refusal, task = self.refusals.get(job.key), self.stuck.get(job.key)
        if refusal is None or task is None or refusal.reason not in _NODE_DEPENDENT:
            return refusal
        # A quota refused the job when its turn came; since then the nodes may have filled, too.
        if refusal.reason is not WaitReason.NOT_ENOUGH_RESOURCES and self._has_room(job, task):
            return refusal  # only the quota is in the way
        # Of a pod with claims the numbers are those of its turn: see `gang_fit`.
        is_counted = task.shape.has_claims and bool(refusal.message)
        now = "" if is_counted else self.placer.why_not(task)
        texts = (now, refusal.message, *self.notes.get(job.key, ()))
        text = "; ".join(filter(None, texts))
        return Refusal(WaitReason.NOT_ENOUGH_RESOURCES, text, refusal.limits)

    def _has_room(self, job: JobInfo, task: Task) -> bool:
        """Whether the nodes have room now for the tasks like this one that the gang lacks."""
        alike = sum(other.shape is task.shape for other in job.in_status(TaskStatus.PENDING))
        n_missing = min(max(job.min_member - job.counts.ready, 1), alike)
        if self.placer.node_for(task) is None:
            return False
        return self.placer.n_slots(task) >= n_missing

    def close(self) -> None:
        """Ends the session: the tasks of held statements become pipelined."""
        for statement in self._held.values():
            statement.hold()
        self._held.clear()


# A placement that was undone: the task, and the status and node that it had.
TakenBack = tuple[Task, TaskStatus, int]


class _Placed(NamedTuple):
    """Pending tasks of one shape, role and job got nodes."""

    tasks: Sequence[Task]


class _Moved(NamedTuple):
    """A task changed status or node; holds the values before."""

    task: Task
    status: TaskStatus
    node: int


@dataclass(frozen=True, slots=True)
class _Evicted:
    unit: EvictionUnit
    action: str
    preemptor: str


@dataclass(frozen=True, slots=True)
class _Shrunk:
    """The target of an elastic role was lowered; holds the value before."""

    role: ElasticRole
    target: int


_Step = _Placed | _Moved | _Evicted | _Shrunk


def _moved(steps: Sequence[_Step]) -> Iterable[Task]:
    """Returns every task whose status or node some steps changed, once each, in order.

    A task that was pipelined before has two steps, unpipelined and placed.
    """
    found: dict[Task, None] = {}
    for step in steps:
        if isinstance(step, _Placed):
            found.update(dict.fromkeys(step.tasks))
        elif isinstance(step, _Moved):
            found[step.task] = None
    return found


class Statement:
    """A transaction for one job: an undo log of steps that took effect in the snapshot at once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._steps: list[_Step] = []
        self._n_evicted = 0

    @property
    def has_evictions(self) -> bool:
        return self._n_evicted > 0

    def evicted(self, mark: int = 0) -> list[EvictionUnit]:
        """Returns the units that this statement evicts since the mark, in order."""
        return [step.unit for step in self._steps[mark:] if isinstance(step, _Evicted)]

    def allocate(self, task: Task, node: int) -> None:
        self._move(task, TaskStatus.ALLOCATED, node)

    def pipeline(self, task: Task, node: int) -> None:
        self._move(task, TaskStatus.PIPELINED, node)

    def place_alike(self, tasks: Sequence[Task], choices: NodeChoices) -> None:
        """Allocates or pipelines pending tasks of one shape, role and job, all in one status."""
        status = TaskStatus.ALLOCATED if choices.now else TaskStatus.PIPELINED
        self._steps.append(_Placed(tasks))
        self._session.snapshot.move_alike(tasks, status, choices.nodes)

    def unpipeline(self, task: Task) -> None:
        """Makes a pipelined task pending again, so that it can be placed anew."""
        self._move(task, TaskStatus.PENDING, NOWHERE)

    def evict(self, unit: EvictionUnit, action: str, preemptor: str) -> None:
        """Makes the unit's tasks RELEASING, and lowers the target of a role that is shrunk."""
        self._steps.append(_Evicted(unit, action, preemptor))
        self._n_evicted += 1
        if unit.role is not None:
            for task in list(unit.role.from_index(unit.target)):
                # A pending pod above the new target is deleted before it gets a node.
                if task.status is TaskStatus.PENDING:
                    self._move(task, TaskStatus.RELEASING, NOWHERE)
            self._steps.append(_Shrunk(unit.role, unit.role.target))
            unit.role.target = unit.target
        elif unit.cost is EvictionCost.WHOLE:
            # A gang that leaves as a whole no longer needs the nodes reserved for its other tasks.
            for task in list(unit.job.in_status(TaskStatus.PIPELINED)):
                self.unpipeline(task)
        for task in unit.tasks:
            self._move(task, TaskStatus.RELEASING, task.node)

    def take_over(self, other: Statement) -> None:
        """Appends the steps of a later statement, which must not be used afterwards."""
        self._steps += other._steps
        self._n_evicted += other._n_evicted
        other._steps, other._n_evicted = [], 0

    def mark(self) -> int:
        return len(self._steps)

    def rollback(self, mark: int = 0) -> None:
        """Undoes every step since the mark, last first."""
        while len(self._steps) > mark:
            match self._steps.pop():
                case _Placed(tasks):
                    self._session.snapshot.move_back_alike(tasks)
                case _Moved(task, status, node):
                    self._session.snapshot.move(task, status, node)
                case _Shrunk(role, target):
                    role.target = target
                case _Evicted():
                    self._n_evicted -= 1

    def take_back(self, mark: int) -> list[TakenBack]:
        """Undoes the placements since the mark, and returns them for `redo`."""
        placed = [(task, task.status, task.node) for task in _moved(self._steps[mark:])]
        self.rollback(mark)
        return placed

    def redo(self, placed: Sequence[TakenBack]) -> None:
        for task, status, node in placed:
            self._move(task, status, node)

    def discard(self) -> None:
        self.rollback()

    def commit(self) -> None:
        """Binds what is allocated and decides the evictions. Pipelined tasks stay pipelined."""
        first = self._steps[0] if len(self._steps) == 1 else None
        if isinstance(first, _Placed):  # a gang in one go, the usual case
            if first.tasks[0].status is TaskStatus.ALLOCATED:
                self._session.bind_alike(first.tasks)
        else:
            allocated = [t for t in _moved(self._steps) if t.status is TaskStatus.ALLOCATED]
            self._session.bind(allocated)
        if self._n_evicted:
            for step in self._steps:
                if isinstance(step, _Evicted):
                    self._session.evict(step.unit, step.action, step.preemptor)
        self._steps.clear()
        self._n_evicted = 0

    def hold(self) -> None:
        """Ends the statement without a decision: its allocated tasks become pipelined."""
        for task in _moved(self._steps):
            if task.status is TaskStatus.ALLOCATED:
                self._session.snapshot.move(task, TaskStatus.PIPELINED, task.node)

    def _move(self, task: Task, status: TaskStatus, node: int) -> None:
        self._steps.append(_Moved(task, task.status, task.node))
        self._session.snapshot.move(task, status, node)
