"""Pods that start, run, end and are stopped, as the kubelet and the scheduler write it.

The rules of a kubelet hold: every write is for one UID, a pod may be gone by then, and a pod that
is marked for deletion is removed only when its process has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.cluster.embedded.storage import Commit
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Deletion, merge_patch
from swell.runtime.errors import ConflictError, InvalidError, NotFoundError
from swell.sim.observation import pod_states

ACTOR = "kubelet"


@dataclass(frozen=True, slots=True)
class PodBehavior:
    """How long a pod takes to start, to run and to stop, and its exit code."""

    start_s: float
    run_s: float
    exit_code: int
    stop_s: float

    @property
    def end(self) -> str:
        return "Failed" if self.exit_code else "Succeeded"


class Kubelet:
    """The kubelet of all nodes. It reads the commit log, so it never lags."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        behavior_of: Callable[[Pod], PodBehavior],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._spawn = spawn
        self._behavior_of = behavior_of

    def on_commit(self, commit: Commit) -> None:
        if pod := bound_by(commit):
            self._spawn(self._run(pod, self._behavior_of(pod)))
        if pod := stopped_by(commit):
            self._spawn(self._stop(pod, self._behavior_of(pod)))

    async def _run(self, pod: Pod, behavior: PodBehavior) -> None:
        await self._clock.sleep(behavior.start_s)
        began = {"phase": "Running", "startTime": format_time(self._clock.now())}
        if not await report(self._cluster, pod, began):
            return
        await self._clock.sleep(behavior.run_s)
        at = format_time(self._clock.now())
        ended = {
            "terminated": {"exitCode": behavior.exit_code, "reason": "Ended", "finishedAt": at}
        }
        await report(self._cluster, pod, phase(pod, behavior.end, ended))

    async def _stop(self, pod: Pod, behavior: PodBehavior) -> None:
        await self._clock.sleep(behavior.stop_s)
        await remove(self._cluster, pod)


# The pod is gone, was replaced, or has finished: nothing is left to do.
_GONE = (NotFoundError, ConflictError, InvalidError)


def bound_by(commit: Commit) -> Pod | None:
    """Returns the pod that this commit bound to a node."""
    before, pod = pod_states(commit)
    if pod is None or not pod.spec.node_name or (before and before.spec.node_name):
        return None
    return pod


def stopped_by(commit: Commit) -> Pod | None:
    """Returns the pod that this commit marked for deletion."""
    before, pod = pod_states(commit)
    if pod is None or not pod.metadata.deletion_timestamp:
        return None
    return None if before and before.metadata.deletion_timestamp else pod


async def bind(cluster: Cluster, pod: Pod, node: str) -> bool:
    """Bind a pod. Returns whether it still existed."""
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
    """Write a pod's status. Returns whether the pod still exists and is not being stopped."""
    patch = merge_patch({"metadata": {"uid": pod.metadata.uid}, "status": status})
    try:
        # Read first: a pod that is being stopped must not go back to Running.
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
    """Remove a pod whose process has ended."""
    try:
        await cluster.delete(PODS, pod.metadata.key, Deletion(uid=pod.metadata.uid, grace_s=0))
    except _GONE:
        return


def phase(pod: Pod, phase: str, state: Body) -> Body:
    """Returns a status of this phase with every container in this state."""
    return {
        "phase": phase,
        "containerStatuses": [{"name": c.name, "state": state} for c in pod.spec.containers],
    }
