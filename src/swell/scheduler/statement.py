"""A transaction: steps that take effect in the session at once, and can all be taken back.

Commit turns picked nodes into bindings and evictions into decisions; discard leaves no trace.
`mark` and `rollback` undo a part, for tries inside a try.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from swell.scheduler.eviction_units import Cost, Unit
from swell.scheduler.model.elastic import ElasticRole
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus
from swell.scheduler.placement import Place

if TYPE_CHECKING:
    from swell.scheduler.session import Session


class _Moved(NamedTuple):
    task: Task
    status: TaskStatus
    node: int


@dataclass(frozen=True, slots=True)
class _Evicted:
    unit: Unit
    action: str
    claimer: str


@dataclass(frozen=True, slots=True)
class _Shrunk:
    role: ElasticRole
    target: int


class Statement:
    """Steps for one job, in order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._steps: list[_Moved | _Evicted | _Shrunk] = []
        self._n_evicted = 0

    @property
    def has_evictions(self) -> bool:
        return self._n_evicted > 0

    def allocate(self, task: Task, node: int) -> None:
        self._move(task, TaskStatus.ALLOCATED, node)

    def pipeline(self, task: Task, node: int) -> None:
        self._move(task, TaskStatus.PIPELINED, node)

    def place_alike(self, tasks: Sequence[Task], places: Sequence[Place]) -> None:
        """The same for pending tasks of one shape, role and job; all start now or all later."""
        status = TaskStatus.ALLOCATED if places[0].now else TaskStatus.PIPELINED
        self._steps.extend(_Moved(task, task.status, task.node) for task in tasks)
        self._session.snapshot.move_alike(tasks, status, [place.node for place in places])

    def release_promise(self, task: Task) -> None:
        """Takes a promised place back, so that the task can be placed anew."""
        self._move(task, TaskStatus.PENDING, NOWHERE)

    def evict(self, unit: Unit, action: str, claimer: str) -> None:
        self._steps.append(_Evicted(unit, action, claimer))
        self._n_evicted += 1
        if unit.role is not None:
            for task in list(unit.role.from_index(unit.target)):
                if task.status is TaskStatus.PENDING:  # never comes, once the role is smaller
                    self._move(task, TaskStatus.RELEASING, NOWHERE)
            self._steps.append(_Shrunk(unit.role, unit.role.target))
            unit.role.target = unit.target
        elif unit.cost is Cost.WHOLE:
            for task in list(unit.job.in_status(TaskStatus.PIPELINED)):
                self.release_promise(task)
        for task in unit.tasks:
            self._move(task, TaskStatus.RELEASING, task.node)

    def take_over(self, other: Statement) -> None:
        """Adds the steps of a later statement, which is at its end."""
        self._steps += other._steps
        self._n_evicted += other._n_evicted
        other._steps, other._n_evicted = [], 0

    def mark(self) -> int:
        return len(self._steps)

    def rollback(self, mark: int = 0) -> None:
        """Undoes every step since the mark, last first."""
        while len(self._steps) > mark:
            match self._steps.pop():
                case _Moved(task, status, node):
                    self._session.snapshot.move(task, status, node)
                case _Shrunk(role, target):
                    role.target = target
                case _Evicted():
                    self._n_evicted -= 1

    def discard(self) -> None:
        self.rollback()

    def commit(self) -> None:
        """Makes it decided. What is pipelined stays a promise."""
        # Once each: a task whose promise is kept was taken back and placed again.
        moved = dict.fromkeys(step.task for step in self._steps if isinstance(step, _Moved))
        self._session.bind([task for task in moved if task.status is TaskStatus.ALLOCATED])
        if self._n_evicted:
            for step in self._steps:
                if isinstance(step, _Evicted):
                    self._session.evict(step.unit, step.action, step.claimer)
        self._steps.clear()
        self._n_evicted = 0

    def hold(self) -> None:
        """Ends the statement without deciding anything: the room stays taken for this session."""
        for step in self._steps:
            if isinstance(step, _Moved) and step.task.status is TaskStatus.ALLOCATED:
                self._session.snapshot.move(step.task, TaskStatus.PIPELINED, step.task.node)

    def _move(self, task: Task, status: TaskStatus, node: int) -> None:
        self._steps.append(_Moved(task, task.status, task.node))
        self._session.snapshot.move(task, status, node)
