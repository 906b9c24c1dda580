"""Decides about ReplicaSets: pods to adopt, release, create or delete, and the status.

Adoption and release take a pass of their own. Otherwise the status is written first, from what was
found, then pods are created or deleted. Their own events wake the next pass, which counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swell.api.core import EventSeverity
from swell.api.kinds import REPLICA_SETS
from swell.api.meta import Condition
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.api.workloads import ReplicaSet, ReplicaSetStatus
from swell.cluster.embedded.controllers.claiming import claim, controller_reference, selects
from swell.cluster.embedded.controllers.pods import (
    is_active,
    is_available,
    is_finished,
    is_ready,
    is_terminating,
    ready_since,
)
from swell.cluster.embedded.controllers.ranking import cheapest_first
from swell.cluster.embedded.controllers.writes import (
    BURST_MAX,
    name_with_suffix,
    pod_deletion,
    pod_from_template,
    slow_start,
    status_patch,
)
from swell.runtime.controller import RejectedWrite
from swell.runtime.plan import CreateObject, EmitEvent, PatchStatus, Plan, Step, Together

REPLICA_FAILURE = "ReplicaFailure"


@dataclass(frozen=True, slots=True)
class ReplicaSetSnapshot:
    """A ReplicaSet, its pods and those it might adopt, and the last write refused for it.

    `related` are the active pods of all sets with the same controller. `seed` determines the names
    of new pods.
    """

    replica_set: ReplicaSet
    pods: tuple[Pod, ...]
    related: tuple[Pod, ...]
    refusal: RejectedWrite | None
    seed: int


def decide_replica_set(snapshot: ReplicaSetSnapshot, now: float) -> Plan:
    """Plan the next step of a ReplicaSet towards the size in its spec."""
    owner = snapshot.replica_set
    reference = controller_reference(owner, REPLICA_SETS)
    alive = owner.metadata.deletion_timestamp is None
    candidates = [pod for pod in snapshot.pods if not is_finished(pod)]
    claims = claim(candidates, reference, selects(owner.spec.selector), settling=alive)
    if claims.patches:
        return Plan((Together(claims.patches),), reasons=("ownership",))
    active = [pod for pod in claims.owned if is_active(pod)]
    # A ReplicaSet that is being deleted neither grows nor shrinks: the garbage collector acts.
    excess = len(active) - owner.spec.replicas if alive else 0
    # A refused create counts only while pods are missing.
    refused = snapshot.refusal if excess < 0 and _is_create(snapshot.refusal) else None
    waiting = refused is not None and now < refused.retry_at
    steps = [*_status_steps(owner, claims.owned, refused, now)]
    if waiting and refused is not None:
        return Plan(tuple(steps), wake_at=refused.retry_at, reasons=(refused.reason,))
    if excess < 0:
        steps += _create_steps(snapshot, min(-excess, BURST_MAX))
    elif excess > 0:
        steps += _delete_steps(snapshot, active, min(excess, BURST_MAX), now)
    return Plan(tuple(steps), wake_at=_next_available_at(owner, active, now))


def _create_steps(snapshot: ReplicaSetSnapshot, count: int) -> list[Step]:
    owner = snapshot.replica_set
    reference = controller_reference(owner, REPLICA_SETS)
    prefix = f"{owner.metadata.name}-"
    creates = [
        pod_from_template(
            owner.spec.template,
            reference,
            owner.metadata.namespace,
            prefix,
            name_with_suffix(prefix, snapshot.seed, position),
        )
        for position in range(count)
    ]
    events = [_event(owner, "SuccessfulCreate", f"Created pod: {c.key.name}") for c in creates]
    return [*slow_start(creates), *events]


def _delete_steps(
    snapshot: ReplicaSetSnapshot, active: Sequence[Pod], count: int, now: float
) -> list[Step]:
    to_delete = cheapest_first(active, snapshot.related, now)[:count]
    events = [
        _event(snapshot.replica_set, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
        for pod in to_delete
    ]
    return [Together(tuple(pod_deletion(pod) for pod in to_delete)), *events]


def _status_steps(
    owner: ReplicaSet, owned: Sequence[Pod], refused: RejectedWrite | None, now: float
) -> list[Step]:
    status = _status(owner, owned, refused, now)
    patch = status_patch(owner.status, status)
    if not patch:
        return []
    metadata = owner.metadata
    if status.replicas == 0:
        patch["replicas"] = 0  # the one field of the status that is required
    return [PatchStatus(REPLICA_SETS, metadata.key, metadata.resource_version, patch)]


def _status(
    owner: ReplicaSet, owned: Sequence[Pod], refused: RejectedWrite | None, now: float
) -> ReplicaSetStatus:
    active = [pod for pod in owned if is_active(pod)]
    wanted = ((owner.spec.template.get("metadata") or {}).get("labels") or {}).items()
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(wanted <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(is_ready(pod) for pod in active),
        available_replicas=sum(
            is_available(pod, owner.spec.min_ready_seconds, now) for pod in active
        ),
        terminating_replicas=sum(is_terminating(pod) for pod in owned),
        observed_generation=owner.metadata.generation,
        conditions=_conditions(owner, len(active), refused, now),
    )


def _conditions(
    owner: ReplicaSet, n_active: int, refused: RejectedWrite | None, now: float
) -> tuple[Condition, ...]:
    """The condition ReplicaFailure while creates are refused; it stays until all pods exist."""
    held = owner.status.conditions
    if any(c.type == REPLICA_FAILURE for c in held):
        if n_active < owner.spec.replicas:
            return held
        return tuple(c for c in held if c.type != REPLICA_FAILURE)
    if refused is None:
        return held
    failure = Condition(
        type=REPLICA_FAILURE,
        status="True",
        reason="FailedCreate",
        message=refused.message,
        last_transition_time=format_time(now),
    )
    return (*held, failure)


def _next_available_at(owner: ReplicaSet, active: Sequence[Pod], now: float) -> float | None:
    """When the next pod will have been ready for minReadySeconds."""
    min_ready_s = owner.spec.min_ready_seconds
    if not min_ready_s:
        return None
    since = [moment for pod in active if (moment := ready_since(pod)) is not None]
    return min((m + min_ready_s for m in since if m + min_ready_s > now), default=None)


def _is_create(refusal: RejectedWrite | None) -> bool:
    return refusal is not None and isinstance(refusal.action, CreateObject)


def _event(owner: ReplicaSet, reason: str, message: str) -> EmitEvent:
    metadata = owner.metadata
    return EmitEvent(
        REPLICA_SETS, metadata.key, metadata.uid, EventSeverity.NORMAL, reason, message
    )
