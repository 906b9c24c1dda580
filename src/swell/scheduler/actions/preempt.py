"""The action preempt makes room within a queue: important jobs evict less important ones.

A starving gang makes room for its missing minimum; the evictions are committed only when all of it
has found nodes. Afterwards tasks may replace less important tasks of their own job.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from swell.scheduler.domain_claims import ALLOW_WHOLE, claim_domain, scope_within_gang
from swell.scheduler.eviction_units import eviction_units, single_task_units, surplus_units
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.tasks import EVICTABLE, Task, TaskStatus
from swell.scheduler.session import Session
from swell.scheduler.victims import VictimRules, VictimSearch, is_allocatable

ACTION = "preempt"
# An argument: evictions that turn out not to be needed are undone.
TOPOLOGY_AWARE: Final = "enableTopologyAwarePreemption"


def preempt(session: Session) -> None:
    votes = session.votes
    starving = [job for job in session.jobs if _may_preempt(session, job)]
    by_queue: dict[str, list[JobInfo]] = {}
    for job in sorted(starving, key=votes.job_key):
        if job.queue is not None:
            by_queue.setdefault(job.queue.name, []).append(job)
    queues = sorted((session.snapshot.queues[name] for name in by_queue), key=votes.queue_key)
    between_jobs = VictimSearch(session, _rules_between_jobs(session))
    failed: dict[Hashable, int] = {}
    for queue in queues:
        for job in by_queue[queue.name]:
            if job.is_constrained and session.domains_for(job).is_limited(job):
                _preempt_in_domains(session, between_jobs, job)
            else:
                _preempt_others(session, between_jobs, job, failed)
    within_job = VictimSearch(session, _rules_within_job(session))
    # As in Volcano, swaps inside jobs come after all evictions between jobs.
    for queue in queues:
        for job in by_queue[queue.name]:
            _preempt_own(session, within_job, job)


def _may_preempt(session: Session, job: JobInfo) -> bool:
    return (
        job.counts[TaskStatus.PENDING] > 0
        and not job.never_claims
        and session.takes_part(job)
        and session.votes.is_starving(job)
    )


def _preempt_others(
    session: Session, search: VictimSearch, job: JobInfo, failed: dict[Hashable, int]
) -> None:
    """Evicts tasks of other jobs for the missing minimum of this one, or none at all.

    `failed` holds searches for a first task that found nothing, with the number of evictions
    decided by then: a like job would fail again until there are more.
    """
    votes = session.votes
    tasks = _preemptors(session, job)
    if not tasks:
        return
    if not search.has_candidates(tasks[0]):
        session.note(job, "its queue has no less important pods to preempt")
        return
    if not _could_fit(session, search, job, tasks):
        session.note(job, "preempting all less important pods of its queue would not make room")
        return
    first = (tasks[0].shape.serial, job.queue and job.queue.name, job.priority)
    # Only for jobs that hold nothing: a vote may depend on what the job holds, as drf's does.
    if failed.get(first) == len(session.evictions) and not job.allocated.any():
        return
    statement = session.statement()
    has_room = False
    for task in tasks:
        if not votes.is_starving(job):
            break
        if search.make_room(statement, task):
            has_room = True
        elif not has_room:
            failed[first] = len(session.evictions)
    if has_room and votes.is_pipelined(job):
        statement.commit()
        session.refuse(
            job, Refusal(WaitReason.WAITING_FOR_VICTIMS, "waits for preempted pods to leave")
        )
    else:
        statement.discard()
        session.note(job, "no pods may be preempted that would make room for the whole gang")


def _preempt_in_domains(session: Session, search: VictimSearch, job: JobInfo) -> None:
    """Does the same for a gang that has to stay within one part of the network."""
    tasks = _preemptors(session, job)
    statement = session.statement()
    if claim_domain(session, statement, job, tasks, search):
        statement.commit()
        session.refuse(
            job, Refusal(WaitReason.WAITING_FOR_VICTIMS, "waits for preempted pods to leave")
        )
    else:
        statement.discard()
        session.note(job, "no pods may be preempted that would clear a domain for the whole gang")


def _preemptors(session: Session, job: JobInfo) -> list[Task]:
    """Returns the pending tasks that may preempt, in order."""
    pending = (task for task in job.in_status(TaskStatus.PENDING) if _is_eligible(session, task))
    return session.votes.tasks_in_order(pending)


def _is_eligible(session: Session, task: Task) -> bool:
    """Whether the task may preempt, and waits for no victims of an earlier preemption."""
    if task.never_preempts or task.is_held_back:
        return False
    node = session.snapshot.nodes.find(task.nominated) if task.nominated else -1
    # Less important pods that leave its nominated node are taken for its victims: evicting more
    # before they are gone would make room twice.
    return node < 0 or not any(
        other.status is TaskStatus.RELEASING and other.priority < task.priority
        for other in session.snapshot.nodes.tasks[node].values()
    )


def _could_fit(session: Session, search: VictimSearch, job: JobInfo, tasks: Sequence[Task]) -> bool:
    """Whether the missing minimum could fit at all if every possible victim left.

    Only one task is tested where the tasks differ in shape, or where the job counts as pipelined
    without more.
    """
    alike = sum(task.shape is tasks[0].shape for task in tasks)
    missing = job.min_member - job.counts.ready - job.counts.waiting
    n = 1 if session.votes.is_pipelined(job) or alike < len(tasks) else max(missing, 1)
    return search.could_fit(tasks[0], n)


def _preempt_own(session: Session, search: VictimSearch, job: JobInfo) -> None:
    """Swaps running tasks of the job for more important pending ones of the same job."""
    if not (job.counts[TaskStatus.BOUND] or job.counts[TaskStatus.RUNNING]):
        return
    if job.native is not None and job.native.is_unit:
        return  # its pods leave together or not at all
    for task in _preemptors(session, job):
        if not session.votes.is_starving(job):
            return
        statement = session.statement()
        with session.placer.within(scope_within_gang(session, task)):
            has_room = search.make_room(statement, task)
        if not has_room or not session.votes.is_pipelined(job):
            statement.discard()
            return  # the first failure ends the job's turn
        statement.commit()


def _rules_between_jobs(session: Session) -> VictimRules:
    votes = session.votes

    def targets(preemptor: Task) -> Iterable[JobInfo]:
        job = preemptor.job
        if job is None or job.queue is None:
            return ()
        return (other for other in job.queue.jobs.values() if votes.may_preempt(preemptor, other))

    def depend_on(preemptor: Task) -> Hashable:
        job = preemptor.job
        return job and (job.queue and job.queue.name, job.priority)

    def may_evict(preemptor: Task, task: Task) -> bool:
        return (
            task.preemptable
            and task.job is not preemptor.job
            # A task that asks for nothing must not evict one that holds something.
            and (task.shape.best_effort or not preemptor.shape.best_effort)
        )

    takes_whole = session.config.arguments_of(ACTION).flag(ALLOW_WHOLE, default=True)
    return VictimRules(
        action=ACTION,
        targets=targets,
        targets_depend_on=depend_on,
        statuses=EVICTABLE,
        may_evict=may_evict,
        vote=votes.preemptable,
        eviction_units=eviction_units if takes_whole else surplus_units,
        allows=lambda preemptor: is_allocatable(session, preemptor),
        spares=session.config.arguments_of(ACTION).flag(TOPOLOGY_AWARE, default=False),
    )


def _rules_within_job(session: Session) -> VictimRules:
    return VictimRules(
        action=ACTION,
        targets=lambda preemptor: (preemptor.job,) if preemptor.job else (),
        targets_depend_on=lambda preemptor: preemptor.job and preemptor.job.key,
        statuses=EVICTABLE,
        may_evict=lambda preemptor, task: (
            task.preemptable and (task.shape.best_effort or not preemptor.shape.best_effort)
        ),
        vote=session.votes.preemptable,
        eviction_units=single_task_units,  # a swap: the job is as large as before
        allows=lambda preemptor: is_allocatable(session, preemptor),
    )
