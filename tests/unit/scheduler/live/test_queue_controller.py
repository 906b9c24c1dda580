"""The queue controller on an API server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from swell.api.kinds import EVENTS, NAMESPACES, POD_GROUPS, QUEUES
from swell.api.meta import Body, Key, ObjectMeta
from swell.api.scheduling import Queue, QueueState, QueueStatus
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.events import EventRecorder
from swell.runtime.informer import Informer
from swell.scheduler.live.queue_controller import (
    BY_PARENT,
    BY_QUEUE,
    QueueController,
    QueueView,
    decide,
)
from swell.scheduler.model.queue_rules import CLOSED_BY_PARENT
from swell.sim.chance import Chance
from swell.sim.loop import VirtualClock, run
from swell.sim.server import SimulatedServer

LONG_S = 5.0


class Stage:
    """A server, a user's client, and the running controller."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = SimulatedServer(self.clock, Chance(1), ())
        self.user: Cluster = self.server.connect("user")
        self.held: dict[str, dict[str, str]] = {}
        self.restless = ""  # a queue that holds something else whenever it is looked at
        self._n_looks = 0
        cluster, random = self.server.connect("scheduler"), Random(1)
        clock = self.clock
        self.queues = Informer(cluster, QUEUES, clock=clock, random=random, indexes=(BY_PARENT,))
        self.groups = Informer(cluster, POD_GROUPS, clock=clock, random=random, indexes=(BY_QUEUE,))
        self.events = EventRecorder(cluster, "scheduler", clock=clock, random=random)
        self.controller = QueueController(
            cluster,
            self.queues,
            self.groups,
            clock=clock,
            random=random,
            allocated=self._allocated,
            events=self.events,
        )

    def _allocated(self, name: str) -> dict[str, str] | None:
        self._n_looks += 1
        return {"cpu": str(self._n_looks)} if name == self.restless else self.held.get(name)

    async def work(self) -> None:
        await asyncio.gather(
            self.queues.run(), self.groups.run(), self.events.run(), self.controller.loop.run()
        )

    async def settle(self) -> None:
        await self.clock.sleep(LONG_S)

    async def queue(self, name: str, **spec: object) -> None:
        await self.user.create(QUEUES, {**_head("Queue", name), "spec": spec})

    async def group(self, name: str, queue: str, phase: str = "Running") -> None:
        body = {**_head("PodGroup", name, "ns"), "spec": {"minMember": 1, "queue": queue}}
        await self.user.create(POD_GROUPS, body)
        change = merge_patch({"status": {"phase": phase}})
        await self.user.patch(POD_GROUPS.status, Key("ns", name), change)

    async def say(self, name: str, state: str) -> None:
        change = merge_patch({"status": {"state": state}})
        await self.user.patch(QUEUES.untyped().status, Key("", name), change)
        await self.settle()

    async def read(self, name: str) -> Queue:
        return await self.user.get(QUEUES, Key("", name))

    async def states(self, *names: str) -> list[str]:
        return [(await self.read(name)).status.state.value for name in names]


def _head(kind: str, name: str, namespace: str = "") -> Body:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "metadata": metadata}


def play(scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
        await stage.user.create(NAMESPACES, namespace)
        working = asyncio.create_task(stage.work())
        try:
            await stage.settle()
            await scene(stage)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    run(main())


def test_root_and_default_are_there_and_come_again() -> None:
    """They are created at the start, and again when a user deletes them."""

    async def scene(stage: Stage) -> None:
        root = await stage.read("root")
        before = await stage.read("default")
        await stage.user.delete(QUEUES, Key("", "default"))
        await stage.settle()
        after = await stage.read("default")

        assert root.spec.reclaimable is False
        assert before.spec.parent == after.spec.parent == "root"
        assert before.metadata.uid != after.metadata.uid
        assert await stage.states("root", "default") == ["Open", "Open"]

    play(scene)


def test_queues_that_are_there_stay_as_they_are() -> None:
    """The fields that a user wrote into the default queue are not overwritten."""

    async def scene(stage: Stage) -> None:
        change = merge_patch({"spec": {"weight": 7}})
        await stage.user.patch(QUEUES, Key("", "default"), change)
        await stage.settle()

        assert (await stage.read("default")).spec.weight == 7

    play(scene)


def test_closing_lasts_until_the_last_group_has_gone() -> None:
    """A closed queue with groups is Closing; every change of state is an event."""

    async def scene(stage: Stage) -> None:
        await stage.queue("q")
        await stage.group("g", "q")
        await stage.settle()
        await stage.say("q", "Closed")
        closing = await stage.read("q")
        await stage.user.delete(POD_GROUPS, Key("ns", "g"))
        await stage.settle()
        events = (await stage.user.list(EVENTS)).items

        assert (closing.status.state.value, closing.status.running) == ("Closing", 1)
        assert await stage.states("q") == ["Closed"]
        assert (await stage.read("q")).status.running == 0
        assert {event.reason for event in events} == {"QueueClosing", "QueueClosed"}

    play(scene)


def test_parent_closes_and_opens_what_is_below() -> None:
    """Opening opens the queues that were closed with it, at any depth, and no other."""

    async def scene(stage: Stage) -> None:
        await stage.queue("top")
        await stage.queue("mid", parent="top")
        await stage.queue("low", parent="mid")
        await stage.queue("own", parent="top")
        await stage.settle()
        await stage.say("own", "Closing")
        await stage.say("top", "Closed")
        below = ("mid", "low", "own")
        closed = await stage.states("top", *below)
        marks = [(await stage.read(n)).metadata.annotations.get(CLOSED_BY_PARENT) for n in below]
        await stage.say("mid", "Open")
        refused = await stage.states("mid")
        await stage.say("top", "Open")

        assert closed == ["Closed"] * 4
        assert marks == ["true", "true", None]
        assert refused == ["Closed"]
        assert await stage.states("top", *below) == ["Open", "Open", "Open", "Closed"]
        assert not [n for n in below if (await stage.read(n)).metadata.annotations]

    play(scene)


def test_state_that_nobody_understands_is_unknown() -> None:
    """It admits nothing until a user opens or closes the queue."""

    async def scene(stage: Stage) -> None:
        await stage.queue("q")
        await stage.say("q", "ajar")
        unknown = await stage.states("q")
        await stage.say("q", "Open")

        assert (unknown, await stage.states("q")) == (["Unknown"], ["Open"])

    play(scene)


def test_numbers_that_keep_changing_are_written_once_a_second() -> None:
    """What is written wakes the queue at once, and newer numbers are there: they wait, while a
    state does not."""

    async def scene(stage: Stage) -> None:
        await stage.queue("q")
        await stage.settle()
        stage.restless = "q"
        stage.controller.mark_dirty("q")
        before = stage.server.storage.version
        await stage.clock.sleep(10.5)
        n_writes = stage.server.storage.version - before
        change = merge_patch({"status": {"state": "Closing"}})
        await stage.user.patch(QUEUES.status, Key("", "q"), change)
        await stage.clock.sleep(0.1)

        assert n_writes == 10
        assert await stage.states("q") == ["Closed"]

    play(scene)


def test_clock_that_was_set_back_delays_no_numbers() -> None:
    """The last write is in the future then; it is not waited for."""
    metadata = ObjectMeta(name="q", resource_version="1")
    queue = Queue(metadata=metadata, status=QueueStatus(state=QueueState.OPEN))
    world = QueueView("q", queue, allocated={"cpu": "1"}, quiet_until=100.0)

    assert decide(world, 99.5).wake_at == 100.0
    assert decide(world, 99.5).actions == ()
    assert decide(world, 10.0).actions


def test_swarm_of_changes_is_few_writes_and_quiet_is_none() -> None:
    """Changes of a hundred groups and of their amounts take one or two writes."""

    async def scene(stage: Stage) -> None:
        await stage.queue("q")
        await stage.settle()
        before = stage.server.storage.version
        for n in range(100):
            await stage.group(f"g{n}", "q", "Inqueue")
            stage.held["q"] = {"cpu": str(n)}
            stage.controller.mark_dirty("q")
        await stage.settle()
        n_writes = stage.server.storage.version - before - 200
        after = stage.server.storage.version
        await stage.clock.sleep(600)

        assert 1 <= n_writes <= 2
        assert (await stage.read("q")).status.inqueue == 100
        assert (await stage.read("q")).status.allocated == {"cpu": "99"}
        assert stage.server.storage.version == after

    play(scene)
