"""What a Job needs next: pods made or given up, finished ones counted, its end declared. Pure.

Order in a plan: the status records what was found and decided, then pods are deleted, counted ones
let go, new ones made. An end becomes final in a pass of its own, when no pod is left to wait for.
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
from swell.cluster.embedded.controllers.job.backoff import NO_FAILURES, FailureRecord
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

OWN_NAME = "kubernetes.io/job-controller"


@dataclass(frozen=True, slots=True)
class BatchJobSnapshot:
    """A Job, its pods and those it might adopt.

    `record` remembers failures, `refusal` is the last write refused, `seed` names new pods.
    """

    job: Job
    pods: tuple[Pod, ...]
    record: FailureRecord = NO_FAILURES
    refusal: RejectedWrite | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class JobDecision:
    """What one look at a Job brought: pods to delete and to make, its end, its status."""

    population: PodChanges
    doomed: tuple[Pod, ...]
    ending: JobEnd | None
    tracking: Tracking
    status: JobStatus


def decide_job(view: BatchJobSnapshot, now: float) -> Plan:
    """One step of a Job towards its end."""
    job = view.job
    if is_finished(job) or job.spec.managed_by not in {"", OWN_NAME}:
        return NOTHING
    claims = claim(
        view.pods,
        controller_reference(job, JOBS),
        selects(job.spec.selector),
        settling=_is_alive(job),
        finalizer=TRACKING,
    )
    if claims.patches:
        return Plan((Together(claims.patches),), reasons=("ownership",))
    outlook = _look(view, claims.owned, now)
    return Plan(
        tuple(_steps(job, outlook)),
        wake_at=_wake_at(job, outlook),
        reasons=(outlook.ending.reason,) if outlook.ending else (),
    )


def _is_alive(job: Job) -> bool:
    return job.metadata.deletion_timestamp is None


def _look(view: BatchJobSnapshot, pods: Sequence[Pod], now: float) -> JobDecision:
    job = view.job
    counted = count_pods(job, pods)
    population = PodChanges()
    doomed = counted.active
    ending = find_end(job, pods, counted, now)
    if ending is None:
        if _is_alive(job):
            population = plan_pods(job, counted, view.record, view.seed, now)
            population = _without_refused(population, view.refusal, now)
        doomed = population.doomed
        n_active = len(counted.active) - len(doomed) + len(population.creates)
        if reaches_completions(job, counted, n_active):
            ending = COMPLETIONS_REACHED
    given_up = {pod.metadata.uid for pod in population.doomed}
    kept = [pod for pod in pods if pod.metadata.uid not in given_up]
    tracking = track(job, kept, counted, ending)
    status = next_status(job, counted, doomed, tracking, now)
    if ending is not None:
        status = with_end(status, ending, tracking, now)
    elif _is_alive(job):
        status = with_suspension(job, status, now)
    return JobDecision(population, doomed, ending, tracking, status)


def _without_refused(
    population: PodChanges, refusal: RejectedWrite | None, now: float
) -> PodChanges:
    """No creates while the server would refuse them again."""
    if refusal is None or not isinstance(refusal.action, CreateObject):
        return population
    if not population.creates or now >= refusal.retry_at:
        return population
    return PodChanges(retry_at=refusal.retry_at)


def _steps(job: Job, outlook: JobDecision) -> list[Step]:
    steps: list[Step] = []
    patch = status_patch(job.status, outlook.status)
    if patch:
        metadata = job.metadata
        steps.append(PatchStatus(JOBS, metadata.key, metadata.resource_version, patch))
    given_up = [pod for pod in outlook.population.doomed if is_tracked(pod)]
    # Who is given up does not count as failed, so it is let go before it is deleted.
    steps += _together([finalizer_removal(pod, TRACKING) for pod in given_up])
    steps += _together([pod_deletion(pod) for pod in outlook.doomed])
    steps += _together([finalizer_removal(pod, TRACKING) for pod in outlook.tracking.released])
    steps += slow_start(outlook.population.creates)
    return [*steps, *_events(job, outlook)]


def _together(writes: Sequence[Write]) -> list[Step]:
    return [Together(tuple(writes))] if writes else []


def _wake_at(job: Job, outlook: JobDecision) -> float | None:
    """When pods may be made that had to wait, or when the Job will have run too long."""
    started = outlook.status.start_time
    deadline = deadline_at(job, parse_time(started) if started else None)
    moments = (outlook.population.retry_at, None if outlook.ending else deadline)
    return min((moment for moment in moments if moment is not None), default=None)


def _events(job: Job, outlook: JobDecision) -> list[EmitEvent]:
    told = [("SuccessfulDelete", f"Deleted pod: {p.metadata.name}") for p in outlook.doomed]
    told += [
        ("SuccessfulCreate", f"Created pod: {create.key.name}")
        for create in outlook.population.creates
    ]
    for condition in outlook.status.conditions:
        if condition in job.status.conditions:
            continue
        if condition.type == SUSPENDED:
            reason = "Suspended" if condition.status == "True" else "Resumed"
            told.append((reason, condition.message))
        elif condition.type == COMPLETE:
            told.append(("Completed", "Job completed"))
        elif condition.type == FAILED:
            warning = (condition.reason, condition.message)
            return [*_normal(job, told), _event(job, EventSeverity.WARNING, *warning)]
    return _normal(job, told)


def _normal(job: Job, told: Sequence[tuple[str, str]]) -> list[EmitEvent]:
    return [_event(job, EventSeverity.NORMAL, reason, message) for reason, message in told]


def _event(job: Job, severity: EventSeverity, reason: str, message: str) -> EmitEvent:
    return EmitEvent(JOBS, job.metadata.key, job.metadata.uid, severity, reason, message)


# --- pods without a Job to count them ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrackedPod:
    """A pod and the Job of the name it says controls it, whatever its UID."""

    pod: Pod
    job: Job | None


def decide_release(view: TrackedPod, now: float) -> Plan:
    """Take the finalizer off, unless a Job is there to do it. The time does not matter."""
    del now
    if not is_tracked(view.pod) or _is_awaited(view):
        return NOTHING
    return Plan((finalizer_removal(view.pod, TRACKING),), reasons=("nobody counts it",))


def _is_awaited(view: TrackedPod) -> bool:
    controller, job = view.pod.metadata.controller, view.job
    if controller is None:
        return False
    if (controller.api_version, controller.kind) != (JOBS.api_version, JOBS.kind):
        return True  # somebody else's pod: what its finalizers mean is theirs to know
    if job is None or job.metadata.uid != controller.uid:
        return False
    return job.spec.managed_by not in {"", OWN_NAME} or not is_finished(job)
