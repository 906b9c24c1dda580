"""gang: a job starts whole or not at all, and gives up only what it has beyond its minimum."""

from __future__ import annotations

from collections.abc import Sequence

from swell.scheduler.config import PluginOption
from swell.scheduler.hooks import UNREACHABLE, Hooks, Vote
from swell.scheduler.model.jobs import JobInfo, TaskCounts
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.session import Session
from swell.scheduler.victims import EvictionUnit

ARGUMENTS: tuple[str, ...] = ()
_NOT_TRIED = Refusal(WaitReason.NOT_ENOUGH_RESOURCES, "not tried in this session")


def open_gang(session: Session, option: PluginOption) -> Hooks:
    del option

    def unschedulable(job: JobInfo) -> Refusal | None:
        return _unschedulable(session, job)

    return Hooks(
        job_key=lambda job: float(shortfall(job, "") == 0),
        job_valid=invalid,
        shortfall=shortfall,
        pipelined=lambda job: Vote.PERMIT if _is_complete(job) else Vote.REJECT,
        starving=lambda job: job.counts.ready + job.counts.waiting < job.min_member,
        preemptable=surplus_only,
        reclaimable=surplus_only,
        unschedulable=unschedulable,
    )


def invalid(job: JobInfo) -> Refusal | None:
    """Too few pods exist, in total or of a role."""
    if job.counts.live < job.min_member:
        return Refusal(
            WaitReason.NOT_ENOUGH_TASKS,
            f"{job.counts.live} of the {job.min_member} pods of the gang exist",
        )
    for role, minimum in job.role_minimums.items():
        live = job.role(role).live
        if live < minimum:
            return Refusal(
                WaitReason.NOT_ENOUGH_PODS_OF_TASK,
                f"{live} of the {minimum} pods of role {role!r} exist",
            )
    return None


def shortfall(job: JobInfo, role: str) -> int:
    """How many more tasks of the role complete the gang; another role short: never."""
    missing = max(job.min_member - job.counts.ready_or_effortless, 0)
    for name, minimum in job.role_minimums.items():
        short = minimum - job.role(name).ready_or_effortless
        if short > 0:
            if name != role:
                return UNREACHABLE
            missing = max(missing, short)
    return missing


def _is_complete(job: JobInfo) -> bool:
    """Ready, or ready once what it was promised is there."""

    def there(tally: TaskCounts) -> int:
        return tally.ready_or_effortless + tally.waiting

    return there(job.counts) >= job.min_member and all(
        there(job.role(role)) >= minimum for role, minimum in job.role_minimums.items()
    )


def surplus_only(preemptor: Task, units: Sequence[EvictionUnit]) -> list[EvictionUnit]:
    """Each job stays at or above its minimum, whoever asks."""
    del preemptor
    left: dict[str, int] = {}
    granted: list[EvictionUnit] = []
    for unit in units:
        ready = left.get(unit.job.key, unit.job.counts.ready) - len(unit.tasks)
        if ready >= unit.job.min_member:
            left[unit.job.key] = ready
            granted.append(unit)
    return granted


def is_filled_by_leaving(job: JobInfo) -> bool:
    """Nothing waits, and pods that are leaving still make up the minimum: no news yet."""
    counts = job.counts
    return (
        not counts[TaskStatus.PENDING]
        and not counts.waiting
        and counts[TaskStatus.RELEASING] > 0
        and counts.ready + counts[TaskStatus.RELEASING] >= job.min_member
    )


def _unschedulable(session: Session, job: JobInfo) -> Refusal | None:
    missing = shortfall(job, "")
    if not missing or is_filled_by_leaving(job):
        return None
    n = max(job.min_member - job.counts.ready, 1)
    refusal = session.reason_for(job) or invalid(job) or _NOT_TRIED
    text = f"{n}/{len(job.tasks)} tasks in gang unschedulable: {refusal.message}"
    return Refusal(refusal.reason, text, refusal.limits)
