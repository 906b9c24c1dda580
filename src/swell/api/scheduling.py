"""PodGroup and Queue: Volcano's kinds, so that its manifests keep working."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from swell.api.meta import ApiStruct, ObjectMeta
from swell.api.pod import LabelSelector
from swell.api.quantity import QuantityText


class PodGroupPhase(Enum):
    """The phase of a gang, as Volcano names it.

        "" --> Pending --> Inqueue --> Running --> Completed
                  ^           |         |   ^
                  +-----------+         v   |
           sent back after a          Unknown: some pods run, and the rest cannot be scheduled
           bind window closed

    A group whose pods are lost goes back from Running to Pending.
    """

    EMPTY = ""
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class NetworkTopology(ApiStruct, frozen=True):
    """How far apart in the network the pods of a group may be."""

    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(ApiStruct, frozen=True):
    """Sub-groups of a group, each of which has to be placed together."""

    name: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    network_topology: NetworkTopology | None = None


class PodGroupSpec(ApiStruct, frozen=True):
    """How many pods must start together, and in which queue."""

    min_member: int = 0
    min_task_member: dict[str, int] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: dict[str, QuantityText] | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


# An annotation of a group: its last eviction, as an `LossRecord`. The scheduler writes it
# before it deletes the first pod, so that the job can still say why when the pods are gone.
LOSS_ANNOTATION: Final = "elasticdeeplearning.ai/lost-pods"
# Volcano begins the message of Unschedulable with "n/m" and this; what follows is the reason.
GANG_PREFIX: Final = " tasks in gang unschedulable: "


class PodGroupCondition(ApiStruct, frozen=True):
    """A condition as Volcano writes it, with an identifier of the scheduling round."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    transition_id: str = msgspec.field(default="", name="transitionID")


class LossRecord(ApiStruct, frozen=True):
    """Why the scheduler evicted pods of a group, for which group, and when."""

    reason: str = ""
    message: str = ""
    time: str = ""


class PodGroupStatus(ApiStruct, frozen=True):
    """The phase of a group and counts of its pods."""

    phase: PodGroupPhase = PodGroupPhase.EMPTY
    conditions: tuple[PodGroupCondition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(ApiStruct, frozen=True):
    """A gang: pods that start together or not at all."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
    api_version: str = "scheduling.volcano.sh/v1beta1"
    kind: str = "PodGroup"


class QueueState(Enum):
    """Whether a queue takes groups.

    Open --- closed by a user or by its parent ---> Closing --- last group gone ---> Closed
      ^                                                |                               |
      +------------------------ opened again ----------+-------------------------------+
    """

    EMPTY = ""
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class Guarantee(ApiStruct, frozen=True):
    """Resources that are kept for a queue, also while it does not use them."""

    resource: dict[str, QuantityText] = {}


class NodeGroupTerms(ApiStruct, frozen=True):
    """Names of node groups: those that count always, and those that count where possible."""

    required: tuple[str, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[str, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class QueueAffinity(ApiStruct, frozen=True):
    """The node groups that a queue uses, and those that it keeps away from."""

    node_group_affinity: NodeGroupTerms | None = None
    node_group_anti_affinity: NodeGroupTerms | None = None


class QueueSpec(ApiStruct, frozen=True):
    """The share of a queue: weight, and amounts it is guaranteed, deserves and may not exceed."""

    weight: int = 1
    capability: dict[str, QuantityText] = {}
    deserved: dict[str, QuantityText] = {}
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    parent: str = ""
    priority: int = 0
    affinity: QueueAffinity | None = None


class QueueStatus(ApiStruct, frozen=True):
    """The state of a queue, counts of its groups, and the amounts in use."""

    state: QueueState = QueueState.EMPTY
    pending: int = 0
    inqueue: int = 0
    running: int = 0
    completed: int = 0
    unknown: int = 0
    allocated: dict[str, QuantityText] = {}


class Queue(ApiStruct, frozen=True):
    """A share of the cluster for some of its users."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
    api_version: str = "scheduling.volcano.sh/v1beta1"
    kind: str = "Queue"
