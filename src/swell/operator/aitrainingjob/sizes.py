"""What size each role is meant to have: who may say so, and what holds it fast."""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import (
    AITrainingJobStatus,
    EdlPolicy,
    ReplicaSpec,
    ResizeAuthor,
    ScaleRecord,
)
from swell.api.pod import PodPhase
from swell.api.times import format_time
from swell.operator.aitrainingjob.world import World, is_restarting

RECORDS_MAX = 20
# What the members ConfigMap of one job can name within the size an API server stores, at least.
JOB_PODS_MAX = 10_000


def initial_targets(world: World) -> dict[str, int]:
    return {role: _clamped(spec) for role, spec in world.roles.items()}


def problem(world: World) -> str:
    """What is wrong with the size a job begins with; empty when nothing."""
    n_pods = sum(max(spec.minimum, spec.size) for spec in world.roles.values())
    if n_pods <= JOB_PODS_MAX:
        return ""
    return f"spec.replicaSpecs: {n_pods} pods are more than one job may have ({JOB_PODS_MAX})"


def with_targets(
    world: World, status: AITrainingJobStatus, members: dict[str, int] | None, now: float
) -> AITrainingJobStatus:
    """The status with each role's target where the operator is the one to write it.

    `members` are the sizes that pods have been told of. A role of which a pod has succeeded keeps
    that size: its work is being finished, not shared out anew.
    """
    for role, spec in world.roles.items():
        held = status.target_replicas.get(role)
        if held is None:
            targets = {**status.target_replicas, role: _clamped(spec)}
            status = replace(status, target_replicas=targets)
        elif members and role in members and _is_frozen(world, status, role):
            reason = "a pod of the role has succeeded"
            status = resized(
                status, role, members[role], by=ResizeAuthor.OPERATOR, reason=reason, now=now
            )
        elif spec.edl_policy is not EdlPolicy.AUTO:
            reason = "replicas changed"
            status = resized(
                status, role, _clamped(spec), by=ResizeAuthor.USER, reason=reason, now=now
            )
        else:
            reason = "the target was outside of minReplicas and maxReplicas"
            bounded = min(JOB_PODS_MAX, max(spec.minimum, min(held, spec.maximum)))
            status = resized(
                status, role, bounded, by=ResizeAuthor.OPERATOR, reason=reason, now=now
            )
    return status


def resized(
    status: AITrainingJobStatus,
    role: str,
    target: int,
    *,
    by: ResizeAuthor,
    reason: str,
    now: float,
) -> AITrainingJobStatus:
    """The status with a new target and its record; unchanged when the target is the same."""
    held = status.target_replicas.get(role, 0)
    if held == target:
        return status
    record = ScaleRecord(
        time=format_time(now), role=role, from_=held, to=target, by=by, reason=reason
    )
    return replace(
        status,
        target_replicas={**status.target_replicas, role: target},
        scale_records=(*status.scale_records, record)[-RECORDS_MAX:],
    )


def _is_frozen(world: World, status: AITrainingJobStatus, role: str) -> bool:
    """Whether a pod of the role has succeeded that no restart is about to replace."""
    return any(
        one.phase is PodPhase.SUCCEEDED and not is_restarting(one, status)
        for one in world.of_role(role)
    )


def _clamped(spec: ReplicaSpec) -> int:
    return min(JOB_PODS_MAX, max(spec.minimum, min(spec.size, spec.maximum)))
