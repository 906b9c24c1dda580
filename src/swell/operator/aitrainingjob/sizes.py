"""The target size of each role: by the spec, within its bounds, or frozen by a finished pod.

With `edlPolicy: Auto` the autoscaler and the scheduler write targets into the status; otherwise
the target follows the spec.
"""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import (
    RECORDS_MAX,
    AITrainingJobStatus,
    EdlPolicy,
    ReplicaSpec,
    ResizeAuthor,
    ScaleRecord,
    ScaleStatus,
)
from swell.api.pod import PodPhase
from swell.api.times import format_time
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, is_restarting

# So many hosts fit into the members ConfigMap, whose size the API server limits.
JOB_PODS_MAX = 10_000


def initial_targets(snapshot: AITrainingJobSnapshot) -> dict[str, int]:
    """The sizes a job starts with: `replicas` of each role, within its bounds."""
    return {role: _asked(snapshot, role, spec) for role, spec in snapshot.roles.items()}


def problem(snapshot: AITrainingJobSnapshot) -> str:
    """The problem with the size that a job begins with; empty when there is none."""
    n_pods = sum(max(spec.minimum, spec.size) for spec in snapshot.roles.values())
    if n_pods <= JOB_PODS_MAX:
        return ""
    return f"spec.replicaSpecs: {n_pods} pods are more than one job may have ({JOB_PODS_MAX})"


def with_targets(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    members: dict[str, int] | None,
    now: float,
) -> AITrainingJobStatus:
    """The status with the targets that the operator has to set or correct.

    `members` are the sizes that pods have read from the members ConfigMap. A role of which a pod
    has succeeded keeps that size: its work is being finished, not shared out anew.
    """
    for role, spec in snapshot.roles.items():
        held = status.target_replicas.get(role)
        if held is None:
            targets = {**status.target_replicas, role: _asked(snapshot, role, spec)}
            status = replace(status, target_replicas=targets)
        elif members and role in members and _is_frozen(snapshot, status, role):
            reason = "a pod of the role has succeeded"
            status = resized(
                status, role, members[role], by=ResizeAuthor.OPERATOR, reason=reason, now=now
            )
        elif spec.edl_policy is not EdlPolicy.AUTO:
            reason = "replicas changed"
            asked = _asked(snapshot, role, spec)
            status = resized(status, role, asked, by=ResizeAuthor.USER, reason=reason, now=now)
        else:
            reason = "the target was outside of minReplicas and maxReplicas"
            largest = snapshot.job.largest(spec)
            bounded = min(JOB_PODS_MAX, max(spec.minimum, min(held, largest)))
            status = resized(
                status, role, bounded, by=ResizeAuthor.OPERATOR, reason=reason, now=now
            )
    return replace(status, scale=_scale(snapshot, status))


def resized(
    status: AITrainingJobStatus,
    role: str,
    target: int,
    *,
    by: ResizeAuthor,
    reason: str,
    now: float,
) -> AITrainingJobStatus:
    """The status with a new target and a record of it; unchanged when the target is the same."""
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


def _is_frozen(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, role: str) -> bool:
    """Whether a pod of the role has succeeded that no restart is about to replace."""
    return any(
        one.phase is PodPhase.SUCCEEDED and not one.is_released and not is_restarting(one, status)
        for one in snapshot.of_role(role)
    )


def _scale(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> ScaleStatus | None:
    """The answer of the scale subresource: the role's target, and its pods' labels."""
    role = snapshot.job.spec.scaled_role
    if role is None:
        return None
    job = snapshot.job.metadata.name
    selector = f"{labels.TRAINING_JOB_NAME}={job},{labels.REPLICA_NAME}={role}"
    return ScaleStatus(replicas=status.target_replicas.get(role, 0), selector=selector)


def _asked(snapshot: AITrainingJobSnapshot, role: str, spec: ReplicaSpec) -> int:
    """The size that the spec asks for: by `scale` if that is about the role, else `replicas`."""
    job = snapshot.job.spec
    size = job.scale.replicas if job.scale is not None and job.scaled_role == role else None
    wanted = spec.size if size is None else size
    return min(JOB_PODS_MAX, max(spec.minimum, min(wanted, snapshot.job.largest(spec))))
