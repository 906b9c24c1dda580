"""Records are kept whatever order events of a job and of its pods come in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body, Key, Status, Uid
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.history.keeper import HistoryKeeper, HistorySources
from swell.history.life import JobLife
from swell.history.reading import ended_lives
from swell.history.settings import HistorySettings, PodPlace
from swell.runtime.clock import SystemClock
from swell.runtime.errors import ForbiddenError
from swell.runtime.informer import Informer
from tests.unit.history.clusters import fresh_cluster
from tests.unit.history.test_observing import T0, a_job, a_pod

WITHIN_S = 60.0


class Objects:
    """An informer's part that the keeper uses, over one object."""

    def __init__(self, one: Any) -> None:
        self._one, self._key = one, Key("lab", one.metadata.name)
        self._handlers: list[Callable[[Key], None]] = []

    def add_handler(self, handler: Callable[[Key], None]) -> None:
        self._handlers.append(handler)

    async def wait_synced(self) -> None:
        for handler in self._handlers:
            handler(self._key)

    def get(self, key: Key) -> Any:
        return self._one if key == self._key else None

    def malformed(self, key: Key) -> None:
        return None


def a_long_life() -> Body:
    """A status that is as long as one gets."""
    phases = [
        {"phase": phase, "time": format_time(T0 + 10 * at), "reason": "r", "message": "m"}
        for at, phase in enumerate(["Running", "Restarting"] * 5)
    ]
    return {"phase": "Restarting", "phaseHistory": phases}


def test_job_that_is_first_seen_by_its_pod_keeps_its_record() -> None:
    async def main() -> None:
        cluster = await fresh_cluster()
        pod = a_pod(0)
        sources = HistorySources(
            jobs=cast("Informer[Any]", Objects(a_job(a_long_life()))),
            pods=cast("Informer[Pod]", Objects(pod)),
            place_of=lambda _: PodPlace(Key("lab", "fit"), Uid("u-1"), "Trainer", 0),
            is_ours=lambda _: True,
            wake=lambda _: None,
        )
        settings = HistorySettings(checkpoint_s=0.01)
        keeper = HistoryKeeper(
            cluster, "aitrainingjob", sources, clock=SystemClock(), settings=settings
        )
        running = asyncio.create_task(keeper.run())

        async def is_written() -> bool:
            return bool((await cluster.list(CONFIG_MAPS)).items)

        async with asyncio.timeout(WITHIN_S):
            while not running.done() and not await is_written():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not running.done(), running.exception()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def test_life_within_one_look_is_recorded_with_its_pods() -> None:
    """So are lives that ended before the keeper began, as after a crash of the operator."""

    async def main() -> list[JobLife]:
        cluster, written = await fresh_cluster(), asyncio.Event()
        ended = {"phase": "Failed", "endTime": format_time(T0 + 50)}
        sources = HistorySources(
            jobs=cast("Informer[Any]", Objects(a_job(ended))),
            pods=cast("Informer[Pod]", Objects(a_pod(0))),
            place_of=lambda _: PodPlace(Key("lab", "fit"), Uid("u-1"), "Trainer", 0),
            is_ours=lambda _: True,
            wake=lambda _: written.set(),
        )
        settings = HistorySettings(days=1e6)
        keeper = HistoryKeeper(
            cluster, "aitrainingjob", sources, clock=SystemClock(), settings=settings
        )
        assert not keeper.is_kept(Key("lab", "fit"), Uid("u-1"))
        running = asyncio.create_task(keeper.run())
        async with asyncio.timeout(WITHIN_S):
            await written.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return ended_lives((await cluster.list(CONFIG_MAPS)).items)

    (life,) = asyncio.run(main())

    assert [(run.role, run.index, run.node) for run in life.pods] == [("Trainer", 0, "n1")]


class Records:
    """A meter that keeps its counts."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}

    def recorded(self, controller: str, result: str, n_jobs: int) -> None:
        self.counts[controller, result] = self.counts.get((controller, result), 0) + n_jobs


class FullCluster:
    """A cluster whose namespaces take no more ConfigMaps, if told so."""

    def __init__(self, cluster: Any, *, is_full: bool) -> None:
        self._cluster, self.is_full = cluster, is_full

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def create(self, resource: Any, body: Body, *rest: Any) -> Any:
        if self.is_full and resource.kind == CONFIG_MAPS.kind:
            raise ForbiddenError(Status(code=403, reason="Forbidden", message="exceeded quota"))
        return await self._cluster.create(resource, body, *rest)


def a_keeper(cluster: FullCluster, meter: Records, woken: asyncio.Event) -> HistoryKeeper:
    """A keeper of one job, `fit`, that has ended."""
    ended = a_job({"phase": "Succeed", "endTime": format_time(T0 + 50)})
    sources = HistorySources(
        jobs=cast("Informer[Any]", Objects(ended)),
        pods=cast("Informer[Pod]", Objects(a_pod(0))),
        place_of=lambda _: None,
        is_ours=lambda _: True,
        wake=lambda _: woken.set(),
    )
    return HistoryKeeper(
        cast("Any", cluster),
        "aitrainingjob",
        sources,
        clock=SystemClock(),
        settings=HistorySettings(days=1e6),
        meter=meter,
    )


@pytest.mark.parametrize(("is_full", "result"), [(False, "kept"), (True, "refused")])
def test_records_are_counted_by_what_became_of_them(is_full: bool, result: str) -> None:
    """A job whose record is refused is counted once, and may go."""

    async def main() -> dict[tuple[str, str], int]:
        cluster = FullCluster(await fresh_cluster(), is_full=is_full)
        meter, woken = Records(), asyncio.Event()
        keeper = a_keeper(cluster, meter, woken)
        assert not keeper.is_kept(Key("lab", "fit"), Uid("u-1"))
        running = asyncio.create_task(keeper.run())
        async with asyncio.timeout(WITHIN_S):
            await woken.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert keeper.is_kept(Key("lab", "fit"), Uid("u-1"))
        return meter.counts

    assert asyncio.run(main()) == {("aitrainingjob", result): 1}


def test_refused_records_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that went without its record has it as soon as the namespace takes it."""
    monkeypatch.setattr("swell.history.keeper.REFUSED_AGAIN_S", 0.0)

    async def main() -> dict[tuple[str, str], int]:
        cluster = FullCluster(await fresh_cluster(), is_full=True)
        meter, woken = Records(), asyncio.Event()
        keeper = a_keeper(cluster, meter, woken)
        assert not keeper.is_kept(Key("lab", "fit"), Uid("u-1"))
        running = asyncio.create_task(keeper.run())
        async with asyncio.timeout(WITHIN_S):
            await woken.wait()
            cluster.is_full = False
            while ("aitrainingjob", "kept") not in meter.counts:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return meter.counts

    assert asyncio.run(main()) == {("aitrainingjob", "refused"): 1, ("aitrainingjob", "kept"): 1}


def test_job_that_stays_is_not_woken_for_its_record() -> None:
    """A look at it would find nothing to do; those of many jobs would cost as much as history."""

    async def main() -> bool:
        cluster = FullCluster(await fresh_cluster(), is_full=False)
        meter, woken = Records(), asyncio.Event()
        keeper = a_keeper(cluster, meter, woken)
        running = asyncio.create_task(keeper.run())
        async with asyncio.timeout(WITHIN_S):
            while ("aitrainingjob", "kept") not in meter.counts:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return woken.is_set()

    assert not asyncio.run(main())
