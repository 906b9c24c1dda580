"""Which groups hold the resources that a job needs, and whether they can be made to give them up.

Asks the votes of the session, the same ones that preempt and reclaim use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from swell.api.wording import count_of
from swell.scheduler.actions.preempt import ACTION as PREEMPT
from swell.scheduler.actions.reclaim import ACTION as RECLAIM
from swell.scheduler.eviction_units import EvictionCost, EvictionUnit, eviction_units
from swell.scheduler.explain.explanation import Remedy, ResourceHolder
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.resources import PODS, Vector, amount_texts
from swell.scheduler.model.tasks import EVICTABLE, Task, TaskStatus
from swell.scheduler.session import Session


def scarce_places(session: Session, tasks: Sequence[Task]) -> list[int]:
    """Returns the resources that nodes lack which would take these tasks otherwise."""
    dimensions = session.snapshot.dimensions
    places: set[int] = set()
    for task in tasks:
        for count in session.placer.refusals(task)[2]:
            if not count.n_nodes:
                continue
            if count.reason is WaitReason.TOO_MANY_PODS:
                places.add(PODS)
            elif count.reason is WaitReason.INSUFFICIENT:
                places.add(dimensions.place(count.resource))
    return sorted(places)


def on_nodes(session: Session, tasks: Sequence[Task], places: Sequence[int]) -> list[Task]:
    """Returns other jobs' tasks that hold scarce resources on nodes these tasks may go to."""
    nodes = session.snapshot.nodes
    allowed = np.zeros(len(nodes), dtype=np.bool_)
    for task in tasks:
        allowed |= session.placer.allowed_to(task)
    own = tasks[0].job
    return [
        task
        for node in np.flatnonzero(allowed)
        for task in nodes.tasks[node].values()
        if task.job is not own and (task.request[list(places)] > 0).any()
    ]


def holders_of(
    session: Session, preemptor: Task, tasks: Iterable[Task], places: Sequence[int]
) -> list[ResourceHolder]:
    """Groups the tasks by job or owner; the one that holds most comes first."""
    by_owner: dict[tuple[str, bool], list[Task]] = {}
    for task in tasks:
        # The flag keeps an owner and a group of one name apart.
        key = (_owner(task), True) if task.job is None else (task.job.key, False)
        by_owner.setdefault(key, []).append(task)
    ranked = sorted(by_owner.items(), key=lambda row: (*_negated(row[1], places), row[0]))
    return [_holder(session, preemptor, name, theirs, places) for (name, _), theirs in ranked]


def _holder(
    session: Session, preemptor: Task, name: str, tasks: Sequence[Task], places: Sequence[int]
) -> ResourceHolder:
    job = tasks[0].job
    remedy, text = _remedy(session, preemptor, tasks)
    held = np.zeros_like(session.total)
    held[list(places)] = _sum(tasks)[list(places)]
    return ResourceHolder(
        name=name,
        queue=job.queue.name if job is not None and job.queue is not None else "",
        priority=job.priority if job is not None else None,
        n_pods=len(tasks),
        holds=amount_texts(session.snapshot.dimensions, held),
        remedy=remedy,
        text=text,
    )


def _remedy(session: Session, preemptor: Task, tasks: Sequence[Task]) -> tuple[Remedy, str]:
    """Returns how these tasks of one job can be made to leave, with the reason if they cannot."""
    job = tasks[0].job
    if all(task.status is TaskStatus.RELEASING for task in tasks):
        return Remedy.LEAVING, "is leaving"
    if job is None or job.queue is None or preemptor.job is None or preemptor.job.queue is None:
        return Remedy.NONE, "not a pod of this scheduler"
    # Preempt works inside a queue, reclaim between queues.
    is_same_queue = job.queue is preemptor.job.queue
    action = PREEMPT if is_same_queue else RECLAIM
    if action not in session.config.actions:
        return Remedy.NONE, f"the scheduler's configuration has no {action}"
    if preemptor.never_preempts:
        return Remedy.NONE, "the waiting pods never preempt"
    refused = _refused(session, preemptor, preemptor.job, job, job.queue)
    if refused:
        return Remedy.NONE, refused
    candidates = [task for task in job.tasks.values() if task.status in EVICTABLE]
    if not any(task.preemptable for task in candidates):
        # Pods that this session binds are BINDING, which cannot be evicted.
        is_new = bool(job.counts[TaskStatus.BINDING])
        return Remedy.NONE, "is just starting" if is_new else "its pods are not preemptable"
    ordered = session.votes.victims_in_order(preemptor, [t for t in candidates if t.preemptable])
    vote = session.votes.preemptable if is_same_queue else session.votes.reclaimable
    granted = vote(preemptor, eviction_units(ordered))
    if not granted:
        return Remedy.NONE, "is protected"
    return _granted(granted, len(candidates))


def _refused(
    session: Session, preemptor: Task, own: JobInfo, job: JobInfo, queue: QueueInfo
) -> str:
    """Returns why no pod of the job may be evicted, where one rule decides it for all; else ""."""
    if own.queue is queue:
        if job.priority >= own.priority:
            return f"its priority {job.priority} is not below {own.priority}"
        return ""
    if not queue.reclaimable:
        return f"queue {queue.name} is not reclaimable"
    if own.queue is not None and not session.votes.is_preemptive(own.queue, preemptor):
        return f"queue {own.queue.name} has no claim to more"
    if not session.votes.may_reclaim_from(queue):
        return f"queue {queue.name} holds no more than it deserves"
    return ""


def _granted(victims: Sequence[EvictionUnit], n_pods: int) -> tuple[Remedy, str]:
    shrunk = {unit.role: unit.target for unit in victims if unit.role is not None}
    if shrunk:
        roles = ", ".join(f"{role.role} to {target}" for role, target in shrunk.items())
        return Remedy.SHRINK, f"can be shrunk: {roles}"
    if any(unit.cost is EvictionCost.WHOLE for unit in victims):
        return Remedy.EVICT, f"can be evicted as a whole: {count_of(n_pods, 'pod')}"
    n_evicted = sum(len(unit.tasks) for unit in victims)
    return Remedy.EVICT, f"can give {n_evicted} of {count_of(n_pods, 'pod')}"


def _owner(task: Task) -> str:
    owner = task.pod.metadata.controller
    return f"{task.pod.metadata.namespace}/{owner.name if owner else task.pod.metadata.name}"


def _sum(tasks: Sequence[Task]) -> Vector:
    total: Vector = np.sum([task.request for task in tasks], axis=0)
    return total


def _negated(tasks: Sequence[Task], places: Sequence[int]) -> tuple[float, ...]:
    total = _sum(tasks)
    # Devices are scarcer than cpu and memory and come after them in a vector: compare them first.
    return tuple(-float(total[place]) for place in reversed(places))
