"""PodDisruptionBudgets and PriorityClasses: which pods may be evicted for which others."""

from __future__ import annotations

from swell.api.meta import ApiStruct, Condition, ObjectMeta
from swell.api.pod import LabelSelector

# A number of pods, or a percentage of them such as "50%".
Portion = int | str


class PodDisruptionBudgetSpec(ApiStruct, frozen=True):
    """How many of the selected pods must stay, or may go."""

    min_available: Portion | None = None
    max_unavailable: Portion | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(ApiStruct, frozen=True):
    """How many pods may be evicted now, as the disruption controller counts."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(ApiStruct, frozen=True):
    """Bounds how many pods of a set may be evicted at once."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
    api_version: str = "policy/v1"
    kind: str = "PodDisruptionBudget"


class PriorityClass(ApiStruct, frozen=True):
    """A name for the priority of pods and pod groups."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
    api_version: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
