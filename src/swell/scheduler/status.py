"""The end of a session: which phase each group is in now, and why those that wait do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from swell.api.scheduling import PodGroupPhase
from swell.scheduler.model.jobs import Job
from swell.scheduler.model.reasons import Reason, Refusal
from swell.scheduler.model.snapshot import DEFAULT_QUEUE
from swell.scheduler.model.tasks import NOWHERE, SCHEDULED, Shape, Task, TaskStatus
from swell.scheduler.session import Session


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What the group's status should say."""

    phase: PodGroupPhase
    refusal: Refusal | None = None


def statuses(session: Session, jobs: Iterable[Job]) -> Iterator[tuple[str, GroupStatus]]:
    """The status of every job given, after everything in the session is done."""
    for job in jobs:
        if job.queue is None:
            name = job.group.spec.queue or DEFAULT_QUEUE
            refusal = Refusal(Reason.QUEUE_NOT_FOUND, f"there is no queue {name!r}")
            yield job.key, GroupStatus(_known(job.group.status.phase), refusal)
            continue
        unschedulable = session.votes.unschedulable(job)
        phase = phase_of(job, is_unschedulable=unschedulable is not None)
        yield job.key, GroupStatus(phase, unschedulable or _waiting(session, job))


def _known(phase: PodGroupPhase) -> PodGroupPhase:
    return PodGroupPhase.PENDING if phase is PodGroupPhase.EMPTY else phase


def phase_of(job: Job, *, is_unschedulable: bool) -> PodGroupPhase:
    """Bindings under way do not count: a group is Running when its pods are."""
    counts = job.counts
    if counts[TaskStatus.RUNNING] and is_unschedulable:
        return PodGroupPhase.UNKNOWN
    leaving = counts[TaskStatus.RELEASING] and sum(
        task.node != NOWHERE for task in job.in_status(TaskStatus.RELEASING)
    )
    scheduled = counts.of(SCHEDULED) + leaving
    if scheduled >= job.min_member:
        finished = counts[TaskStatus.SUCCEEDED] + counts[TaskStatus.FAILED]
        return PodGroupPhase.COMPLETED if scheduled == finished else PodGroupPhase.RUNNING
    if job.phase is PodGroupPhase.INQUEUE:
        return PodGroupPhase.INQUEUE
    return PodGroupPhase.PENDING


def pod_refusals(session: Session, job: Job) -> Iterator[tuple[Task, Refusal]]:
    """Why each pod of a job has no node: its own reason, or that its gang is not complete."""
    known: dict[Shape, Refusal] = {}
    for task in job.in_status(TaskStatus.PENDING):
        if task.is_gated:
            names = ", ".join(gate.name for gate in task.pod.spec.scheduling_gates)
            yield task, Refusal(Reason.GATED, f"held back by {names}")
            continue
        if task.shape not in known:
            known[task.shape] = _refusal_of(session, job, task)
        yield task, known[task.shape]


def _refusal_of(session: Session, job: Job, task: Task) -> Refusal:
    of_job = session.reason_for(job)
    if of_job is not None and of_job.reason is not Reason.NOT_ENOUGH_RESOURCES:
        return of_job
    if session.placer.place(task) is None:
        return Refusal(Reason.NOT_ENOUGH_RESOURCES, session.placer.why_not(task))
    short = max(job.min_member - job.counts.ready, 0)
    return Refusal(Reason.GANG_SHORT, f"there is room for it, but its gang is {short} pods short")


def _waiting(session: Session, job: Job) -> Refusal | None:
    """Why a group waits that nobody calls unschedulable."""
    if not job.is_admitted:
        refusal = session.refusals.get(job.key)
        return refusal or Refusal(Reason.WAITING_FOR_ADMISSION, "has not been admitted yet")
    if not job.counts.asking or job.counts.ready >= max(job.min_member, 1):
        return None
    return session.reason_for(job)
