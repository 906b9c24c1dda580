"""The part of an explanation about a queue: its state, the groups ahead, limits, and what helps.

A limit (`QueueLimit`) is made by the plugin that refused the group; here it is only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from swell.api.quantity import parse
from swell.api.requests import scheduling_amount
from swell.scheduler.explain.explanation import Advice, QueueFacts
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queue_rules import SHUT, is_closed_by_parent
from swell.scheduler.model.reasons import QueueLimit, Refusal, WaitReason
from swell.scheduler.model.resources import amount_text, amount_texts
from swell.scheduler.model.tasks import HELD, Task, TaskStatus
from swell.scheduler.session import Session

if TYPE_CHECKING:
    from swell.scheduler.explain.advice import WhatIf

# Factors of the present weight that are tried; each costs a session, so there are two.
_WEIGHT_FACTORS = (2, 8)


def queue_facts(session: Session, job: JobInfo, refusal: Refusal | None) -> QueueFacts | None:
    """Returns the facts of the job's queue, with the groups ahead and the limits if it waits."""
    queue = job.queue
    if queue is None:
        return None
    dimensions = session.snapshot.dimensions
    key = session.votes.job_key(job)
    ahead = sorted(
        (session.votes.job_key(other), other.key)
        for other in queue.jobs.values()
        if refusal is not None and other is not job and other.counts[TaskStatus.PENDING]
    )
    # An unlimited resource is left out of the texts, as 0 is.
    limited = np.where(np.isinf(queue.capability), 0, queue.capability)
    return QueueFacts(
        name=queue.name,
        state=queue.object.status.state.value or "Open",
        allocated=amount_texts(dimensions, queue.subtree),
        capability=amount_texts(dimensions, limited),
        position=1 + sum(theirs < key for theirs, _ in ahead) if refusal is not None else 0,
        n_waiting=1 + len(ahead) if refusal is not None else 0,
        ahead=tuple(name for theirs, name in ahead if theirs < key),
        limits=refusal.limits if refusal else (),
    )


def tasks_against_limit(session: Session, own: JobInfo, limit: QueueLimit) -> list[Task]:
    """Returns the tasks of other jobs that count against a limit.

    A limit of a queue counts the tasks of the queue and of those below it; a limit without a queue
    is the cluster's and counts all.
    """
    queues = session.snapshot.queues.values()
    limited = session.snapshot.queues.get(limit.queue)
    return [
        task
        for queue in queues
        if limited is None or limited in queue.lineage
        for job in queue.jobs.values()
        if job is not own
        for task in job.tasks.values()
        if HELD[task.status]
    ]


def missing_below_limits(refusal: Refusal) -> dict[str, float]:
    """Returns how much of each limited resource would have to be given up, at the least."""
    return {
        limit.resource: _needed(limit) - amount(limit.resource, limit.allowed)
        for limit in refusal.limits
    }


def advise_opening(job: JobInfo) -> Iterator[Advice]:
    """Advises to open the queue that is closed; one closed by its parent opens with the parent."""
    if job.queue is None:
        return
    shut = [queue for queue in job.queue.lineage if queue.object.status.state in SHUT]
    name = next((q.name for q in shut if not is_closed_by_parent(q.object)), job.queue.name)
    yield Advice(text=f"open queue {name}", command=f"swell queue open {name}")


def advise_higher_capability(session: Session, refusal: Refusal) -> Iterator[Advice]:
    """Advises to raise the capability of each queue that it limits to less than is needed."""
    for limit in refusal.limits:
        queue = session.snapshot.queues.get(limit.queue)
        if queue is None:
            continue
        needed, place = _needed(limit), session.snapshot.dimensions.place(limit.resource)
        if queue.capability[place] < needed:
            text = f"{limit.resource} {amount_text(limit.resource, needed)}"
            yield Advice(text=f"raise the capability of queue {queue.name}: {text}")


def advise_higher_weight(session: Session, refusal: Refusal, what_if: WhatIf) -> Iterator[Advice]:
    """Advises the first tried weight that is enough, where only the queue's share is in the way."""
    limits = [] if refusal.reason is WaitReason.NOT_ENOUGH_RESOURCES else refusal.limits
    queue = session.snapshot.queues.get(limits[0].queue) if limits else None
    # No weight helps against a limit that is all the cluster has.
    if queue is None or any(limit.is_whole for limit in limits):
        return
    for factor in _WEIGHT_FACTORS:
        weight = factor * queue.weight
        if what_if.starts_at_weight(queue.name, weight):
            yield Advice(text=f"with a weight of {weight} queue {queue.name} would deserve enough")
            return


def amount(resource: str, text: str) -> float:
    """Returns an amount as it stands in an explanation, in the unit that vectors use."""
    return float(scheduling_amount(resource, parse(text)))


def _needed(limit: QueueLimit) -> float:
    return amount(limit.resource, limit.held) + amount(limit.resource, limit.asked)
