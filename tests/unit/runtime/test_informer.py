"""The informer on the real store, with a line that loses, delays and repeats."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Key, Uid
from swell.runtime.cache import StaleListError
from swell.runtime.cluster import (
    Deletion,
    EventType,
    Malformed,
    ObjectList,
    Selection,
    WatchEvent,
    merge_patch,
)
from swell.runtime.errors import UnreachableError
from swell.sim.loop import run
from tests.unit.runtime.world import (
    TOYS,
    Toy,
    World,
    failure,
    key,
    pod_body,
    started,
    toy_body,
    uid_of,
    until,
)

Story = Callable[[World], Awaitable[None]]


def play(story: Story) -> None:
    async def main() -> None:
        await story(World())

    run(main())


def test_lists_then_follows_changes() -> None:
    """What exists is listed, what changes is seen, and each change hands on a key."""

    async def story(world: World) -> None:
        await world.add_toy("a")
        toys = world.toys(world.line())
        keys: list[Key] = []
        toys.add_handler(keys.append)
        await started(toys)
        made = await world.add_toy("b", replicas=2)
        await until(lambda: toys.get(key("b")) is not None)
        await world.user.patch(TOYS, key("b"), merge_patch({"spec": {"replicas": 3}}))
        await until(lambda: (b := toys.get(key("b"))) is not None and b.spec.replicas == 3)
        await world.user.delete(TOYS, key("b"))
        await until(lambda: toys.get(key("b")) is None)

        assert uid_of(made)
        assert keys == [key("a"), key("b"), key("b"), key("b")]

    play(story)


def test_pages_make_one_list() -> None:
    """A collection larger than a page is whole after the first list."""

    async def story(world: World) -> None:
        for n in range(25):
            await world.add_toy(f"t{n:02}")
        toys = world.toys(world.line(), page_size=10)
        await started(toys)

        assert len(toys) == 25
        assert [toy.metadata.name for toy in toys.all()] == [f"t{n:02}" for n in range(25)]

    play(story)


def test_cut_watch_goes_on_where_it_ended() -> None:
    """A watch that breaks is resumed from the last version without another list."""

    async def story(world: World) -> None:
        line = world.line()
        toys = world.toys(line)
        await started(toys)
        for error in (None, UnreachableError("cut"), failure(500)):
            line.cut_watches(error)
            name = f"t{len(line.calls)}"
            await world.add_toy(name)
            await until(lambda name=name: toys.get(key(name)) is not None)  # type: ignore[misc]

        assert [call.split()[0] for call in line.calls].count("list") == 1

    play(story)


def test_compacted_version_leads_to_a_new_list() -> None:
    """After 410 Gone everything is listed again; what vanished in the gap is reported."""

    async def story(world: World) -> None:
        await world.add_toy("gone")
        line = world.line()
        toys = world.toys(line)
        keys: list[Key] = []
        toys.add_handler(keys.append)
        await started(toys)
        line.fail_before["watch"] = [UnreachableError("down")] * 3
        line.cut_watches(UnreachableError("cut"))
        await world.user.delete(TOYS, key("gone"))
        await world.add_toy("new")
        world.storage.compact(world.storage.version)
        await until(lambda: toys.get(key("new")) is not None)

        assert toys.get(key("gone")) is None
        assert keys[1:] == [key("new"), key("gone")]

    play(story)


def test_stale_relist_is_refused_and_repeated() -> None:
    """A list older than what is held, from a server that lags, is never taken."""

    async def story(world: World) -> None:
        line = world.line()
        await world.add_toy("a")
        past = await world.user.list(TOYS)
        toys = world.toys(line)
        await started(toys)
        await world.user.delete(TOYS, key("a"))
        await until(lambda: len(toys) == 0)
        seen: list[int] = []
        toys.add_handler(lambda _: seen.append(len(toys)))
        line.past_lists = [past, past]  # type: ignore[list-item]
        line.cut_watches(failure(410))
        await world.add_toy("b")
        await until(lambda: toys.get(key("b")) is not None)

        assert line.past_lists == []
        assert seen == [1]
        assert toys.get(key("a")) is None

    play(story)


def test_old_and_repeated_events_are_ignored() -> None:
    """An event not newer than the watch itself is a duplicate, or time travel."""

    async def story(world: World) -> None:
        toys = world.toys(world.line())
        await started(toys)
        made = await world.add_toy("a")
        await until(lambda: len(toys) == 1)
        await world.user.delete(TOYS, key("a"))
        await until(lambda: len(toys) == 0)
        toys._take(WatchEvent(EventType.MODIFIED, made, made.metadata.resource_version))

        assert len(toys) == 0

    play(story)


def test_bookmark_advances_the_version_alone() -> None:
    """A bookmark tells how far the watch is, also when nothing of the kind changes."""

    async def story(world: World) -> None:
        toys = world.toys(world.line())
        await started(toys)
        other = await world.user.create(PODS, pod_body("p"))
        version = int(other.metadata.resource_version)

        with pytest.raises(TimeoutError):
            await until(lambda: toys.version >= version, within_s=1)
        await until(lambda: toys.version >= version, within_s=120)

    play(story)


def test_failing_server_is_not_asked_in_a_hot_loop() -> None:
    """Back-off grows, and a server's Retry-After is kept to."""

    async def story(world: World) -> None:
        line = world.line()
        line.fail_before["list"] = [failure(503)] * 1000
        toys = world.toys(line)
        task = asyncio.create_task(toys.run())
        await asyncio.sleep(600)
        assert len(line.calls) < 60
        assert not toys.synced
        assert "503" in toys.last_error

        line.fail_before["list"] = [failure(429, retry_after_s=50)]
        asked = len(line.calls)
        await until(lambda: len(line.calls) > asked)
        now = world.clock.monotonic()
        await toys.wait_synced()
        assert world.clock.monotonic() - now > 49  # seen by polling, so a little less
        task.cancel()

    play(story)


def test_polite_end_of_every_watch_is_paced() -> None:
    """A server that closes each watch at once gets a few calls a minute, not thousands."""

    async def story(world: World) -> None:
        line = world.line()
        toys = world.toys(line, watch_s=0.001)
        await started(toys)
        await asyncio.sleep(600)

        assert len(line.calls) < 700

    play(story)


def test_hanging_list_and_watch_are_given_up() -> None:
    """No call is waited for for ever."""

    async def story(world: World) -> None:
        line = world.line()
        line.delay_s = 10_000
        toys = world.toys(line)
        task = asyncio.create_task(toys.run())
        await asyncio.sleep(100)
        line.delay_s = 0
        await asyncio.wait_for(toys.wait_synced(), 100)
        line.delay_s = 10_000
        await asyncio.sleep(1000)
        line.delay_s = 0
        await world.add_toy("a")
        await until(lambda: len(toys) == 1, within_s=1000)
        task.cancel()

    play(story)


def test_own_write_is_seen_before_the_watch_tells() -> None:
    """What a write answered is in the cache at once, and late older events do not undo it."""

    async def story(world: World) -> None:
        line = world.line()
        toys = world.toys(line)
        await started(toys)
        await world.add_toy("a")
        await until(lambda: len(toys) == 1)
        line.holds_events = True
        for replicas in (1, 2, 3):
            patch = merge_patch({"spec": {"replicas": replicas}})
            toys.observe(await line.patch(TOYS, key("a"), patch))
        seen: list[int] = []
        toys.add_handler(
            lambda k: seen.append(found.spec.replicas if (found := toys.get(k)) else 0)
        )
        line.release()
        await world.add_toy("end")
        await until(lambda: toys.get(key("end")) is not None)

        assert seen == [3, 0]  # called on adding the handler; then only the new one

    play(story)


def test_own_delete_is_seen_before_the_watch_tells() -> None:
    """An object whose deletion was answered stays gone, whatever the lagging watch still says."""

    async def story(world: World) -> None:
        line = world.line()
        toys = world.toys(line)
        await started(toys)
        made = await world.add_toy("a")
        await until(lambda: len(toys) == 1)
        line.holds_events = True
        await world.user.patch(TOYS, key("a"), merge_patch({"spec": {"replicas": 9}}))
        await line.delete(TOYS, key("a"))
        toys.observe_deleted(key("a"), made.metadata.uid)
        sizes: list[int] = []
        toys.add_handler(lambda _: sizes.append(len(toys)))
        line.release()
        await world.add_toy("end")
        await until(lambda: toys.get(key("end")) is not None)

        assert sizes == [1]

    play(story)


def test_refresh_reads_past_a_lagging_watch() -> None:
    """A consistent read brings one object to the present: changed, new, or absent."""

    async def story(world: World) -> None:
        line = world.line()
        toys = world.toys(line)
        for name in ("changed", "deleted"):
            await world.add_toy(name)
        await started(toys)
        line.holds_events = True
        await world.user.patch(TOYS, key("changed"), merge_patch({"spec": {"replicas": 5}}))
        await world.user.delete(TOYS, key("deleted"))
        await world.add_toy("new")
        for name in ("changed", "deleted", "new"):
            await toys.refresh(key(name))

        assert [(toy.metadata.name, toy.spec.replicas) for toy in toys.all()] == [
            ("changed", 5),
            ("new", 0),
        ]

    play(story)


@pytest.mark.parametrize("single_reads_max", [0, 10])
def test_refresh_selected_reads_what_left_the_selection(single_reads_max: int) -> None:
    """A child that lost its label is not taken for gone, one that is gone is."""

    async def story(world: World) -> None:
        owner = await world.add_toy("t")
        line = world.line()
        for name in ("gone", "relabelled"):
            await world.user.create(PODS, pod_body(name, owner))
        pods = world.pods(line, single_reads_max=single_reads_max)
        await started(pods)
        line.holds_events = True
        await world.user.create(PODS, pod_body("new", owner))
        patch = merge_patch({"metadata": {"labels": {"toy": None}}})
        await world.user.patch(PODS, key("relabelled"), patch)
        await world.user.delete(PODS, key("gone"))
        selection = Selection("default", labels="toy=t")
        await pods.refresh_selected(selection, "controller Toy", key("t"))

        assert [p.metadata.name for p in pods.by_owner(owner.metadata.uid)] == ["new", "relabelled"]
        assert [p.metadata.name for p in pods.by_label("toy", "t")] == ["new"]

    play(story)


def test_refresh_selected_is_not_undone_by_a_lagging_watch() -> None:
    """A child that came and went before a read of its owner's does not come with old events."""

    async def story(world: World) -> None:
        owner = await world.add_toy("t")
        line = world.line()
        pods = world.pods(line)
        await started(pods)
        line.holds_events = True
        for name in ("brief", "lasting"):
            await world.user.create(PODS, pod_body(name, owner))
        await world.user.delete(PODS, key("brief"), Deletion(grace_s=0))
        selection = Selection("default", labels="toy=t")
        await pods.refresh_selected(selection, "controller Toy", key("t"))
        heard: list[Key] = []
        pods.add_handler(heard.append)
        line.release()
        await world.user.create(PODS, pod_body("later", owner))
        await asyncio.sleep(1)

        assert [p.metadata.name for p in pods.all()] == ["lasting", "later"]
        assert heard == [key("lasting"), key("later")]

    play(story)


def test_handler_on_an_index_gets_owner_keys_before_and_after() -> None:
    """A child's change wakes its owner; a child that changes hands wakes both."""

    async def story(world: World) -> None:
        first, second = await world.add_toy("first"), await world.add_toy("second")
        pods = world.pods(world.line())
        keys: list[Key] = []
        pods.add_handler(keys.append, "controller Toy")
        await started(pods)
        await world.user.create(PODS, pod_body("p", first))
        await until(lambda: len(pods) == 1)
        owners = pod_body("p", second)["metadata"]["ownerReferences"]
        patch = merge_patch({"metadata": {"ownerReferences": owners}})
        await world.user.patch(PODS, key("p"), patch)
        await until(lambda: len(keys) == 3)
        await world.user.delete(PODS, key("p"))
        await until(lambda: len(pods) == 0)

        assert keys[:3] == [key("first"), key("first"), key("second")]
        assert set(keys[3:]) == {key("second")}

    play(story)


def test_malformed_object_is_handed_on_as_a_key() -> None:
    """An object that cannot be decoded is handed on like any other and hides nothing."""

    async def story(world: World) -> None:
        hostile = toy_body("hostile")
        hostile["spec"]["replicas"] = "many"
        await world.user.create(TOYS.untyped(), hostile)
        toys = world.toys(world.line())
        keys: list[Key] = []
        toys.add_handler(keys.append)
        await started(toys)
        hostile["metadata"]["name"] = "later"
        await world.user.create(TOYS.untyped(), hostile)
        await world.add_toy("sound")
        await until(lambda: toys.get(key("sound")) is not None)

        assert keys == [key("hostile"), key("later"), key("sound")]
        assert isinstance(toys.malformed(key("later")), Malformed)
        assert toys.malformed(key("sound")) is None

    play(story)


def test_resync_hands_every_key_out_again() -> None:
    """From time to time everything is listed and handed on anew, changed or not."""

    async def story(world: World) -> None:
        for name in ("b", "a"):
            await world.add_toy(name)
        line = world.line()
        toys = world.toys(line, resync_s=100, watch_s=1000)
        await started(toys)
        keys: list[Key] = []
        toys.add_handler(keys.append)
        await asyncio.sleep(250)

        assert keys[:4] == [key("a"), key("b"), key("a"), key("b")]
        assert [call.split()[0] for call in line.calls].count("list") in {2, 3}

    play(story)


def test_bug_in_the_client_does_not_end_the_informer() -> None:
    """An unexpected exception is logged, and the collection is watched again later."""

    async def story(world: World) -> None:
        line = world.line()
        line.fail_before["list"] = [ZeroDivisionError("bug")] * 2
        toys = world.toys(line)
        await started(toys)

        assert toys.synced

    play(story)


def test_refresh_refuses_a_read_older_than_the_watch() -> None:
    """A read that is older than what is known makes nothing certain."""

    async def story(world: World) -> None:
        line = world.line()
        toys = world.toys(line)
        await world.add_toy("a")
        await started(toys)
        line.past_lists = [ObjectList((), "1")]
        with pytest.raises(StaleListError):
            await toys.refresh(key("a"))

        assert isinstance(toys.get(key("a")), Toy)
        assert toys.by_owner(Uid("nobody")) == ()

    play(story)


def test_refresh_succeeds_while_the_watch_is_busy() -> None:
    """A read that the watch overtakes while it is under way is no stale read."""

    async def story(world: World) -> None:
        line = world.line()
        toys = world.toys(line)
        made = await world.add_toy("a")
        await started(toys)
        line.answer_delay_s = 5
        reading = asyncio.create_task(toys.refresh(key("a")))
        await asyncio.sleep(1)
        await world.user.delete(TOYS, key("a"))
        await until(lambda: len(toys) == 0)
        await reading

        assert made.metadata.name == "a"
        assert len(toys) == 0

    play(story)


def test_many_missing_children_are_settled_by_one_list_while_the_watch_is_busy() -> None:
    """Reading everything works also when the watch gets further than the list meanwhile."""

    async def story(world: World) -> None:
        owner = await world.add_toy("t")
        for n in range(5):
            await world.user.create(PODS, pod_body(f"p{n}", owner))
        line = world.line()
        pods = world.pods(line, single_reads_max=2)
        await started(pods)
        line.answer_delay_s = 5
        nobody = Selection("default", labels="toy=nobody")
        reading = asyncio.create_task(
            pods.refresh_selected(nobody, "controller Toy", key("t")),
        )
        await asyncio.sleep(7)
        await world.user.delete(PODS, key("p0"), Deletion(grace_s=0))
        await reading

        assert [pod.metadata.name for pod in pods.all()] == ["p1", "p2", "p3", "p4"]
        assert len(line.calls) == 4  # list and watch; the selection; everything

    play(story)


def test_problem_says_what_keeps_the_view_from_being_current() -> None:
    """Not listed, silent for long, and well again: each can be asked for."""

    async def story(world: World) -> None:
        line = world.line()
        toys = world.toys(line)
        assert toys.problem() == "not listed yet"
        await started(toys)
        await asyncio.sleep(1000)
        assert toys.problem() == ""
        line.fail_before["watch"] = [failure(403)] * 30
        line.cut_watches(failure(403))
        await asyncio.sleep(350)
        assert "403" in toys.problem()
        await asyncio.sleep(1000)
        assert toys.problem() == ""

    play(story)
