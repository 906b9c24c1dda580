"""Queue: how groups of users share a cluster. Volcano's kind."""

from __future__ import annotations

from enum import Enum

from swell.api.meta import ApiStruct, ObjectMeta
from swell.api.quantity import QuantityText


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
