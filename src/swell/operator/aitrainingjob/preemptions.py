"""Preemptions of a rigid role by the scheduler: how often there were any, and when they end a job.

The scheduler marks its victims before they go. The mark is counted once for an epoch, because a
gang leaves as a whole and every restart begins a new epoch. Where pods restart alone, the first of
a gang to be gone begins one while others have yet to save: those are of the same preemption.

A job whose `requeuePolicy` is End ends at the first one; otherwise it queues anew, at most
`maxRetriesOnPreemption` times if that is set.
"""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.aitrainingjob import AITrainingJobStatus, Ending, RequeuePolicy
from swell.api.injection import DRAIN
from swell.api.saving import eviction_of
from swell.operator.aitrainingjob.endings import new_ending
from swell.operator.aitrainingjob.phases import JobReason
from swell.operator.aitrainingjob.snapshot import (
    AITrainingJobSnapshot,
    Replica,
    current,
    missing,
)

# Kubernetes' condition and reason of pods that a scheduler evicts for others.
DISRUPTED, PREEMPTED = "DisruptionTarget", "PreemptionByScheduler"


def with_preemptions(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> AITrainingJobStatus:
    """The status with a preemption counted that is seen for the first time."""
    victims = _victims(snapshot, status)
    if status.preempted_epoch != status.epoch:
        if not victims:
            return status
        return replace(status, preemptions=status.preemptions + 1, preempted_epoch=status.epoch)
    if victims or not status.preempted_epoch or any(missing(snapshot, status)):
        return status
    # The job is whole again, in the epoch that the first of the gang began: the next victim is of
    # another preemption.
    return replace(status, preempted_epoch=status.epoch - 1)


def still_under_way(
    snapshot: AITrainingJobSnapshot, before: AITrainingJobStatus, status: AITrainingJobStatus
) -> AITrainingJobStatus:
    """The status of this pass, with a preemption that lasts counted for the epoch that begins.

    `before` is the status from before the restart or resize of this pass.
    """
    is_counted = before.preempted_epoch == before.epoch != status.epoch
    if not is_counted or not _victims(snapshot, status):
        return status
    return replace(status, preempted_epoch=status.epoch)


def ending_by_preemption(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> Ending | None:
    """The ending of a job that may not be preempted, or not so often."""
    victims = _victims(snapshot, status)
    spec, n = snapshot.job.spec, status.preemptions
    if not victims:
        return None
    limit = 0 if spec.requeue_policy is RequeuePolicy.END else spec.max_retries_on_preemption
    if limit is None or n <= limit:
        return None
    why = f"pod {victims[0].name} was preempted{_for(victims[0])}"
    if spec.requeue_policy is not RequeuePolicy.END:
        why += f", the {n}. time; maxRetriesOnPreemption is {limit}"
    return new_ending(Phase.PREEMPTED, JobReason.PREEMPTED, why, now)


def _victims(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> list[Replica]:
    return [
        one
        for one in current(snapshot, status)
        if not snapshot.roles[one.role].is_elastic and _is_preempted(one)
    ]


def _is_preempted(replica: Replica) -> bool:
    record = eviction_of(replica.pod)
    if record is not None and record.by == DRAIN:
        return False
    return record is not None or any(
        one.type == DISRUPTED and one.status == "True" and one.reason == PREEMPTED
        for one in replica.pod.status.conditions
    )


def _for(replica: Replica) -> str:
    """The words of the scheduler on whom the room is for, as far as it told."""
    if (record := eviction_of(replica.pod)) is not None and record.for_:
        return f" for {record.for_}"
    texts = (one.message for one in replica.pod.status.conditions if one.type == DISRUPTED)
    text = next(texts, "")
    return f" ({text})" if text else ""
