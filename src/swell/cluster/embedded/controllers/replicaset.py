"""What a ReplicaSet needs next: pods made, given up, adopted or let go, and a true status. Pure.

Ownership is settled first and by itself; then the status says what is, then pods are made or
deleted. How it fared shows in the next pass, woken by the pods themselves.
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

    `related` are the active pods of all sets with the same controller; `seed` names new pods.
    """

    replica_set: ReplicaSet
    pods: tuple[Pod, ...]
    related: tuple[Pod, ...]
    refusal: RejectedWrite | None
    seed: int


def decide_replica_set(view: ReplicaSetSnapshot, now: float) -> Plan:
    """One step of a ReplicaSet towards what its spec asks for."""
    owner = view.replica_set
    reference = controller_reference(owner, REPLICA_SETS)
    alive = owner.metadata.deletion_timestamp is None
    candidates = [pod for pod in view.pods if not is_finished(pod)]
    claims = claim(candidates, reference, selects(owner.spec.selector), settling=alive)
    if claims.patches:
        return Plan((Together(claims.patches),), reasons=("ownership",))
    active = [pod for pod in claims.owned if is_active(pod)]
    excess = len(active) - owner.spec.replicas if alive else 0
    refused = view.refusal if excess < 0 and _is_create(view.refusal) else None
    waiting = refused is not None and now < refused.retry_at
    steps = [*_status_steps(owner, claims.owned, refused, now)]
    if waiting and refused is not None:
        return Plan(tuple(steps), wake_at=refused.retry_at, reasons=(refused.reason,))
    if excess < 0:
        steps += _create_steps(view, min(-excess, BURST_MAX))
    elif excess > 0:
        steps += _delete_steps(view, active, min(excess, BURST_MAX), now)
    return Plan(tuple(steps), wake_at=_next_available_at(owner, active, now))


def _create_steps(view: ReplicaSetSnapshot, count: int) -> list[Step]:
    owner = view.replica_set
    reference = controller_reference(owner, REPLICA_SETS)
    prefix = f"{owner.metadata.name}-"
    creates = [
        pod_from_template(
            owner.spec.template,
            reference,
            owner.metadata.namespace,
            prefix,
            name_with_suffix(prefix, view.seed, position),
        )
        for position in range(count)
    ]
    told = [_event(owner, "SuccessfulCreate", f"Created pod: {c.key.name}") for c in creates]
    return [*slow_start(creates), *told]


def _delete_steps(
    view: ReplicaSetSnapshot, active: Sequence[Pod], count: int, now: float
) -> list[Step]:
    doomed = cheapest_first(active, view.related, now)[:count]
    told = [
        _event(view.replica_set, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
        for pod in doomed
    ]
    return [Together(tuple(pod_deletion(pod) for pod in doomed)), *told]


def _status_steps(
    owner: ReplicaSet, owned: Sequence[Pod], refused: RejectedWrite | None, now: float
) -> list[Step]:
    status = _status(owner, owned, refused, now)
    patch = status_patch(owner.status, status)
    if not patch:
        return []
    metadata = owner.metadata
    if status.replicas == 0:
        patch["replicas"] = 0  # the one field that is always shown
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
    """ReplicaFailure while pods cannot be made; it stays until a new attempt has succeeded."""
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
    """When the next pod will have been ready for long enough."""
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
