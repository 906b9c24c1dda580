"""Whether an AITrainingJob ends now, how, and why.

A job ends by the policies of its roles and its own, by an annotation, or by its time limit. An
ending is recorded before anything is deleted for it, because it deletes the pods that prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from swell.api.aitrainingjob import (
    STOPPED_ANNOTATION,
    AITrainingJobStatus,
    CleanPodPolicy,
    Ending,
    JobEndPolicy,
    RoleEndPolicy,
)
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.pod import PodPhase
from swell.api.times import format_time, parse_time
from swell.operator.aitrainingjob.causes import Cause, CauseKind
from swell.operator.aitrainingjob.phases import JobReason
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica, current
from swell.operator.framework.status import MESSAGE_MAX

# Annotations by which users and other controllers end a job, in lower case.
ANNOTATIONS: Mapping[str, Phase] = {
    "failed": Phase.FAILED,
    "nodefail": Phase.NODE_FAIL,
    "nodefailed": Phase.NODE_FAIL,
    "preempted": Phase.PREEMPTED,
}
# The reasons of endings that somebody asked for: such a job keeps no pods, whatever its policy.
ASKED_FOR = frozenset({JobReason.ANNOTATED.value, JobReason.STOPPED.value})
# More causes than this are counted in the message and not described.
_CAUSES_SHOWN_MAX = 3


def ending(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    final: tuple[Cause, ...],
    now: float,
) -> Ending | None:
    """The ending of the job, if it ends now. `final` are the causes that no restart will cure.

    Completion comes first: a job that has done its work has succeeded, whatever else is wrong.
    """
    ended = (
        _completion(snapshot, status)
        or _annotation(snapshot)
        or _failure(snapshot, status, final)
        or _time_limit(snapshot, status, now)
    )
    if ended is None:
        return None
    return new_ending(*ended, now)


def ending_of_suspended(snapshot: AITrainingJobSnapshot, now: float) -> Ending | None:
    """The ending of a suspended job, whose pods prove nothing: only an annotation ends it."""
    ended = _annotation(snapshot)
    return None if ended is None else new_ending(*ended, now)


def new_ending(phase: Phase, reason: JobReason, message: str, now: float) -> Ending:
    """An ending decided now, with its message cut to the allowed size."""
    return Ending(
        phase=phase,
        reason=reason.value,
        message=message[:MESSAGE_MAX],
        decided_at=format_time(now),
    )


def time_limit_at(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> float | None:
    """When the time limit will end the job: the time to look again."""
    limit_s = snapshot.job.spec.time_limit
    # Only the time in which a job may run counts, not that of its suspensions.
    if limit_s is None or status.start_running_time is None or status.paused_at is not None:
        return None
    return parse_time(status.start_running_time) + status.paused_seconds + limit_s


def is_deleted_at_end(replica: Replica, ending: Ending, policy: CleanPodPolicy) -> bool:
    """Whether a pod is deleted when the job ends. Only a job that ended by itself keeps pods."""
    by_itself = ending.phase in {Phase.SUCCEED, Phase.FAILED}
    if not by_itself or ending.reason in ASKED_FOR:
        return True
    match policy:
        case CleanPodPolicy.ALL:
            return True
        case CleanPodPolicy.RUNNING:
            # One that may have finished is kept until that can be seen.
            return not replica.is_finished and not replica.is_unread
        case CleanPodPolicy.NONE:
            return False


_End = tuple[Phase, JobReason, str]


def _completion(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> _End | None:
    succeeded = {
        (one.role, one.index)
        for one in current(snapshot, status)
        # A program that ends because it was asked to leave has not done its work.
        if one.phase is PodPhase.SUCCEEDED and not one.is_released
    }
    done = [
        role
        for role, spec in snapshot.roles.items()
        if _holds(spec.complete_policy, role, succeeded, status)
    ]
    counted = {role: spec.complete_policy for role, spec in snapshot.roles.items()}
    if not _over_roles(snapshot.job.spec.complete_policy, done, counted):
        return None
    return Phase.SUCCEED, JobReason.ROLES_COMPLETED, f"completed: {', '.join(done)}"


def _annotation(snapshot: AITrainingJobSnapshot) -> _End | None:
    annotations = snapshot.job.metadata.annotations
    stopped = annotations.get(STOPPED_ANNOTATION)
    reason = JobReason.ANNOTATED if stopped is None else JobReason.STOPPED
    for name, value in sorted(annotations.items()):
        phase = ANNOTATIONS.get(name.lower())
        if phase is not None:
            return phase, reason, value or f"annotation {name}"
    return None if stopped is None else (Phase.FAILED, reason, stopped or "stopped")


def _failure(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, final: tuple[Cause, ...]
) -> _End | None:
    for cause in final:
        if cause.kind is CauseKind.CREATION:
            return Phase.FAILED, cause.reason, cause.message
    dead = {(cause.role, cause.index) for cause in final}
    failed = [
        role
        for role, spec in snapshot.roles.items()
        if _holds(spec.fail_policy, role, dead, status)
    ]
    counted = {role: spec.fail_policy for role, spec in snapshot.roles.items()}
    if _over_roles(snapshot.job.spec.fail_policy, failed, counted):
        return _blame(cause for cause in final if _ended(cause, failed, snapshot))
    return None


def _time_limit(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> _End | None:
    at = time_limit_at(snapshot, status)
    if at is None or now < at:
        return None
    message = f"ran for longer than {snapshot.job.spec.time_limit} s"
    return Phase.TIMEOUT, JobReason.TIME_LIMIT, message


def _holds(
    policy: RoleEndPolicy,
    role: str,
    ended: set[tuple[str, int]],
    status: AITrainingJobStatus,
) -> bool:
    """Whether a role's policy is met by the replicas in `ended`."""
    indexes = range(status.target_replicas.get(role, 0))
    met: Callable[[Iterable[bool]], bool]
    match policy:
        case RoleEndPolicy.NONE:
            return False
        case RoleEndPolicy.RANK0:
            return (role, 0) in ended
        case RoleEndPolicy.ANY:
            met = any
        case RoleEndPolicy.ALL:
            met = all
    return bool(indexes) and met((role, index) in ended for index in indexes)


def _over_roles(
    policy: JobEndPolicy, ended: list[str], policies: Mapping[str, RoleEndPolicy]
) -> bool:
    """Whether the job's policy is met by the roles in `ended`. Roles without one do not count."""
    asked = [role for role, own in policies.items() if own is not RoleEndPolicy.NONE]
    match policy:
        case JobEndPolicy.NONE:
            return False
        case JobEndPolicy.ANY:
            return bool(ended)
        case JobEndPolicy.ALL:
            return bool(asked) and all(role in ended for role in asked)


def _ended(cause: Cause, roles: list[str], snapshot: AITrainingJobSnapshot) -> bool:
    """Whether a cause is one of those that ended its role."""
    if cause.role not in roles:
        return False
    return snapshot.roles[cause.role].fail_policy is not RoleEndPolicy.RANK0 or cause.index == 0


def _blame(final: Iterable[Cause]) -> _End:
    """The ending for these causes: the gravest decides the phase, the message names the first."""
    causes = list(final)
    first = causes[0]
    phase = Phase.NODE_FAIL if first.kind is CauseKind.NODE else Phase.FAILED
    reason = first.reason if first.kind is CauseKind.NODE else JobReason.ROLES_FAILED
    # The first is the cause; pods that failed after it may have followed it.
    shown = "; ".join(
        f"followed by {cause.message}" if cause.at > first.at else cause.message
        for cause in causes[:_CAUSES_SHOWN_MAX]
    )
    n_more = len(causes) - _CAUSES_SHOWN_MAX
    more = f"; and {n_more} more" if n_more > 0 else ""
    return phase, reason, shown + more
