"""The action allocate gives pending gangs nodes, whole or not at all, queue by queue in turns.

A job gets its missing minimum in one pass and one task more in each later pass, so surplus is
given out in turns, too. What fits only after other pods have left is held, not bound.
"""

from __future__ import annotations

from collections import deque

from swell.scheduler.domain_fit import place_in_domains
from swell.scheduler.gang_fit import place_gang
from swell.scheduler.job_order import JobOrder
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.reasons import LIMIT_REASONS, Refusal, WaitReason
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.session import Session, Statement


def allocate(session: Session) -> None:
    votes = session.votes
    jobs = _candidates(session)
    orders: dict[str, deque[Task]] = {}
    # Jobs with pipelined tasks come first, in no turn of their queue: an earlier session has
    # already decided for them, and evicted others.
    pipelined = [job for job in jobs if job.key in session.pipelined_before]
    for job in sorted(pipelined, key=votes.job_key):
        _serve(session, job, orders)
    order = JobOrder(votes, (job for job in jobs if job.counts.asking))
    for queue, job in order:
        if votes.is_overused(queue):
            for left in (job, *order.drop(queue)):
                _refuse_overused(session, queue, left)
        elif _serve(session, job, orders):
            order.add(job)


def _serve(session: Session, job: JobInfo, orders: dict[str, deque[Task]]) -> bool:
    """Serves one job once; returns whether it got something and has more tasks to place."""
    votes = session.votes
    statement = session.statement()
    _unpipeline(session, statement, job)
    if job.key not in orders:
        # As `_is_placeable`, written out: it is asked about every pod.
        placeable = [
            task
            for task in job.tasks.values()
            if task.status is TaskStatus.PENDING
            and not (task.shape.best_effort or task.is_gated or task.unreadable)
        ]
        orders[job.key] = deque(votes.tasks_in_order(placeable))
    place = place_in_domains if job.is_constrained else place_gang
    placed = place(session, statement, job, orders[job.key])
    if placed and votes.is_ready(job):
        # It may be ready only with tasks that an earlier turn of this session holds for it: to
        # bind these alone would tear the gang.
        held = session.release_hold(job)
        if held is not None:
            held.commit()
        statement.commit()
        return job.counts.asking > 0
    if placed and votes.is_pipelined(job):
        session.hold(job, statement)
        session.refuse(job, Refusal(WaitReason.WAITING_FOR_VICTIMS, "waits for pods to leave"))
    else:
        statement.discard()
    return False


def _candidates(session: Session) -> list[JobInfo]:
    found: list[JobInfo] = []
    for job in session.jobs:
        if not job.is_admitted and session.admits_on_allocate:
            session.admit(job)
        if session.takes_part(job) and (job.counts.asking or job.key in session.pipelined_before):
            found.append(job)
    return found


def _is_placeable(task: Task) -> bool:
    return task.status is TaskStatus.PENDING and not (task.shape.best_effort or task.is_held_back)


def _unpipeline(session: Session, statement: Statement, job: JobInfo) -> None:
    """Makes tasks that an earlier session pipelined pending again, to see if they can start now."""
    for task in session.pipelined_before.pop(job.key, ()):
        if task.status is TaskStatus.PIPELINED and not task.shape.best_effort:
            # The nomination makes the placer prefer the node the task had.
            task.nominated = session.snapshot.nodes.names[task.node]
            statement.unpipeline(task)


def _refuse_overused(session: Session, queue: QueueInfo, job: JobInfo) -> None:
    """Records why a job of an overused queue waits, with the limits it would exceed."""
    text = f"queue {queue.name} has all it deserves"
    first = next(filter(_is_placeable, job.tasks.values()), None)
    if first is None:
        session.refuse(job, Refusal(WaitReason.QUEUE_OVERUSED, text))
        return
    n = max(session.votes.shortfall(job, first.role), 1)
    quota = session.votes.quota_refusal(queue, first.shape, min(n, len(job.tasks)))
    session.stuck[job.key] = first
    if quota is not None and quota.reason not in LIMIT_REASONS:
        # The queue is closed or its tree is broken: that is the reason, not its share.
        session.refuse(job, quota)
        return
    limits = quota.limits if quota else ()
    text = ": ".join(filter(None, (text, "; ".join(map(str, limits)))))
    session.refuse(job, Refusal(WaitReason.QUEUE_OVERUSED, text, limits))
