"""Registers the nodes of an agent and keeps them, as decided in `nodes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from swell.api.meta import Key
from swell.node.nodes import (
    OWN_NODES,
    NodeShape,
    OwnNode,
    RegistrationSnapshot,
    decide_node,
    is_healthy,
    is_registered,
    simulates_loss,
)
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.controller import Controller, Reconciler
from swell.runtime.executor import Executor
from swell.runtime.informer import Informer
from swell.runtime.queue import WorkQueue

NAME = "node-registration"


class Registration:
    """All nodes of one agent. Services: `informer.run`, and `controller.run` with its `stop`."""

    def __init__(
        self,
        cluster: Cluster,
        names: Sequence[str],
        shape: NodeShape,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._shape = shape
        self._names = dict.fromkeys(names)
        self._registered: dict[str, None] = {}
        # With one node, that one; with many, one watch of all nodes is the cheapest.
        fields = f"metadata.name={names[0]}" if len(names) == 1 else ""
        self.informer: Informer[OwnNode] = Informer(
            cluster, OWN_NODES, clock=clock, random=random, selection=Selection(fields=fields)
        )
        self.informer.add_handler(self._note)
        self.controller = Controller(
            NAME,
            Reconciler(self._snapshot, decide_node),
            owners=self.informer,
            executor=Executor(cluster, informers=(self.informer,)),
            queue=WorkQueue(clock=clock, random=random),
            clock=clock,
            workers=16,
        )

    async def run(self) -> None:
        for name in self._names:
            self.controller.wake(Key("", name))
        await self.controller.run()

    def stop(self) -> None:
        self.controller.stop()

    def find(self, name: str) -> OwnNode | None:
        return self.informer.get(Key("", name))

    def is_lost(self, name: str) -> bool:
        """Whether a node simulates its loss."""
        node = self.find(name)
        return node is not None and simulates_loss(node)

    @property
    def n_ready(self) -> int:
        """Returns how many of our nodes are reported as ready."""
        found = (self.find(name) for name in self._names)
        return sum(1 for node in found if node is not None and is_healthy(node))

    def on_change(self, handler: Callable[[str], None]) -> None:
        """Call a handler with the name of each of our nodes that changes."""

        def on_key(key: Key) -> None:
            if key.name in self._names:
                handler(key.name)

        self.informer.add_handler(on_key)

    def _note(self, key: Key) -> None:
        node = self.informer.get(key)
        if node is not None and is_registered(node, self._shape):
            self._registered[key.name] = None

    def _snapshot(self, key: Key) -> RegistrationSnapshot | None:
        if key.name not in self._names:
            return None
        was_registered = key.name in self._registered
        return RegistrationSnapshot(key.name, self.informer.get(key), self._shape, was_registered)
