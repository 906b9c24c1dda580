"""preempt: within a queue, lets important jobs take the room of less important ones.

A gang that starves claims nodes for its missing minimum; victims are decided for good only when
all of it has found room. Then tasks may replace less important ones of their own job.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from swell.scheduler.eviction import Claims, Rules
from swell.scheduler.eviction_units import singles, units_of
from swell.scheduler.model.jobs import Job
from swell.scheduler.model.reasons import Reason, Refusal
from swell.scheduler.model.tasks import EVICTABLE, Task, TaskStatus
from swell.scheduler.session import Session

ACTION = "preempt"


def preempt(session: Session) -> None:
    votes = session.votes
    starving = [job for job in session.jobs if _may_claim(session, job)]
    by_queue: dict[str, list[Job]] = {}
    for job in sorted(starving, key=votes.job_key):
        if job.queue is not None:
            by_queue.setdefault(job.queue.name, []).append(job)
    queues = sorted((session.snapshot.queues[name] for name in by_queue), key=votes.queue_key)
    between = Claims(session, _rules_between_jobs(session))
    hopeless: dict[Hashable, int] = {}
    for queue in queues:
        for job in by_queue[queue.name]:
            _preempt_others(session, between, job, hopeless)
    within = Claims(session, _rules_within_job(session))
    for queue in queues:
        for job in by_queue[queue.name]:
            _preempt_own(session, within, job)


def _may_claim(session: Session, job: Job) -> bool:
    return (
        job.counts[TaskStatus.PENDING] > 0
        and job.group.spec.network_topology is None
        and session.takes_part(job)
        and session.votes.is_starving(job)
    )


def _preempt_others(
    session: Session, claims: Claims, job: Job, hopeless: dict[Hashable, int]
) -> None:
    """`hopeless` remembers first claims that failed and after how many decisions."""
    votes = session.votes
    tasks = _claimers(session, job)
    if not tasks:
        return
    if not claims.has_targets(tasks[0]):
        session.note(job, "its queue has no less important pods to preempt")
        return
    if not _is_promising(session, claims, job, tasks):
        session.note(job, "preempting all less important pods of its queue would not make room")
        return
    first = (tasks[0].shape.serial, job.queue and job.queue.name, job.priority)
    if hopeless.get(first) == len(session.evictions) and not job.allocated.any():
        return
    statement = session.statement()
    claimed = False
    for task in tasks:
        if not votes.is_starving(job):
            break
        if claims.claim(statement, task):
            claimed = True
        elif not claimed:
            hopeless[first] = len(session.evictions)
    if claimed and votes.is_pipelined(job):
        statement.commit()
        session.refuse(
            job, Refusal(Reason.WAITING_FOR_VICTIMS, "waits for preempted pods to leave")
        )
    else:
        statement.discard()
        session.note(job, "no pods may be preempted that would make room for the whole gang")


def _claimers(session: Session, job: Job) -> list[Task]:
    """Pending tasks that may preempt, in order."""
    pending = (task for task in job.in_status(TaskStatus.PENDING) if _is_eligible(session, task))
    return session.votes.tasks_in_order(pending)


def _is_eligible(session: Session, task: Task) -> bool:
    """Not a task that must never preempt, nor one whose victims are already leaving."""
    if task.never_preempts or task.is_gated:
        return False
    node = session.snapshot.nodes.find(task.nominated) if task.nominated else -1
    return node < 0 or not any(
        other.status is TaskStatus.RELEASING and other.priority < task.priority
        for other in session.snapshot.nodes.tasks[node].values()
    )


def _is_promising(session: Session, claims: Claims, job: Job, tasks: Sequence[Task]) -> bool:
    """Whether the missing minimum could fit at all if every possible victim left."""
    alike = sum(task.shape is tasks[0].shape for task in tasks)
    missing = job.min_member - job.counts.ready - job.counts.waiting
    n = 1 if session.votes.is_pipelined(job) or alike < len(tasks) else max(missing, 1)
    return claims.could_fit(tasks[0], n)


def _preempt_own(session: Session, claims: Claims, job: Job) -> None:
    if not (job.counts[TaskStatus.BOUND] or job.counts[TaskStatus.RUNNING]):
        return
    for task in _claimers(session, job):
        if not session.votes.is_starving(job):
            return
        statement = session.statement()
        if not claims.claim(statement, task) or not session.votes.is_pipelined(job):
            statement.discard()
            return
        statement.commit()


def _rules_between_jobs(session: Session) -> Rules:
    votes = session.votes

    def targets(claimer: Task) -> Iterable[Job]:
        job = claimer.job
        if job is None or job.queue is None:
            return ()
        return (other for other in job.queue.jobs.values() if votes.may_preempt(claimer, other))

    def depend_on(claimer: Task) -> Hashable:
        job = claimer.job
        return job and (job.queue and job.queue.name, job.priority)

    def may_take(claimer: Task, task: Task) -> bool:
        return (
            task.preemptable
            and task.job is not claimer.job
            and (task.shape.best_effort or not claimer.shape.best_effort)
        )

    return Rules(
        action=ACTION,
        targets=targets,
        targets_depend_on=depend_on,
        statuses=EVICTABLE,
        may_take=may_take,
        vote=votes.preemptable,
        units=units_of,
        allows=lambda claimer: _is_allocatable(session, claimer),
        spares=session.config.arguments_of(ACTION).flag(
            "enableTopologyAwarePreemption", default=False
        ),
    )


def _rules_within_job(session: Session) -> Rules:
    return Rules(
        action=ACTION,
        targets=lambda claimer: (claimer.job,) if claimer.job else (),
        targets_depend_on=lambda claimer: claimer.job and claimer.job.key,
        statuses=EVICTABLE,
        may_take=lambda claimer, task: (
            task.preemptable and (task.shape.best_effort or not claimer.shape.best_effort)
        ),
        vote=session.votes.preemptable,
        units=singles,  # a swap: the job is as large afterwards
        allows=lambda claimer: _is_allocatable(session, claimer),
    )


def _is_allocatable(session: Session, task: Task) -> bool:
    queue = task.job.queue if task.job else None
    return queue is not None and session.votes.allowance(queue, task.shape, 1) >= 1
