"""Whether a TrainingJob ends now, how, and why.

A job ends by its trainers, its pservers, its wall time, or because somebody stops it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.api.aitrainingjob import STOPPED_ANNOTATION
from swell.api.pod import ContainerStatus, Pod, PodPhase
from swell.api.saving import release_deadline
from swell.api.times import has_passed, parse_time
from swell.api.trainingjob import TrainingJobPhase as Phase
from swell.api.trainingjob import TrainingJobStatus
from swell.api.wording import count_of
from swell.api.workloads import Job
from swell.operator.trainingjob.snapshot import (
    COMPLETE,
    FAILED,
    TrainingJobSnapshot,
    completed_indexes,
    completion_index,
    failed_indexes,
    has_condition,
    is_leaving,
    is_over,
    was_disrupted,
)

_INDEXES_SHOWN_MAX = 100  # of the failed trainers, in the status's reason


@dataclass(frozen=True, slots=True)
class TrainingJobEnding:
    """The final phase of a job, and the reason for the status."""

    phase: Phase
    reason: str


def get_status(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> TrainingJobEnding | None:
    """The ending of the job, if it ends now."""
    return (
        _by_trainers(snapshot)
        or _by_stop(snapshot)
        or _by_pservers(snapshot)
        or _by_wall_time(snapshot, status, now)
    )


def ending_of_suspended(snapshot: TrainingJobSnapshot) -> TrainingJobEnding | None:
    """The ending of a suspended job, whose pods prove nothing: only a stop ends it."""
    return _by_stop(snapshot)


def is_stopped(snapshot: TrainingJobSnapshot) -> bool:
    """Whether somebody has stopped the job; what it holds is given back, without autoclean too."""
    return STOPPED_ANNOTATION in snapshot.job.metadata.annotations


def wall_time_at(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> float | None:
    """When the job will have run for too long: the time to look again."""
    limit_s = snapshot.job.spec.annotations.walltime
    # Only the time in which a job may run counts, not that of its suspensions.
    if not limit_s or status.start_time is None or status.paused_at is not None:
        return None
    return parse_time(status.start_time) + status.paused_seconds + limit_s


def _by_trainers(snapshot: TrainingJobSnapshot) -> TrainingJobEnding | None:
    job = snapshot.trainer
    # A Job that is being deleted takes its trainers with it: how they end proves nothing.
    if job is None or is_leaving(job.metadata):
        return None
    if snapshot.job.spec.fault_tolerant:
        return _tolerant(snapshot, job) if is_over(job) else None
    if has_condition(job, COMPLETE):
        return TrainingJobEnding(Phase.SUCCEED, f"all {job.spec.completions} trainers succeeded")
    if find_failed_trainer_pods(snapshot) or has_condition(job, FAILED):
        return TrainingJobEnding(Phase.FAILED, f"trainers failed: {_failures(snapshot, job)}")
    return None


def _tolerant(snapshot: TrainingJobSnapshot, job: Job) -> TrainingJobEnding:
    """The ending of a fault tolerant job whose Job is over: one successful trainer is enough."""
    done, lost = completed_indexes(job), failed_indexes(job)
    total = job.spec.completions or 0
    if not done:
        return TrainingJobEnding(Phase.FAILED, f"no trainer succeeded: {_failures(snapshot, job)}")
    if len(done) >= total:
        return TrainingJobEnding(Phase.SUCCEED, f"all {total} trainers succeeded")
    named = ", ".join(map(str, sorted(lost)[:_INDEXES_SHOWN_MAX]))
    more = f" and {len(lost) - _INDEXES_SHOWN_MAX} more" if len(lost) > _INDEXES_SHOWN_MAX else ""
    text = f"{len(done)} of {total} trainers succeeded; failed for good: {named or 'none'}{more}"
    return TrainingJobEnding(Phase.SUCCEED, text)


def _failures(snapshot: TrainingJobSnapshot, job: Job) -> str:
    """The failed pods, or the Job's own reason when they are gone."""
    if described := describe_pods(find_failed_trainer_pods(snapshot)):
        return described
    for condition in job.status.conditions:
        if condition.type == FAILED:
            return f"{condition.reason}: {condition.message}"
    return "their pods are gone"


def _by_stop(snapshot: TrainingJobSnapshot) -> TrainingJobEnding | None:
    if not is_stopped(snapshot):
        return None
    message = snapshot.job.metadata.annotations[STOPPED_ANNOTATION]
    return TrainingJobEnding(Phase.FAILED, f"Stopped: {message}" if message else "Stopped")


def _by_pservers(snapshot: TrainingJobSnapshot) -> TrainingJobEnding | None:
    worn = find_worn_pservers(snapshot)
    if not worn:
        return None
    return TrainingJobEnding(Phase.FAILED, f"pservers restarted too often: {describe_pods(worn)}")


def _by_wall_time(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> TrainingJobEnding | None:
    limit_s, at = snapshot.job.spec.annotations.walltime, wall_time_at(snapshot, status)
    is_active = snapshot.trainer is not None and not is_over(snapshot.trainer)
    if not limit_s or at is None or not is_active or not has_passed(at - limit_s, limit_s, now):
        return None
    return TrainingJobEnding(
        Phase.TIMEOUT, f"trainers were active {limit_s} s after the job began to run"
    )


def find_failed_trainer_pods(snapshot: TrainingJobSnapshot) -> tuple[Pod, ...]:
    """The trainers that failed, without disrupted ones and those that a smaller size gave up."""
    below = (snapshot.trainer.spec.completions or 0) if snapshot.trainer else 0
    return tuple(
        pod
        for pod in snapshot.trainers
        if pod.status.phase is PodPhase.FAILED
        and not was_disrupted(pod)
        and _index(pod) < below
        # A program that was asked to leave has not failed.
        and release_deadline(pod) is None
    )


def find_worn_pservers(snapshot: TrainingJobSnapshot) -> tuple[Pod, ...]:
    """The pservers with a container that restarted as often as is allowed."""
    limit = max(
        1, snapshot.settings.restart_limit
    )  # with 0 a pserver that never restarted would fail the job
    return tuple(
        pod
        for pod in snapshot.pservers
        if any(held.restart_count >= limit for held in pod.status.container_statuses)
    )


def describe_pods(pods: Iterable[Pod]) -> str:
    """A text with each pod, its node and the states of its containers."""
    return "; ".join(_describe(pod) for pod in pods)


def _index(pod: Pod) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


def _describe(pod: Pod) -> str:
    node = pod.spec.node_name
    place = f"on node {node}" if node else "without a node"
    states = [_state(held) for held in pod.status.container_statuses]
    if not states:
        states = [" ".join(filter(None, (pod.status.reason, pod.status.message))) or "no state"]
    return f"pod {pod.metadata.name} {place}: {', '.join(states)}"


def _state(held: ContainerStatus) -> str:
    state = held.state
    if state.terminated is not None:
        why = f" ({state.terminated.reason})" if state.terminated.reason else ""
        text = f"terminated with exit code {state.terminated.exit_code}{why}"
    elif state.waiting is not None:
        text = f"waiting ({state.waiting.reason})" if state.waiting.reason else "waiting"
    else:
        text = "running" if state.running is not None else "not started"
    restarts = f", restarted {count_of(held.restart_count, 'time')}" if held.restart_count else ""
    return f"container {held.name} {text}{restarts}"
