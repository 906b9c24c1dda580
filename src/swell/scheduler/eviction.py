"""Making room by evicting: what preempt and reclaim have in common.

A claim tries nodes one by one. On each it takes the least it can, in order, until the claimer fits,
all predicates looked at again; what was tried on a node that does not work is undone before the
next. Nothing is decided here: the caller commits when its whole gang has found room.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from swell.scheduler.eviction_units import Unit, can_shrink
from swell.scheduler.model.jobs import Job
from swell.scheduler.model.nodes import Matrix
from swell.scheduler.model.resources import TOLERANCE, Mask
from swell.scheduler.model.tasks import Shape, Task, TaskStatus
from swell.scheduler.session import Session
from swell.scheduler.statement import Statement


@dataclass(frozen=True, slots=True)
class Rules:
    """How one action chooses its victims."""

    action: str
    # Jobs that may have to give way to the claimer, and what that depends on.
    targets: Callable[[Task], Iterable[Job]]
    targets_depend_on: Callable[[Task], Hashable]
    statuses: frozenset[TaskStatus]
    may_take: Callable[[Task, Task], bool]
    vote: Callable[[Task, Sequence[Unit]], Sequence[Unit]]
    units: Callable[[Sequence[Task]], list[Unit]]
    # Whether the claimer's queue bears the claim, after the evictions.
    allows: Callable[[Task], bool]
    by_score: bool = True
    spares: bool = False  # give back those that turn out not to be needed


@dataclass(slots=True)
class _Pool:
    """The jobs that may give way, and what every node would gain at most."""

    jobs: dict[str, Job]
    gain: Matrix
    position: int
    is_elastic: bool  # whether any of the jobs can shrink


class Claims:
    """Claims on others' room, for one action of one session."""

    def __init__(self, session: Session, rules: Rules) -> None:
        self._session = session
        self._rules = rules
        self._nodes = session.snapshot.nodes
        self._pools: dict[Hashable, _Pool] = {}

    def has_targets(self, claimer: Task) -> bool:
        return bool(self._pool(claimer).gain.any())

    def could_fit(self, claimer: Task, n: int) -> bool:
        """Whether n tasks like this one would find room if every target left. Cheap, and safe."""
        room = self._nodes.future + self._pool(claimer).gain
        return bool(
            _slots(claimer.shape, room)[self._session.placer.allowed(claimer.shape)].sum() >= n
        )

    def claim(self, statement: Statement, claimer: Task) -> bool:
        """Promises the claimer a node, evicting for it if there is no other way.

        Where jobs can shrink, a node on which that is enough is better than any other.
        """
        nodes = self._nodes_in_order(statement, claimer)
        for gently in (True, False) if self._pool(claimer).is_elastic else (False,):
            for node in nodes:
                mark = statement.mark()
                if self._make_room(statement, claimer, node, gently=gently):
                    statement.pipeline(claimer, node)
                    return True
                statement.rollback(mark)
        return False

    def _nodes_in_order(self, statement: Statement, claimer: Task) -> list[int]:
        """Nodes that could have room, best first; those that have it already before the others."""
        shape = claimer.shape
        placer, future = self._session.placer, self._nodes.future
        gain = self._pool(claimer).gain
        reachable = placer.allowed(shape) & _fits(shape, future + gain)
        # Without a victim there is nothing to claim: free room is for allocate to give. Only what
        # this claim itself has freed is taken as it is.
        if not statement.has_evictions:
            reachable &= gain.any(axis=0)
        found = np.flatnonzero(reachable)
        fits_already = _fits(shape, future[:, found])
        scores = placer.ranking(shape)[found] if self._rules.by_score else np.zeros(len(found))
        return [int(node) for node in found[np.lexsort((found, -scores, ~fits_already))]]

    def _pool(self, claimer: Task) -> _Pool:
        rules, nodes = self._rules, self._nodes
        truce = claimer.job.key if claimer.job and self._session.snapshot.truces else ""
        key = (claimer.shape.serial, rules.targets_depend_on(claimer), truce)
        pool = self._pools.get(key)
        position = len(nodes.changes)
        if pool is None:
            jobs = {job.key: job for job in rules.targets(claimer) if self._is_fair(claimer, job)}
            is_elastic = any(
                can_shrink(task) for job in jobs.values() for task in job.tasks.values()
            )
            gain = np.zeros_like(nodes.future)
            pool = self._pools[key] = _Pool(jobs, gain, position, is_elastic)
            for job in jobs.values():
                for task in job.tasks.values():
                    if task.status in rules.statuses and rules.may_take(claimer, task):
                        pool.gain[:, task.node] += task.request
        elif pool.position != position:
            for node in set(nodes.changed_since(pool.position).tolist()):
                pool.gain[:, node] = 0
                for task in self._candidates(claimer, pool, node):
                    pool.gain[:, node] += task.request
        pool.position = position
        return pool

    def _is_fair(self, claimer: Task, job: Job) -> bool:
        """Nobody takes back at once what had to be left to another."""
        truces = self._session.snapshot.truces
        return not truces or claimer.job is None or (claimer.job.key, job.key) not in truces

    def _candidates(self, claimer: Task, pool: _Pool, node: int) -> list[Task]:
        rules = self._rules
        return [
            task
            for task in self._nodes.tasks[node].values()
            if task.status in rules.statuses
            and task.job is not None
            and task.job.key in pool.jobs
            and (task.job is claimer.job or task.job.key not in self._session.claimers)
            and rules.may_take(claimer, task)
        ]

    def _make_room(self, statement: Statement, claimer: Task, node: int, *, gently: bool) -> bool:
        """Takes from those who have what is lacking; from others only if it is not for that."""
        candidates = self._candidates(claimer, self._pool(claimer), node)
        holders = self._holders(claimer, node, candidates)
        mark = statement.mark()
        if self._take_from(statement, claimer, node, holders, gently=gently):
            return True
        statement.rollback(mark)
        if len(holders) == len(candidates):
            return False
        return self._take_from(statement, claimer, node, candidates, gently=gently)

    def _holders(self, claimer: Task, node: int, candidates: Sequence[Task]) -> Sequence[Task]:
        """The candidates of jobs that hold here what the claimer lacks: evicting the others would
        free nothing. All of them, if it lacks nothing but another rule keeps it out."""
        request, future = claimer.shape.request, self._nodes.future
        lacking = [
            place
            for place in claimer.shape.fit_places
            if future[place, node] <= request[place] - TOLERANCE
        ]
        if not lacking:
            return candidates
        jobs = {task.job for task in candidates if task.request[lacking].any()}
        return [task for task in candidates if task.job in jobs]

    def _take_from(
        self,
        statement: Statement,
        claimer: Task,
        node: int,
        candidates: Sequence[Task],
        *,
        gently: bool,
    ) -> bool:
        votes, rules = self._session.votes, self._rules
        ordered = votes.victims_in_order(claimer, candidates)
        found = rules.units(ordered)
        units = rules.vote(claimer, [unit for unit in found if unit.is_gentle or not gently])
        if not units and not statement.has_evictions:
            return False
        room = self._nodes.future[:, node].copy()
        for unit in units:
            room += unit.request_on(node)
        if not _fits(claimer.shape, room[:, None])[0]:
            return False
        if rules.spares:
            return self._evict_needed(statement, claimer, node, units)
        for unit in units:
            if self._fits(claimer, node):
                return True
            self._evict(statement, claimer, unit)
        return self._fits(claimer, node)

    def _evict_needed(
        self, statement: Statement, claimer: Task, node: int, units: Sequence[Unit]
    ) -> bool:
        """Evicts all, then gives back the most important ones as long as the claimer still fits."""
        start = statement.mark()

        def fits_without(spared: Unit | None, taken: Sequence[Unit]) -> bool:
            statement.rollback(start)
            for unit in taken:
                if unit is not spared:
                    self._evict(statement, claimer, unit)
            return self._fits(claimer, node)

        if not fits_without(None, units):
            return False
        needed = list(units)
        for unit in reversed(units):
            if not any(unit in other.after for other in needed) and fits_without(unit, needed):
                needed.remove(unit)
        return fits_without(None, needed)

    def _fits(self, claimer: Task, node: int) -> bool:
        return self._rules.allows(claimer) and self._session.placer.fits_later(claimer, node)

    def _evict(self, statement: Statement, claimer: Task, unit: Unit) -> None:
        claiming = claimer.job.key if claimer.job else ""
        statement.evict(unit, self._rules.action, claiming)


def _fits(shape: Shape, room: Matrix) -> Mask:
    fits: Mask = np.ones(room.shape[1], dtype=np.bool_)
    for place in shape.fit_places:
        fits &= room[place] > shape.request[place] - TOLERANCE
    return fits


def _slots(shape: Shape, room: Matrix) -> Matrix:
    """How many tasks of a shape each column has room for."""
    places = [place for place in shape.fit_places if shape.request[place] > 0]
    per_place = (room[places] + TOLERANCE) / shape.request[places][:, None]
    slots: Matrix = np.floor(np.maximum(per_place.min(axis=0), 0.0))
    return slots
