"""Which failures of a job are blamed on a node, and which nodes its new pods avoid for them. Pure.

The faults are in the job's status, in the same write as the restart or ending they lead to. The
framework's fault keeper copies them to the node. A node is blamed for a broken GPU, for its loss,
for containers that it cannot create, and for programs that end soon after their start twice, while
those on other nodes run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from swell.api.aitrainingjob import (
    RECORDS_MAX,
    AITrainingJob,
    AITrainingJobStatus,
    AvoidedNode,
    NodeFault,
)
from swell.api.codec import convert
from swell.api.core import Node
from swell.api.matching import node_selector_matches, tolerates_all
from swell.api.meta import Body
from swell.api.node_faults import fault_counts, is_forgotten
from swell.api.pod import NodeSelector, PodPhase, PodSpec
from swell.api.times import SKEW_S, format_time, parse_time
from swell.operator.aitrainingjob.causes import Cause, CauseKind, creation_failure
from swell.operator.aitrainingjob.phases import JobReason
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica
from swell.operator.framework.fencing import is_ready
from swell.operator.framework.recovery import sound_time

# A program that ends within this time after its start has not come to train.
EARLY_S: Final = 60.0
# One failure of a node strikes several pods of a job, and within this time is one.
_SAME_S: Final = 60.0
# New pods prefer other nodes after so many failures, and stay away after one more.
SOFT, HARD = 2, 3
_REASON_MAX: Final = 200
# A node may have been given up under a longer setting than today's: the default is believed.
_AVOID_S_LEAST: Final = 3600.0
# Reasons of a container that cannot be created which may be the image's; a node is blamed for them
# only if another one runs the same image.
_OF_IMAGES = ("ImagePullBackOff", "ErrImagePull", "ImageInspectError", "RegistryUnavailable")
_OF_NODES = ("CreateContainerError",)


def with_faults(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    causes: Iterable[Cause],
    now: float,
) -> AITrainingJobStatus:
    """The status with the faults that these causes of a restart or ending are.

    Of pods that failed only the first counts: in a gang one failure brings down the others.
    """
    causes = tuple(causes)
    half_life_s = snapshot.settings.fault_half_life_s
    kept = [one for one in status.node_faults if not is_forgotten(one.time, half_life_s, now)]
    n_kept, has_exited = len(kept), False
    for cause in causes:
        if cause.kind is CauseKind.FAILED:
            if has_exited:
                continue
            has_exited = True
        fault = _fault_of(cause, causes, snapshot, kept, now)
        if fault is not None and not _is_known(fault, kept):
            kept.append(fault)
    if len(kept) == n_kept:
        return status
    return replace(status, node_faults=tuple(kept[-RECORDS_MAX:]))


def avoided_nodes(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, role: str, now: float
) -> tuple[list[str], list[str]]:
    """The nodes that new pods of a role must not use, and those that they rather should not.

    A node is excluded only while the role has another one to go to.
    """
    half_life_s = snapshot.settings.fault_half_life_s
    counts = fault_counts(status.node_faults, snapshot.trusted, half_life_s, now)
    hard = [name for name, n in counts.items() if n >= HARD and role in snapshot.has_alternative]
    soft = [name for name, n in counts.items() if n >= SOFT and name not in hard]
    gpus = [one.name for one in still_avoided(status, snapshot.settings.node_avoid_s, now)]
    return list(dict.fromkeys([*gpus, *sorted(hard)])), sorted(soft)


def still_avoided(
    status: AITrainingJobStatus, avoid_s: float, now: float
) -> tuple[AvoidedNode, ...]:
    """The nodes whose time has not passed. A longer one shows that the clock was set back."""
    ahead_s = max(avoid_s, _AVOID_S_LEAST) + SKEW_S
    return tuple(one for one in status.avoid_nodes if 0 < parse_time(one.until) - now <= ahead_s)


def roles_with_alternatives(
    job: AITrainingJob, nodes: Callable[[], Iterable[Node]], also: Iterable[str] = ()
) -> frozenset[str]:
    """The roles whose pods could go to a node on which the job has not failed often.

    The nodes are only looked at for a job that is about to exclude one; `also` are excluded, too.
    """
    counts = fault_counts(job.status.node_faults, {}, float("inf"), 0.0)
    bad = {*also, *(name for name, n in counts.items() if n >= HARD)}
    if not bad:
        return frozenset()
    others = [one for one in open_nodes(nodes()) if one.metadata.name not in bad]
    specs = job.spec.replica_specs.items()
    return frozenset(r.lower() for r, spec in specs if any(usable_by(spec.template, others)))


def blamed_nodes(job: AITrainingJob) -> tuple[str, ...]:
    """The nodes that the job blames for a failure."""
    return tuple(dict.fromkeys(one.node for one in job.status.node_faults if one.blamed))


def open_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Returns the nodes that take new pods."""
    return [one for one in nodes if is_ready(one) and not one.spec.unschedulable]


def usable_by(template: Body, nodes: Iterable[Node]) -> Iterator[Node]:
    """Returns the nodes that pods of a template tolerate and select."""
    try:
        spec = convert(template.get("spec") or {}, PodSpec)
    except msgspec.ValidationError:
        return  # no pod can be made from it, wherever
    required = required_nodes(spec)
    for node in nodes:
        if (
            tolerates_all(spec.tolerations, node.spec.taints)
            and spec.node_selector.items() <= node.metadata.labels.items()
            and (required is None or node_selector_matches(required, node))
        ):
            yield node


def required_nodes(spec: PodSpec) -> NodeSelector | None:
    """Returns what a pod requires of the labels and the name of its node."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _is_known(fault: NodeFault, held: Iterable[NodeFault]) -> bool:
    """Whether it is the failure of a moment ago that struck another pod, too."""
    if fault.reason == JobReason.POD_FAILED.value:
        return False
    at = parse_time(fault.time)
    return any(
        (one.node, one.reason) == (fault.node, fault.reason) and at - parse_time(one.time) < _SAME_S
        for one in held
    )


def _fault_of(
    cause: Cause,
    causes: Iterable[Cause],
    snapshot: AITrainingJobSnapshot,
    held: Iterable[NodeFault],
    now: float,
) -> NodeFault | None:
    found = (one for one in snapshot.of_role(cause.role) if one.index == cause.index)
    replica = next(found, None)
    node = replica.pod.spec.node_name if replica is not None else ""
    if replica is None or not node:
        return None
    blamed = True
    match cause.kind:
        case CauseKind.NODE:
            if not _is_of_node(cause, replica, snapshot):
                return None
        case CauseKind.CREATION:
            if not _is_creation_of_node(replica, snapshot):
                return None
        case CauseKind.FAILED:
            if not _is_early_alone(cause, causes, replica, snapshot):
                return None
            blamed = any((one.node, one.reason) == (node, cause.reason.value) for one in held)
        case _:
            return None
    return NodeFault(
        node=node,
        time=format_time(now),
        reason=cause.reason.value,
        message=cause.message[:_REASON_MAX],
        blamed=blamed,
    )


def _is_of_node(cause: Cause, replica: Replica, snapshot: AITrainingJobSnapshot) -> bool:
    """Whether the node is broken or lost. One that was removed, or evicted pods, is not."""
    if cause.reason is JobReason.GPU_FAULT:
        return True
    state = snapshot.node_of(replica)
    return state is not None and state.node is not None and state.unready_since is not None


def _is_creation_of_node(replica: Replica, snapshot: AITrainingJobSnapshot) -> bool:
    text = creation_failure(replica)
    if any(reason in text for reason in _OF_NODES):
        return True
    if not any(reason in text for reason in _OF_IMAGES):
        return False
    return any(_runs_elsewhere(one, replica) for one in snapshot.of_role(replica.role))


def _runs_elsewhere(one: Replica, replica: Replica) -> bool:
    node = one.pod.spec.node_name
    is_elsewhere = bool(node) and node != replica.pod.spec.node_name
    return is_elsewhere and one.phase is PodPhase.RUNNING and not one.is_leaving


def _is_early_alone(
    cause: Cause, causes: Iterable[Cause], replica: Replica, snapshot: AITrainingJobSnapshot
) -> bool:
    """Whether a program ended soon after its start, while one on another node ran.

    One that ended later ran: it followed.
    """
    if cause.reason is not JobReason.POD_FAILED or not _is_early(replica):
        return False
    followed = {(one.role, one.index) for one in causes if one.at > cause.at}
    node = replica.pod.spec.node_name
    return any(
        _runs_elsewhere(one, replica)
        or ((one.role, one.index) in followed and one.pod.spec.node_name not in {"", node})
        for one in snapshot.replicas
    )


def _is_early(replica: Replica) -> bool:
    for status in replica.pod.status.container_statuses:
        end = status.state.terminated
        if end is not None and end.exit_code:
            began, ended = sound_time(end.started_at), sound_time(end.finished_at)
            if began is None or ended is None:
                return False
            return parse_time(ended) - parse_time(began) <= EARLY_S
    return False
