"""The action shuffle evicts running tasks that plugins want moved. No plugin of ours does."""

from __future__ import annotations

from swell.scheduler.eviction_units import single_task_units
from swell.scheduler.model.tasks import TaskStatus
from swell.scheduler.session import Session

ACTION = "shuffle"


def shuffle(session: Session) -> None:
    running = [
        task
        for key in sorted(session.snapshot.jobs)
        for task in session.snapshot.jobs[key].in_status(TaskStatus.RUNNING)
    ]
    for unit in single_task_units(session.votes.shuffle_victims(running)):
        statement = session.statement()
        statement.evict(unit, ACTION, preemptor="")
        statement.commit()
