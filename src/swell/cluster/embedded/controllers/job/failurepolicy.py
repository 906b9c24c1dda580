"""How a failed pod counts by a Job's podFailurePolicy.

The first rule that matches decides. A failure that no rule matches is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from swell.api.pod import ContainerStatus, Pod
from swell.api.workloads import ExitCodesRequirement, PodFailurePolicy, PodFailureRule


class FailureAction(Enum):
    """The actions of podFailurePolicy rules."""

    IGNORE = "Ignore"
    COUNT = "Count"
    FAIL_INDEX = "FailIndex"
    FAIL_JOB = "FailJob"


@dataclass(frozen=True, slots=True)
class FailureOutcome:
    """The action for a failed pod, and the message for the case that it ends the Job."""

    action: FailureAction
    message: str = ""

    @property
    def is_counted(self) -> bool:
        return self.action is not FailureAction.IGNORE


_ACTIONS = {action.value: action for action in FailureAction}
COUNTED = FailureOutcome(FailureAction.COUNT)


def failure_outcome(policy: PodFailurePolicy | None, pod: Pod) -> FailureOutcome:
    """The outcome of a failed pod by the policy; counted when there is no policy."""
    for number, rule in enumerate((policy and policy.rules) or ()):
        cause = _cause(rule, pod)
        action = _ACTIONS.get(rule.action)
        if cause and action is not None:
            return FailureOutcome(action, f"{cause}: rule {number} says {rule.action}")
    return COUNTED


def _cause(rule: PodFailureRule, pod: Pod) -> str:
    """The cause for which a rule matches the pod, as text; empty when it does not match."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        container = _exited(pod.status.container_statuses, rule.on_exit_codes) or _exited(
            pod.status.init_container_statuses, rule.on_exit_codes
        )
        if container is None or container.state.terminated is None:
            return ""
        code = container.state.terminated.exit_code
        return f"container {container.name} of pod {name} ended with exit code {code}"
    patterns = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions}
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in patterns:
            return f"pod {name} is marked {condition.type}"
    return ""


def _exited(
    statuses: Iterable[ContainerStatus], requirement: ExitCodesRequirement
) -> ContainerStatus | None:
    """The first failed container whose exit code meets the requirement."""
    for status in statuses:
        if requirement.container_name not in {None, status.name}:
            continue
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        listed = ended.exit_code in requirement.values
        if requirement.operator == ("In" if listed else "NotIn"):
            return status
    return None
