"""PodGroup of `scheduling.k8s.io`: the gangs of Kubernetes itself, read where they are served.

They are alpha, and every release so far has had another shape. Group and version are said here, the
fields below, and nowhere else. A Workload is only written by others and never read.
"""

from __future__ import annotations

from typing import Final

from swell.api.meta import ApiStruct, Condition, ObjectMeta

API_GROUP: Final = "scheduling.k8s.io"
API_VERSION: Final = "v1alpha2"
# The condition of a group, and its reasons, as kube-scheduler names them.
GROUP_SCHEDULED: Final = "PodGroupScheduled"
SCHEDULED_REASON: Final = "Scheduled"
UNSCHEDULABLE_REASON: Final = "Unschedulable"
ERROR_REASON: Final = "SchedulerError"
# The modes of disruption.
POD_MODE: Final = "Pod"
GROUP_MODE: Final = "PodGroup"


class BasicPolicy(ApiStruct, frozen=True):
    """Every pod is scheduled for itself."""


class GangPolicy(ApiStruct, frozen=True):
    """At least so many pods start together, or none."""

    min_count: int = 1


class SchedulingPolicy(ApiStruct, frozen=True):
    """One of both policies."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class LabelConstraint(ApiStruct, frozen=True):
    """All pods on nodes that have one value of a label."""

    key: str = ""


class GroupConstraints(ApiStruct, frozen=True):
    """Where the pods of a group may be; at most one constraint."""

    topology: tuple[LabelConstraint, ...] = ()


class GroupResourceClaim(ApiStruct, frozen=True):
    """Devices that the pods of a group share."""

    name: str = ""


class NativeGroupSpec(ApiStruct, frozen=True):
    """How the pods of a group are scheduled and disrupted. It cannot be changed."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: GroupConstraints = GroupConstraints()
    disruption_mode: str = POD_MODE
    priority_class_name: str = ""
    priority: int | None = None
    resource_claims: tuple[GroupResourceClaim, ...] = ()


class NativeGroupStatus(ApiStruct, frozen=True):
    """Conditions of a group. It has no phase."""

    conditions: tuple[Condition, ...] = ()


class NativeGroup(ApiStruct, frozen=True):
    """A PodGroup of Kubernetes. Pods name it in `spec.schedulingGroup`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NativeGroupSpec = NativeGroupSpec()
    status: NativeGroupStatus = NativeGroupStatus()
    api_version: str = f"{API_GROUP}/{API_VERSION}"
    kind: str = "PodGroup"
