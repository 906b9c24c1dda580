"""The choice of victims: what preempt and reclaim evict to make room for one task.

`VictimSearch` tries nodes one by one. On each node it evicts as little as it can, in order, until
the preemptor fits with all predicates checked again; what it tried on a node that does not work is
undone before the next. Nothing is decided here: the action commits the statement when the whole
gang of the preemptor has found room.

Victims are chosen in `EvictionUnit`s, not in pods, so that no gang is torn (ADR 11):

- one pod that its job can spare;
- the suffix of an elastic role, which is shrunk instead of having its pods deleted;
- all that is left of a job that would fall below its minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from swell.scheduler.model.elastic import ElasticRole
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.nodes import Matrix, fits, slots
from swell.scheduler.model.resources import TOLERANCE, Vector
from swell.scheduler.model.tasks import EVICTABLE, Task, TaskStatus

if TYPE_CHECKING:
    from swell.scheduler.session import Session, Statement

# Tasks of a shrunk role that hold no room which the shrink would free.
_HOLDS_NO_ROOM = frozenset({TaskStatus.PENDING, TaskStatus.RELEASING, TaskStatus.FAILED})


@dataclass(frozen=True, slots=True)
class VictimRules:
    """How one action chooses its victims. A function's first task is the preemptor."""

    action: str
    # The jobs whose tasks may be victims. Preemptors of one shape with equal `targets_depend_on`
    # have the same ones, so these are collected once for all of them.
    targets: Callable[[Task], Iterable[JobInfo]]
    targets_depend_on: Callable[[Task], Hashable]
    statuses: frozenset[TaskStatus]
    may_evict: Callable[[Task, Task], bool]
    vote: Callable[[Task, Sequence[EvictionUnit]], Sequence[EvictionUnit]]
    units: Callable[[Sequence[Task]], list[EvictionUnit]]
    # Whether the quota of the preemptor's queue has room for it, after the evictions.
    allows: Callable[[Task], bool]
    by_score: bool = True  # try nodes by their score; otherwise in their own order
    spares: bool = False  # undo the evictions that turn out not to be needed


@dataclass(slots=True)
class _VictimPool:
    """The jobs that may lose tasks, and what each node would gain if all those tasks left."""

    jobs: dict[str, JobInfo]
    gain: Matrix
    position: int  # in the node table's log of changes, as of which `gain` is right
    is_elastic: bool  # whether any of the jobs can shrink


class VictimSearch:
    """Finds room by eviction, for one action in one session."""

    def __init__(self, session: Session, rules: VictimRules) -> None:
        self._session = session
        self._rules = rules
        self._nodes = session.snapshot.nodes
        self._pools: dict[Hashable, _VictimPool] = {}

    def has_candidates(self, preemptor: Task) -> bool:
        return bool(self._pool(preemptor).gain.any())

    def could_fit(self, preemptor: Task, n: int) -> bool:
        """Whether n tasks like this one would fit if every candidate left.

        A cheap test before the search. It ignores votes, eviction units and predicates, so a yes
        may be in vain; a no is final.
        """
        room = self._nodes.future + self._pool(preemptor).gain
        allowed = self._session.placer.allowed(preemptor.shape)
        return bool(slots(preemptor.shape, room)[allowed].sum() >= n)

    def make_room(self, statement: Statement, preemptor: Task) -> bool:
        """Pipelines the preemptor to a node, with the evictions that this needs.

        Returns False, with the statement unchanged, when there is no such node. Where jobs can
        shrink, a node on which shrinking is enough is preferred to all others.
        """
        nodes = self._nodes_in_order(statement, preemptor)
        for nondisruptive in (True, False) if self._pool(preemptor).is_elastic else (False,):
            for node in nodes:
                mark = statement.mark()
                if self._make_room_on(statement, preemptor, node, nondisruptive=nondisruptive):
                    statement.pipeline(preemptor, node)
                    return True
                statement.rollback(mark)
        return False

    def _nodes_in_order(self, statement: Statement, preemptor: Task) -> list[int]:
        """Returns nodes that could have room: those that have it already first, then by score."""
        shape = preemptor.shape
        placer, future = self._session.placer, self._nodes.future
        gain = self._pool(preemptor).gain
        reachable = placer.allowed(shape) & fits(shape, future + gain)
        # Free room is given by allocate only. It is taken here when this statement has evicted
        # already: a whole gang that leaves also frees room on other nodes (ADR 11).
        if not statement.has_evictions:
            reachable &= gain.any(axis=0)
        found = np.flatnonzero(reachable)
        fits_already = fits(shape, future[:, found])
        scores = placer.ranking(shape)[found] if self._rules.by_score else np.zeros(len(found))
        # The last key of lexsort counts first: fits already, higher score, lower place.
        return [int(node) for node in found[np.lexsort((found, -scores, ~fits_already))]]

    def _pool(self, preemptor: Task) -> _VictimPool:
        """Returns the pool for preemptors like this one, with `gain` up to date."""
        rules, nodes = self._rules, self._nodes
        # Cooldowns differ from job to job, so while there are any each job has its own pool.
        own = preemptor.job.key if preemptor.job and self._session.snapshot.cooldowns else ""
        key = (preemptor.shape.serial, rules.targets_depend_on(preemptor), own)
        pool = self._pools.get(key)
        position = len(nodes.changes)
        if pool is None:
            jobs = {
                job.key: job for job in rules.targets(preemptor) if self._may_target(preemptor, job)
            }
            is_elastic = any(
                can_shrink(task) for job in jobs.values() for task in job.tasks.values()
            )
            gain = np.zeros_like(nodes.future)
            pool = self._pools[key] = _VictimPool(jobs, gain, position, is_elastic)
            for job in jobs.values():
                for task in job.tasks.values():
                    if task.status in rules.statuses and rules.may_evict(preemptor, task):
                        pool.gain[:, task.node] += task.request
        elif pool.position != position:
            for node in set(nodes.changed_since(pool.position).tolist()):
                pool.gain[:, node] = 0
                for task in self._candidates(preemptor, pool, node):
                    pool.gain[:, node] += task.request
        pool.position = position
        return pool

    def _may_target(self, preemptor: Task, job: JobInfo) -> bool:
        """Whether no cooldown protects the job from this preemptor.

        A victim may not evict its preemptor for a while, or the two would evict each other in turn.
        """
        cooldowns = self._session.snapshot.cooldowns
        return (
            not cooldowns or preemptor.job is None or (preemptor.job.key, job.key) not in cooldowns
        )

    def _candidates(self, preemptor: Task, pool: _VictimPool, node: int) -> list[Task]:
        """Returns the tasks on a node that may be victims, before the plugins vote.

        A job for which others were evicted in this session is no victim in it (ADR 11), except in
        swaps inside the job.
        """
        rules = self._rules
        return [
            task
            for task in self._nodes.tasks[node].values()
            if task.status in rules.statuses
            and task.job is not None
            and task.job.key in pool.jobs
            and (task.job is preemptor.job or task.job.key not in self._session.preemptors)
            and rules.may_evict(preemptor, task)
        ]

    def _make_room_on(
        self, statement: Statement, preemptor: Task, node: int, *, nondisruptive: bool
    ) -> bool:
        """Evicts tasks of jobs that hold what the node lacks; if that fails, tasks of any job.

        The second try is for nodes where another rule than resources keeps the preemptor out.
        """
        candidates = self._candidates(preemptor, self._pool(preemptor), node)
        holders = self._holders(preemptor, node, candidates)
        mark = statement.mark()
        if self._take_from(statement, preemptor, node, holders, nondisruptive=nondisruptive):
            return True
        statement.rollback(mark)
        if len(holders) == len(candidates):
            return False
        return self._take_from(statement, preemptor, node, candidates, nondisruptive=nondisruptive)

    def _holders(self, preemptor: Task, node: int, candidates: Sequence[Task]) -> Sequence[Task]:
        """Returns the candidates of jobs that hold on this node what the preemptor lacks there.

        Evicting the others would free nothing of it. Returns all candidates when no resource is
        lacking and another rule keeps the preemptor out.
        """
        request, future = preemptor.shape.request, self._nodes.future
        lacking = [
            place
            for place in preemptor.shape.fit_places
            if future[place, node] <= request[place] - TOLERANCE
        ]
        if not lacking:
            return candidates
        jobs = {task.job for task in candidates if task.request[lacking].any()}
        return [task for task in candidates if task.job in jobs]

    def _take_from(
        self,
        statement: Statement,
        preemptor: Task,
        node: int,
        candidates: Sequence[Task],
        *,
        nondisruptive: bool,
    ) -> bool:
        """Evicts units of these candidates until the preemptor fits; whether it does."""
        votes, rules = self._session.votes, self._rules
        ordered = votes.victims_in_order(preemptor, candidates)
        found = rules.units(ordered)
        units = rules.vote(
            preemptor, [unit for unit in found if unit.is_nondisruptive or not nondisruptive]
        )
        if not units and not statement.has_evictions:
            return False  # free room alone is for allocate to give
        # The cheap test first: is the sum of everything that may leave this node enough?
        room = self._nodes.future[:, node].copy()
        for unit in units:
            room += unit.request_on(node)
        if not fits(preemptor.shape, room[:, None])[0]:
            return False
        if rules.spares:
            return self._evict_needed(statement, preemptor, node, units)
        # Checked before each eviction: none is made once the preemptor fits.
        for unit in units:
            if self._fits(preemptor, node):
                return True
            self._evict(statement, preemptor, unit)
        return self._fits(preemptor, node)

    def _evict_needed(
        self, statement: Statement, preemptor: Task, node: int, units: Sequence[EvictionUnit]
    ) -> bool:
        """Evicts all units, then undoes the most important ones while the preemptor still fits."""
        start = statement.mark()

        def fits_without(spared: EvictionUnit | None, taken: Sequence[EvictionUnit]) -> bool:
            statement.rollback(start)
            for unit in taken:
                if unit is not spared:
                    self._evict(statement, preemptor, unit)
            return self._fits(preemptor, node)

        if not fits_without(None, units):
            return False
        needed = list(units)
        for unit in reversed(units):
            # A unit that another one needs evicted before it cannot be spared alone.
            if not any(unit in other.after for other in needed) and fits_without(unit, needed):
                needed.remove(unit)
        return fits_without(None, needed)

    def _fits(self, preemptor: Task, node: int) -> bool:
        return self._rules.allows(preemptor) and self._session.placer.fits_later(preemptor, node)

    def _evict(self, statement: Statement, preemptor: Task, unit: EvictionUnit) -> None:
        group = preemptor.job.key if preemptor.job else ""
        statement.evict(unit, self._rules.action, group)


class EvictionCost(IntEnum):
    """How much a unit takes from its job. The cheaper is evicted first."""

    SURPLUS = 0  # the job keeps its minimum
    WHOLE = 1  # the job loses all its pods


@dataclass(frozen=True, slots=True, eq=False)
class EvictionUnit:
    """Tasks of one job that are evicted together or not at all."""

    job: JobInfo
    tasks: tuple[Task, ...]
    cost: EvictionCost = EvictionCost.SURPLUS
    after: tuple[EvictionUnit, ...] = ()  # units that must be evicted before this one
    role: ElasticRole | None = None  # the role that is shrunk to `target` instead of an eviction
    target: int = 0

    @property
    def is_nondisruptive(self) -> bool:
        """Whether the job goes on undisturbed: no gang ends and no pod has to be started again.

        A pod of an elastic role that is evicted without a shrink is created again, so it disturbs.
        """
        is_recreated = self.role is None and any(map(can_shrink, self.tasks))
        return self.cost is EvictionCost.SURPLUS and not is_recreated

    @property
    def request(self) -> Vector:
        return _sum(self.tasks, self.job.allocated)

    def request_on(self, node: int) -> Vector:
        there = [task for task in self.tasks if task.node == node]
        return _sum(there, self.job.allocated)


def can_shrink(task: Task) -> bool:
    """Whether the task belongs to a role that the scheduler may shrink."""
    return task.elastic is not None and task.elastic.may_shrink


def _sum(tasks: Sequence[Task], like: Vector) -> Vector:
    return sum((task.request for task in tasks), np.zeros_like(like))


class _Surplus:
    """The number of tasks that a job can lose, in total and of each role, and keep its minimum."""

    def __init__(self, job: JobInfo) -> None:
        self._job = job
        self._total = job.counts.ready - job.min_member
        self._lost: dict[str, int] = {}

    def covers(self, tasks: Sequence[Task]) -> bool:
        if len(tasks) > self._total:
            return False
        lost = dict(self._lost)
        for task in tasks:
            lost[task.role] = lost.get(task.role, 0) + 1
        return all(
            self._job.role(role).ready - n >= self._job.role_minimums.get(role, 0)
            for role, n in lost.items()
        )

    def spend(self, tasks: Sequence[Task]) -> None:
        self._total -= len(tasks)
        for task in tasks:
            self._lost[task.role] = self._lost.get(task.role, 0) + 1


def single_task_units(tasks: Iterable[Task]) -> list[EvictionUnit]:
    """Returns one unit per task, for swaps inside one job: these do not change its size."""
    return [EvictionUnit(task.job, (task,)) for task in tasks if task.job is not None]


def eviction_units(candidates: Sequence[Task]) -> list[EvictionUnit]:
    """Returns the units that would evict these tasks, the cheapest first, then in their order."""
    by_job: dict[str, list[Task]] = {}
    for task in candidates:
        if task.job is not None:
            by_job.setdefault(task.job.key, []).append(task)
    rank = {task.key: n for n, task in enumerate(candidates)}
    ranked = [
        (unit.cost, rank[candidate.key], unit)
        for tasks in by_job.values()
        for candidate, unit in _units_of_job(tasks)
    ]
    ranked.sort(key=lambda row: row[:2])
    return [unit for _, _, unit in ranked]


def _units_of_job(tasks: Sequence[Task]) -> list[tuple[Task, EvictionUnit]]:
    """Returns the units of one job, each with the candidate it was made for.

    Shrinks come first, then single surplus pods. The first candidate that the job cannot spare
    makes one last unit of all that is left.
    """
    job = tasks[0].job
    assert job is not None  # noqa: S101 - the caller grouped by job
    surplus = _Surplus(job)
    units: list[tuple[Task, EvictionUnit]] = []
    gone: set[str] = set()
    # From the highest index down, so that each further shrink of a role takes a little more.
    for task in sorted((t for t in tasks if t.elastic), key=lambda t: (t.role, -t.index)):
        unit = _shrink(job, task, [unit for _, unit in units], surplus)
        if unit is not None:
            units.append((task, unit))
            gone.update(t.key for t in unit.tasks)
    for task in tasks:
        if task.key in gone:
            continue
        if surplus.covers((task,)):
            surplus.spend((task,))
            units.append((task, EvictionUnit(job, (task,))))
            gone.add(task.key)
            continue
        whole = _whole(job, gone, tuple(unit for _, unit in units))
        if whole is not None:
            units.append((task, whole))
        break  # that unit holds all that is left
    return units


def _shrink(
    job: JobInfo, task: Task, before: Sequence[EvictionUnit], surplus: _Surplus
) -> EvictionUnit | None:
    """Returns the shrink of the task's role to the task's index, if that takes surplus only.

    A shrink removes the highest indexes, so it takes every task from this index on (a suffix).
    """
    role = task.elastic
    if role is None or task.index < role.minimum or not role.is_shrinkable:
        return None
    earlier = tuple(unit for unit in before if unit.role is role)
    already = {t.key for unit in earlier for t in unit.tasks}
    suffix = [t for t in role.from_index(task.index) if t.key not in already]
    leaving = [t for t in suffix if t.status not in _HOLDS_NO_ROOM]
    # The suffix leaves as a whole, so one task in it that may not go forbids the shrink.
    if not all(t.status in EVICTABLE and t.preemptable and t.job is job for t in leaving):
        return None
    if not surplus.covers(leaving):
        return None
    surplus.spend(leaving)
    leaving.sort(key=lambda t: -t.index)
    return EvictionUnit(job, tuple(leaving), after=earlier, role=role, target=task.index)


def _whole(job: JobInfo, gone: set[str], before: tuple[EvictionUnit, ...]) -> EvictionUnit | None:
    """Returns one unit of all that is left of the job, or None if a part of it may not go."""
    # A pod whose binding is under way cannot be evicted yet, and the gang must leave together.
    if job.counts[TaskStatus.BINDING] or job.counts[TaskStatus.ALLOCATED]:
        return None
    # Sorted, so that the same snapshot gives the same plan.
    rest = sorted((t for t in job.evictable() if t.key not in gone), key=lambda t: t.key)
    if not all(task.preemptable for task in rest):
        return None
    return EvictionUnit(job, tuple(rest), EvictionCost.WHOLE, after=before)
