"""The action backfill gives nodes to best-effort tasks, which ask for nothing but a pod slot."""

from __future__ import annotations

from swell.scheduler.job_order import JobOrder
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.session import Session


def backfill(session: Session) -> None:
    jobs = [job for job in session.jobs if session.takes_part(job) and _best_effort_tasks(job)]
    for _, job in JobOrder(session.votes, jobs):
        _fill(session, job)


def _best_effort_tasks(job: JobInfo) -> list[Task]:
    return [
        task
        for task in job.tasks.values()
        if task.shape.best_effort
        and not task.is_held_back
        and task.status in {TaskStatus.PENDING, TaskStatus.PIPELINED}
    ]


def _fill(session: Session, job: JobInfo) -> None:
    """Places the job's best-effort tasks, and binds them if the job is ready with them."""
    statement = session.statement()
    found = False
    for task in session.votes.tasks_in_order(iter(_best_effort_tasks(job))):
        mark = statement.mark()
        if task.status is TaskStatus.PIPELINED:
            statement.unpipeline(task)
        choice = session.placer.node_for(task)
        # Only nodes where it can start now: a best-effort task has no room to wait for.
        if choice is None or not choice.now:
            statement.rollback(mark)
            continue
        statement.allocate(task, choice.node)
        found = True
    if not found or not session.votes.is_ready(job):
        statement.discard()
        return
    statement.commit()
    # The tasks that allocate held for this job can be bound now that it is ready.
    held = session.release_hold(job)
    if held is not None:
        held.commit()
