"""Decides about Jobs: one pass, and the release of pods that no Job will count.

The order of a plan matters: the status first records what was found and decided, then pods are
deleted, counted pods lose their finalizer, and new pods are created. An end becomes final in a
later pass, when no pod is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swell.api.core import EventSeverity
from swell.api.kinds import JOBS
from swell.api.pod import Pod
from swell.api.times import parse_time
from swell.api.workloads import Job, JobStatus
from swell.cluster.embedded.controllers.claiming import (
    claim,
    controller_reference,
    finalizer_removal,
    selects,
)
from swell.cluster.embedded.controllers.job.backoff import NO_FAILURES, FailureRecord, must_wait
from swell.cluster.embedded.controllers.job.counts import count_pods
from swell.cluster.embedded.controllers.job.end import (
    COMPLETE,
    COMPLETIONS_REACHED,
    FAILED,
    JobEnd,
    deadline_at,
    find_end,
    is_finished,
    reaches_completions,
)
from swell.cluster.embedded.controllers.job.podchanges import PodChanges, plan_pods
from swell.cluster.embedded.controllers.job.pods import TRACKING, is_tracked
from swell.cluster.embedded.controllers.job.status import (
    SUSPENDED,
    Tracking,
    next_status,
    track,
    with_end,
    with_suspension,
)
from swell.cluster.embedded.controllers.writes import pod_deletion, slow_start, status_patch
from swell.runtime.controller import RejectedWrite
from swell.runtime.plan import (
    NOTHING,
    CreateObject,
    EmitEvent,
    PatchStatus,
    Plan,
    Step,
    Together,
    Write,
)

# The value of spec.managedBy that means this controller, as an empty one does.
OWN_NAME = "kubernetes.io/job-controller"


@dataclass(frozen=True, slots=True)
class BatchJobSnapshot:
    """A Job, its pods and those it might adopt.

    `record` has earlier failures, `refusal` is the last refused write, `seed` determines the names
    of new pods.
    """

    job: Job
    pods: tuple[Pod, ...]
    record: FailureRecord = NO_FAILURES
    refusal: RejectedWrite | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class JobDecision:
    """The result of one pass: pods to create and delete, the end, counted pods, the status.

    `to_delete` are the surplus pods, or all active ones when the Job has ended.
    """

    changes: PodChanges
    to_delete: tuple[Pod, ...]
    end: JobEnd | None
    tracking: Tracking
    status: JobStatus


def decide_job(snapshot: BatchJobSnapshot, now: float) -> Plan:
    """Plan the next step of a Job."""
    job = snapshot.job
    if is_finished(job) or job.spec.managed_by not in {"", OWN_NAME}:
        return NOTHING
    claims = claim(
        snapshot.pods,
        controller_reference(job, JOBS),
        selects(job.spec.selector),
        settling=_is_alive(job),
        finalizer=TRACKING,
    )
    if claims.patches:
        return Plan((Together(claims.patches),), reasons=("ownership",))
    decision = _evaluate(snapshot, claims.owned, now)
    return Plan(
        tuple(_steps(job, decision)),
        wake_at=_wake_at(job, decision),
        reasons=(decision.end.reason,) if decision.end else (),
    )


def _is_alive(job: Job) -> bool:
    return job.metadata.deletion_timestamp is None


def _evaluate(snapshot: BatchJobSnapshot, pods: Sequence[Pod], now: float) -> JobDecision:
    job = snapshot.job
    # 1. Count the pods; 2. see whether the Job has ended: then all active pods are deleted.
    counts = count_pods(job, pods)
    changes = PodChanges()
    to_delete = counts.active
    end = find_end(job, pods, counts, now)
    # 3. If not, choose the pods to create or delete; with none left active, it may be complete.
    if end is None:
        if _is_alive(job):
            changes = plan_pods(job, counts, snapshot.record, snapshot.seed, now)
            changes = _without_refused(changes, snapshot.refusal, now)
        to_delete = changes.to_delete
        n_active = len(counts.active) - len(to_delete) + len(changes.creates)
        if reaches_completions(job, counts, n_active):
            end = COMPLETIONS_REACHED
    # 4. Count what has finished. Surplus pods are left out: they never count.
    surplus = {pod.metadata.uid for pod in changes.to_delete}
    kept = [pod for pod in pods if pod.metadata.uid not in surplus]
    tracking = track(job, kept, counts, end)
    status = next_status(job, counts, to_delete, tracking, now)
    if end is not None:
        status = with_end(status, end, tracking, now)
    elif _is_alive(job):
        status = with_suspension(job, status, now)
    return JobDecision(changes, to_delete, end, tracking, status)


def _without_refused(changes: PodChanges, refusal: RejectedWrite | None, now: float) -> PodChanges:
    """The changes without creates, while the server would refuse them again."""
    if refusal is None or not isinstance(refusal.action, CreateObject):
        return changes
    if not changes.creates or not must_wait(refusal.retry_at, now):
        return changes
    return PodChanges(retry_at=refusal.retry_at)


def _steps(job: Job, decision: JobDecision) -> list[Step]:
    steps: list[Step] = []
    patch = status_patch(job.status, decision.status)
    if patch:
        metadata = job.metadata
        steps.append(PatchStatus(JOBS, metadata.key, metadata.resource_version, patch))
    surplus = [pod for pod in decision.changes.to_delete if is_tracked(pod)]
    # A surplus pod does not count as failed, so it loses its finalizer before it is deleted.
    steps += _together([finalizer_removal(pod, TRACKING) for pod in surplus])
    steps += _together([pod_deletion(pod) for pod in decision.to_delete])
    steps += _together([finalizer_removal(pod, TRACKING) for pod in decision.tracking.released])
    steps += slow_start(decision.changes.creates)
    return [*steps, *_events(job, decision)]


def _together(writes: Sequence[Write]) -> list[Step]:
    return [Together(tuple(writes))] if writes else []


def _wake_at(job: Job, decision: JobDecision) -> float | None:
    """When pods may be created that have to wait, or when the Job reaches its deadline."""
    started = decision.status.start_time
    deadline = deadline_at(job, parse_time(started) if started else None)
    moments = (decision.changes.retry_at, None if decision.end else deadline)
    return min((moment for moment in moments if moment is not None), default=None)


def _events(job: Job, decision: JobDecision) -> list[EmitEvent]:
    events = [("SuccessfulDelete", f"Deleted pod: {p.metadata.name}") for p in decision.to_delete]
    events += [
        ("SuccessfulCreate", f"Created pod: {create.key.name}")
        for create in decision.changes.creates
    ]
    for condition in decision.status.conditions:
        if condition in job.status.conditions:
            continue
        if condition.type == SUSPENDED:
            reason = "Suspended" if condition.status == "True" else "Resumed"
            events.append((reason, condition.message))
        elif condition.type == COMPLETE:
            events.append(("Completed", "Job completed"))
        elif condition.type == FAILED:
            warning = (condition.reason, condition.message)
            return [*_normal(job, events), _event(job, EventSeverity.WARNING, *warning)]
    return _normal(job, events)


def _normal(job: Job, events: Sequence[tuple[str, str]]) -> list[EmitEvent]:
    return [_event(job, EventSeverity.NORMAL, reason, message) for reason, message in events]


def _event(job: Job, severity: EventSeverity, reason: str, message: str) -> EmitEvent:
    return EmitEvent(JOBS, job.metadata.key, job.metadata.uid, severity, reason, message)


# --- pods without a Job to count them ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrackedPod:
    """A pod, and the Job that has the name of its controller, whatever its UID."""

    pod: Pod
    job: Job | None


def decide_release(snapshot: TrackedPod, now: float) -> Plan:
    """Remove the tracking finalizer of a pod that no Job will count.

    Its Job was deleted or has ended. Without this the pod could never be deleted.
    """
    del now
    if not is_tracked(snapshot.pod) or _is_awaited(snapshot):
        return NOTHING
    return Plan((finalizer_removal(snapshot.pod, TRACKING),), reasons=("nobody counts it",))


def _is_awaited(snapshot: TrackedPod) -> bool:
    controller, job = snapshot.pod.metadata.controller, snapshot.job
    if controller is None:
        return False
    if (controller.api_version, controller.kind) != (JOBS.api_version, JOBS.kind):
        return True  # a pod of another kind of owner, which uses the finalizer in its own way
    if job is None or job.metadata.uid != controller.uid:
        return False
    return job.spec.managed_by not in {"", OWN_NAME} or not is_finished(job)
