"""What the cluster's own agents do to a pod. All of it is for one UID, and a pod may be gone."""

from __future__ import annotations

from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.cluster.embedded.storage import Commit
from swell.runtime.cluster import Cluster, Deletion, merge_patch
from swell.runtime.errors import ConflictError, InvalidError, NotFoundError
from swell.sim.observation import pod_states

_GONE = (NotFoundError, ConflictError, InvalidError)


def bound_by(commit: Commit) -> Pod | None:
    """The pod that this commit gave a node."""
    before, pod = pod_states(commit)
    if pod is None or not pod.spec.node_name or (before and before.spec.node_name):
        return None
    return pod


def stopped_by(commit: Commit) -> Pod | None:
    """The pod that this commit marked for deletion."""
    before, pod = pod_states(commit)
    if pod is None or not pod.metadata.deletion_timestamp:
        return None
    return None if before and before.metadata.deletion_timestamp else pod


async def bind(cluster: Cluster, pod: Pod, node: str) -> bool:
    """Whether the pod was there to be bound."""
    meta = pod.metadata
    binding: Body = {
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "target": {"kind": "Node", "name": node},
    }
    try:
        await cluster.create(PODS.sub("binding", dict), binding)
    except _GONE:
        return False
    return True


async def report(cluster: Cluster, pod: Pod, status: Body, *, is_stopping: bool = False) -> bool:
    """Whether the pod is still there; one being stopped says nothing more of itself."""
    patch = merge_patch({"metadata": {"uid": pod.metadata.uid}, "status": status})
    try:
        current = await cluster.get(PODS, pod.metadata.key)
        if current.metadata.uid != pod.metadata.uid:
            return False
        if current.metadata.deletion_timestamp and not is_stopping:
            return False
        await cluster.patch(PODS.status, pod.metadata.key, patch)
    except _GONE:
        return False
    return True


async def remove(cluster: Cluster, pod: Pod) -> None:
    """Its process has ended: the record goes."""
    try:
        await cluster.delete(PODS, pod.metadata.key, Deletion(uid=pod.metadata.uid, grace_s=0))
    except _GONE:
        return


def phase(pod: Pod, phase: str, state: Body) -> Body:
    """A status of that phase in which every container is in that state."""
    return {
        "phase": phase,
        "containerStatuses": [{"name": c.name, "state": state} for c in pod.spec.containers],
    }
