"""reclaim: lets queues below what they deserve take it back from queues above it.

Priorities of jobs and pods play no role. Victims are decided for good only when the claiming gang's
missing minimum has found room.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from swell.scheduler.eviction import Claims, Rules
from swell.scheduler.eviction_units import units_of
from swell.scheduler.model.jobs import Job, QueueEntry
from swell.scheduler.model.reasons import Reason, Refusal
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.rounds import Rounds
from swell.scheduler.session import Session

ACTION = "reclaim"


def reclaim(session: Session) -> None:
    votes = session.votes
    starving = [job for job in session.jobs if _may_claim(session, job)]
    claims = Claims(session, _rules(session))
    rounds = Rounds(votes, starving)
    hopeless: dict[Hashable, int] = {}
    for queue, job in rounds:
        if votes.is_overused(queue):
            rounds.drop(queue)
        else:
            _reclaim_for(session, claims, queue, job, hopeless)


def _may_claim(session: Session, job: Job) -> bool:
    return (
        job.counts[TaskStatus.PENDING] > 0
        and session.takes_part(job)
        and session.votes.is_starving(job)
    )


def _reclaim_for(
    session: Session,
    claims: Claims,
    queue: QueueEntry,
    job: Job,
    hopeless: dict[Hashable, int],
) -> None:
    """`hopeless` remembers first claims that failed and after how many decisions."""
    votes = session.votes
    statement = session.statement()
    claimed = False
    for task in votes.tasks_in_order(job.in_status(TaskStatus.PENDING)):
        if not votes.is_starving(job):
            break
        if task.never_preempts or task.is_gated or not votes.is_preemptive(queue, task):
            continue
        first = (queue.name, task.shape.serial)
        if not claimed and hopeless.get(first) == len(session.evictions):
            continue
        if claims.could_fit(task, 1) and claims.claim(statement, task):
            claimed = True
        elif not claimed:
            hopeless[first] = len(session.evictions)
    if claimed and votes.is_pipelined(job):
        statement.commit()
        session.refuse(
            job, Refusal(Reason.WAITING_FOR_VICTIMS, "waits for reclaimed pods to leave")
        )
    else:
        statement.discard()


def _rules(session: Session) -> Rules:
    votes = session.votes

    def targets(claimer: Task) -> Iterable[Job]:
        own = claimer.job.queue if claimer.job else None
        return (
            job
            for queue in session.snapshot.queues.values()
            if queue is not own and queue.reclaimable
            for job in queue.jobs.values()
            if votes.may_reclaim(claimer, job)
        )

    return Rules(
        action=ACTION,
        targets=targets,
        targets_depend_on=lambda claimer: (
            claimer.job and claimer.job.queue and claimer.job.queue.name
        ),
        statuses=frozenset({TaskStatus.RUNNING}),
        may_take=lambda _, task: task.preemptable,
        vote=votes.reclaimable,
        units=units_of,
        allows=lambda _: True,  # the queue's own quota was asked before
        by_score=False,
    )
