"""PodGroups of Kubernetes itself as jobs: the same terms as for Volcano's, derived where they lack.

Such a group says less: its queue, its priority and what admission asks for may have to be read off
its pods, so they are derived anew when its pods have changed. Pods of other schedulers belong to it
as well; those with a node count, and one without stops the gang. Everything here is a function of
the objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from swell.api.meta import Key, ObjectMeta
from swell.api.native_groups import GROUP_MODE, GROUP_SCHEDULED, NativeGroup
from swell.api.pod import Pod
from swell.api.scheduling import (
    NetworkTopology,
    PodGroup,
    PodGroupCondition,
    PodGroupSpec,
    PodGroupStatus,
)
from swell.api.wording import count_of
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.resources import PODS, Vector
from swell.scheduler.model.tasks import ALLOCATED, Task, TaskStatus

# No object of the API can have a colon in its name, so no group of Volcano has such a name.
NATIVE_PREFIX: Final = "podgroup.k8s:"
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
# Values of a label are the lowest domains of a tree whose root has every node.
LABEL_TIER: Final = 0
# Tasks that can still become or stay a part of the gang.
_LIVE = frozenset({TaskStatus.PENDING, TaskStatus.PIPELINED, *ALLOCATED})


def native_group_of(pod: Pod) -> str:
    """Returns the name of the native group that the pod names, or an empty name."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def native_job_name(name: str) -> str:
    """Returns the name that stands for a native group among the groups of its namespace."""
    return NATIVE_PREFIX + name


class NativeTerms:
    """The terms of a job whose group is native. `object` is None while the group does not exist."""

    __slots__ = ("foreign", "is_stale", "key", "n_own", "never_claims", "object")

    def __init__(self, key: Key, group: NativeGroup | None) -> None:
        self.key = key
        self.object = group
        self.n_own = 0  # tasks that name this scheduler
        # Pods without a node that another scheduler is to place, with its name.
        self.foreign: dict[str, str] = {}
        # Whether pods came or went since the terms were derived.
        self.is_stale = True
        # Whether one of its waiting pods forbids that others are evicted for the group.
        self.never_claims = False

    @property
    def is_unit(self) -> bool:
        """Whether the group leaves as a whole or not at all, surplus included."""
        return self.object is not None and self.object.spec.disruption_mode == GROUP_MODE

    @property
    def is_basic(self) -> bool:
        """Whether every pod is scheduled for itself."""
        return self.object is not None and self.object.spec.scheduling_policy.gang is None

    @property
    def topology_key(self) -> str:
        """The label of which all pods must be on nodes with one value; empty if there is none."""
        constraints = (
            () if self.object is None else self.object.spec.scheduling_constraints.topology
        )
        return constraints[0].key if constraints else ""


def translated(key: Key, group: NativeGroup | None, queue: str) -> PodGroup:
    """Returns a native group in Volcano's terms; `queue` is the one for groups that name none."""
    name = native_job_name(key.name)
    if group is None:
        spec = PodGroupSpec(min_member=1, queue=queue)
        return PodGroup(metadata=ObjectMeta(name=name, namespace=key.namespace), spec=spec)
    meta, policy = group.metadata, group.spec.scheduling_policy
    constraints = group.spec.scheduling_constraints.topology
    return PodGroup(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            generation=meta.generation,
            annotations=meta.annotations,
            creation_timestamp=meta.creation_timestamp,
        ),
        spec=PodGroupSpec(
            min_member=1 if policy.gang is None else max(policy.gang.min_count, 1),
            queue=meta.annotations.get(QUEUE_ANNOTATION) or queue,
            priority_class_name=group.spec.priority_class_name,
            network_topology=NetworkTopology(mode="hard", highest_tier_allowed=LABEL_TIER)
            if constraints
            else None,
        ),
        status=PodGroupStatus(
            conditions=tuple(
                PodGroupCondition(
                    type=c.type,
                    status=c.status,
                    reason=c.reason,
                    message=c.message,
                    last_transition_time=c.last_transition_time,
                )
                for c in group.status.conditions
            )
        ),
    )


def was_scheduled(group: PodGroup) -> bool:
    """Whether a native group, translated, has once had its minimum. This is never taken back."""
    conditions = group.status.conditions
    return any(c.type == GROUP_SCHEDULED and c.status == "True" for c in conditions)


@dataclass(frozen=True, slots=True)
class DerivedTerms:
    """The terms that are read off the pods of a native group."""

    queue: str
    lowest_priority: int
    min_resources: Vector | None
    refusal: Refusal | None
    never_claims: bool


def derive(
    terms: NativeTerms, tasks: Iterable[Task], min_member: int, default_queue: str
) -> DerivedTerms:
    """Returns the terms of a native group as its pods have them now."""
    own = [task for task in tasks if not task.is_foreign]
    queue, refusal = _queue_of(terms, own, default_queue)
    waiting = (task for task in own if task.status is TaskStatus.PENDING)
    return DerivedTerms(
        queue=queue,
        lowest_priority=min((task.pod.spec.priority or 0 for task in own), default=0),
        min_resources=_minimum(own, min_member),
        refusal=_refusal_of(terms) or refusal,
        never_claims=any(task.never_preempts for task in waiting),
    )


def _minimum(own: list[Task], min_member: int) -> Vector | None:
    """Returns the requests of the pods that make up the minimum; None while some do not exist."""
    n = min_member - sum(task.status is TaskStatus.SUCCEEDED for task in own)
    live = sorted(
        (task for task in own if task.status in _LIVE),
        key=lambda task: (-task.priority, task.order),
    )
    if not 0 < n <= len(live):
        return None
    total: Vector = sum((task.request for task in live[1:n]), live[0].request.copy())
    total[PODS] = 0  # quotas are about resources, not about pod slots
    return total


def _queue_of(
    terms: NativeTerms, own: list[Task], default_queue: str
) -> tuple[str, Refusal | None]:
    group = terms.object
    named = "" if group is None else group.metadata.annotations.get(QUEUE_ANNOTATION, "")
    if named:
        return named, None
    queues = sorted({task.pod.metadata.annotations.get(QUEUE_ANNOTATION, "") for task in own})
    if len(queues) > 1:
        names = ", ".join(one or "none" for one in queues)
        text = f"its pods name {len(queues)} queues ({names}), and the group names none"
        return default_queue, Refusal(WaitReason.NOT_SUPPORTED, text)
    return (queues[0] if queues else "") or default_queue, None


def _refusal_of(terms: NativeTerms) -> Refusal | None:
    """Returns why none of the pods is placed, whatever room there is."""
    if terms.object is None:
        text = f"PodGroup {terms.key.name} does not exist in namespace {terms.key.namespace}"
        return Refusal(WaitReason.POD_GROUP_NOT_FOUND, text)
    claims = terms.object.spec.resource_claims
    if claims:
        names = ", ".join(claim.name for claim in claims)
        number = count_of(len(claims), "resource claim")
        text = f"the group has {number} ({names}): devices are not allocated"
        return Refusal(WaitReason.NOT_SUPPORTED, text)
    if terms.foreign:
        others = ", ".join(sorted(set(terms.foreign.values())))
        waiting = count_of(len(terms.foreign), "pod of the group waits", "pods of the group wait")
        text = f"{waiting} for another scheduler ({others})"
        return Refusal(WaitReason.MIXED_SCHEDULERS, text)
    return None
