"""The event recorder: coalescing, pace, bounds, and that it never gets in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from swell.api.core import Event, EventSeverity
from swell.api.kinds import EVENTS, NODES
from swell.api.meta import Key, Uid
from swell.api.times import format_time
from swell.runtime.errors import UnreachableError
from swell.runtime.events import EventOptions, EventRecorder, event_name
from swell.runtime.plan import EmitEvent
from swell.sim.loop import EPOCH_S, run
from tests.unit.runtime.world import TOYS, Line, World, failure, key

Story = Callable[[World], Awaitable[None]]


def play(story: Story) -> None:
    async def main() -> None:
        await story(World())

    run(main())


def happening(
    reason: str = "Created", message: str = "m", *, name: str = "t", uid: str = "u"
) -> EmitEvent:
    return EmitEvent(TOYS, key(name), Uid(uid), EventSeverity.NORMAL, reason, message)


def recorder(world: World, line: Line, **options: object) -> EventRecorder:
    given = EventOptions(**options)  # type: ignore[arg-type]
    return EventRecorder(line, "toy", clock=world.clock, random=world.random, options=given)


async def events(world: World) -> list[Event]:
    return list((await world.user.list(EVENTS)).items)


def test_event_says_what_happened_to_whom() -> None:
    """An event names its object, its source and its time, in the object's namespace."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        task = asyncio.create_task(recording.run())
        recording.record(happening("Created", "3 pods"))
        await asyncio.sleep(1)
        task.cancel()

        (event,) = await events(world)
        assert event.metadata.key == event_name("toy", happening())
        assert (event.involved_object.kind, event.involved_object.name) == ("Toy", "t")
        assert event.involved_object.uid == "u"
        assert (event.reason, event.message, event.type) == ("Created", "3 pods", "Normal")
        assert event.count == 1
        assert event.first_timestamp == event.last_timestamp == format_time(EPOCH_S)
        assert event.source.component == "toy"

    play(story)


def test_repeated_happening_is_one_event_that_counts() -> None:
    """Ten thousand repetitions are one object, a few writes, and the latest message."""

    async def story(world: World) -> None:
        line = world.line()
        recording = recorder(world, line)
        task = asyncio.create_task(recording.run())
        for n in range(10_000):
            recording.record(happening(message=f"m{n}"))
            if n % 100 == 0:
                await asyncio.sleep(0.1)
        await asyncio.sleep(20)
        task.cancel()

        (event,) = await events(world)
        assert event.count == 10_000
        assert event.message == "m9999"
        assert len(line.writes()) <= 4

    play(story)


def test_different_happenings_are_different_events() -> None:
    """Another reason, or another object of the same name, is another event."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        for event in (happening("A"), happening("B"), happening("A", uid="u2")):
            recording.record(event)
        await recording.flush(within_s=5)

        assert len(await events(world)) == 3

    play(story)


def test_all_series_together_keep_a_pace() -> None:
    """A burst of many different events reaches the server at a bounded rate."""

    async def story(world: World) -> None:
        line = world.line()
        recording = recorder(world, line, writes_per_s=10)
        task = asyncio.create_task(recording.run())
        for n in range(500):
            recording.record(happening(name=f"t{n}"))
        await asyncio.sleep(10)
        assert 90 <= len(line.writes()) <= 110
        await asyncio.sleep(50)
        task.cancel()

        assert len(await events(world)) == 500

    play(story)


def test_memory_is_bounded_and_drops_are_counted() -> None:
    """More series than may be remembered are dropped while nothing can be written."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line(), series_max=100)
        for n in range(250):
            recording.record(happening(name=f"t{n}"))
        assert recording.n_dropped == 150
        await recording.flush(within_s=60)
        for n in range(300, 400):
            recording.record(happening(name=f"t{n}"))

        assert recording.n_dropped == 150
        assert len(recording._series) == 100

    play(story)


def test_restarted_recorder_counts_on() -> None:
    """Names are deterministic: the next life of a process continues its events."""

    async def story(world: World) -> None:
        for _ in range(2):
            recording = recorder(world, world.line())
            recording.record(happening())
            recording.record(happening())
            await recording.flush(within_s=5)

        (event,) = await events(world)
        assert event.count == 4

    play(story)


def test_expired_event_begins_again() -> None:
    """An event the server has forgotten is created anew with what is new."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        recording.record(happening())
        await recording.flush(within_s=5)
        await world.user.delete(EVENTS, event_name("toy", happening()))
        recording.record(happening())
        await recording.flush(within_s=5)

        (event,) = await events(world)
        assert event.count == 1

    play(story)


def test_failures_are_forgiven_a_few_times_then_dropped() -> None:
    """A short outage loses nothing; a long one loses events and nothing else."""

    async def story(world: World) -> None:
        line = world.line()
        recording = recorder(world, line)
        task = asyncio.create_task(recording.run())
        line.fail_before["create"] = [UnreachableError("down"), failure(500)]
        recording.record(happening("Short"))
        await asyncio.sleep(20)
        assert [event.reason for event in await events(world)] == ["Short"]

        line.fail_before["create"] = [failure(403)] * 100
        recording.record(happening("Long"))
        await asyncio.sleep(60)
        assert recording.n_dropped == 1
        line.fail_before["create"] = []
        recording.record(happening("After"))
        await asyncio.sleep(5)
        task.cancel()

        assert sorted(event.reason for event in await events(world)) == ["After", "Short"]

    play(story)


def test_flush_keeps_its_time() -> None:
    """A shutdown does not wait for a server that does not answer."""

    async def story(world: World) -> None:
        line = world.line()
        line.delay_s = 1000
        recording = recorder(world, line)
        recording.record(happening())
        await recording.flush(within_s=3)

        assert world.clock.monotonic() == 3

    play(story)


def test_event_about_a_cluster_object_lives_in_default() -> None:
    """Objects without a namespace have their events in one that is always there."""
    node = EmitEvent(NODES, Key("", "n" * 300), Uid("u"), EventSeverity.WARNING, "Lost", "m")
    name = event_name("toy", node)

    assert name.namespace == "default"
    assert len(name.name) <= 253


def test_message_is_bounded() -> None:
    """A message longer than the API allows is cut, not refused."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        recording.record(happening(message="x" * 5000))
        await recording.flush(within_s=5)

        (event,) = await events(world)
        assert len(event.message) == 1024

    play(story)
