"""PodGroup: the gang. Volcano's kind, so that existing manifests keep working."""

from __future__ import annotations

from enum import Enum

import msgspec

from swell.api.meta import ApiStruct, ObjectMeta
from swell.api.pod import LabelSelector
from swell.api.quantity import QuantityText


class PodGroupPhase(Enum):
    EMPTY = ""
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class NetworkTopology(ApiStruct, frozen=True):
    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(ApiStruct, frozen=True):
    name: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    network_topology: NetworkTopology | None = None


class PodGroupSpec(ApiStruct, frozen=True):
    min_member: int = 0
    min_task_member: dict[str, int] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: dict[str, QuantityText] | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(ApiStruct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    transition_id: str = msgspec.field(default="", name="transitionID")


class PodGroupStatus(ApiStruct, frozen=True):
    phase: PodGroupPhase = PodGroupPhase.EMPTY
    conditions: tuple[PodGroupCondition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
    api_version: str = "scheduling.volcano.sh/v1beta1"
    kind: str = "PodGroup"


class QueueState(Enum):
    EMPTY = ""
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class Guarantee(ApiStruct, frozen=True):
    resource: dict[str, QuantityText] = {}


class QueueSpec(ApiStruct, frozen=True):
    weight: int = 1
    capability: dict[str, QuantityText] = {}
    deserved: dict[str, QuantityText] = {}
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    parent: str = ""
    priority: int = 0


class QueueStatus(ApiStruct, frozen=True):
    state: QueueState = QueueState.EMPTY
    pending: int = 0
    inqueue: int = 0
    running: int = 0
    completed: int = 0
    unknown: int = 0
    allocated: dict[str, QuantityText] = {}


class Queue(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
    api_version: str = "scheduling.volcano.sh/v1beta1"
    kind: str = "Queue"
