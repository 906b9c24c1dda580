"""Why a pod cannot go on as it is: its node is lost, it failed, it cannot be created, it is gone.

A cause says whether the role's restart policy wants the pod restarted. `restarts` decides whether
the budget allows it, and which other pods restart with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.aitrainingjob import (
    AITrainingJobStatus,
    ReplicaSpec,
    RestartPolicy,
)
from swell.api.injection import HANG_EXIT_CODE
from swell.api.pod import PodPhase
from swell.api.times import SKEW_S, has_passed, parse_time
from swell.api.wording import count_of
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.gpu_causes import broken_device, node_gpu_fault
from swell.operator.aitrainingjob.native_gang import stranded
from swell.operator.aitrainingjob.phases import JobReason
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.aitrainingjob.snapshot import (
    AITrainingJobSnapshot,
    Replica,
    covers,
    current,
    missing,
)
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.mass_failure import MassFailure
from swell.operator.framework.recovery import sound_time

# The kubelet's reasons for a waiting container that will not start by itself.
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


class CauseKind(IntEnum):
    """The kinds of causes, gravest first: the first cause decides about a restart."""

    NODE = 1
    FAILED = 2
    CREATION = 3
    GONE = 4
    STRANDED = 5
    STRAGGLER = 6


# Held back while many nodes are silent. A pod that is gone is not: nothing of it may go on.
_HELD = frozenset({CauseKind.NODE, CauseKind.FAILED, CauseKind.STRAGGLER})


@dataclass(frozen=True, slots=True)
class Cause:
    """One replica's problem. If `node` is named, the job's next pods avoid that node."""

    kind: CauseKind
    role: str
    index: int
    reason: JobReason
    message: str
    wants_restart: bool
    node: str = ""
    at: float = math.inf  # when the first container of a failed pod ended, by its node's clock


def find_causes(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> tuple[Cause, ...]:
    """Everything that is wrong now, the gravest kind first. At most one for a replica.

    Of pods that have failed the first to end comes first: in a gang one failure brings down the
    others, and the cause is what users look for. Nodes' clocks tell whole seconds, and are believed
    as long as they can be right.
    """
    found = [*_of_pods(snapshot, status, now), *_of_missing(snapshot, status)]
    found += _of_stranded(snapshot, status)
    return tuple(sorted(found, key=lambda one: (one.kind, one.at, one.role, one.index)))


def not_held(causes: Iterable[Cause], mass_failure: MassFailure | None) -> tuple[Cause, ...]:
    """The causes that count now: while many nodes are silent, no failure counts that may follow."""
    if mass_failure is None:
        return tuple(causes)
    return tuple(one for one in causes if one.kind not in _HELD)


def with_followers(first: Cause, causes: Iterable[Cause]) -> str:
    """The message of a cause, with how many pods have failed after it."""
    later = [one for one in causes if one.kind is first.kind and one.at > first.at]
    if first.kind is not CauseKind.FAILED or not later:
        return first.message
    return f"{first.message}; {count_of(len(later), 'pod')} followed"


def creation_failure(replica: Replica) -> str:
    """The kubelet's text about a container that cannot be created; empty when there is none."""
    for status in replica.statuses:
        waiting = status.state.waiting
        if waiting is not None and waiting.reason in CREATION_FAILURES:
            return f"container {status.name}: {waiting.reason}: {waiting.message}".rstrip(": ")
    return ""


def creation_deadline(replica: Replica, snapshot: AITrainingJobSnapshot) -> float | None:
    """When a pod whose container cannot be created will be replaced: the time to look again."""
    if not creation_failure(replica):
        return None
    return _scheduled_at(replica) + snapshot.settings.creating_duration_period_s


def will_be_lost_at(replica: Replica, snapshot: AITrainingJobSnapshot) -> float | None:
    """When the pod's node will count as lost, unless it recovers: the time to look again."""
    state = snapshot.node_of(replica)
    return _lost_at(state, snapshot.settings) if state else None


def _of_pods(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> Iterator[Cause]:
    for replica in current(snapshot, status):
        if replica.is_unread:
            continue  # whether it works, has failed or has succeeded will be seen
        spec = snapshot.roles[replica.role]
        cause = _node_cause(replica, spec, snapshot, now)
        # A pod that is being deleted will be gone soon, and is replaced then. Only a lost node
        # may keep it from ever going.
        if cause is None and not replica.is_leaving and not replica.is_released:
            cause = _failure(replica, spec, snapshot, now) or _creation(replica, snapshot, now)
        if cause is not None:
            yield cause


def _node_cause(
    replica: Replica, spec: ReplicaSpec, snapshot: AITrainingJobSnapshot, now: float
) -> Cause | None:
    if replica.phase is PodPhase.SUCCEEDED:
        return None  # its work is done, wherever its node is
    restart = spec.restart_policy in _RESTART_ON_NODE
    node = replica.pod.spec.node_name
    if _is_lost(replica, snapshot, now):
        message = f"pod {replica.name}: node {node} is lost"
        return _cause(CauseKind.NODE, replica, JobReason.NODE_LOST, message, restart)
    if replica.is_leaving or replica.is_released:
        return None
    if replica.phase is PodPhase.FAILED and _is_disrupted(replica):
        message = f"pod {replica.name} on node {node} was disrupted: {_why(replica)}"
        return _cause(CauseKind.NODE, replica, JobReason.NODE_LOST, message, restart)
    if device := broken_device(replica, snapshot, now):
        # The device is avoided by its driver, so the node may be used again.
        message = f"pod {replica.name} on node {node}: {device}"
        return _cause(CauseKind.NODE, replica, JobReason.GPU_FAULT, message, restart)
    if fault := node_gpu_fault(replica, snapshot, now):
        message = f"pod {replica.name}: node {node} reports {fault}"
        return _cause(CauseKind.NODE, replica, JobReason.GPU_FAULT, message, restart, node=node)
    return None


def _failure(
    replica: Replica, spec: ReplicaSpec, snapshot: AITrainingJobSnapshot, now: float
) -> Cause | None:
    if replica.phase is not PodPhase.FAILED:
        return None
    policy, codes = spec.restart_policy, snapshot.job.spec.retryable_exit_codes
    if spec.hang_seconds is not None and _has_hung(replica):
        # A hang is of no exit code of the user's: every policy that cures failures cures it.
        restart = policy in _RESTART_ON_FAILURE | _RESTART_ON_CODE
        node, limit_s = replica.pod.spec.node_name, spec.hang_seconds
        message = f"pod {replica.name} on node {node} hung: no step for {limit_s} s (see its log)"
        cause = _cause(CauseKind.FAILED, replica, JobReason.HANG, message, restart)
        return replace(cause, at=_failed_at(replica, now))
    restart = policy in _RESTART_ON_FAILURE or (
        policy in _RESTART_ON_CODE and _is_retryable(replica, codes)
    )
    message = f"pod {replica.name} on node {replica.pod.spec.node_name} failed: {_why(replica)}"
    cause = _cause(CauseKind.FAILED, replica, JobReason.POD_FAILED, message, restart)
    return replace(cause, at=_failed_at(replica, now))


def _has_hung(replica: Replica) -> bool:
    """Whether the training library has ended the program because it hung."""
    ends = (one.state.terminated for one in replica.statuses)
    return any(end is not None and end.exit_code == HANG_EXIT_CODE for end in ends)


def _failed_at(replica: Replica, now: float) -> float:
    """When the first container of a pod failed; after all others if its node does not tell.

    A node whose clock is further off than clocks may differ does not: the pod would have ended
    before it was created, or will end. It must not be blamed for what others began.
    """
    ends = [one.state.terminated for one in replica.statuses]
    texts = [sound_time(end.finished_at) for end in ends if end is not None and end.exit_code]
    created = sound_time(replica.pod.metadata.creation_timestamp)
    earliest = parse_time(created) - SKEW_S if created else -math.inf
    times = (parse_time(text) for text in texts if text)
    return min((at for at in times if earliest <= at <= now + SKEW_S), default=math.inf)


def _creation(replica: Replica, snapshot: AITrainingJobSnapshot, now: float) -> Cause | None:
    """A pod whose container the node has refused for `creating_duration_period_s`.

    It is replaced while the job has been Creating for less than `creating_restart_period_s`.
    """
    waiting = creation_failure(replica)
    settings = snapshot.settings
    if not waiting or not has_passed(
        _scheduled_at(replica), settings.creating_duration_period_s, now
    ):
        return None
    since = creating_since(snapshot.job.status)
    may_restart = since is None or now - since < settings.creating_restart_period_s
    if not may_restart and not settings.enable_creating_failed:
        return None
    message = f"pod {replica.name}: {waiting}"
    return _cause(CauseKind.CREATION, replica, JobReason.CREATION_FAILED, message, may_restart)


def _of_missing(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> Iterator[Cause]:
    """Pods that existed and are gone, although neither a restart nor a resize deleted them.

    A replica that was never created looks the same. The job's own status tells them apart: a role
    has lost pods if its status counted more of them than there are. Pods that a resize gives up
    are on both sides of that comparison.
    """
    gaps: dict[str, list[int]] = {}
    for role, index in missing(snapshot, status):
        if not covers(status, role, index):
            gaps.setdefault(role, []).append(index)
    for role, indexes in gaps.items():
        if _n_counted(snapshot.job.status, role) > len(snapshot.of_role(role)):
            for index in indexes:
                name = labels.pod_name(snapshot.job.metadata.name, role, index)
                message = f"pod {name} is gone"
                yield Cause(CauseKind.GONE, role, index, JobReason.POD_GONE, message, True)


def _of_stranded(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> Iterator[Cause]:
    """Pods that no scheduler will place, because of the group that they are in."""
    for one, why in stranded(snapshot, status):
        message = f"pod {one.name}: {why}"
        yield _cause(CauseKind.STRANDED, one, JobReason.GANG_INCOMPLETE, message, True)


def _is_lost(replica: Replica, snapshot: AITrainingJobSnapshot, now: float) -> bool:
    """Whether the pod's node is gone, or has not been ready for too long."""
    state = snapshot.node_of(replica)
    if state is None:
        return False
    at = _lost_at(state, snapshot.settings)
    return state.node is None or (at is not None and at <= now)


def _lost_at(state: NodeState, settings: AITrainingJobSettings) -> float | None:
    if state.unready_since is None:
        return None
    return state.unready_since + settings.node_lost_after_s


def creating_since(status: AITrainingJobStatus) -> float | None:
    """Since when the job has been creating its pods, counted across their replacement."""
    since: float | None = None
    for record in reversed(status.phase_history):
        if record.phase is Phase.RUNNING:
            break
        if record.phase is Phase.CREATING:
            since = parse_time(record.time)
    return since


def _n_counted(status: AITrainingJobStatus, role: str) -> int:
    counted = status.replica_statuses.get(role)
    if counted is None:
        return 0
    running = counted.pending + counted.scheduled + counted.active
    return running + counted.succeeded + counted.restarting + counted.failed


def _is_disrupted(replica: Replica) -> bool:
    """Whether Kubernetes itself ended the pod: preempted, evicted, or its node removed."""
    return any(
        condition.type == "DisruptionTarget" and condition.status == "True"
        for condition in replica.pod.status.conditions
    )


def _is_retryable(replica: Replica, codes: frozenset[int]) -> bool:
    """Whether every failed container that counts has a retryable exit code.

    If the pod has containers of ours, only those count: a user's sidecar does not decide.
    """
    statuses = [s for s in replica.statuses if s.state.terminated is not None]
    ours = [status for status in statuses if status.name.startswith(labels.OURS)]
    failed = [
        status.state.terminated.exit_code
        for status in (ours if _has_ours(replica) else statuses)
        if status.state.terminated is not None and status.state.terminated.exit_code != 0
    ]
    return bool(failed) and all(code in codes for code in failed)


def _has_ours(replica: Replica) -> bool:
    return any(c.name.startswith(labels.OURS) for c in replica.pod.spec.containers)


def _why(replica: Replica) -> str:
    """The pod's own reason and message, and each failed container with its exit code."""
    status = replica.pod.status
    parts = [text for text in (status.reason, status.message) if text]
    for one in replica.statuses:
        end = one.state.terminated
        if end is not None and end.exit_code != 0:
            detail = f": {end.message.strip()}" if end.message.strip() else ""
            parts.append(f"container {one.name}: {end.reason} exit code {end.exit_code}{detail}")
    return "; ".join(parts) or "no reason given"


def _scheduled_at(replica: Replica) -> float:
    created = replica.pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z"
    for condition in replica.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            return parse_time(condition.last_transition_time or created)
    return parse_time(created)


def _cause(
    kind: CauseKind,
    replica: Replica,
    reason: JobReason,
    message: str,
    wants_restart: bool,
    *,
    node: str = "",
) -> Cause:
    return Cause(kind, replica.role, replica.index, reason, message, wants_restart, node)
