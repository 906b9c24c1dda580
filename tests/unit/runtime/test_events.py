"""The event recorder: coalescing, pace, bounds, and that it never gets in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

from swell.api.core import Event, EventSeverity, ObjectReference
from swell.api.kinds import EVENTS, NODES, RECORDED_EVENTS
from swell.api.meta import Body, Key, Uid
from swell.api.times import format_micro_time
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.runtime.errors import OutcomeUnknownError, UnreachableError
from swell.runtime.events import EventOptions, EventRecorder
from swell.runtime.plan import EmitEvent
from swell.sim.loop import EPOCH_S, run
from tests.unit.runtime.world import TOYS, Line, World, failure, key

Story = Callable[[World], Awaitable[None]]


class ServedWorld(World):
    """A world whose server has the built-in kinds, with their rules."""

    def __init__(self) -> None:
        super().__init__()
        self.api = new_api_server(Storage(self.clock.now), self.clock, Random(2))
        self.user = InProcessCluster(self.api, "user")


def play(story: Story) -> None:
    async def main() -> None:
        await story(ServedWorld())

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


async def written(world: World) -> list[Body]:
    """The events in the form in which they are written, as a server lists them: by name."""
    return list((await world.user.list(RECORDED_EVENTS)).items)


def counts(found: list[Body]) -> dict[str, int]:
    return {event["note"]: event.get("series", {}).get("count", 1) for event in found}


def test_event_says_what_happened_to_whom() -> None:
    """An event names its object, its source and its time, in the object's namespace."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        task = asyncio.create_task(recording.run())
        pod = ObjectReference("v1", "Pod", key("t").namespace, "t-0")
        recording.record(replace(happening("Failed", "3 pods"), action="Restart", related=pod))
        await asyncio.sleep(1)
        task.cancel()

        (event,) = await written(world)
        assert event["metadata"]["namespace"] == key("t").namespace
        assert event["regarding"] == {
            "apiVersion": TOYS.api_version,
            "kind": "Toy",
            "namespace": key("t").namespace,
            "name": "t",
            "uid": "u",
        }
        assert (event["reason"], event["note"], event["type"]) == ("Failed", "3 pods", "Normal")
        assert (event["action"], event["related"]["name"]) == ("Restart", "t-0")
        assert event["eventTime"] == format_micro_time(EPOCH_S)
        assert "series" not in event
        assert event["reportingController"] == "toy"
        assert event["reportingInstance"].startswith("toy-")

    play(story)


def test_both_groups_show_the_same_events() -> None:
    """Clients of the core group see them with that group's names."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        for _ in range(3):
            recording.record(happening("Created", "3 pods"))
        await recording.flush(within_s=5)

        (event,) = await events(world)
        assert (event.involved_object.kind, event.message) == ("Toy", "3 pods")
        assert (event.reporting_component, event.action) == ("toy", "Created")
        (body,) = (await world.user.list(EVENTS.untyped())).items
        assert body["series"]["count"] == 3

    play(story)


def test_repeated_happening_is_one_event_that_counts() -> None:
    """Ten thousand repetitions are one object and a few writes; the times are of first and last."""

    async def story(world: World) -> None:
        line = world.line()
        recording = recorder(world, line)
        task = asyncio.create_task(recording.run())
        for n in range(10_000):
            recording.record(happening(message="again"))
            if n % 100 == 0:
                await asyncio.sleep(0.1)
        await asyncio.sleep(20)
        task.cancel()

        (event,) = await written(world)
        assert event["series"]["count"] == 10_000
        assert event["eventTime"] == format_micro_time(EPOCH_S)
        assert format_micro_time(EPOCH_S + 9) < event["series"]["lastObservedTime"]
        assert len(line.writes()) <= 4

    play(story)


def test_each_text_is_kept_with_its_count() -> None:
    """Another text of the same reason replaces none: all are there, in order, each with a count."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        task = asyncio.create_task(recording.run())
        for text in ("a", "b", "a", "c", "b", "a"):
            recording.record(happening(message=text))
        await asyncio.sleep(30)
        task.cancel()

        found = await written(world)
        assert [event["note"] for event in found] == ["a", "b", "c"]
        assert counts(found) == {"a": 3, "b": 2, "c": 1}

    play(story)


def test_endless_texts_are_bounded_and_the_last_is_kept() -> None:
    """A text with a number in it must not fill the server; no happening is left uncounted."""

    async def story(world: World) -> None:
        line = world.line()
        recording = recorder(world, line)
        task = asyncio.create_task(recording.run())
        for n in range(5_000):
            recording.record(happening(message=f"m{n}"))
            if n % 100 == 0:
                await asyncio.sleep(0.5)
        await asyncio.sleep(30)
        task.cancel()

        found = await written(world)
        assert [event["note"] for event in found][:10] == [f"m{n}" for n in range(10)]
        assert found[-1]["note"] == "m4999"
        assert sum(counts(found).values()) == 5_000
        assert len(found) <= 10 + 5

    play(story)


def test_endless_texts_are_all_counted_in_spite_of_failures() -> None:
    """A write that fails while a later text takes its place loses no count."""

    async def story(world: World) -> None:
        line = world.line()
        line.delay_s = 0.2
        recording = recorder(world, line, series_s=1.0)
        task = asyncio.create_task(recording.run())
        for n in range(300):
            if n % 40 == 20:
                line.fail_before["create"] = [failure(500), UnreachableError("down")]
            recording.record(happening(message=f"m{n}"))
            await asyncio.sleep(0.05)
        await asyncio.sleep(60)
        task.cancel()

        assert recording.n_dropped == 0
        assert sum(counts(await written(world)).values()) == 300

    play(story)


def test_events_of_one_moment_are_listed_in_their_order() -> None:
    """Within a microsecond, too: a server lists by name, and kubectl shows them like that."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        reasons = [f"R{n * 7919 % 100}" for n in range(100)]
        for reason in reasons:
            recording.record(happening(reason))
        await recording.flush(within_s=5)

        found = await written(world)
        assert [event["reason"] for event in found] == reasons
        times = [event["eventTime"] for event in found]
        assert times == sorted(set(times))

    play(story)


def test_clock_that_is_set_back_is_followed() -> None:
    """An hour back is no reason to date events in the future."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        recording.record(happening("A"))
        world.clock.jump(-3600)
        recording.record(happening("B"))
        await recording.flush(within_s=5)

        (second,) = [e for e in await written(world) if e["reason"] == "B"]
        assert second["eventTime"] == format_micro_time(EPOCH_S - 3600)

    play(story)


def test_sweep_of_jobs_has_its_events_within_two_seconds() -> None:
    """200 jobs with four events each, all at once, on a server that takes 10 ms for a write."""

    async def story(world: World) -> None:
        line = world.line()
        line.delay_s = 0.01
        recording = recorder(world, line)
        task = asyncio.create_task(recording.run())
        for n in range(200):
            for reason in ("Pending", "Creating", "Running", "Succeed"):
                recording.record(happening(reason, name=f"t{n}", uid=f"u{n}"))
        await asyncio.sleep(0.3)
        # Objects take turns: every one has an event before any has all of them.
        names = {event["regarding"]["name"] for event in await written(world)}
        assert len(names) == 200
        await asyncio.sleep(1.7)
        task.cancel()

        assert len(await written(world)) == 800

    play(story)


def test_busy_object_does_not_keep_others_waiting() -> None:
    """One object with thousands of events is behind all others after its first."""

    async def story(world: World) -> None:
        line = world.line()
        line.delay_s = 0.01
        recording = recorder(world, line)
        for n in range(5_000):
            recording.record(happening(f"R{n}", name="busy", uid="busy"))
        recording.record(happening("Started", name="calm", uid="calm"))
        task = asyncio.create_task(recording.run())
        await asyncio.sleep(0.05)
        found = await written(world)
        task.cancel()

        assert "calm" in {event["regarding"]["name"] for event in found}

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
    """Beyond a burst, many different events reach the server at a bounded rate."""

    async def story(world: World) -> None:
        line = world.line()
        recording = recorder(world, line, writes_per_s=10, burst=20)
        task = asyncio.create_task(recording.run())
        for n in range(500):
            recording.record(happening(name=f"t{n}"))
        await asyncio.sleep(10)
        assert 100 <= len(line.writes()) <= 130
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


def test_written_series_are_forgotten_before_those_that_wait() -> None:
    """A burst may be large; what is written of it does not stay in memory."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line(), series_max=300, written_max=50)
        for n in range(250):
            recording.record(happening(name=f"t{n}"))
        assert len(recording._series) == 250
        await recording.flush(within_s=60)
        recording.record(happening(name="next"))

        assert recording.n_dropped == 0
        assert len(recording._series) == 50
        assert len(await events(world)) == 250

    play(story)


def test_lost_answer_makes_no_second_event() -> None:
    """The name is the same in every attempt, and the count is that of all happenings."""

    async def story(world: World) -> None:
        line = world.line()
        recording = recorder(world, line)
        task = asyncio.create_task(recording.run())
        line.fail_after["create"] = [OutcomeUnknownError("lost")]
        recording.record(happening())
        await asyncio.sleep(0.01)
        recording.record(happening())
        await asyncio.sleep(20)
        task.cancel()

        assert counts(await written(world)) == {"m": 2}

    play(story)


def test_expired_event_begins_again() -> None:
    """An event the server has forgotten is created anew with what is new."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        for n_new in (1, 2, 3):
            for _ in range(n_new):
                recording.record(happening())
            await recording.flush(within_s=5)
            (event,) = await written(world)
            assert counts([event]) == {"m": n_new}
            await world.user.delete(EVENTS, Key(key("t").namespace, event["metadata"]["name"]))

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

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        warning = EventSeverity.WARNING
        recording.record(EmitEvent(NODES, Key("", "n" * 253), Uid("u"), warning, "Lost", "m"))
        await recording.flush(within_s=5)

        (event,) = await events(world)
        assert event.metadata.namespace == "default"
        assert len(event.metadata.name) <= 253

    play(story)


def test_message_is_bounded() -> None:
    """A message longer than the API allows is cut, not refused, in characters and in bytes."""

    async def story(world: World) -> None:
        recording = recorder(world, world.line())
        recording.record(happening(message="x" * 5000))
        recording.record(happening(message="ö" * 5000))
        await recording.flush(within_s=5)

        for event in await events(world):
            assert 500 < len(event.message) <= 1024
            assert len(event.message.encode()) <= 1024

    play(story)
