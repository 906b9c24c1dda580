"""The action backfill gives nodes to best-effort tasks, which ask for nothing but a pod slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swell.scheduler.domain_fit import scopes_of
from swell.scheduler.job_order import JobOrder
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Mask
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.session import Session, Statement, TakenBack


def backfill(session: Session) -> None:
    jobs = [
        job
        for job in session.jobs
        # First what costs less: most jobs have none.
        if _best_effort_tasks(job) and session.takes_part(job)
    ]
    for _, job in JobOrder(session.votes, jobs):
        _fill(session, job)


def _best_effort_tasks(job: JobInfo) -> list[Task]:
    counts = job.counts
    if not counts.best_effort and not counts.waiting:
        return []  # the usual case, in which no look at every pod is needed
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
    if not _place_all(session, statement, job):
        statement.discard()
        return
    statement.commit()
    # The tasks that allocate held for this job can be bound now that it is ready.
    held = session.release_hold(job)
    if held is not None:
        held.commit()


def _place_all(session: Session, statement: Statement, job: JobInfo) -> bool:
    """Places the tasks; whether some found a node and the job is ready with them."""
    tasks = session.votes.tasks_in_order(iter(_best_effort_tasks(job)))
    if not job.is_constrained:
        return _place(session, statement, tasks) > 0 and session.votes.is_ready(job)
    # Pending best-effort tasks count as ready, so some of them may start without the others. Of
    # the domains that the job may use, the closest that takes most of them is best.
    best: tuple[int, Sequence[TakenBack]] = (0, ())
    for scopes in scopes_of(session, job):
        mark = statement.mark()
        n = _place(session, statement, tasks, scopes)
        is_ready = n > 0 and session.votes.is_ready(job)
        placed = statement.take_back(mark)
        if is_ready and n > best[0]:
            best = (n, placed)
        if best[0] == len(tasks):
            break
    statement.redo(best[1])
    return best[0] > 0


def _place(
    session: Session,
    statement: Statement,
    tasks: Sequence[Task],
    scopes: Callable[[Task], Mask | None] = lambda _: None,
) -> int:
    """Places each task that finds a node; returns how many did."""
    n_placed = 0
    for task in tasks:
        mark = statement.mark()
        if task.status is TaskStatus.PIPELINED:
            statement.unpipeline(task)
        with session.placer.within(scopes(task)):
            choice = session.placer.node_for(task)
        # Only nodes where it can start now: a best-effort task has no room to wait for.
        if choice is None or not choice.now:
            statement.rollback(mark)
            continue
        statement.allocate(task, choice.node)
        n_placed += 1
    return n_placed
