"""The failure of one handler stays its own, and is mended soon."""

from __future__ import annotations

import asyncio

from swell.api.backoff import Backoff
from swell.api.meta import Key
from swell.runtime.feed import REBUILD, Feed
from swell.sim.loop import run
from tests.unit.runtime.world import World, key, started, until

A, B = Key("ns", "a"), Key("ns", "b")


class Meter:
    def __init__(self) -> None:
        self.failures: list[str] = []
        self.malformed: list[tuple[str, int]] = []

    def handler_failed(self, consumer: str) -> None:
        self.failures.append(consumer)

    def malformed_objects(self, resource: str, n_objects: int) -> None:
        self.malformed.append((resource, n_objects))


class Consumer:
    """Fails at the calls and rebuilds that are asked for."""

    def __init__(self, *, calls: int = 0, rebuilds: int = 0) -> None:
        self.seen: list[Key] = []
        self.n_rebuilt = 0
        self._calls, self._rebuilds = calls, rebuilds

    def handle(self, found: Key) -> None:
        if self._calls:
            self._calls -= 1
            raise LookupError(str(found))
        self.seen.append(found)

    def rebuild(self) -> None:
        self.n_rebuilt += 1
        if self._rebuilds:
            self._rebuilds -= 1
            raise LookupError("rebuild")


def test_failed_key_is_handed_over_again() -> None:
    """Without a rebuild, after a back-off; the others are not held up."""

    async def main() -> None:
        consumer, meter = Consumer(calls=2), Meter()
        feed = Feed("c", meter=meter)
        feed.hand_over(consumer.handle, A)
        feed.hand_over(consumer.handle, A)
        feed.hand_over(consumer.handle, B)
        assert consumer.seen == [B]
        await asyncio.sleep(REBUILD.cap_s)

        assert consumer.seen == [B, A]
        assert meter.failures == ["c", "c"]
        assert not feed.is_broken

    run(main())


def test_consumer_is_rebuilt_at_once() -> None:
    """So that no decision sees it half-changed."""

    async def main() -> None:
        consumer = Consumer(calls=1)
        feed = Feed("c", consumer.rebuild)
        feed.hand_over(consumer.handle, A)

        assert consumer.n_rebuilt == 1
        assert not feed.is_broken

    run(main())


def test_rebuild_that_fails_backs_off_and_ends() -> None:
    """While it is broken nothing is handed over: the rebuild reads all of it."""

    async def main() -> None:
        consumer = Consumer(calls=1, rebuilds=3)
        feed = Feed("c", consumer.rebuild, backoff=Backoff(base_s=1.0, cap_s=60.0))
        feed.hand_over(consumer.handle, A)
        was_broken = feed.is_broken
        feed.hand_over(consumer.handle, B)
        assert consumer.seen == []
        await asyncio.sleep(1.0)
        n_early = consumer.n_rebuilt
        await asyncio.sleep(120)
        feed.hand_over(consumer.handle, B)

        assert was_broken
        assert n_early <= 2
        assert consumer.n_rebuilt == 4
        assert consumer.seen == [B]

    run(main())


def test_consumer_that_fails_at_every_key_is_rebuilt_ever_less_often() -> None:
    """A poisonous object must not become all that is done."""

    async def main() -> None:
        consumer = Consumer(calls=10**6)
        feed = Feed("c", consumer.rebuild)
        for _ in range(1000):
            feed.hand_over(consumer.handle, A)
            await asyncio.sleep(0.1)

        assert consumer.n_rebuilt < 12

    run(main())


def test_handlers_after_one_that_fails_get_the_change() -> None:
    """And the first one gets it again, without a resync."""

    async def main() -> None:
        world = World()
        toys = world.toys(world.line())
        consumer, other = Consumer(calls=1), Consumer()
        toys.add_handler(consumer.handle)
        toys.add_handler(other.handle)
        await started(toys)
        await world.add_toy("a")
        await until(lambda: other.seen == [key("a")])
        await until(lambda: consumer.seen == [key("a")])

    run(main())


def test_mending_without_a_failure_backs_off_too() -> None:
    """A consumer that has set objects aside tries them ever less often."""

    async def main() -> None:
        consumer = Consumer()

        def rebuild() -> None:
            consumer.rebuild()
            feed.mend_later()

        feed = Feed("c", rebuild)
        feed.mend()
        await asyncio.sleep(REBUILD.cap_s)

        assert 5 < consumer.n_rebuilt < 12

    run(main())
