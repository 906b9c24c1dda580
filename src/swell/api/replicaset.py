"""ReplicaSets: masters and parameter servers of a TrainingJob."""

from __future__ import annotations

from swell.api.meta import ApiStruct, Body, Condition, ObjectMeta
from swell.api.pod import LabelSelector


class ReplicaSetSpec(ApiStruct, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: Body = {}


class ReplicaSetStatus(ApiStruct, frozen=True):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
