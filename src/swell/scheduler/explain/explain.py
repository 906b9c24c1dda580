"""Explains one group: what it asks for, why nodes and its queue refuse it, what would help.

Runs a session over the given objects, as the scheduler would, and asks it. Nothing is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from swell.scheduler.config import DEFAULT, Config
from swell.scheduler.cycle import run_session
from swell.scheduler.domain_reasons import counts_of
from swell.scheduler.explain.advice import WhatIf, advice_for
from swell.scheduler.explain.explanation import (
    DomainFacts,
    DomainRoom,
    Explanation,
    GroupStanding,
    NodeRefusal,
    PodClass,
    ResourceHolder,
)
from swell.scheduler.explain.holders import holders_of, on_nodes, scarce_places
from swell.scheduler.explain.queue_limits import queue_facts, tasks_against_limit
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import LIMIT_REASONS, Refusal, WaitReason
from swell.scheduler.model.resources import PODS, amount_texts
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.model.unsaved import gpu_places, price_text
from swell.scheduler.plan import SchedulerObjects
from swell.scheduler.session import Session
from swell.scheduler.status import phase_of, statuses

HOLDERS_MAX = 10  # more are only counted
_FINISHED = {TaskStatus.SUCCEEDED, TaskStatus.FAILED}
# With these reasons a limit is in the way, so its holders are shown instead of those on nodes.
_QUOTA = frozenset({*LIMIT_REASONS, WaitReason.QUEUE_OVERUSED, WaitReason.OVERCOMMIT})


def explain(
    objects: SchedulerObjects,
    group: str,
    config: Config = DEFAULT,
    scheduler_names: Iterable[str] = (),
    now: float | None = None,
) -> Explanation | None:
    """Returns the explanation of a group, by `namespace/name`; None when there is no such group.

    With `now` None, as for objects of files, rules that depend on time are off.
    """
    snapshot = objects.snapshot(scheduler_names)
    job = snapshot.jobs.get(group)
    if job is None:
        return None
    # Taken before the session, which moves the tasks.
    pods = Counter(task.status for task in job.tasks.values())
    holds, asks = job.allocated.copy(), job.pending.copy()
    pending = _in_order(job)
    session = run_session(snapshot, config, now)
    status = dict(statuses(session, [job]))[group]
    refusal = status.refusal
    standing = _standing(session, job, pods, pending)
    asks[PODS] = holds[PODS] = 0  # pod slots are no resource that users ask for
    left = [task for task in pending if task.status is TaskStatus.PENDING]
    # A running job may have surplus pods that wait; they are explained, too.
    is_stuck = standing is GroupStanding.WAITING or (standing is GroupStanding.RUNNING and left)
    if not is_stuck and standing is not GroupStanding.MAKING_ROOM:
        refusal = None  # the session has placed it: the reason of an earlier action is outdated
    elif refusal is None:
        refusal = _default_refusal(session, left)
    holders = _holders(session, job, left, refusal) if is_stuck else []
    what_if = WhatIf(objects, group, config, tuple(scheduler_names))
    return Explanation(
        group=group,
        standing=standing,
        group_phase=phase_of(job, is_unschedulable=False).value,
        priority=job.priority,
        min_member=job.min_member,
        pods={status.label: n for status, n in sorted(pods.items())},
        holds=amount_texts(snapshot.dimensions, holds),
        asks=amount_texts(snapshot.dimensions, asks),
        reason=refusal.reason.value if refusal else "",
        message=refusal.message if refusal else "",
        never=status.never if is_stuck else "",
        classes=tuple(_pod_class(session, alike) for alike in _alike(left)) if is_stuck else (),
        domains=tuple(_domains(session, job, left)) if is_stuck and job.is_constrained else (),
        topology_not_applied=session.domains_for(job).not_applied(job)
        if job.is_constrained
        else "",
        queue=queue_facts(session, job, refusal),
        holders=tuple(holders[:HOLDERS_MAX]),
        n_holders_more=max(len(holders) - HOLDERS_MAX, 0),
        victims=_victims(session, group),
        advice=advice_for(session, job, left, refusal=refusal, holders=holders, what_if=what_if)
        if is_stuck
        else (),
    )


def _default_refusal(session: Session, left: Sequence[Task]) -> Refusal:
    """Returns why pods wait for which no action recorded a refusal, such as surplus pods."""
    if not left:
        return Refusal(WaitReason.NOT_ENOUGH_TASKS, "has no pods to place")
    return Refusal(WaitReason.NOT_ENOUGH_RESOURCES, session.placer.why_not(left[0]))


def _in_order(job: JobInfo) -> list[Task]:
    return sorted(job.in_status(TaskStatus.PENDING), key=lambda task: (task.role, task.order))


def _standing(
    session: Session, job: JobInfo, pods: Counter[TaskStatus], pending: Sequence[Task]
) -> GroupStanding:
    """Decides by the status of the pods before the session, and what became of them in it."""
    n_finished = sum(pods[status] for status in _FINISHED)
    n_placed = pods[TaskStatus.RUNNING] + pods[TaskStatus.BOUND]
    if n_finished and n_finished == pods.total():
        return GroupStanding.COMPLETED
    if not pending and n_placed + n_finished >= max(job.min_member, 1):
        return GroupStanding.STARTING if pods[TaskStatus.BOUND] else GroupStanding.RUNNING
    # From here on by what this session did with its pending pods.
    if job.counts.waiting:
        return GroupStanding.MAKING_ROOM
    if any(task.status is TaskStatus.BINDING for task in pending):
        return GroupStanding.STARTING
    is_whole = n_placed + pods[TaskStatus.SUCCEEDED] >= max(job.min_member, 1)
    return (
        GroupStanding.RUNNING if is_whole and session.votes.is_ready(job) else GroupStanding.WAITING
    )


def _alike(tasks: Sequence[Task]) -> list[list[Task]]:
    classes: dict[tuple[str, int], list[Task]] = {}
    for task in tasks:
        classes.setdefault((task.role, task.shape.serial), []).append(task)
    return list(classes.values())


def _pod_class(session: Session, tasks: Sequence[Task]) -> PodClass:
    task = tasks[0]
    n_fit, n_nodes, counts = session.placer.refusals(task)
    each = task.request.copy()
    each[PODS] = 0
    return PodClass(
        role=task.role,
        n_pods=len(tasks),
        each=amount_texts(session.snapshot.dimensions, each),
        n_nodes=n_nodes,
        n_nodes_fit=n_fit,
        n_slots=session.placer.n_slots(task) if n_fit else 0,
        refusals=tuple(
            NodeRefusal(
                reason=count.reason.value,
                n_nodes=count.n_nodes,
                resource=count.resource,
                text=count.text,
            )
            for count in sorted(counts, key=lambda c: (-c.n_nodes, str(c)))
            if count.n_nodes
        ),
    )


def _domains(session: Session, job: JobInfo, left: Sequence[Task]) -> Iterator[DomainFacts]:
    by_part: dict[SubGroup | None, list[Task]] = {}
    for task in left:
        by_part.setdefault(task.sub_group, []).append(task)
    for part, tasks in by_part.items():
        counts = counts_of(session, job, part, tasks)
        if counts is not None:
            yield DomainFacts(
                sub_group="" if part is None else part.name,
                tier=counts.tier,
                n_domains=counts.n_domains,
                n_wanted=counts.n_wanted,
                n_enough=counts.n_enough,
                best=tuple(DomainRoom(name=name, n_pods=n) for name, n in counts.best),
                n_outside=counts.n_outside,
            )


def _holders(
    session: Session, job: JobInfo, left: Sequence[Task], refusal: Refusal | None
) -> list[ResourceHolder]:
    """Returns the holders of the quota that refuses the job, else those on nodes it could use."""
    if not left:
        return []
    snapshot = session.snapshot
    firsts = [alike[0] for alike in _alike(left)]
    if refusal is not None and refusal.reason in _QUOTA and refusal.limits:
        places = sorted({snapshot.dimensions.place(limit.resource) for limit in refusal.limits})
        found = tasks_against_limit(session, job, refusal.limits[0])
        tasks = [task for task in found if (task.request[places] > 0).any()]
    else:
        places = scarce_places(session, firsts)
        tasks = on_nodes(session, firsts, places) if places else []
    return holders_of(session, firsts[0], tasks, places)


def _victims(session: Session, group: str) -> tuple[str, ...]:
    evicted = {
        f"pod {e.task.key}{_price(session, [e.task])}"
        for e in session.evictions
        if e.preemptor == group
    }
    shrunk = {
        f"{job} {role} to {(target := session.shrinks[job][role])}"
        + _price(session, _above(session, job, role, target))
        for (job, role), preemptor in session.shrunk_for.items()
        if preemptor == group
    }
    return tuple(sorted(evicted | shrunk))


def _above(session: Session, job: str, role: str, target: int) -> list[Task]:
    return [
        task
        for task in session.snapshot.roles.of(job)
        if task.elastic is not None and task.elastic.role == role and task.index >= target
    ]


def _price(session: Session, tasks: Sequence[Task]) -> str:
    if session.now is None:
        return ""
    text = price_text(tasks, session.now, gpu_places(session.snapshot.dimensions))
    return f": {text}" if text else ""
