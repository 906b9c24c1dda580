"""The choice of victims: what preempt and reclaim evict to make room for one task.

`VictimSearch` tries nodes one by one. On each node it evicts as little as it can, in order, until
the preemptor fits with all predicates checked again; what it tried on a node is undone before the
next. Of the nodes that work, a few are compared by what their victims lose (`victim_prices`).
Nothing is decided here: the action commits the statement when the whole gang of the preemptor has
found room.

Victims are chosen in eviction units, not in pods, so that no gang is torn (ADR 11). They make room
on a node, and within the limits of the queues that they share with the preemptor (ADR 68).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swell.scheduler.eviction_units import EvictionUnit, can_shrink
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.nodes import fits, slots
from swell.scheduler.model.resources import TOLERANCE, Matrix, Vector
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.victim_prices import NODES_COMPARED, NodeFloors, VictimPrices

if TYPE_CHECKING:
    from swell.scheduler.session import Session, Statement


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
    eviction_units: Callable[[Sequence[Task]], list[EvictionUnit]]
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
    floors: NodeFloors  # the cheapest victim of each node


class VictimSearch:
    """Finds room by eviction, for one action in one session."""

    def __init__(self, session: Session, rules: VictimRules) -> None:
        self._session = session
        self._rules = rules
        self._nodes = session.snapshot.nodes
        self._pools: dict[Hashable, _VictimPool] = {}
        self.prices = VictimPrices(session)
        # Whether victims of other nodes could not free the quota that the preemptor lacks. They are
        # the same for all nodes, so this is found out once and not on every node.
        self._is_quota_stuck = False

    @property
    def action(self) -> str:
        return self._rules.action

    def has_candidates(self, preemptor: Task) -> bool:
        return bool(self._pool(preemptor).gain.any())

    def could_fit(self, preemptor: Task, n: int) -> bool:
        """Whether n tasks like this one would fit if every candidate left."""
        return bool(self.slots_at_most(preemptor).sum() >= n)

    def slots_at_most(self, preemptor: Task) -> Vector:
        """Returns how many tasks like this one each node would take if every candidate left.

        A cheap test before the search. It ignores votes, eviction units and predicates, so room
        may turn out not to be there; where there is none here, there is none.
        """
        room = self._nodes.future + self._pool(preemptor).gain
        allowed = self._session.placer.allowed_to(preemptor)
        return np.where(allowed, slots(preemptor.shape, room), 0.0)

    def make_room(self, statement: Statement, preemptor: Task) -> bool:
        """Pipelines the preemptor to a node, with the evictions that this needs.

        Returns False, with the statement unchanged, when there is no such node. Where jobs can
        shrink, a node on which shrinking is enough is preferred to all others.
        """
        nodes = self._nodes_in_order(statement, preemptor)
        for nondisruptive in (True, False) if self._pool(preemptor).is_elastic else (False,):
            self._is_quota_stuck = False
            node = self._cheapest(statement, preemptor, nodes, nondisruptive=nondisruptive)
            if node is not None:
                statement.pipeline(preemptor, node)
                return True
        return False

    def _cheapest(
        self, statement: Statement, preemptor: Task, nodes: Sequence[int], *, nondisruptive: bool
    ) -> int | None:
        """Evicts on the node whose victims cost least, of the first few that work; returns it.

        Returns None, with the statement unchanged, if no node works.
        """
        prices, start = self.prices, statement.mark()
        costs: dict[int, object] = {}
        last = -1  # the node that the statement has room on
        for node in nodes:
            statement.rollback(start)
            last = -1
            if not self._make_room_on(statement, preemptor, node, nondisruptive=nondisruptive):
                continue
            last = node
            units = statement.evicted(start)
            costs[node] = prices.cost(units)
            if not prices.is_on or not units or len(costs) >= NODES_COMPARED:
                break
        if not costs:
            statement.rollback(start)
            return None
        best = min(costs, key=costs.__getitem__)  # type: ignore[arg-type]
        if best != last:
            statement.rollback(start)
            # The same attempt on the same state has the same result.
            self._make_room_on(statement, preemptor, best, nondisruptive=nondisruptive)
        return best

    def _nodes_in_order(self, statement: Statement, preemptor: Task) -> list[int]:
        """Returns nodes that could have room: those that have it already first, then by score."""
        shape = preemptor.shape
        placer, future = self._session.placer, self._nodes.future
        pool = self._pool(preemptor)
        gain = pool.gain
        reachable = placer.allowed_to(preemptor) & fits(shape, future + gain)
        # Free room is given by allocate only. It is taken here when this statement has evicted
        # already: a whole gang that leaves also frees room on other nodes (ADR 11). It is also
        # taken when the quota is short, because then allocate could not give it (ADR 68).
        if not statement.has_evictions and self._rules.allows(preemptor):
            reachable &= gain.any(axis=0)
        found = np.flatnonzero(reachable)
        fits_already = fits(shape, future[:, found])
        scores = placer.ranking(preemptor)[found] if self._rules.by_score else np.zeros(len(found))
        # The last key of lexsort counts first: fits already, cheaper victims, higher score, lower
        # place.
        keys = (found, -scores, *pool.floors.keys(found), ~fits_already)
        return [int(node) for node in found[np.lexsort(keys)]]

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
            floors = self.prices.floors()
            pool = self._pools[key] = _VictimPool(jobs, gain, position, is_elastic, floors)
            for job in jobs.values():
                for task in job.tasks.values():
                    if task.status in rules.statuses and rules.may_evict(preemptor, task):
                        pool.gain[:, task.node] += task.request
                        floors.note(task.node, job)
        elif pool.position != position:
            for node in set(nodes.changed_since(pool.position).tolist()):
                pool.gain[:, node] = 0
                pool.floors.forget(node)
                for task in self._candidates(preemptor, pool, node):
                    pool.gain[:, node] += task.request
                    if task.job is not None:
                        pool.floors.note(node, task.job)
        pool.position = position
        return pool

    def _may_target(self, preemptor: Task, job: JobInfo) -> bool:
        """Whether no cooldown protects the job from this preemptor, and its limits are known.

        A victim may not evict its preemptor for a while, or the two would evict each other in turn.
        """
        if job.on_hold or (job.native is not None and job.native.object is None):
            return False
        cooldowns = self._session.snapshot.cooldowns
        return (
            not cooldowns or preemptor.job is None or (preemptor.job.key, job.key) not in cooldowns
        )

    def _candidates(self, preemptor: Task, pool: _VictimPool, node: int) -> list[Task]:
        """Returns the tasks on a node that may be victims, before the plugins vote.

        A job for which others were evicted in this session is no victim in it (ADR 11), except in
        swaps inside the job.
        """
        there = self._nodes.tasks[node].values()
        return [task for task in there if self._is_candidate(preemptor, pool, task)]

    def _is_candidate(self, preemptor: Task, pool: _VictimPool, task: Task) -> bool:
        rules = self._rules
        return (
            task.status in rules.statuses
            and task.job is not None
            and task.job.key in pool.jobs
            and (task.job is preemptor.job or task.job.key not in self._session.preemptors)
            and rules.may_evict(preemptor, task)
        )

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
        rules, start = self._rules, statement.mark()
        found = self._units(preemptor, candidates)
        victims = rules.vote(
            preemptor, [unit for unit in found if unit.is_nondisruptive or not nondisruptive]
        )
        if not victims and not statement.has_evictions and rules.allows(preemptor):
            return False  # free room alone is for allocate to give
        # The cheap test first: is the sum of everything that may leave this node enough?
        room = self._nodes.future[:, node].copy()
        for unit in victims:
            room += unit.request_on(node)
        if not fits(preemptor.shape, room[:, None])[0]:
            return False
        if rules.spares and self._evict_needed(statement, preemptor, node, victims):
            return True
        if rules.spares:
            statement.rollback(start)
            if rules.allows(preemptor):
                return False
        self._evict_in_order(statement, preemptor, node, victims)
        if not rules.allows(preemptor) and self._is_quota_stuck:
            return False
        if not self._session.placer.fits_later(preemptor, node):
            return False
        if self._free_quota(statement, preemptor, nondisruptive=nondisruptive):
            return True
        self._is_quota_stuck = True
        return False

    def _units(self, preemptor: Task, candidates: Sequence[Task]) -> list[EvictionUnit]:
        """Returns what may leave of these candidates, in the order in which it should."""
        ordered = self._session.votes.victims_in_order(preemptor, candidates)
        return self.prices.in_order(preemptor, self._rules.eviction_units(ordered))

    def _evict_in_order(
        self, statement: Statement, preemptor: Task, node: int, victims: Sequence[EvictionUnit]
    ) -> None:
        """Evicts units of one node until the preemptor fits there, or none is left."""
        kept: set[int] = set()
        # Checked before each eviction: none is made once the preemptor fits.
        for unit in victims:
            is_allowed = self._rules.allows(preemptor)
            if is_allowed and self._session.placer.fits_later(preemptor, node):
                return
            # Only quota is short: a victim that frees none of it would leave in vain.
            is_vain = (
                not is_allowed
                and not self._frees_quota(preemptor, unit.job, unit.request)
                and self._session.placer.fits_later(preemptor, node)
            )
            if is_vain or any(id(before) in kept for before in unit.after):
                kept.add(id(unit))
            else:
                self._evict(statement, preemptor, unit)

    def _free_quota(self, statement: Statement, preemptor: Task, *, nondisruptive: bool) -> bool:
        """Evicts on any nodes until the preemptor's queue has quota for it; whether it has.

        Needed where the queue or an ancestor is at its limit while nodes have room. Each round
        frees the lowest level that is full, by victims that are below it.
        """
        rules = self._rules
        while not rules.allows(preemptor):
            pool = self._pool(preemptor)
            candidates = [
                task
                for key, job in sorted(pool.jobs.items())
                if self._frees_quota(preemptor, job, job.allocated)
                for task in job.tasks.values()
                if self._is_candidate(preemptor, pool, task)
            ]
            found = self._units(preemptor, candidates)
            kept: set[int] = set()
            n_evicted = 0
            for unit in rules.vote(
                preemptor, [unit for unit in found if unit.is_nondisruptive or not nondisruptive]
            ):
                # Each is asked with those before it gone: the level that is full may be another
                # one by now, and the quota enough.
                is_vain = not self._frees_quota(preemptor, unit.job, unit.request)
                if is_vain or any(id(before) in kept for before in unit.after):
                    kept.add(id(unit))
                else:
                    self._evict(statement, preemptor, unit)
                    n_evicted += 1
            if not n_evicted:
                return False
        return True

    def _frees_quota(self, preemptor: Task, victim: JobInfo, amount: Vector) -> bool:
        own = preemptor.job.queue if preemptor.job else None
        if own is None or victim.queue is None:
            return False
        return self._session.votes.frees_quota(own, preemptor.shape, victim.queue, amount)

    def _evict_needed(
        self, statement: Statement, preemptor: Task, node: int, victims: Sequence[EvictionUnit]
    ) -> bool:
        """Evicts all units, then undoes the most important ones while the preemptor still fits."""
        start = statement.mark()

        def fits_without(spared: EvictionUnit | None, taken: Sequence[EvictionUnit]) -> bool:
            statement.rollback(start)
            for unit in taken:
                if unit is not spared:
                    self._evict(statement, preemptor, unit)
            return self._fits(preemptor, node)

        if not fits_without(None, victims):
            return False
        needed = list(victims)
        for unit in reversed(victims):
            # A unit that another one needs evicted before it cannot be spared alone.
            if not any(unit in other.after for other in needed) and fits_without(unit, needed):
                needed.remove(unit)
        return fits_without(None, needed)

    def _fits(self, preemptor: Task, node: int) -> bool:
        return self._rules.allows(preemptor) and self._session.placer.fits_later(preemptor, node)

    def _evict(self, statement: Statement, preemptor: Task, unit: EvictionUnit) -> None:
        group = preemptor.job.key if preemptor.job else ""
        statement.evict(unit, self._rules.action, group)


def is_allocatable(session: Session, task: Task) -> bool:
    """Whether the quota of the task's queue has room for it now."""
    queue = task.job.queue if task.job else None
    return queue is not None and session.votes.allowance(queue, task.shape, 1) >= 1
