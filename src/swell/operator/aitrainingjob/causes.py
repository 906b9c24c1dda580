"""Why a pod cannot go on as it is: node lost, accelerator broken, failed, stuck, gone.

A cause says whether the role's policy wants the pod restarted. Whether the budget allows it, and
what else restarts with it, is decided in `restarts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from swell.api.aitrainingjob import (
    AITrainingJobPhase,
    AITrainingJobStatus,
    ReplicaSpec,
    RestartPolicy,
)
from swell.api.pod import ContainerStatus, PodPhase
from swell.api.times import parse_time
from swell.operator.aitrainingjob import labels, nodes
from swell.operator.aitrainingjob.reasons import Reason
from swell.operator.aitrainingjob.waiting import has_passed
from swell.operator.aitrainingjob.world import (
    Replica,
    World,
    covers,
    current,
    missing,
)

CREATION_FAILURES = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "ImageInspectError",
        "InvalidImageName",
        "RegistryUnavailable",
    }
)
_RESTART_ON_NODE = frozenset(
    {
        RestartPolicy.ALWAYS,
        RestartPolicy.ON_NODE_FAIL,
        RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE,
    }
)
_RESTART_ON_FAILURE = frozenset({RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE})
_RESTART_ON_CODE = frozenset({RestartPolicy.EXIT_CODE, RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE})


class Kind(IntEnum):
    """In the order in which causes are looked at."""

    NODE = 1
    FAILED = 2
    CREATION = 3
    GONE = 4


@dataclass(frozen=True, slots=True)
class Cause:
    """What is wrong with one replica. `node` is to be avoided when it is named."""

    kind: Kind
    role: str
    index: int
    reason: Reason
    message: str
    wants_restart: bool
    node: str = ""


def causes(world: World, status: AITrainingJobStatus, now: float) -> tuple[Cause, ...]:
    """Everything wrong now, in the order of causes, then role and index."""
    found = [*_of_pods(world, status, now), *_of_missing(world, status)]
    return tuple(sorted(found, key=lambda cause: (cause.kind, cause.role, cause.index)))


def _of_pods(world: World, status: AITrainingJobStatus, now: float) -> Iterator[Cause]:
    for replica in current(world, status):
        spec = world.roles[replica.role]
        cause = _node_cause(replica, spec, world, now)
        if cause is None and not replica.is_leaving:
            cause = _failure(replica, spec, world) or _creation(replica, world, now)
        if cause is not None:
            yield cause


def _node_cause(replica: Replica, spec: ReplicaSpec, world: World, now: float) -> Cause | None:
    if replica.phase is PodPhase.SUCCEEDED:
        return None
    restart = spec.restart_policy in _RESTART_ON_NODE
    node = replica.pod.spec.node_name
    if nodes.is_lost(replica, world, now):
        message = f"pod {replica.name}: node {node} is lost"
        return _cause(Kind.NODE, replica, Reason.NODE_LOST, message, restart)
    if replica.is_leaving:
        return None
    if replica.phase is PodPhase.FAILED and _is_disrupted(replica):
        message = f"pod {replica.name} on node {node} was disrupted: {_why(replica)}"
        return _cause(Kind.NODE, replica, Reason.NODE_LOST, message, restart)
    if fault := nodes.gpu_fault(replica, world):
        message = f"pod {replica.name}: node {node} reports {fault}"
        return _cause(Kind.NODE, replica, Reason.GPU_FAULT, message, restart, node=node)
    return None


def _failure(replica: Replica, spec: ReplicaSpec, world: World) -> Cause | None:
    if replica.phase is not PodPhase.FAILED:
        return None
    policy = spec.restart_policy
    restart = policy in _RESTART_ON_FAILURE or (
        policy in _RESTART_ON_CODE and _is_retryable(replica, world.job.spec.retryable_exit_codes)
    )
    message = f"pod {replica.name} on node {replica.pod.spec.node_name} failed: {_why(replica)}"
    return _cause(Kind.FAILED, replica, Reason.POD_FAILED, message, restart)


def _creation(replica: Replica, world: World, now: float) -> Cause | None:
    """A pod whose container has been refused by its node for too long, while that may help."""
    waiting = creation_failure(replica)
    settings = world.settings
    if not waiting or not has_passed(
        _scheduled_at(replica), settings.creating_duration_period_s, now
    ):
        return None
    since = creating_since(world.job.status)
    fresh = since is None or now - since < settings.creating_restart_period_s
    if not fresh and not settings.enable_creating_failed:
        return None
    message = f"pod {replica.name}: {waiting}"
    return _cause(Kind.CREATION, replica, Reason.CREATION_FAILED, message, fresh)


def creation_failure(replica: Replica) -> str:
    """What a container that cannot be created says; empty when none."""
    for status in _statuses(replica):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason in CREATION_FAILURES:
            return f"container {status.name}: {waiting.reason}: {waiting.message}".rstrip(": ")
    return ""


def creation_deadline(replica: Replica, world: World) -> float | None:
    """When a pod whose container cannot be created will be replaced: the time to look again."""
    if not creation_failure(replica):
        return None
    return _scheduled_at(replica) + world.settings.creating_duration_period_s


def creating_since(status: AITrainingJobStatus) -> float | None:
    """Since when the job has been trying to create its pods, across their replacement."""
    since: float | None = None
    for record in reversed(status.phase_history):
        if record.phase is AITrainingJobPhase.RUNNING:
            break
        if record.phase is AITrainingJobPhase.CREATING:
            since = parse_time(record.time)
    return since


def _of_missing(world: World, status: AITrainingJobStatus) -> Iterator[Cause]:
    """Pods that were there and are gone, though neither a restart nor a resize took them.

    A replica that was never created looks the same. The job's own record tells them apart: a role
    has lost pods if more of them were counted than there are, those included that a resize has
    given up: they were counted too.
    """
    gaps: dict[str, list[int]] = {}
    for role, index in missing(world, status):
        if not covers(status, role, index):
            gaps.setdefault(role, []).append(index)
    for role, indexes in gaps.items():
        if _counted(world.job.status, role) > len(world.of_role(role)):
            for index in indexes:
                name = labels.pod_name(world.job.metadata.name, role, index)
                yield Cause(Kind.GONE, role, index, Reason.POD_GONE, f"pod {name} is gone", True)


def _counted(status: AITrainingJobStatus, role: str) -> int:
    counted = status.replica_statuses.get(role)
    if counted is None:
        return 0
    running = counted.pending + counted.scheduled + counted.active
    return running + counted.succeeded + counted.restarting + counted.failed


def _is_disrupted(replica: Replica) -> bool:
    return any(
        condition.type == "DisruptionTarget" and condition.status == "True"
        for condition in replica.pod.status.conditions
    )


def _is_retryable(replica: Replica, codes: frozenset[int]) -> bool:
    """Whether every failed container that counts failed with a retryable code."""
    statuses = [s for s in _statuses(replica) if s.state.terminated is not None]
    ours = [status for status in statuses if status.name.startswith(labels.OURS)]
    failed = [
        status.state.terminated.exit_code
        for status in (ours if _has_ours(replica) else statuses)
        if status.state.terminated is not None and status.state.terminated.exit_code != 0
    ]
    return bool(failed) and all(code in codes for code in failed)


def _has_ours(replica: Replica) -> bool:
    return any(c.name.startswith(labels.OURS) for c in replica.pod.spec.containers)


def _statuses(replica: Replica) -> Iterable[ContainerStatus]:
    status = replica.pod.status
    return (*status.init_container_statuses, *status.container_statuses)


def _why(replica: Replica) -> str:
    """What the pod says of its end: its reason, and each failed container with its code."""
    status = replica.pod.status
    parts = [text for text in (status.reason, status.message) if text]
    for one in _statuses(replica):
        end = one.state.terminated
        if end is not None and end.exit_code != 0:
            detail = f": {end.message.strip()}" if end.message.strip() else ""
            parts.append(f"container {one.name}: {end.reason} exit code {end.exit_code}{detail}")
    return "; ".join(parts) or "no reason given"


def _scheduled_at(replica: Replica) -> float:
    for condition in replica.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            return parse_time(condition.last_transition_time or _created(replica))
    return parse_time(_created(replica))


def _created(replica: Replica) -> str:
    return replica.pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z"


def _cause(
    kind: Kind,
    replica: Replica,
    reason: Reason,
    message: str,
    wants_restart: bool,
    *,
    node: str = "",
) -> Cause:
    return Cause(kind, replica.role, replica.index, reason, message, wants_restart, node)
