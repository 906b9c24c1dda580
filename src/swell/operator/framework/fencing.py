"""When the processes of a pod have certainly ended although nothing reports their end. Pure.

A fenced pod's record may be dropped by a forced delete. If its processes did still run, two pods
of one replica would train at once; so nothing is concluded about a node that is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from swell.api.core import Node
from swell.api.kinds import PODS
from swell.api.pod import Pod
from swell.operator.framework.gpu_states import GpuDrop
from swell.runtime.plan import DeleteObject

# Kubernetes' taint by which an administrator declares that a node is powered off.
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# Kubernetes' default of `terminationGracePeriodSeconds`.
DEFAULT_GRACE_S = 30
# A forced delete is sent that soon after its decision, or decided anew: the node may be back. Most
# passes take well under a second, and the read that the decision rests on is a few seconds old.
FORCED_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class NodeState:
    """The facts that are certain about a node. Without `node` it does not exist any more.

    `unready_since` is when the node was first seen unready, if it has been unready ever since.
    `is_fresh` means that this was read from the API server itself within the last seconds.
    A broken GPU that the node reports counts from `gpu_fault_at` on; None: at once. `gpu_drop` are
    GPUs of its pods that it cannot allocate any more.
    """

    node: Node | None
    unready_since: float | None = None
    is_fresh: bool = True
    gpu_fault_at: float | None = None
    gpu_drop: GpuDrop | None = None


def is_ready(node: Node) -> bool:
    """Whether the node reports that it is ready; one that has never reported is not."""
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def drop_record(pod: Pod, version: str | None = None) -> DeleteObject:
    """Delete a fenced pod at once. With a version it is deleted only in that state."""
    meta = pod.metadata
    return DeleteObject(
        PODS, meta.key, meta.uid, grace_s=0, version=version, within_s=FORCED_WITHIN_S
    )


def is_fenced(pod: Pod, states: Mapping[str, NodeState], fence_after_s: float, now: float) -> bool:
    """Whether the pod's processes have certainly ended, so that its record may be dropped."""
    state = states.get(pod.spec.node_name)
    at = fenced_at(pod, states, fence_after_s, now)
    return state is not None and state.is_fresh and at is not None and at <= now


def fenced_at(
    pod: Pod, states: Mapping[str, NodeState], fence_after_s: float, now: float
) -> float | None:
    """When the pod's node counts as fenced; None while nothing indicates it."""
    state = states.get(pod.spec.node_name)
    if state is None:
        return None
    if state.node is None or any(t.key == OUT_OF_SERVICE for t in state.node.spec.taints):
        return now
    if state.unready_since is None:
        return None
    grace_s = pod.spec.termination_grace_period_seconds
    return state.unready_since + (DEFAULT_GRACE_S if grace_s is None else grace_s) + fence_after_s


def fence_deadline(
    pods: Iterable[Pod], states: Mapping[str, NodeState], fence_after_s: float, now: float
) -> float | None:
    """When the next pod that is being deleted will count as fenced: the time to look again."""
    leaving = (pod for pod in pods if pod.metadata.deletion_timestamp is not None)
    return soonest((fenced_at(pod, states, fence_after_s, now) for pod in leaving), now)


def soonest(times: Iterable[float | None], now: float) -> float | None:
    """The first of the times that lies ahead."""
    return min((at for at in times if at is not None and at > now), default=None)
