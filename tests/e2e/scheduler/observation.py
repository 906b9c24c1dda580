"""What can be seen of the cluster while stories are played, and waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Node
from swell.api.kinds import AI_TRAINING_JOBS, NODES, POD_GROUPS, PODS
from swell.api.meta import Key
from swell.api.pod import Pod, PodPhase
from swell.api.resource import ApiObject, Resource
from swell.api.scheduling import PodGroup
from swell.runtime.cache import CacheIndex
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.informer import Informer
from swell.runtime.manager import Manager
from tests.e2e.scheduler.objects import GROUP_NAME, NAMESPACE

T = TypeVar("T", bound=ApiObject)
WITHIN_S = 60.0
BY_GROUP: CacheIndex[object] = CacheIndex(
    "group", lambda metadata, _: (metadata.annotations.get(GROUP_NAME, ""),)
)


class Followed(Protocol):
    """What is needed of an informer of any kind to run it."""

    @property
    def resource(self) -> Resource[object]: ...

    async def run(self) -> None: ...

    async def wait_synced(self) -> None: ...


class NotSeenError(AssertionError):
    """What had to come did not; says what was there instead."""


class Observation:
    """Follows pods, groups, nodes and jobs."""

    def __init__(self, cluster: Cluster, clock: Clock, random: Random) -> None:
        self._changed = asyncio.Event()

        def informer(resource: Resource[T], *indexes: CacheIndex[T]) -> Informer[T]:
            made = Informer(cluster, resource, clock=clock, random=random, indexes=indexes)
            made.add_handler(lambda _: self._ring())
            return made

        self.pods: Informer[Pod] = informer(PODS, BY_GROUP)
        self.groups: Informer[PodGroup] = informer(POD_GROUPS)
        self.nodes: Informer[Node] = informer(NODES)
        self.jobs: Informer[AITrainingJob] = informer(AI_TRAINING_JOBS)
        self._every: tuple[Followed, ...] = (self.pods, self.groups, self.nodes, self.jobs)

    def add_to(self, manager: Manager) -> None:
        for followed in self._every:
            manager.add(f"sight of {followed.resource}", followed.run)

    async def wait_synced(self) -> None:
        for followed in self._every:
            await followed.wait_synced()

    def pods_of(self, group: str) -> tuple[Pod, ...]:
        return self.pods.by_index(BY_GROUP.name, group)

    def n_bound(self, group: str) -> int:
        """Pods of a group that have a node and are wanted there."""
        return sum(bool(pod.spec.node_name) for pod in self._wanted(group))

    def n_running(self, group: str) -> int:
        return sum(pod.status.phase is PodPhase.RUNNING for pod in self._wanted(group))

    def job(self, name: str) -> AITrainingJob | None:
        return self.jobs.get(Key(NAMESPACE, name))

    async def until(self, holds: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
        """Wait until something holds, looking again whenever anything changes."""
        try:
            async with asyncio.timeout(within_s):
                while not holds():
                    await self._changed.wait()
        except TimeoutError as error:
            raise NotSeenError(f"not within {within_s:.0f} s: {what}") from error

    def reported(self, group: str) -> str:
        """What a reader of a failure wants to know of a group."""
        found = self.groups.get(Key(NAMESPACE, group))
        pods = ", ".join(
            f"{pod.metadata.name} {pod.status.phase.value} on {pod.spec.node_name or 'no node'}"
            + (" leaving" if pod.metadata.deletion_timestamp else "")
            for pod in self.pods_of(group)
        )
        if found is None:
            return f"{group}: no such group; {pods}"
        conditions = found.status.conditions
        said = "; ".join(f"{c.type}={c.status} {c.reason} {c.message}" for c in conditions)
        return f"{group}: {found.status.phase.value}; {said}; {pods}"

    def _wanted(self, group: str) -> list[Pod]:
        return [pod for pod in self.pods_of(group) if pod.metadata.deletion_timestamp is None]

    def _ring(self) -> None:
        """Wake everybody who waits; whoever comes later waits for the next."""
        self._changed.set()
        self._changed = asyncio.Event()
