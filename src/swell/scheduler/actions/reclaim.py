"""The action reclaim makes room between queues: one below what it deserves takes it back.

Priorities of jobs and pods play no role. The evictions are committed only when the missing minimum
of the gang has found nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from swell.scheduler.domain_claims import ALLOW_WHOLE, claim_domain
from swell.scheduler.eviction_units import eviction_units, surplus_units
from swell.scheduler.job_order import JobOrder
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.session import Session, Statement
from swell.scheduler.victims import VictimRules, VictimSearch, is_allocatable

ACTION = "reclaim"


def reclaim(session: Session) -> None:
    votes = session.votes
    starving = [job for job in session.jobs if _may_reclaim(session, job)]
    search = VictimSearch(session, _rules(session))
    order = JobOrder(votes, starving)
    failed: dict[Hashable, int] = {}
    for queue, job in order:
        # A queue that has what it deserves takes nothing back, and its jobs need not be tried.
        if votes.is_overused(queue):
            order.drop(queue)
        else:
            _reclaim_for(session, search, queue, job, failed)


def _may_reclaim(session: Session, job: JobInfo) -> bool:
    return (
        job.counts[TaskStatus.PENDING] > 0
        and not job.never_claims
        and session.takes_part(job)
        and session.votes.is_starving(job)
    )


def _reclaim_for(
    session: Session,
    search: VictimSearch,
    queue: QueueInfo,
    job: JobInfo,
    failed: dict[Hashable, int],
) -> None:
    """Evicts tasks of other queues for the missing minimum of the job, or none at all.

    `failed` has the same meaning as in preempt.
    """
    votes = session.votes
    statement = session.statement()
    if job.is_constrained and session.domains_for(job).is_limited(job):
        tasks = [
            task
            for task in votes.tasks_in_order(job.in_status(TaskStatus.PENDING))
            if _is_eligible(session, queue, task)
        ]
        has_room = claim_domain(session, statement, job, tasks, search)
    else:
        has_room = _reclaim_anywhere(session, statement, search, job, failed)
    if has_room and votes.is_pipelined(job):
        statement.commit()
        session.refuse(
            job, Refusal(WaitReason.WAITING_FOR_VICTIMS, "waits for reclaimed pods to leave")
        )
    else:
        statement.discard()


def _is_eligible(session: Session, queue: QueueInfo, task: Task) -> bool:
    return not (
        task.never_preempts or task.is_held_back or not session.votes.is_preemptive(queue, task)
    )


def _reclaim_anywhere(
    session: Session,
    statement: Statement,
    search: VictimSearch,
    job: JobInfo,
    failed: dict[Hashable, int],
) -> bool:
    """Evicts for the job's tasks one after the other; whether one of them found room."""
    votes, queue = session.votes, job.queue
    has_room = False
    if queue is None:
        return False
    for task in votes.tasks_in_order(job.in_status(TaskStatus.PENDING)):
        if not votes.is_starving(job):
            break
        first = (queue.name, task.shape.serial)
        if not has_room and failed.get(first) == len(session.evictions):
            continue
        if not _is_eligible(session, queue, task):
            continue
        if search.could_fit(task, 1) and search.make_room(statement, task):
            has_room = True
        elif not has_room:
            failed[first] = len(session.evictions)
    return has_room


def _rules(session: Session) -> VictimRules:
    votes = session.votes

    def targets(preemptor: Task) -> Iterable[JobInfo]:
        own = preemptor.job.queue if preemptor.job else None
        return (
            job
            for queue in session.snapshot.queues.values()
            if queue is not own and queue.reclaimable and votes.may_reclaim_from(queue)
            for job in queue.jobs.values()
        )

    takes_whole = session.config.arguments_of(ACTION).flag(ALLOW_WHOLE, default=True)
    return VictimRules(
        action=ACTION,
        targets=targets,
        targets_depend_on=lambda preemptor: (
            preemptor.job and preemptor.job.queue and preemptor.job.queue.name
        ),
        statuses=frozenset({TaskStatus.RUNNING}),  # Volcano reclaims no pod that is only bound
        may_evict=lambda _, task: task.preemptable,
        vote=votes.reclaimable,
        eviction_units=eviction_units if takes_whole else surplus_units,
        # Asked again after the evictions: victims below an ancestor of the preemptor's queue free
        # room within that ancestor's limit, other victims do not (ADR 68).
        allows=lambda preemptor: is_allocatable(session, preemptor),
        by_score=False,  # as in Volcano
    )
