"""The plugin gang: a job starts with its minimum or not at all, and is no victim below it.

The minimum is `minMember` in total and `minTaskMember` of each role.
"""

from __future__ import annotations

from collections.abc import Sequence

from swell.api.scheduling import GANG_PREFIX
from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.hooks import UNREACHABLE, Hooks, Vote
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.task_counts import TaskCounts
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.session import Session

# For a job that no action has looked at.
_NOT_TRIED = Refusal(WaitReason.NOT_ENOUGH_RESOURCES, "not tried in this session")


def open_gang(session: Session, option: PluginOption) -> Hooks:
    del option

    def unschedulable(job: JobInfo) -> Refusal | None:
        return _unschedulable(session, job)

    return Hooks(
        job_key=lambda job: float(shortfall(job, "") == 0),  # jobs that are not ready first
        job_valid=invalid,
        shortfall=shortfall,
        pipelined=lambda job: Vote.PERMIT if _is_complete(job) else Vote.REJECT,
        # Roles are ignored here, as in Volcano.
        starving=lambda job: job.counts.ready + job.counts.waiting < job.min_member,
        preemptable=surplus_only,
        reclaimable=surplus_only,
        unschedulable=unschedulable,
        sub_group_shortfall=lambda part: part.shortfall,
        sub_group_pipelined=lambda part: Vote.PERMIT if part.is_pipelined else Vote.REJECT,
        sub_group_key=lambda part: float(not part.shortfall),  # those that are not ready first
    )


def invalid(job: JobInfo) -> Refusal | None:
    """Returns a refusal if too few pods exist, in total or of a role."""
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
    for policy, n in job.sub_groups.lacks() if job.sub_groups is not None else ():
        return Refusal(
            WaitReason.NOT_ENOUGH_PODS_OF_TASK,
            f"{n} of the {policy.min_sub_groups} sub-groups of {policy.name!r} exist",
        )
    return None


def shortfall(job: JobInfo, role: str) -> int:
    """Returns how many more tasks of the role complete the gang; UNREACHABLE if others lack."""
    missing = job.min_member - job.counts.ready_or_best_effort
    if missing < 0:
        missing = 0
    if not job.role_minimums and job.sub_groups is None:
        return missing  # the usual case, asked for all the time
    # A pending best-effort task counts as ready: backfill places it after the rest is bound.
    for name, minimum in job.role_minimums.items():
        short = minimum - job.role(name).ready_or_best_effort
        if short > 0:
            if name != role:
                return UNREACHABLE
            missing = max(missing, short)
    if job.sub_groups is not None and not job.sub_groups.has_minimum(with_waiting=False):
        return UNREACHABLE
    return missing


def _is_complete(job: JobInfo) -> bool:
    """Whether the gang is ready, or is once its pipelined tasks have started."""

    def there(counts: TaskCounts) -> int:
        return counts.ready_or_best_effort + counts.waiting

    if job.sub_groups is not None and not job.sub_groups.has_minimum(with_waiting=True):
        return False
    return there(job.counts) >= job.min_member and all(
        there(job.role(role)) >= minimum for role, minimum in job.role_minimums.items()
    )


def surplus_only(preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
    """Returns the units without which each job keeps its minimum, whatever the priorities.

    Tasks whose binding may still fail do not count as kept, as in `eviction_units`.
    """
    del preemptor
    left: dict[str, int] = {}
    granted: list[EvictionUnit] = []
    for unit in victims:
        kept = left.get(unit.job.key, unit.job.counts.confirmed) - len(unit.tasks)
        if kept >= unit.job.min_member:
            left[unit.job.key] = kept
            granted.append(unit)
    return granted


def is_filled_by_leaving(job: JobInfo) -> bool:
    """Whether pods that are leaving still make up the minimum and none waits.

    Then the condition is not rewritten: the pods may be replaced before it would be true.
    """
    counts = job.counts
    return (
        not counts[TaskStatus.PENDING]
        and not counts.waiting
        and counts[TaskStatus.RELEASING] > 0
        and counts.ready + counts[TaskStatus.RELEASING] >= job.min_member
    )


def _unschedulable(session: Session, job: JobInfo) -> Refusal | None:
    """Returns the text of the Unschedulable condition, which begins as Volcano's does."""
    missing = shortfall(job, "")
    if not missing or is_filled_by_leaving(job):
        return None
    n = max(job.min_member - job.counts.ready, 1)
    refusal = session.reason_for(job) or invalid(job) or _NOT_TRIED
    text = f"{n}/{len(job.tasks)}{GANG_PREFIX}{refusal.message}"
    return Refusal(refusal.reason, text, refusal.limits)
