"""What each fault at the cluster port does to the world, and what its caller sees."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body, Key
from swell.runtime.cluster import Cluster, Deletion, EventType, merge_patch
from swell.runtime.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    OutcomeUnknownError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from swell.sim.chance import Chance
from swell.sim.faults.cluster import FaultyCluster
from swell.sim.faults.network import CLIENT_TIMEOUT_S, SimulatedNetwork
from swell.sim.faults.plan import Fault, FaultInjector, FaultKind, PlannedFaults
from swell.sim.loop import VirtualClock, run
from swell.sim.server import SimulatedServer

KEY = Key("default", "a")
CREATE = "me create configmaps default/a"
PATCH = "me patch configmaps default/a"
DELETE = "me delete configmaps default/a"
GET = "me get configmaps default/a"
LIST = "me list configmaps"
WATCH = "me watch configmaps"
EVENT = "me event configmaps default/a"


@dataclass
class FakeLife:
    """A process that notes what happens to it."""

    actor: str = "me"
    crashes: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def check_alive(self) -> None:
        if self.crashes:
            raise asyncio.CancelledError

    async def crash(self, fault: Fault) -> None:
        self.crashes.append(fault.kind)
        raise asyncio.CancelledError

    async def pause(self, duration_s: float) -> None:
        self.pauses.append(duration_s)


class Bench:
    """A server, a faultless client and a faulty one."""

    def __init__(self, *faults: Fault) -> None:
        self.clock = VirtualClock()
        self.server = SimulatedServer(self.clock, Chance(0), ())
        self.injector = FaultInjector(PlannedFaults(faults))
        self.life = FakeLife()
        self.network = SimulatedNetwork(self.injector, Chance(0), self.clock, self.server)
        self.sure = self.server.connect("sure")
        self.faulty: Cluster = FaultyCluster(self.server.connect("me"), self.network, self.life)

    async def create(self) -> None:
        await self.faulty.create(CONFIG_MAPS, config_map())

    async def exists(self) -> bool:
        try:
            await self.sure.get(CONFIG_MAPS, KEY)
        except NotFoundError:
            return False
        return True


def config_map(name: str = "a") -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }


def on_bench(test: Callable[[Bench], Awaitable[None]], *faults: Fault) -> Bench:
    made: list[Bench] = []

    async def main() -> None:
        made.append(Bench(*faults))
        await test(made[0])

    run(main())
    return made[0]


@pytest.mark.parametrize(
    ("kind", "amount", "error", "applied"),
    [
        (FaultKind.SERVER_ERROR, 0.1, ServerError, True),
        (FaultKind.SERVER_ERROR, 0.4, ServerError, False),
        (FaultKind.SERVER_ERROR, 0.9, ServerError, False),
        (FaultKind.THROTTLED, 0.5, TooManyRequestsError, False),
        (FaultKind.UNREACHABLE, 0.5, UnreachableError, False),
        (FaultKind.TIMEOUT_BEFORE, 0.5, OutcomeUnknownError, False),
        (FaultKind.TIMEOUT_AFTER, 0.5, OutcomeUnknownError, True),
        (FaultKind.REFUSED, 0.1, ForbiddenError, False),
        (FaultKind.REFUSED, 0.9, InvalidError, False),
        (FaultKind.TRUNCATED, 0.5, OutcomeUnknownError, True),
    ],
)
def test_failed_create_says_so_and_may_have_happened(
    kind: FaultKind, amount: float, error: type[Exception], applied: bool
) -> None:
    """The error says what a client can know, which is not always what happened."""

    async def main(bench: Bench) -> None:
        with pytest.raises(error):
            await bench.create()

        assert await bench.exists() is applied

    assert on_bench(main, Fault(CREATE, 1, kind, amount)).injector.hits == {kind: 1}


def test_timeout_takes_the_clients_patience() -> None:
    """A lost answer is noticed only after the client's time-out."""

    async def main(bench: Bench) -> None:
        with pytest.raises(OutcomeUnknownError):
            await bench.create()

        assert CLIENT_TIMEOUT_S <= bench.clock.monotonic() < CLIENT_TIMEOUT_S + 1

    on_bench(main, Fault(CREATE, 1, FaultKind.TIMEOUT_AFTER))


def test_conflict_changes_nothing() -> None:
    """An injected 409 is one without a cause."""

    async def main(bench: Bench) -> None:
        await bench.create()
        with pytest.raises(ConflictError):
            await bench.faulty.patch(CONFIG_MAPS, KEY, merge_patch({"data": {"x": "y"}}))

        assert "data" not in await bench.sure.get(CONFIG_MAPS.untyped(), KEY)

    on_bench(main, Fault(PATCH, 1, FaultKind.CONFLICT))


def test_write_may_be_applied_after_its_client_gave_up() -> None:
    """The request was under way all the time."""

    async def main(bench: Bench) -> None:
        await bench.create()
        with pytest.raises(OutcomeUnknownError):
            await bench.faulty.delete(CONFIG_MAPS, KEY, Deletion())
        assert await bench.exists()

        await bench.clock.sleep(20)

        assert not await bench.exists()

    on_bench(main, Fault(DELETE, 1, FaultKind.APPLIED_LATE, 0.5))


def test_refused_kind_stays_refused_for_a_while() -> None:
    """A missing right does not come back with the next call."""

    async def main(bench: Bench) -> None:
        for _ in range(2):
            with pytest.raises(ForbiddenError):
                await bench.create()
        await bench.clock.sleep(30)
        await bench.create()

    on_bench(main, Fault(CREATE, 1, FaultKind.REFUSED, 0.2))


@pytest.mark.parametrize(
    ("kind", "applied"), [(FaultKind.CRASH_BEFORE, False), (FaultKind.CRASH_AFTER, True)]
)
def test_crash_falls_before_or_after_the_write(kind: FaultKind, applied: bool) -> None:
    """The process dies of the call, and no later call of it gets anywhere."""

    async def main(bench: Bench) -> None:
        for _ in range(2):
            with pytest.raises(asyncio.CancelledError):
                await bench.create()

        assert bench.life.crashes == [kind]
        assert await bench.exists() is applied

    on_bench(main, Fault(CREATE, 1, kind))


def test_pause_holds_a_write_back() -> None:
    """What was decided before the pause is done after it."""

    async def main(bench: Bench) -> None:
        await bench.create()

        assert bench.life.pauses == [5 + 85 * 0.5]
        assert await bench.exists()

    on_bench(main, Fault(CREATE, 1, FaultKind.PAUSED, 0.5))


def test_reads_fail_with_a_known_outcome() -> None:
    """A read that is not answered has changed nothing."""

    async def main(bench: Bench) -> None:
        await bench.create()
        with pytest.raises(UnreachableError):
            await bench.faulty.get(CONFIG_MAPS, KEY)
        with pytest.raises(ServerError):
            await bench.faulty.get(CONFIG_MAPS, KEY)
        before_s = bench.clock.monotonic()
        await bench.faulty.get(CONFIG_MAPS, KEY)

        assert bench.clock.monotonic() - before_s > 1

    on_bench(
        main,
        Fault(GET, 1, FaultKind.TIMEOUT_BEFORE),
        Fault(GET, 2, FaultKind.TRUNCATED),
        Fault(GET, 3, FaultKind.SLOW, 0.5),
    )


def test_list_again_may_travel_in_time_but_not_the_first() -> None:
    """A first list is never stale; a later one may be, and must not be believed."""

    async def main(bench: Bench) -> None:
        await bench.create()
        first = await bench.faulty.list(CONFIG_MAPS)
        await bench.sure.create(CONFIG_MAPS, config_map("b"))
        again = await bench.faulty.list(CONFIG_MAPS)

        assert len(first.items) == 1
        assert len(again.items) < 2
        assert int(again.resource_version) <= int(first.resource_version)

    faults = [Fault(LIST, nth, FaultKind.STALE_LIST, 0.1) for nth in (1, 2)]
    assert on_bench(main, *faults).injector.hits == {FaultKind.STALE_LIST: 1}


def test_list_of_any_version_may_be_stale_at_once() -> None:
    """Version 0 asks for whatever there is."""

    async def main(bench: Bench) -> None:
        await bench.create()
        found = await bench.faulty.list(CONFIG_MAPS, resource_version="0")

        assert found.items == ()

    on_bench(main, Fault(LIST, 1, FaultKind.STALE_LIST))


async def names(bench: Bench, within_s: float) -> list[tuple[str, float]]:
    """Returns the events of a watch within a time, as (type, when)."""
    seen: list[tuple[str, float]] = []
    version = str(bench.server.storage.version)
    try:
        async with (
            asyncio.timeout(within_s),
            bench.faulty.watch(CONFIG_MAPS, resource_version=version) as events,
        ):
            await bench.sure.create(CONFIG_MAPS, config_map())
            patch = merge_patch({"data": {"x": "y"}})
            await bench.sure.patch(CONFIG_MAPS, KEY, patch)
            async for event in events:
                now_s = bench.clock.monotonic()
                seen.append((event.type.value, now_s))
    except TimeoutError:
        pass
    return [entry for entry in seen if entry[0] != EventType.BOOKMARK.value]


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        (FaultKind.DUPLICATED, ["ADDED", "ADDED", "MODIFIED"]),
        (FaultKind.SKIPPED, ["ADDED"]),
        (FaultKind.DELAYED, ["ADDED", "MODIFIED"]),
        (FaultKind.OUT_OF_STEP, ["ADDED", "MODIFIED"]),
        (FaultKind.CUT, []),
    ],
)
def test_watch_events_are_disturbed(kind: FaultKind, types: list[str]) -> None:
    """Events come twice, merged, late or no more; never out of order."""

    async def main(bench: Bench) -> None:
        seen = await names(bench, within_s=200)

        assert [entry[0] for entry in seen] == types
        late = kind in {FaultKind.SKIPPED, FaultKind.DELAYED, FaultKind.OUT_OF_STEP}
        assert all((at_s > CLIENT_TIMEOUT_S) is late for _, at_s in seen)

    on_bench(main, Fault(EVENT, 1, kind, 0.4))


@pytest.mark.parametrize(
    ("site", "kind", "amount", "error"),
    [
        (WATCH, FaultKind.GONE, 0.5, GoneError),
        (WATCH, FaultKind.SERVER_ERROR, 0.5, ServerError),
        (WATCH, FaultKind.UNREACHABLE, 0.5, UnreachableError),
        (EVENT, FaultKind.GONE, 0.5, GoneError),
        (EVENT, FaultKind.CUT, 0.9, UnreachableError),
    ],
)
def test_watch_breaks(site: str, kind: FaultKind, amount: float, error: type[Exception]) -> None:
    """A watch may fail when opened, and at any event."""

    async def main(bench: Bench) -> None:
        with pytest.raises(error):
            await names(bench, within_s=100)

    on_bench(main, Fault(site, 1, kind, amount))


def test_watch_may_bring_a_bookmark_only() -> None:
    """It says how far it got, and ends."""

    async def main(bench: Bench) -> None:
        version = str(bench.server.storage.version)
        async with bench.faulty.watch(CONFIG_MAPS, resource_version=version) as events:
            seen = [event async for event in events]

        assert [(e.type, e.resource_version) for e in seen] == [(EventType.BOOKMARK, version)]

    on_bench(main, Fault(WATCH, 1, FaultKind.BOOKMARK_ONLY))
