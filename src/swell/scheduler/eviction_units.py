"""Eviction units: what leaves together when a job has to make room.

Victims are chosen in units, not in pods, so that no gang is torn (ADR 11). A unit is

- one pod that its job can spare;
- the suffix of an elastic role, which is shrunk instead of having its pods deleted;
- all that is left of a job that would fall below its minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from swell.scheduler.model.elastic import ElasticRole
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Vector
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.model.tasks import EVICTABLE, Task, TaskStatus

# Tasks of a shrunk role that hold no room which the shrink would free.
_HOLDS_NO_ROOM = frozenset({TaskStatus.PENDING, TaskStatus.RELEASING, TaskStatus.FAILED})


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
    """The number of tasks that a job can lose, in total and of each role, and keep its minimum.

    Only confirmed tasks count as kept. The binding of another may fail, or be released with its
    gang; if it had been counted the victims before it would have torn the gang.
    """

    def __init__(self, job: JobInfo) -> None:
        self._job = job
        # Pods of a basic group have nothing to do with each other.
        is_basic = job.native is not None and job.native.is_basic
        self._total = job.counts.confirmed - (0 if is_basic else job.min_member)
        self._lost: dict[str, int] = {}
        self._lost_in_parts: dict[SubGroup, int] = {}

    def covers(self, tasks: Sequence[Task]) -> bool:
        if len(tasks) > self._total:
            return False
        lost = dict(self._lost)
        for task in tasks:
            lost[task.role] = lost.get(task.role, 0) + 1
        return all(
            self._job.role(role).confirmed - n >= self._job.role_minimums.get(role, 0)
            for role, n in lost.items()
        ) and (self._job.sub_groups is None or self._keeps_sub_groups(tasks))

    def _keeps_sub_groups(self, tasks: Sequence[Task]) -> bool:
        """Whether enough sub-groups of each policy stay complete without these tasks."""
        groups = self._job.sub_groups
        lost = self._with(tasks)
        return groups is None or all(
            sum(
                one.counts.confirmed - lost.get(one, 0) >= one.size
                for one in groups.of_policy(place)
            )
            >= (policy.min_sub_groups or 0)
            for place, policy in enumerate(groups.policies)
        )

    def _with(self, tasks: Sequence[Task]) -> dict[SubGroup, int]:
        lost = dict(self._lost_in_parts)
        for task in tasks:
            if task.sub_group is not None:
                lost[task.sub_group] = lost.get(task.sub_group, 0) + 1
        return lost

    def spend(self, tasks: Sequence[Task]) -> None:
        self._total -= len(tasks)
        self._lost_in_parts = self._with(tasks)
        for task in tasks:
            self._lost[task.role] = self._lost.get(task.role, 0) + 1


def surplus_units(candidates: Sequence[Task]) -> list[EvictionUnit]:
    """Returns the units that would evict these tasks and take no whole gang."""
    units = eviction_units(candidates)
    return [unit for unit in units if unit.cost is not EvictionCost.WHOLE]


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
    if job.native is not None and job.native.is_unit:
        unit = _whole(job, set(), ())
        return [] if unit is None else [(tasks[0], unit)]
    surplus = _Surplus(job)
    victims: list[tuple[Task, EvictionUnit]] = []
    gone: set[str] = set()
    # From the highest index down, so that each further shrink of a role takes a little more.
    for task in sorted((t for t in tasks if t.elastic), key=lambda t: (t.role, -t.index)):
        unit = _shrink(job, task, [unit for _, unit in victims], surplus)
        if unit is not None:
            victims.append((task, unit))
            gone.update(t.key for t in unit.tasks)
    for task in tasks:
        if task.key in gone:
            continue
        if surplus.covers((task,)):
            surplus.spend((task,))
            victims.append((task, EvictionUnit(job, (task,))))
            gone.add(task.key)
            continue
        whole = _whole(job, gone, tuple(unit for _, unit in victims))
        if whole is not None:
            victims.append((task, whole))
        break  # that unit holds all that is left
    return victims


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
