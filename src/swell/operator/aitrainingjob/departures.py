"""How a pod leaves that could stay: it is asked to save, and deleted when it has, or in time.

    running --release published--> asked --answered, exited, or at the deadline--> deleted

Pods that are given up by a resize, a suspension, a restart of their peers or the scheduler's
eviction go this way, if their program saves when it is asked (`saves` in its report) or the job
says how long saving takes (`saveSeconds`). All others are deleted at once. The request is an
annotation of the pod (`framework.training.RELEASE`), which its release file shows. It is also the
record: its deadline outlives every operator, and a pod that was asked never stays.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.codec import decode, encode
from swell.api.injection import (
    EVICTION_ANNOTATION,
    SAVED_ANNOTATION,
    EvictionRecord,
    ReleaseRequest,
)
from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import Pod, PodPhase
from swell.api.times import SKEW_S, format_time, parse_time
from swell.operator.aitrainingjob.cleanup import delete_pods
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica
from swell.operator.framework.fencing import soonest
from swell.operator.framework.recovery import sound_time
from swell.operator.framework.training import RELEASE
from swell.runtime.plan import Action, patch_object

# The time to save, if neither job nor pod says so: Kubernetes' default grace period.
GRACE_S = 30


def depart(
    replicas: Iterable[tuple[Replica, str]],
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    now: float,
) -> list[Action]:
    """Ask those pods to save that will, each with its reason; delete the others and the ready."""
    asked: list[Action] = []
    ready: list[Replica] = []
    for one, reason in replicas:
        if not _may_save(one, snapshot):
            ready.append(one)
            continue
        deadline = release_deadline(one.pod)
        until = _deadline(one, snapshot, now) if deadline is None else deadline
        # A deadline that is too far away is of another clock, or of a clock that was set back.
        is_due = until <= now or until > now + snapshot.settings.save_seconds_max + SKEW_S
        if is_due or SAVED_ANNOTATION in one.pod.metadata.annotations:
            ready.append(one)
        elif deadline is None:
            asked.append(_ask(one, reason, until, status.epoch))
    return [*asked, *delete_pods(ready, snapshot, now)]


def next_deadline(snapshot: AITrainingJobSnapshot, now: float) -> float | None:
    """When the time of the next pod that was asked to leave is up: the time to look again."""
    return soonest((release_deadline(one.pod) for one in snapshot.replicas), now)


def evicted(snapshot: AITrainingJobSnapshot) -> list[Replica]:
    """The pods that the scheduler wants to go, and leaves to us."""
    return [one for one in snapshot.replicas if eviction_of(one.pod) is not None]


def eviction_of(pod: Pod) -> EvictionRecord | None:
    """The scheduler's record on this very pod; None without one, or with one of another pod."""
    text = pod.metadata.annotations.get(EVICTION_ANNOTATION)
    if text is None:
        return None
    try:
        found = decode(text.encode(), EvictionRecord)
    except msgspec.DecodeError:
        return None
    return found if found.uid == pod.metadata.uid and sound_time(found.deadline) else None


def release_deadline(pod: Pod) -> float | None:
    """When a pod that was asked to leave goes in any case; None if it was not asked.

    A request that cannot be read has no time left: who was asked does not stay.
    """
    text = pod.metadata.annotations.get(RELEASE)
    if not text:
        return None
    try:
        return parse_time(decode(text.encode(), ReleaseRequest).deadline)
    except (msgspec.DecodeError, ValueError, OverflowError):
        return 0.0


def saves(snapshot: AITrainingJobSnapshot) -> bool:
    """Whether the job's programs save when they are asked to leave."""
    if snapshot.job.spec.save_seconds is not None:
        return True
    if snapshot.report is not None:
        return snapshot.report.report.saves
    training = snapshot.job.status.training
    return training is not None and training.saves


def _may_save(one: Replica, snapshot: AITrainingJobSnapshot) -> bool:
    """Whether there is something to wait for: a program that runs, on a node that is there."""
    runs = one.phase is PodPhase.RUNNING or one.is_unread
    if not runs or one.is_leaving:
        return False
    if one.is_released:
        return True  # a promise is kept, whatever becomes of the node meanwhile
    state = snapshot.node_of(one)
    is_there = state is None or (state.node is not None and state.unready_since is None)
    return is_there and saves(snapshot)


def _deadline(one: Replica, snapshot: AITrainingJobSnapshot, now: float) -> float:
    grace_s = one.pod.spec.termination_grace_period_seconds
    save_s = snapshot.job.spec.save_seconds
    if save_s is None:
        save_s = GRACE_S if grace_s is None else grace_s
    own = now + min(save_s, snapshot.settings.save_seconds_max)
    eviction = eviction_of(one.pod)
    return own if eviction is None else min(own, parse_time(eviction.deadline))


def _ask(one: Replica, reason: str, deadline: float, epoch: int) -> Action:
    eviction = eviction_of(one.pod)
    why = reason if eviction is None else f"makes room for {eviction.for_}"
    release = ReleaseRequest(reason=why, deadline=format_time(deadline), epoch=epoch)
    note: Body = {"metadata": {"annotations": {RELEASE: encode(release).decode()}}}
    return patch_object(PODS, one.pod.metadata.key, one.pod.metadata.uid, note)
