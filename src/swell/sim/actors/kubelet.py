"""The nodes' part: pods start, run, end and are taken down, each after its own story.

Obeys what a kubelet must: status is written for the pod's UID, and a pod marked for deletion goes
away only when its process has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.cluster.embedded.storage import Commit
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Deletion, merge_patch
from swell.runtime.errors import ConflictError, InvalidError, NotFoundError

ACTOR = "kubelet"


@dataclass(frozen=True, slots=True)
class PodStory:
    """What a pod does if it is left alone, and how long it takes to stop if it is not."""

    start_s: float
    run_s: float
    exit_code: int
    stop_s: float


class Kubelet:
    """All nodes at once. It hears of pods by the commit log, so it never lags."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        story_of: Callable[[Pod], PodStory],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._spawn = spawn
        self._story_of = story_of

    def on_commit(self, commit: Commit) -> None:
        if commit.collection != str(PODS) or commit.after is None:
            return
        pod = commit.after.typed(Pod)
        before = commit.before.typed(Pod) if commit.before else None
        if pod.spec.node_name and not (before and before.spec.node_name):
            self._spawn(self._run(pod, self._story_of(pod)))
        if pod.metadata.deletion_timestamp and not (before and before.metadata.deletion_timestamp):
            self._spawn(self._stop(pod, self._story_of(pod)))

    async def _run(self, pod: Pod, story: PodStory) -> None:
        await self._clock.sleep(story.start_s)
        if not await self._report(pod, {"phase": "Running"}):
            return
        await self._clock.sleep(story.run_s)
        ended = {"terminated": {"exitCode": story.exit_code, "reason": "Ended"}}
        containers = [{"name": container.name, "state": ended} for container in pod.spec.containers]
        phase = "Failed" if story.exit_code else "Succeeded"
        await self._report(pod, {"phase": phase, "containerStatuses": containers})

    async def _report(self, pod: Pod, status: Body) -> bool:
        """Whether the pod is still there and running; one being stopped is not ours any more."""
        patch = merge_patch({"metadata": {"uid": pod.metadata.uid}, "status": status})
        try:
            current = await self._cluster.get(PODS, pod.metadata.key)
            if current.metadata.uid != pod.metadata.uid or current.metadata.deletion_timestamp:
                return False
            await self._cluster.patch(PODS.status, pod.metadata.key, patch)
        except (NotFoundError, ConflictError, InvalidError):
            return False
        return True

    async def _stop(self, pod: Pod, story: PodStory) -> None:
        await self._clock.sleep(story.stop_s)
        try:
            await self._cluster.delete(
                PODS, pod.metadata.key, Deletion(uid=pod.metadata.uid, grace_s=0)
            )
        except (NotFoundError, ConflictError):
            return
