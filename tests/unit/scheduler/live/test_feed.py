"""A handler that fails leaves the snapshot neither half-changed nor behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from swell.api.kinds import QUEUES
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.runtime.cluster import merge_patch
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.model.tasks import TaskStatus
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage
from tests.unit.scheduler.test_snapshot import check_places, check_sums


class BrokenError(Exception):
    """A bug in a handler."""


def break_handler(scheduler: Scheduler, name: str, fails: Callable[[Key], bool]) -> None:
    """Has a handler of the cache fail half-way for some keys."""
    cache: Any = scheduler.cache
    take = getattr(cache, name)

    def take_or_fail(key: Key) -> None:
        if fails(key):
            cache.snapshot.remove_pod(str(key))
            raise BrokenError(str(key))
        take(key)

    setattr(cache, name, take_or_fail)


def nth(n: int) -> Callable[[Key], bool]:
    """True at the n-th call, once."""
    calls = iter(range(1, 10**6))
    return lambda _: next(calls) == n


@pytest.mark.parametrize("n", range(1, 12))
def test_snapshot_is_whole_after_a_handler_has_failed(n: int) -> None:
    """At any of its events: the room of every pod is counted, and all that fit are placed."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2)
        await stage.pod("old", cpu="3", schedulerName="other", nodeName="node-0")
        scheduler = stage.start()
        break_handler(scheduler, "_take_pod", nth(n))
        await stage.gang("g", 3)
        await stage.gang("big", 1, cpu="4")
        await stage.sleep(60)
        snapshot = scheduler.cache.snapshot
        check_sums(snapshot)
        check_places(snapshot)

        assert scheduler.is_synced
        assert sorted(await stage.where()) in (
            ["g-0", "g-1", "g-2", "old"],
            ["big-0", "old"],
        )
        assert len(list(snapshot.tasks())) == 5

    on_stage(play)


def test_rebuild_keeps_what_was_assumed() -> None:
    """A binding under way keeps its room, though no server reports it yet."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        scheduler = stage.start()
        await stage.sleep(2)
        stage.lines[-1].refuse = lambda verb, _: verb == "create"
        await stage.pod("first", cpu="3")
        await stage.sleep(0.5)
        cache: Any = scheduler.cache
        task = cache.snapshot.task(f"{NAMESPACE}/first")
        before = (task.status, cache.snapshot.nodes.names[task.node])
        cache._feed._feed.mend()
        again = cache.snapshot.task(f"{NAMESPACE}/first")

        assert again is not task
        assert before[0] is TaskStatus.BINDING
        assert (again.status, cache.snapshot.nodes.names[again.node]) == before
        assert float(cache.snapshot.nodes.idle[0][again.node]) == 1000
        check_sums(cache.snapshot)

    on_stage(play)


def test_object_that_always_breaks_its_handler_is_set_aside() -> None:
    """It holds its node closed and stops nothing else; it is taken again when that works."""
    poison = Key(NAMESPACE, "poison")
    is_poisonous = True

    async def play(stage: Stage) -> None:
        nonlocal is_poisonous
        await stage.nodes(2)
        scheduler = stage.start()
        break_handler(scheduler, "_take_pod", lambda key: is_poisonous and key == poison)
        await stage.pod("poison", schedulerName="other", nodeName="node-0")
        await stage.sleep(2)
        await stage.gang("g", 4)
        await stage.sleep(30)
        cache: Any = scheduler.cache
        assert set((await stage.where()).values()) == {"node-0", "node-1"}
        assert list((await stage.where()).values()).count("node-0") == 1
        assert cache._feed.n_aside == 1
        assert "BrokenError" in str(cache.snapshot.nodes.closed["node-0"])
        is_poisonous = False
        await stage.sleep(700)

        assert cache._feed.n_aside == 0
        assert not cache.snapshot.nodes.closed
        check_sums(cache.snapshot)

    on_stage(play)


@pytest.mark.parametrize("group", ["old", ""])
def test_pod_that_is_set_aside_takes_an_unknown_part_of_its_queue(group: str) -> None:
    """Nobody can say what the limit of the queue leaves for others. That of no other is unknown."""
    poison = Key(NAMESPACE, "poison")
    is_poisonous = True

    async def play(stage: Stage) -> None:
        nonlocal is_poisonous
        await stage.nodes(3)
        scheduler = stage.start()
        break_handler(scheduler, "_take_pod", lambda key: is_poisonous and key == poison)
        await stage.sleep(2)
        limit = merge_patch({"spec": {"capability": {"cpu": "6"}}})
        await stage.user.patch(QUEUES.untyped(), Key("", "default"), limit)
        await stage.queue("free", weight=1)
        if group:
            await stage.group(group, 1)
        await stage.pod("poison", group, nodeName="node-0")
        await stage.gang("g", 1)
        await stage.gang("h", 1, queue="free")
        await stage.sleep(30)

        assert set(await stage.where()) == {"poison", "h-0"}
        (condition,) = (await stage.read_group("g")).status.conditions[-1:]
        assert "what pod ns/poison takes of queue default" in condition.message

        is_poisonous = False
        await stage.sleep(700)
        assert set(await stage.where()) == {"poison", "h-0", "g-0"}
        check_sums(scheduler.cache.snapshot)

    on_stage(play)


def test_pod_that_cannot_be_taken_with_its_group_is_set_aside_without() -> None:
    """It still holds its node closed, and stops nothing else."""
    is_poisonous = True

    async def play(stage: Stage) -> None:
        nonlocal is_poisonous
        await stage.nodes(2)
        scheduler = stage.start()
        cache: Any = scheduler.cache
        group_of = cache._virtual_group

        def group_or_fail(pod: Pod) -> Any:
            if is_poisonous and pod.metadata.name == "poison":
                raise BrokenError(pod.metadata.name)
            return group_of(pod)

        cache._virtual_group = group_or_fail
        await stage.pod("poison", nodeName="node-0")
        await stage.gang("g", 2)
        await stage.sleep(30)

        assert await stage.where() == {"poison": "node-0", "g-0": "node-1", "g-1": "node-1"}
        assert "BrokenError" in str(cache.snapshot.nodes.closed["node-0"])
        is_poisonous = False
        await stage.sleep(700)

        assert cache._feed.n_aside == 0
        assert not cache.snapshot.nodes.closed

    on_stage(play)


@pytest.mark.parametrize("handler", ["_take_node", "_take_group", "_take_queue"])
def test_any_handler_may_fail(handler: str) -> None:
    """Nodes, groups and queues are taken again as pods are."""

    async def play(stage: Stage) -> None:
        scheduler = stage.start()
        break_handler(scheduler, handler, nth(2))
        await stage.nodes(2)
        await stage.queue("q")
        await stage.queue("r")
        await stage.gang("g", 2, queue="q")
        await stage.gang("h", 2, queue="r")
        await stage.sleep(60)

        assert len(await stage.where()) == 4

    on_stage(play)


def test_names_of_resources_that_are_gone_are_forgotten() -> None:
    """Vectors are as wide as what lives, though every pod asked for another resource."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        scheduler = stage.start()
        await stage.sleep(2)
        for number in range(200):
            amounts = {f"example.com/kind-{number}": "1"}
            resources = {"requests": amounts, "limits": amounts}
            container = {"name": "c", "image": "i", "resources": resources}
            await stage.pod("p", containers=[container])
            await stage.sleep(2)
            await stage.remove("p")
            await stage.sleep(2)
        snapshot = scheduler.cache.snapshot

        assert len(snapshot.dimensions.names) < 80
        assert snapshot.nodes.idle.shape[0] < 100
        check_sums(snapshot)

    on_stage(play)
