"""Whether a job ends, how, and why: policies of roles and job, annotations, the time limit.

An ending is recorded before anything is deleted for it, because the pods that prove it go next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from swell.api.aitrainingjob import (
    AITrainingJobPhase,
    AITrainingJobStatus,
    CleanPodPolicy,
    Ending,
    JobEndPolicy,
    RoleEndPolicy,
)
from swell.api.pod import PodPhase
from swell.api.times import format_time, parse_time
from swell.operator.aitrainingjob.causes import Cause, Kind
from swell.operator.aitrainingjob.reasons import Reason
from swell.operator.aitrainingjob.world import Replica, World, current

ANNOTATIONS: Mapping[str, AITrainingJobPhase] = {
    "failed": AITrainingJobPhase.FAILED,
    "nodefail": AITrainingJobPhase.NODE_FAIL,
    "nodefailed": AITrainingJobPhase.NODE_FAIL,
    "preempted": AITrainingJobPhase.PREEMPTED,
}
MESSAGE_MAX = 4096


def ending(
    world: World, status: AITrainingJobStatus, final: tuple[Cause, ...], now: float
) -> Ending | None:
    """How the job ends now, if it does. `final` are the causes that no restart will cure."""
    ended = (
        _completion(world, status)
        or _annotation(world)
        or _failure(world, status, final)
        or _time_limit(world, status, now)
    )
    if ended is None:
        return None
    phase, reason, message = ended
    return Ending(
        phase=phase,
        reason=reason.value,
        message=message[:MESSAGE_MAX],
        decided_at=format_time(now),
    )


def time_limit_at(world: World, status: AITrainingJobStatus) -> float | None:
    """When the time limit will end the job: the time to look again."""
    limit_s = world.job.spec.time_limit
    if limit_s is None or status.start_running_time is None:
        return None
    return parse_time(status.start_running_time) + limit_s


def is_deleted_at_end(replica: Replica, ending: Ending, policy: CleanPodPolicy) -> bool:
    """Whether a pod goes when the job ends. Only a job that ended by itself may keep some."""
    by_itself = ending.phase in {AITrainingJobPhase.SUCCEED, AITrainingJobPhase.FAILED}
    if not by_itself or ending.reason == Reason.ANNOTATED.value:
        return True
    match policy:
        case CleanPodPolicy.ALL:
            return True
        case CleanPodPolicy.RUNNING:
            return not replica.is_finished
        case CleanPodPolicy.NONE:
            return False


_End = tuple[AITrainingJobPhase, Reason, str]


def _completion(world: World, status: AITrainingJobStatus) -> _End | None:
    succeeded = {
        (one.role, one.index) for one in current(world, status) if one.phase is PodPhase.SUCCEEDED
    }
    done = [
        role
        for role, spec in world.roles.items()
        if _holds(spec.complete_policy, role, succeeded, status)
    ]
    counted = {role: spec.complete_policy for role, spec in world.roles.items()}
    if not _over_roles(world.job.spec.complete_policy, done, counted):
        return None
    return AITrainingJobPhase.SUCCEED, Reason.ROLES_COMPLETED, f"completed: {', '.join(done)}"


def _annotation(world: World) -> _End | None:
    for name, value in sorted(world.job.metadata.annotations.items()):
        phase = ANNOTATIONS.get(name.lower())
        if phase is not None:
            return phase, Reason.ANNOTATED, value or f"annotation {name}"
    return None


def _failure(world: World, status: AITrainingJobStatus, final: tuple[Cause, ...]) -> _End | None:
    for cause in final:
        if cause.kind is Kind.CREATION:
            return AITrainingJobPhase.FAILED, cause.reason, cause.message
    dead = {(cause.role, cause.index) for cause in final}
    failed = [
        role for role, spec in world.roles.items() if _holds(spec.fail_policy, role, dead, status)
    ]
    counted = {role: spec.fail_policy for role, spec in world.roles.items()}
    if _over_roles(world.job.spec.fail_policy, failed, counted):
        return _blame(cause for cause in final if _ended(cause, failed, world))
    return None


def _time_limit(world: World, status: AITrainingJobStatus, now: float) -> _End | None:
    at = time_limit_at(world, status)
    if at is None or now < at:
        return None
    message = f"ran for longer than {world.job.spec.time_limit} s"
    return AITrainingJobPhase.TIMEOUT, Reason.TIME_LIMIT, message


def _holds(
    policy: RoleEndPolicy,
    role: str,
    ended: set[tuple[str, int]],
    status: AITrainingJobStatus,
) -> bool:
    """Whether a role's policy is met by the replicas that ended."""
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
    """Whether the job's policy is met by the roles that ended. Roles without a policy are out."""
    asked = [role for role, own in policies.items() if own is not RoleEndPolicy.NONE]
    match policy:
        case JobEndPolicy.NONE:
            return False
        case JobEndPolicy.ANY:
            return bool(ended)
        case JobEndPolicy.ALL:
            return bool(asked) and all(role in ended for role in asked)


def _ended(cause: Cause, roles: list[str], world: World) -> bool:
    """Whether a cause is one of those that ended its role."""
    if cause.role not in roles:
        return False
    return world.roles[cause.role].fail_policy is not RoleEndPolicy.RANK0 or cause.index == 0


def _blame(final: Iterable[Cause]) -> _End:
    """The gravest cause decides the phase; the message names all of them, within reason."""
    causes = list(final)
    first = causes[0]
    phase = AITrainingJobPhase.NODE_FAIL if first.kind is Kind.NODE else AITrainingJobPhase.FAILED
    reason = first.reason if first.kind is Kind.NODE else Reason.ROLES_FAILED
    shown = "; ".join(cause.message for cause in causes[:3])
    more = f"; and {len(causes) - 3} more" if causes[3:] else ""
    return phase, reason, shown + more
