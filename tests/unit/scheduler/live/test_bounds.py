"""Tables of the live scheduler are bounded by what lives, not by what has lived."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from swell.api.kinds import NODES, POD_GROUPS, PRIORITY_CLASSES, QUEUES
from swell.api.meta import Key
from swell.scheduler.live.controller import Scheduler
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage

# Bounded by numbers of their own.
BOUNDED = frozenset({"_failures", "_story", "_history"})


def tables(scheduler: Scheduler) -> dict[str, int]:
    """The sizes of all tables of all parts, by name."""
    loop, cache = scheduler.loop, scheduler.cache
    parts: list[object] = [
        scheduler.windows,
        scheduler.binder,
        scheduler.evictor,
        scheduler.shrinker,
        scheduler.updater,
        scheduler.pods,
        scheduler.queues,
        scheduler.queues.loop,
        scheduler.queues.loop._uncertain,
        loop,
        loop._nominations,
        loop._admissions,
        cache,
        cache._feed,
        cache.snapshot,
        cache.snapshot.nodes,
        cache.snapshot.affinity_index,
        cache.snapshot.volumes,
        scheduler.informers.pods._cache,
        scheduler.informers.groups._cache,
        scheduler.informers.nodes._cache,
        scheduler.informers.queues._cache,
        scheduler.informers.pods._cache._tombstones,
        scheduler.informers.groups._cache._tombstones,
    ]
    return {f"{type(part).__name__}.{name}": n for part in parts for name, n in _sizes(part)}


def _sizes(part: object) -> Iterator[tuple[str, int]]:
    for name, value in vars(part).items():
        is_table = isinstance(value, Sized) and not isinstance(value, str | tuple)
        if is_table and name not in BOUNDED and not name.startswith("on_"):
            yield name, len(value)


async def live_and_leave(stage: Stage, number: int) -> None:
    """A node, a queue, a class and two gangs, one of which waits, come and go."""
    name = f"x{number}"
    await stage.node(name, cpu="2")
    await stage.queue(name)
    await stage.priority(name, number)
    await stage.gang(f"{name}-a", 2, queue=name, priorityClassName=name)
    await stage.gang(f"{name}-b", 2, queue=name, cpu="900")
    await stage.pod(f"{name}-alone")
    await stage.sleep(4)
    for gang in (f"{name}-a", f"{name}-b"):
        await stage.user.delete(POD_GROUPS, Key(NAMESPACE, gang))
        for index in range(2):
            await stage.remove(f"{gang}-{index}")
    await stage.remove(f"{name}-alone")
    await stage.user.delete(QUEUES, Key("", name))
    await stage.user.delete(PRIORITY_CLASSES, Key("", name))
    await stage.user.delete(NODES, Key("", name))
    await stage.sleep(4)


def test_tables_are_as_large_after_much_churn_as_after_little() -> None:
    """Sixty rounds leave no more behind than three."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        scheduler = stage.start()
        await stage.sleep(2)
        for number in range(3):
            await live_and_leave(stage, number)
        await stage.sleep(60)
        little = tables(scheduler)
        for number in range(3, 60):
            await live_and_leave(stage, number)
        await stage.sleep(60)
        much = tables(scheduler)

        grown = {name: (little[name], n) for name, n in much.items() if n > little[name] + 3}
        assert grown == {}

    on_stage(play)
