"""shuffle: evicts running tasks that plugins want moved. No plugin of ours does; it is a hook."""

from __future__ import annotations

from swell.scheduler.eviction_units import singles
from swell.scheduler.model.tasks import TaskStatus
from swell.scheduler.session import Session

ACTION = "shuffle"


def shuffle(session: Session) -> None:
    running = [
        task
        for key in sorted(session.snapshot.jobs)
        for task in session.snapshot.jobs[key].in_status(TaskStatus.RUNNING)
    ]
    for unit in singles(session.votes.shuffle_victims(running)):
        statement = session.statement()
        statement.evict(unit, ACTION, claimer="")
        statement.commit()
