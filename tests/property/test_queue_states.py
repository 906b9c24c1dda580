"""Queues that are closed, opened and filled in any order end as asked for, despite crashes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from swell.api.kinds import NAMESPACES, POD_GROUPS, QUEUES
from swell.api.meta import Body, Key
from swell.api.scheduling import QueueState
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.informer import Informer
from swell.scheduler.live.queue_controller import BY_PARENT, BY_QUEUE, QueueController
from swell.scheduler.model.queue_rules import CLOSED_BY_PARENT
from swell.sim.chance import Chance
from swell.sim.loop import VirtualClock, run
from swell.sim.server import SimulatedServer

PARENTS = {"top": "root", "left": "top", "right": "top", "leaf": "left"}
NAMES = st.sampled_from(sorted(PARENTS))
ACTS = st.one_of(
    st.tuples(st.sampled_from(["close", "open", "fill", "empty"]), NAMES),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, 0.5, 3.0])),
    st.tuples(st.just("kill"), st.just("")),
)
SETTLED_S = 30.0


@dataclass
class RequestedStates:
    """The states that users asked for, and those that follow from them."""

    closed: set[str] = field(default_factory=set)
    full: set[str] = field(default_factory=set)

    def is_closed(self, name: str) -> bool:
        return name in self.closed or (name in PARENTS and self.is_closed(PARENTS[name]))

    def state(self, name: str) -> str:
        if not self.is_closed(name):
            return "Open"
        return "Closing" if name in self.full else "Closed"

    def is_marked(self, name: str) -> bool:
        return name not in self.closed and self.is_closed(name)


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = SimulatedServer(self.clock, Chance(1), ())
        self.user: Cluster = self.server.connect("user")
        self.requested = RequestedStates()
        self._working: asyncio.Future[tuple[None, None, None]] | None = None

    def start(self) -> None:
        cluster, random, clock = self.server.connect("scheduler"), Random(1), self.clock
        queues = Informer(cluster, QUEUES, clock=clock, random=random, indexes=(BY_PARENT,))
        groups = Informer(cluster, POD_GROUPS, clock=clock, random=random, indexes=(BY_QUEUE,))
        controller = QueueController(cluster, queues, groups, clock=clock, random=random)
        work = asyncio.gather(queues.run(), groups.run(), controller.loop.run())
        self._working = asyncio.ensure_future(work)

    async def kill(self) -> None:
        assert self._working is not None
        self._working.cancel()
        await asyncio.gather(self._working, return_exceptions=True)

    async def act(self, verb: str, subject: str | float) -> None:
        if isinstance(subject, float):
            await self.clock.sleep(subject)
        elif verb == "kill":
            await self.kill()
            self.start()
        else:
            await getattr(self, f"_{verb}")(subject)

    async def _close(self, name: str) -> None:
        self.requested.closed.add(name)
        unmark = merge_patch({"metadata": {"annotations": {CLOSED_BY_PARENT: None}}})
        await self.user.patch(QUEUES, Key("", name), unmark)
        await self._say(name, QueueState.CLOSING)

    async def _open(self, name: str) -> None:
        if not self.requested.is_closed(PARENTS[name]):  # the command refuses otherwise
            self.requested.closed.discard(name)
            await self._say(name, QueueState.OPEN)

    async def _fill(self, name: str) -> None:
        if name not in self.requested.full:
            self.requested.full.add(name)
            body = _object("PodGroup", f"g-{name}", "ns", {"minMember": 1, "queue": name})
            await self.user.create(POD_GROUPS, body)

    async def _empty(self, name: str) -> None:
        if name in self.requested.full:
            self.requested.full.remove(name)
            await self.user.delete(POD_GROUPS, Key("ns", f"g-{name}"))

    async def _say(self, name: str, state: QueueState) -> None:
        change = merge_patch({"status": {"state": state.value}})
        await self.user.patch(QUEUES.status, Key("", name), change)


def _object(kind: str, name: str, namespace: str, spec: Body) -> Body:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    frame = {"apiVersion": QUEUES.api_version, "kind": kind, "metadata": metadata}
    return {**frame, "spec": spec}


async def _play(acts: list[tuple[str, str | float]]) -> None:
    world = World()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    await world.user.create(NAMESPACES, namespace)
    for name, parent in PARENTS.items():
        await world.user.create(QUEUES, _object("Queue", name, "", {"parent": parent}))
    world.start()
    for verb, subject in acts:
        await world.act(verb, subject)
    await world.clock.sleep(SETTLED_S)
    version = world.server.storage.version
    await world.clock.sleep(SETTLED_S)
    for name in PARENTS:
        queue = await world.user.get(QUEUES, Key("", name))

        assert queue.status.state.value == world.requested.state(name), name
        assert (CLOSED_BY_PARENT in queue.metadata.annotations) == world.requested.is_marked(name)
        assert queue.status.pending == (name in world.requested.full)
    assert world.server.storage.version == version, "not quiet"
    await world.kill()


@settings(max_examples=40, deadline=None)
@given(st.lists(ACTS, max_size=12))
def test_queues_end_in_the_requested_states(acts: list[tuple[str, str | float]]) -> None:
    """Closed are the queues that a user closed and all below them; those that reopen with their
    parent are marked; and nothing is written once all states are right."""
    run(_play(acts))
