"""The nodes' part: pods start, run, end and are taken down, each after its own story.

Obeys what a kubelet must: status is written for the pod's UID, and a pod marked for deletion goes
away only when its process has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from swell.api.pod import Pod
from swell.cluster.embedded.storage import Commit
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.sim.actors import podwork

ACTOR = "kubelet"


@dataclass(frozen=True, slots=True)
class PodStory:
    """What a pod does if it is left alone, and how long it takes to stop if it is not."""

    start_s: float
    run_s: float
    exit_code: int
    stop_s: float

    @property
    def end(self) -> str:
        return "Failed" if self.exit_code else "Succeeded"


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
        if pod := podwork.bound_by(commit):
            self._spawn(self._run(pod, self._story_of(pod)))
        if pod := podwork.stopped_by(commit):
            self._spawn(self._stop(pod, self._story_of(pod)))

    async def _run(self, pod: Pod, story: PodStory) -> None:
        await self._clock.sleep(story.start_s)
        if not await podwork.report(self._cluster, pod, {"phase": "Running"}):
            return
        await self._clock.sleep(story.run_s)
        ended = {"terminated": {"exitCode": story.exit_code, "reason": "Ended"}}
        await podwork.report(self._cluster, pod, podwork.phase(pod, story.end, ended))

    async def _stop(self, pod: Pod, story: PodStory) -> None:
        await self._clock.sleep(story.stop_s)
        await podwork.remove(self._cluster, pod)
