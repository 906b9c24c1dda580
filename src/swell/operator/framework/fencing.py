"""When the processes of a pod certainly no longer run, though nobody reports their end.

Of a node of which nothing is known nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swell.api.core import Node
from swell.api.pod import Pod

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
DEFAULT_GRACE_S = 30


@dataclass(frozen=True, slots=True)
class NodeState:
    """What is certain about a node. Without `node` it does not exist any more.

    `unready_since` is when it was first seen not to be ready, and has not been ready since.
    `is_fresh` says that this was read from the server itself, just now.
    """

    node: Node | None
    unready_since: float | None = None
    is_fresh: bool = True


def is_fenced(pod: Pod, states: Mapping[str, NodeState], fence_after_s: float, now: float) -> bool:
    """Whether the pod's processes certainly no longer run, so that its record may be dropped."""
    state = states.get(pod.spec.node_name)
    at = fenced_at(pod, states, fence_after_s, now)
    return state is not None and state.is_fresh and at is not None and at <= now


def fenced_at(
    pod: Pod, states: Mapping[str, NodeState], fence_after_s: float, now: float
) -> float | None:
    """When the pod's node counts as fenced; None while nothing points that way."""
    state = states.get(pod.spec.node_name)
    if state is None:
        return None
    if state.node is None or any(t.key == OUT_OF_SERVICE for t in state.node.spec.taints):
        return now
    if state.unready_since is None:
        return None
    grace_s = pod.spec.termination_grace_period_seconds
    return state.unready_since + (DEFAULT_GRACE_S if grace_s is None else grace_s) + fence_after_s
