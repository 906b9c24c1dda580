"""A story: what users do on nodes of their own, and what must come of it. And who plays it.

Every story has a resource that only its own nodes have, so that all of them can be played on one
cluster at the same time without taking room from one another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from swell.api.core import Node
from swell.api.kinds import AI_TRAINING_JOBS, NODES, POD_GROUPS, PODS, QUEUES
from swell.api.meta import Key
from swell.runtime.cluster import Cluster, Deletion, merge_patch
from tests.e2e.scheduler import objects
from tests.e2e.scheduler.objects import NAMESPACE
from tests.e2e.scheduler.observation import Observation

SMALL = {"cpu": "100m", "memory": "64Mi"}


class Schedulers(Protocol):
    """Two schedulers of which one leads."""

    async def kill_leader(self) -> None:
        """End the leader without a word, and start another in its place."""
        ...

    async def stop_leader(self) -> None:
        """Ask the leader to go, and start another in its place."""
        ...

    async def leader(self) -> str: ...


@dataclass
class Play:
    """A story while it is played."""

    name: str
    nodes: tuple[str, ...]
    cluster: Cluster
    observation: Observation
    schedulers: Schedulers
    groups: list[str] = field(default_factory=list)

    @property
    def resource(self) -> str:
        return f"e2e.swell/{self.name}"

    def own(self, amount: int = 1) -> dict[str, str]:
        return SMALL | {self.resource: str(amount)}

    async def queue(self, name: str, **spec: object) -> str:
        """A queue of this story; its name is made different from all others."""
        body = objects.queue(f"{self.name}-{name}", **spec)
        await self.cluster.create(QUEUES.untyped(), body)
        return f"{self.name}-{name}"

    async def gang(
        self,
        name: str,
        n: int,
        *,
        minimum: int | None = None,
        queue: str = "default",
        priority: str = "",
        amounts: dict[str, str] | None = None,
    ) -> str:
        """A group and its pods; each asks for one of the story's own resource if nothing else."""
        group = f"{self.name}-{name}"
        self.groups.append(group)
        least = n if minimum is None else minimum
        asked = self.own() if amounts is None else amounts
        body = objects.group(group, least, queue, priority, asked)
        await self.cluster.create(POD_GROUPS.untyped(), body)
        for index in range(n):
            pod = objects.pod(f"{group}-{index}", group, asked)
            await self.cluster.create(PODS.untyped(), pod)
        return group

    async def job(self, name: str, n: int, priority: str = "", **role: object) -> str:
        """An AITrainingJob on the story's own nodes, for the operator."""
        full = f"{self.name}-{name}"
        self.groups.append(full)
        body = objects.job(full, n, self.own(), priority, **role)
        await self.cluster.create(AI_TRAINING_JOBS.untyped(), body)
        return full

    async def remove(self, group: str) -> None:
        for pod in self.observation.pods_of(group):
            await self.cluster.delete(PODS, pod.metadata.key, Deletion())
        await self.cluster.delete(POD_GROUPS, Key(NAMESPACE, group), Deletion())

    async def cordon(self, yes: bool) -> None:
        """Keep pods off the story's nodes, or let them come."""
        for node in self.nodes:
            change = merge_patch({"spec": {"unschedulable": yes or None}})
            await self.cluster.patch(NODES, Key("", node), change)

    def node(self, name: str) -> Node | None:
        return self.observation.nodes.get(Key("", name))

    async def until_runs(self, group: str, n: int) -> None:
        """Exactly so many pods of a group run, and all others are gone or wait."""
        await self.observation.until(
            lambda: self.observation.n_running(group) == self.observation.n_bound(group) == n,
            f"{n} pods of {group} run",
        )

    async def stays(self, holds: Callable[[], bool], what: str, for_s: float = 1.5) -> None:
        """Nothing comes that must not come."""
        for _ in range(10):
            assert holds(), what
            await asyncio.sleep(for_s / 10)


@dataclass(frozen=True, slots=True)
class Story:
    """`n_nodes` of its own with `room` of its own resource each."""

    name: str
    act: Callable[[Play], Awaitable[None]]
    n_nodes: int = 0
    room: int = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-node-{number}" for number in range(self.n_nodes))

    async def play(
        self, cluster: Cluster, observation: Observation, schedulers: Schedulers
    ) -> None:
        play = Play(self.name, self.nodes, cluster, observation, schedulers)
        try:
            await self.act(play)
        except AssertionError as error:
            for group in play.groups:
                error.add_note(observation.reported(group))
            raise


def stories(table: Sequence[tuple[Callable[[Play], Awaitable[None]], int, int]]) -> list[Story]:
    """Stories named after what is played."""
    return [Story(act.__name__.replace("_", "-"), act, n, room) for act, n, room in table]
