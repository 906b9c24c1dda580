"""What the operators of both kinds of job have in common: how their parts are put together.

Decides nothing: see `decide` and `trainingjob.updater`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

from swell.api.core import Node
from swell.api.meta import Key, ObjectMeta, Uid
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.resource import ApiObject, Resource
from swell.operator.framework.garbage import GarbageCollector
from swell.operator.framework.nodewatch import NodeWatch
from swell.runtime.cache import CacheIndex
from swell.runtime.clock import Clock
from swell.runtime.cluster import EVERYTHING, Cluster, Selection
from swell.runtime.controller import ControllerMeter
from swell.runtime.events import EventRecorder
from swell.runtime.executor import Observer, WriteMeter
from swell.runtime.informer import Informer
from swell.runtime.logs import get_logger
from swell.runtime.manager import ManagedService
from swell.runtime.queue import WorkQueue
from swell.runtime.reflector import InformerOptions
from swell.runtime.uncertain import AnyInformer

T = TypeVar("T", bound=ApiObject)
log = get_logger(__name__)

ACTOR = "swell-operator"
# Priority classes are waited for only so long: they may never be listable.
_PRIORITIES_S = 5.0


class Child(AnyInformer, Observer, Protocol):
    """An informer of what jobs own: read by the controller, told by the executor."""


class Runnable(Protocol):
    """What is needed of an informer to run it and to ask how it is."""

    @property
    def resource(self) -> Resource[object]: ...

    @property
    def synced(self) -> bool: ...

    async def run(self) -> None: ...

    async def wait_synced(self) -> None: ...

    def problem(self, patience_s: float = ...) -> str: ...


class Followed(Protocol):
    """The informers of one kind of job; nothing can be decided without the `required`."""

    @property
    def priorities(self) -> Informer[PriorityClass]: ...

    @property
    def required(self) -> Sequence[Runnable]: ...

    @property
    def every(self) -> Sequence[Runnable]: ...


class Loop(Protocol):
    async def run(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What every part works with."""

    cluster: Cluster
    clock: Clock
    random: Random
    passes: ControllerMeter | None = None
    writes: WriteMeter | None = None

    def informer(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *indexes: CacheIndex[T],
        options: InformerOptions,
    ) -> Informer[T]:
        return Informer(
            self.cluster,
            resource,
            clock=self.clock,
            random=self.random,
            selection=selection,
            indexes=indexes,
            options=options,
        )

    def queue(self) -> WorkQueue[Key]:
        return WorkQueue(clock=self.clock, random=self.random)


@dataclass(frozen=True, slots=True)
class Shell:
    """The parts of an operator. `name` tells its services from those of another.

    Nodes and priority classes belong to the whole cluster: with rights in a namespace alone they
    cannot be read. Then of nodes nothing is concluded, and pods get no priority.
    """

    name: str
    informers: Followed
    loop: Loop
    nodes: NodeWatch
    collector: GarbageCollector
    events: EventRecorder
    sees_cluster: bool

    @property
    def services(self) -> tuple[ManagedService, ...]:
        """In the order in which they are to be started."""
        name = self.name
        return (
            ManagedService(f"{name} events", self.events.run),
            *(
                ManagedService(f"{name} {one.resource} cache", one.run)
                for one in self.informers.every
                if one.resource.namespaced or self.sees_cluster
            ),
            ManagedService(f"{name} nodes", self.nodes.run),
            ManagedService(f"{name} garbage", self.collector.run),
            ManagedService(name, self._work, self.loop.stop),
        )

    def problem(self) -> str:
        """What keeps the operator from knowing its jobs; empty when nothing does."""
        problems = ((one.resource, one.problem()) for one in self.informers.required)
        return "; ".join(f"{resource}: {wrong}" for resource, wrong in problems if wrong)

    async def _work(self) -> None:
        if self.sees_cluster:
            await self._wait_for_priorities()
        await self.loop.run()

    async def _wait_for_priorities(self) -> None:
        """Pods get their priority when they are created, so the classes have to be known."""
        try:
            async with asyncio.timeout(_PRIORITIES_S):
                await self.informers.priorities.wait_synced()
        except TimeoutError:
            log.warning("priority classes cannot be listed; pods get no priority")


def _node_of(_: ObjectMeta, pod: Pod | None) -> Sequence[str]:
    return (pod.spec.node_name,) if pod is not None and pod.spec.node_name else ()


ON_NODE: CacheIndex[Pod] = CacheIndex("node", _node_of)


def watch_nodes(
    means: Means, nodes: Informer[Node], pods: Informer[Pod], wake: Callable[[Pod], None]
) -> NodeWatch:
    """Have whoever has a pod on a node woken when there is news of the node."""

    def tell(name: str) -> None:
        for pod in pods.by_index(ON_NODE.name, name):
            wake(pod)

    watch = NodeWatch(nodes, means.queue(), means.clock, tell)
    nodes.add_handler(lambda key: tell(key.name))
    return watch


def own(informer: Informer[T] | None, key: Key, uid: Uid) -> T | None:
    """The object under a key, if it is this owner's and not a namesake's."""
    found = informer.get(key) if informer is not None else None
    owner = found.metadata.controller if found is not None else None
    return found if owner is not None and owner.uid == uid else None
