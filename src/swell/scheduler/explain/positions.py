"""The positions of all groups that wait in their queues, for lists of jobs.

They are those that the explanation of each group gives: the order is the scheduler's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from swell.scheduler.config import DEFAULT, Config
from swell.scheduler.cycle import run_session
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.tasks import TaskStatus
from swell.scheduler.plan import SchedulerObjects
from swell.scheduler.session import Session


class QueuePosition(NamedTuple):
    """A group's position, from 1, among the groups that wait in its queue."""

    queue: str
    position: int
    n_waiting: int

    @property
    def cell(self) -> str:
        return f"{self.position}/{self.n_waiting}"

    @property
    def sentence(self) -> str:
        return f"position {self.position} of {self.n_waiting} in queue {self.queue}"


def queue_positions(
    objects: SchedulerObjects,
    config: Config = DEFAULT,
    scheduler_names: Collection[str] = (),
    now: float | None = None,
) -> dict[str, QueuePosition]:
    """Returns the positions of the groups that wait after a session, by `namespace/name`."""
    snapshot = objects.snapshot(scheduler_names)
    session = run_session(snapshot, config, now)
    return {
        name: found
        for queue in snapshot.queues.values()
        for name, found in positions_in(session, queue).items()
    }


def positions_in(session: Session, queue: QueueInfo) -> Mapping[str, QueuePosition]:
    """Returns the positions of the groups of one queue, the first to be served first."""
    waiting = sorted(
        (session.votes.job_key(job), job.key)
        for job in queue.jobs.values()
        if job.counts[TaskStatus.PENDING]
    )
    return {
        name: QueuePosition(queue.name, at, len(waiting))
        for at, (_, name) in enumerate(waiting, start=1)
    }
