"""An object that cannot be decoded, as an informer hands it on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from swell.api.meta import Uid
from swell.runtime.cluster import merge_patch
from swell.sim.loop import run
from tests.unit.runtime.world import TOYS, World, key, started, toy_body, until


def play(story: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(World())

    run(main())


def test_present_absent_and_malformed_are_three_answers() -> None:
    """A malformed object keeps what was read last, heals when corrected, and goes when deleted."""

    async def story(world: World) -> None:
        toys = world.toys(world.line())
        await started(toys)
        await world.add_toy("t", replicas=3)
        await until(lambda: toys.get(key("t")) is not None)
        await world.user.patch(TOYS.untyped(), key("t"), merge_patch({"spec": {"replicas": "?"}}))
        await until(lambda: toys.malformed(key("t")) is not None)
        held = toys.get(key("t"))
        assert held is not None
        assert held.spec.replicas == 3
        assert toys.unreadable(key("t")) == ""
        assert toys.n_malformed == 1
        assert [toy.metadata.name for toy in toys.all()] == ["t"]
        await world.user.patch(TOYS.untyped(), key("t"), merge_patch({"spec": {"replicas": 5}}))
        await until(lambda: toys.malformed(key("t")) is None)
        healed = toys.get(key("t"))
        assert healed is not None
        assert healed.spec.replicas == 5
        assert toys.n_malformed == 0
        await world.user.delete(TOYS, key("t"))
        await until(lambda: toys.get(key("t")) is None)

    play(story)


def test_object_that_was_never_readable_says_so() -> None:
    """What can be read of it still counts; a new object of the name starts anew."""

    async def story(world: World) -> None:
        hostile = toy_body("t")
        hostile["spec"]["replicas"] = "many"
        hostile["metadata"]["labels"] = {"x": "1"}
        owner = {"apiVersion": "v1", "kind": "Box", "name": "b", "uid": "o", "controller": True}
        hostile["metadata"]["ownerReferences"] = [owner]
        await world.user.create(TOYS.untyped(), hostile)
        toys = world.toys(world.line())
        await started(toys)
        found = toys.get(key("t"))
        assert found is not None
        assert found.metadata.labels == {"x": "1"}
        assert toys.by_owner(Uid("o")) == (found,)
        assert "spec.replicas" in toys.unreadable(key("t"))
        assert toys.unreadable(key("t"), but=("spec",)) == ""
        await world.user.delete(TOYS, key("t"))
        await world.add_toy("t", replicas=2)
        await until(lambda: toys.malformed(key("t")) is None)

        assert toys.unreadable(key("t")) == ""
        assert toys.n_malformed == 0

    play(story)


def test_malformed_object_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Other changes of it, lists and resyncs say nothing more; another error does."""

    async def story(world: World) -> None:
        hostile = toy_body("t")
        hostile["spec"]["replicas"] = "many"
        await world.user.create(TOYS.untyped(), hostile)
        toys = world.toys(world.line())
        reported: list[str] = []
        toys.on_malformed.append(lambda found: reported.append(found.error))
        await started(toys)
        for value in "abc":
            change = merge_patch({"metadata": {"labels": {"x": value}}})
            await world.user.patch(TOYS.untyped(), key("t"), change)
        await asyncio.sleep(10_000)
        assert len(reported) == 1
        change = merge_patch({"spec": 7})
        await world.user.patch(TOYS.untyped(), key("t"), change)
        await until(lambda: len(reported) == 2)

    play(story)
    assert caplog.text.count("object cannot be decoded") == 2
