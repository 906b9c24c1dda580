"""What leaves together: one surplus pod, a suffix of an elastic role, or a whole gang.

Decides how pods that are in the way may be taken without tearing their job: above its minimum one
by one, below it all or none. Shrinking an elastic role comes before deleting its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from swell.scheduler.model.elastic import ElasticRole
from swell.scheduler.model.jobs import Job
from swell.scheduler.model.resources import Vector
from swell.scheduler.model.tasks import EVICTABLE, Task, TaskStatus

_NOTHING_TO_TAKE = frozenset({TaskStatus.PENDING, TaskStatus.RELEASING, TaskStatus.FAILED})


class Cost(IntEnum):
    """How much a unit takes from its job; the cheaper goes first."""

    SURPLUS = 0
    WHOLE = 1


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Tasks of one job that are evicted in one go, and what must have gone before."""

    job: Job
    tasks: tuple[Task, ...]
    cost: Cost = Cost.SURPLUS
    after: tuple[Unit, ...] = ()
    role: ElasticRole | None = None  # shrunk instead of evicted, to `target`
    target: int = 0

    @property
    def is_gentle(self) -> bool:
        """Whether its job goes on without it: no gang is gone, no pod has to be started again."""
        is_missed = self.role is None and any(map(can_shrink, self.tasks))
        return self.cost is Cost.SURPLUS and not is_missed

    @property
    def request(self) -> Vector:
        return _sum(self.tasks, self.job.allocated)

    def request_on(self, node: int) -> Vector:
        there = [task for task in self.tasks if task.node == node]
        return _sum(there, self.job.allocated)


def can_shrink(task: Task) -> bool:
    """Whether the task is of a role that can be made smaller."""
    return task.elastic is not None and task.elastic.may_shrink


def _sum(tasks: Sequence[Task], like: Vector) -> Vector:
    return sum((task.request for task in tasks), np.zeros_like(like))


class _Spare:
    """How many tasks a job can lose, in total and of each role, and stay whole."""

    def __init__(self, job: Job) -> None:
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


def singles(tasks: Iterable[Task]) -> list[Unit]:
    """Every task by itself: for swaps inside one job, which take nothing from it."""
    return [Unit(task.job, (task,)) for task in tasks if task.job is not None]


def units_of(candidates: Sequence[Task]) -> list[Unit]:
    """The units that would take these tasks away, cheapest first, otherwise in the order given."""
    by_job: dict[str, list[Task]] = {}
    for task in candidates:
        if task.job is not None:
            by_job.setdefault(task.job.key, []).append(task)
    place = {task.key: n for n, task in enumerate(candidates)}
    ranked = [
        (unit.cost, place[trigger.key], unit)
        for tasks in by_job.values()
        for trigger, unit in _units_of_job(tasks)
    ]
    ranked.sort(key=lambda row: row[:2])
    return [unit for _, _, unit in ranked]


def _units_of_job(tasks: Sequence[Task]) -> list[tuple[Task, Unit]]:
    """Units of one job, each with the candidate that asked for it."""
    job = tasks[0].job
    assert job is not None  # noqa: S101 - the caller grouped by job
    spare = _Spare(job)
    units: list[tuple[Task, Unit]] = []
    gone: set[str] = set()
    for task in sorted((t for t in tasks if t.elastic), key=lambda t: (t.role, -t.index)):
        unit = _shrink(job, task, [unit for _, unit in units], spare)
        if unit is not None:
            units.append((task, unit))
            gone.update(t.key for t in unit.tasks)
    for task in tasks:
        if task.key in gone:
            continue
        if spare.covers((task,)):
            spare.spend((task,))
            units.append((task, Unit(job, (task,))))
            gone.add(task.key)
            continue
        whole = _whole(job, gone, tuple(unit for _, unit in units))
        if whole is not None:
            units.append((task, whole))
        break
    return units


def _shrink(job: Job, task: Task, before: Sequence[Unit], spare: _Spare) -> Unit | None:
    """Takes the task away by shrinking its role to the task's index, if that takes surplus only."""
    role = task.elastic
    if role is None or task.index < role.minimum or not role.is_shrinkable:
        return None
    earlier = tuple(unit for unit in before if unit.role is role)
    already = {t.key for unit in earlier for t in unit.tasks}
    suffix = [t for t in role.from_index(task.index) if t.key not in already]
    staying = [t for t in suffix if t.status not in _NOTHING_TO_TAKE]
    if not all(t.status in EVICTABLE and t.preemptable and t.job is job for t in staying):
        return None
    if not spare.covers(staying):
        return None
    spare.spend(staying)
    staying.sort(key=lambda t: -t.index)
    return Unit(job, tuple(staying), after=earlier, role=role, target=task.index)


def _whole(job: Job, gone: set[str], before: tuple[Unit, ...]) -> Unit | None:
    """All that is left of the job, if all of it may go and nothing of it is just being bound."""
    if job.counts[TaskStatus.BINDING] or job.counts[TaskStatus.ALLOCATED]:
        return None
    rest = sorted((t for t in job.evictable() if t.key not in gone), key=lambda t: t.key)
    if not all(task.preemptable for task in rest):
        return None
    return Unit(job, tuple(rest), Cost.WHOLE, after=before)
