"""Gangs that wait, placed in the mirror one after the other, while roles are shrunk for them.

Everything is done in one session of the scheduler, by its own rules, and undone at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from swell.autoscaler.job_state import RoleState
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.trial import Trial
from swell.scheduler.gang_fit import place_gang
from swell.scheduler.job_order import JobOrder
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.session import Statement


@dataclass(frozen=True, slots=True)
class ShrinkableRole:
    """A role that may give up replicas: sizes, and its pods by index."""

    id: RoleId
    minimum: int
    maximum: int
    size: int
    pods: Mapping[int, str]  # names with namespace, as the snapshot has them


Sizes = Mapping[RoleId, tuple[ShrinkableRole, int]]


def shrinkable(state: RoleState, id_: RoleId, size: int | None = None) -> ShrinkableRole:
    view = state.view
    pods = {
        pod.claim.index: str(pod.key)
        for pod in reversed(state.pods)
        if pod.claim is not None and pod.claim.index is not None
    }
    return ShrinkableRole(
        id_, view.minimum, view.maximum, view.target if size is None else size, pods
    )


class GangWalk:
    """One session in which gangs are placed and roles shrunk, with everything undone at the end."""

    def __init__(
        self, trial: Trial, jobs: Container[str], begin: Sizes, ignored: Container[str] = ()
    ) -> None:
        self.trial = trial
        self.unplaced: list[JobInfo] = []
        self._jobs = jobs
        self._ignored = ignored
        # Steps to undo, in order: statements of placed gangs and marks of shrinks.
        self._steps: list[Statement | int] = []
        self._sizes: dict[RoleId, int] = {}
        # The shares of queues are those of a session: it is opened when the first shrinks are done.
        self.shrink(begin)
        self.session = trial.session()

    def in_order(self) -> Iterator[JobInfo]:
        """Yields the gangs that wait for their minimum, in the order the scheduler serves them."""
        votes = self.session.votes
        waiting = (
            job
            for job in self.session.jobs
            if job.key not in self._ignored
            if job.key in self._jobs or (job.counts.asking and votes.shortfall(job) > 0)
        )
        yield from (job for _, job in JobOrder(votes, waiting))

    def place(self, job: JobInfo) -> bool:
        """Place a gang's minimum, now or once all that leaves has left; undo it if that fails."""
        session = self.session
        if job.queue is None or session.votes.is_overused(job.queue):
            return False
        statement = session.statement()
        tasks = deque(session.votes.tasks_in_order(filter(is_placeable, job.tasks.values())))
        is_placed = place_gang(session, statement, job, tasks)
        votes = session.votes
        if votes.is_ready(job) or (is_placed and votes.is_pipelined(job)):
            self._steps.append(statement)
            return True
        statement.discard()
        return False

    def place_others(self) -> None:
        """Place the gangs that found no room before: what was freed may go to them first."""
        self.unplaced = [job for job in self.unplaced if not self.place(job)]

    def shrink(self, sizes: Sizes) -> None:
        """Release the pods at and above these sizes."""
        self._steps.append(self.trial.mark())
        for id_, (role, size) in sizes.items():
            for index in range(size, self._sizes.get(id_, role.size)):
                task = self.trial.snapshot.task(role.pods.get(index, ""))
                if task is not None:
                    self.trial.release(task)
            self._sizes[id_] = size

    def mark(self) -> tuple[int, dict[RoleId, int], list[JobInfo]]:
        return len(self._steps), dict(self._sizes), list(self.unplaced)

    def rollback(self, mark: tuple[int, dict[RoleId, int], list[JobInfo]]) -> None:
        n_steps, self._sizes, self.unplaced = mark[0], dict(mark[1]), list(mark[2])
        while len(self._steps) > n_steps:
            step = self._steps.pop()
            if isinstance(step, int):
                self.trial.undo(step)
            else:
                step.discard()

    def close(self) -> None:
        self.rollback((0, {}, []))

    def places(self) -> list[tuple[str, Task]]:
        """Returns the places of the gangs, by the names of nodes."""
        names = self.trial.snapshot.nodes.names
        return [
            (names[task.node], task)
            for info in self.session.jobs
            for task in info.tasks.values()
            if task.status in {TaskStatus.ALLOCATED, TaskStatus.PIPELINED}
        ]


def is_placeable(task: Task) -> bool:
    return task.status is TaskStatus.PENDING and not (task.shape.best_effort or task.is_gated)
