"""backfill: gives best-effort tasks, which ask for nothing but a pod slot, any suitable node."""

from __future__ import annotations

from swell.scheduler.model.jobs import Job
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.rounds import Rounds
from swell.scheduler.session import Session


def backfill(session: Session) -> None:
    jobs = [job for job in session.jobs if session.takes_part(job) and _tasks(job)]
    for _, job in Rounds(session.votes, jobs):
        _fill(session, job)


def order(session: Session) -> list[Task]:
    """The tasks in the order in which they are considered."""
    jobs = [job for job in session.jobs if session.takes_part(job) and _tasks(job)]
    return [
        task
        for _, job in Rounds(session.votes, jobs)
        for task in session.votes.tasks_in_order(iter(_tasks(job)))
    ]


def _tasks(job: Job) -> list[Task]:
    return [
        task
        for task in job.tasks.values()
        if task.shape.best_effort
        and not task.is_gated
        and task.status in {TaskStatus.PENDING, TaskStatus.PIPELINED}
    ]


def _fill(session: Session, job: Job) -> None:
    """Binds what finds a node, with everything the job held, once that makes it ready."""
    statement = session.statement()
    found = False
    for task in session.votes.tasks_in_order(iter(_tasks(job))):
        mark = statement.mark()
        if task.status is TaskStatus.PIPELINED:
            statement.release_promise(task)
        place = session.placer.place(task)
        if place is None or not place.now:
            statement.rollback(mark)
            continue
        statement.allocate(task, place.node)
        found = True
    if not found or not session.votes.is_ready(job):
        statement.discard()
        return
    statement.commit()
    held = session.release_hold(job)
    if held is not None:
        held.commit()
