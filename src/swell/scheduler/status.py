"""The end of a cycle: the phase of each group, and why groups and pods wait.

Phases of a PodGroup, computed anew at the end of every session from its tasks:

                 enqueue               minMember scheduled
    Pending -----------------> Inqueue --------------------> Running ---> Completed
       ^  ^  admission timeout    |                          |     all scheduled tasks
       |  +------(live)-----------+                          |     have finished
       |                                                     |
       +------------- fewer scheduled than minMember --------+
                          (also from Unknown)

A group with a running task that the session calls unschedulable is Unknown. Scheduled are tasks
that are Bound, Running, Succeeded or Failed, and Releasing ones that have a node; bindings under
way do not count, so a group stays Inqueue until the server confirms them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from swell.api.scheduling import PodGroupPhase
from swell.api.wording import count_of
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.tasks import NOWHERE, Shape, Task, TaskStatus
from swell.scheduler.session import Session, on_hold


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The phase of a group, and why it waits if it does."""

    phase: PodGroupPhase
    refusal: Refusal | None = None
    never: str = ""  # why it cannot ever start on the nodes there are; empty if it may


# The statuses of groups that do not wait: most of them, and the same for all in a phase.
_AT_EASE: Final = {phase: GroupStatus(phase) for phase in PodGroupPhase}


def statuses(session: Session, jobs: Iterable[JobInfo]) -> Iterator[tuple[str, GroupStatus]]:
    """Yields the status of every given job, once all actions of the session have run."""
    for job in jobs:
        if job.queue is None:
            lost = Refusal(WaitReason.QUEUE_NOT_FOUND, f"there is no queue {job.queue_name}")
            yield job.key, GroupStatus(_named_phase(job.group.status.phase), lost)
            continue
        if job.unreadable or job.barred is not None:
            # Of an unknown minimum no phase follows: it keeps the one that it has.
            yield job.key, GroupStatus(_named_phase(job.phase), on_hold(job))
            continue
        unschedulable = session.votes.unschedulable(job)
        phase = phase_of(job, is_unschedulable=unschedulable is not None)
        refusal = unschedulable or _waiting(session, job)
        if refusal is None:
            yield job.key, _AT_EASE[phase]
            continue
        never = session.snapshot.empty_nodes.why_never(job) if _has_to_wait(job, refusal) else ""
        yield job.key, GroupStatus(phase, refusal, never)


def _has_to_wait(job: JobInfo, refusal: Refusal | None) -> bool:
    """Whether the job is refused and below its minimum: then it may be that it never fits."""
    return refusal is not None and job.counts.ready < max(job.min_member, 1)


def _named_phase(phase: PodGroupPhase) -> PodGroupPhase:
    """Returns the phase itself; a group whose status was never written counts as Pending."""
    return PodGroupPhase.PENDING if phase is PodGroupPhase.EMPTY else phase


def phase_of(job: JobInfo, *, is_unschedulable: bool) -> PodGroupPhase:
    """Returns the phase of the group (drawn at the top). The order of the checks is Volcano's."""
    counts = job.counts
    # First of all, as in Volcano: a torn gang that still runs is neither Running nor Pending.
    if counts[TaskStatus.RUNNING] and is_unschedulable:
        return PodGroupPhase.UNKNOWN
    leaving = counts[TaskStatus.RELEASING] and sum(
        task.node != NOWHERE for task in job.in_status(TaskStatus.RELEASING)
    )
    scheduled = counts.scheduled + leaving
    if scheduled >= job.min_member:
        finished = counts[TaskStatus.SUCCEEDED] + counts[TaskStatus.FAILED]
        return PodGroupPhase.COMPLETED if scheduled == finished else PodGroupPhase.RUNNING
    # An admitted group stays so. One that ran and fell below its minimum must be admitted again.
    if job.phase is PodGroupPhase.INQUEUE:
        return PodGroupPhase.INQUEUE
    return PodGroupPhase.PENDING


def pod_refusals(session: Session, job: JobInfo) -> Iterator[tuple[Task, Refusal]]:
    """Yields why each pending pod has no node: its own reason, or that its gang is incomplete."""
    known: dict[Shape | Task, Refusal] = {}
    for task in job.in_status(TaskStatus.PENDING):
        if task.unreadable:
            yield task, Refusal(WaitReason.UNREADABLE, f"cannot be read: {task.unreadable}")
            continue
        if task.is_gated:
            names = ", ".join(gate.name for gate in task.pod.spec.scheduling_gates)
            yield task, Refusal(WaitReason.GATED, f"held back by {names}")
            continue
        # Equal pods have the same reason, and finding it looks at all nodes.
        alike = task if task.shape.has_claims else task.shape
        if alike not in known:
            known[alike] = _refusal_of(session, job, task)
        yield task, known[alike]


def _refusal_of(session: Session, job: JobInfo, task: Task) -> Refusal:
    of_job = session.reason_for(job)
    if of_job is not None and of_job.reason is not WaitReason.NOT_ENOUGH_RESOURCES:
        return of_job
    # Nodes may have room for this pod although its gang as a whole does not fit.
    if session.placer.node_for(task) is None:
        return Refusal(WaitReason.NOT_ENOUGH_RESOURCES, session.placer.why_not(task))
    short = max(job.min_member - job.counts.ready, 0)
    text = f"there is room for it, but its gang is {count_of(short, 'pod')} short"
    return Refusal(WaitReason.GANG_SHORT, text)


def _waiting(session: Session, job: JobInfo) -> Refusal | None:
    """Returns why a group waits that no plugin calls unschedulable."""
    preparing = session.snapshot.preparing.get(job.key)
    if preparing is not None:
        return preparing
    if not job.is_admitted:
        refusal = session.refusals.get(job.key)
        return refusal or Refusal(WaitReason.WAITING_FOR_ADMISSION, "has not been admitted yet")
    if not job.counts.asking or job.counts.ready >= max(job.min_member, 1):
        return None
    return session.reason_for(job)
