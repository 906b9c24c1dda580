"""PriorityClasses: names for the importance of pods and groups."""

from __future__ import annotations

from swell.api.meta import ApiStruct, ObjectMeta


class PriorityClass(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
    api_version: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
