"""How a pod leaves that could stay: it is asked to save, and deleted when it has, or in time.

    running --release published--> asked --answered, exited, or at the deadline--> deleted

Pods that are given up by a resize, a suspension, a restart of their peers or the scheduler's
eviction go this way, also where that ends their job, if their program saves when it is asked
(`saves` in its report) or the job says how long saving takes (`saveSeconds`). All others are
deleted at once. The request is an annotation of the pod (`framework.training.RELEASE`), which its
release file shows. It is also the record: its deadline outlives every operator, and a pod that was
asked never stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.aitrainingjob import AITrainingJobStatus, Ending
from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import PodPhase
from swell.api.saving import (
    eviction_of,
    grace_seconds,
    has_answered,
    release_deadline,
    release_note,
)
from swell.api.times import SKEW_S, parse_time
from swell.operator.aitrainingjob.cleanup import delete_pods, end_actions
from swell.operator.aitrainingjob.phases import JobReason
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica
from swell.operator.framework.fencing import soonest
from swell.runtime.plan import Action, DeleteObject, patch_object

MAKES_ROOM = "makes room"  # the reason that a pod is told whose scheduler has told none


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
        if is_due or has_answered(one.pod):
            ready.append(one)
        elif deadline is None:
            asked.append(_ask(one, reason, until, status.epoch))
    return [*asked, *delete_pods(ready, snapshot, now)]


def end_departures(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, ending: Ending, now: float
) -> list[Action]:
    """The deletes that the job's ending asks for now; of a preempted job, when its pods have saved.

    What it saves is what a job after it begins with. The objects that its pods share stay for them.
    """
    if ending.reason != JobReason.PREEMPTED.value:
        return end_actions(snapshot, ending, now)
    leaving = depart([(one, MAKES_ROOM) for one in snapshot.everything], snapshot, status, now)
    deleted = {one.key for one in leaving if isinstance(one, DeleteObject)}
    has_savers = any(
        not one.is_leaving and one.pod.metadata.key not in deleted for one in snapshot.everything
    )
    return leaving if has_savers else end_actions(snapshot, ending, now)


def next_deadline(snapshot: AITrainingJobSnapshot, now: float) -> float | None:
    """When the time of the next pod that was asked to leave is up: the time to look again."""
    return soonest((release_deadline(one.pod) for one in snapshot.replicas), now)


def evicted(snapshot: AITrainingJobSnapshot) -> list[Replica]:
    """The pods that the scheduler wants to go, and leaves to us."""
    return [one for one in snapshot.replicas if eviction_of(one.pod) is not None]


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
    save_s = snapshot.job.spec.save_seconds
    if save_s is None:
        save_s = grace_seconds(one.pod)
    own = now + min(save_s, snapshot.settings.save_seconds_max)
    eviction = eviction_of(one.pod)
    return own if eviction is None else min(own, parse_time(eviction.deadline))


def _ask(one: Replica, reason: str, deadline: float, epoch: int) -> Action:
    eviction = eviction_of(one.pod)
    why = reason if eviction is None else eviction.why
    note: Body = {"metadata": {"annotations": release_note(why, deadline, epoch)}}
    return patch_object(PODS, one.pod.metadata.key, one.pod.metadata.uid, note)
