"""What the runtime takes for granted about a cluster, on each cluster there is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import pytest

from swell.api.core import ConfigMap, EventSeverity
from swell.api.kinds import CONFIG_MAPS, EVENTS, LEASES, RECORDED_EVENTS
from swell.api.meta import Body
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection, merge_patch
from swell.runtime.events import EventRecorder
from swell.runtime.executor import NAME_TAKEN, Executor, FailureKind, Outcome
from swell.runtime.informer import Informer
from swell.runtime.leader import LeaderElector
from swell.runtime.plan import (
    CreateObject,
    DeleteObject,
    EmitEvent,
    Plan,
    Together,
    patch_object,
)
from swell.runtime.reflector import InformerOptions
from tests.contract.targets import ContractTarget
from tests.contract.world import Act, Behaviour, World

WITHIN_S = 20.0


def play(target: ContractTarget, act: Act) -> None:
    target.play(Behaviour("runtime", act))


@asynccontextmanager
async def following(world: World) -> AsyncIterator[Informer[ConfigMap]]:
    """An informer of the world's ConfigMaps, synced."""
    informer = Informer(
        world.cluster,
        CONFIG_MAPS,
        clock=SystemClock(),
        random=Random(1),
        selection=Selection(world.ns),
        options=InformerOptions(page_size=3),
    )
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.wait_synced(), WITHIN_S)
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110 (another process brings it about)
            await asyncio.sleep(0.02)


def config_map(world: World, name: str, owner: str = "") -> Body:
    body = world.body(CONFIG_MAPS, name, data={"a": "1"})
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": owner}
        body["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return body


def test_informer_follows_a_collection(target: ContractTarget) -> None:
    """Pages make one list, and additions, changes and deletions are reported."""

    async def act(world: World) -> None:
        for n in range(7):
            await world.cluster.create(CONFIG_MAPS, config_map(world, f"m{n}"))
        async with following(world) as maps:
            names = {found.metadata.name for found in maps.all()}
            assert {f"m{n}" for n in range(7)} <= names
            patch = merge_patch({"metadata": {"labels": {"x": "y"}}})
            await world.cluster.patch(CONFIG_MAPS, world.key("m1"), patch)
            await world.cluster.delete(CONFIG_MAPS, world.key("m2"))
            await world.cluster.create(CONFIG_MAPS, config_map(world, "late"))
            await until(lambda: maps.get(world.key("late")) is not None)

            assert maps.get(world.key("m2")) is None
            changed = maps.get(world.key("m1"))
            assert changed is not None
            assert changed.metadata.labels == {"x": "y"}

    play(target, act)


def test_list_of_one_name_is_as_new_as_the_watch(target: ContractTarget) -> None:
    """A consistent read by name has a version that can be measured against the watch's."""

    async def act(world: World) -> None:
        async with following(world) as maps:
            for n in range(5):
                await world.cluster.create(CONFIG_MAPS, config_map(world, f"m{n}"))
                await maps.refresh(world.key(f"m{n}"))
                assert maps.get(world.key(f"m{n}")) is not None
                await world.cluster.delete(CONFIG_MAPS, world.key(f"m{n}"))
                await maps.refresh(world.key(f"m{n}"))
                assert maps.get(world.key(f"m{n}")) is None
            await world.cluster.create(CONFIG_MAPS, config_map(world, "end"))
            await until(lambda: maps.get(world.key("end")) is not None)

            assert [m for m in maps.all() if m.metadata.name.startswith("m")] == []

    play(target, act)


def test_answers_of_writes_fit_into_the_cache(target: ContractTarget) -> None:
    """Create, patch and delete answer with what the watch will tell, or that nothing is left."""

    async def act(world: World) -> None:
        async with following(world) as maps:
            executor = Executor(world.cluster, informers=(maps,))
            creates = [CreateObject(CONFIG_MAPS, config_map(world, f"m{n}")) for n in range(20)]
            outcome = await executor.execute(Plan((Together(tuple(creates)),)))
            assert outcome == Outcome(20)
            found = maps.get(world.key("m7"))
            assert found is not None
            uid = found.metadata.uid
            change: Body = {"metadata": {"labels": {"x": "y"}}}
            plan = Plan((patch_object(CONFIG_MAPS, world.key("m7"), uid, change),))
            assert await executor.execute(plan) == Outcome(1)
            patched = maps.get(world.key("m7"))
            assert patched is not None
            assert patched.metadata.labels == {"x": "y"}
            plan = Plan((DeleteObject(CONFIG_MAPS, world.key("m7"), uid),))
            assert await executor.execute(plan) == Outcome(1)
            assert maps.get(world.key("m7")) is None

    play(target, act)


def test_preconditions_protect_a_successor(target: ContractTarget) -> None:
    """What was decided for one object neither deletes nor changes another of its name."""

    async def act(world: World) -> None:
        former = await world.cluster.create(CONFIG_MAPS, config_map(world, "m"))
        await world.cluster.delete(CONFIG_MAPS, world.key("m"))
        successor = await world.cluster.create(CONFIG_MAPS, config_map(world, "m"))
        executor = Executor(world.cluster)
        uid, key = former.metadata.uid, world.key("m")
        deleted = await executor.execute(Plan((DeleteObject(CONFIG_MAPS, key, uid),)))
        change: Body = {"metadata": {"labels": {"x": "y"}}}
        patched = await executor.execute(Plan((patch_object(CONFIG_MAPS, key, uid, change),)))

        assert deleted == Outcome(1)
        assert [failure.kind for failure in patched.failures] == [FailureKind.STALE]
        found = await world.cluster.get(CONFIG_MAPS, key)
        assert found.metadata.uid == successor.metadata.uid
        assert found.metadata.labels == {}

    play(target, act)


@pytest.mark.parametrize("ours", [True, False])
def test_name_in_use_is_settled_by_its_owner(target: ContractTarget, ours: bool) -> None:
    """Our own earlier creation counts as done, somebody else's object is left alone."""

    async def act(world: World) -> None:
        # The owner exists, or the garbage collector would take the child away.
        owner = (await world.make_pod("o"))["metadata"]["uid"]
        await world.cluster.create(CONFIG_MAPS, config_map(world, "m", owner if ours else ""))
        action = CreateObject(CONFIG_MAPS, config_map(world, "m", owner))
        outcome = await Executor(world.cluster).execute(Plan((action,)))

        assert [failure.reason for failure in outcome.failures] == ([] if ours else [NAME_TAKEN])

    play(target, act)


def test_lease_is_taken_and_handed_over(target: ContractTarget) -> None:
    """A candidate leads, another waits; when the first ends, the lease is free at once."""

    async def act(world: World) -> None:
        key = world.key("leader")
        electors = [
            LeaderElector(world.cluster, key, name, clock=SystemClock(), random=Random(1))
            for name in ("first", "second")
        ]
        leading: list[str] = []

        async def lead(name: str) -> None:
            leading.append(name)
            await asyncio.sleep(1000)

        first = asyncio.create_task(electors[0].run(lambda: lead("first")))
        await until(lambda: leading == ["first"])
        second = asyncio.create_task(electors[1].run(lambda: lead("second")))
        await asyncio.sleep(2.5)  # one renewal
        assert [elector.guard.is_open for elector in electors] == [True, False]
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await until(lambda: leading == ["first", "second"])
        lease = await world.cluster.get(LEASES, key)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)

        assert lease.spec.holder_identity == "second"
        assert lease.spec.lease_transitions == 1

    play(target, act)


def test_event_is_accepted_and_counts(target: ContractTarget) -> None:
    """Events of the recorder satisfy the server, and grow when a happening repeats."""

    async def act(world: World) -> None:
        made = await world.cluster.create(CONFIG_MAPS, config_map(world, "m"))
        event = EmitEvent(
            CONFIG_MAPS, world.key("m"), made.metadata.uid, EventSeverity.WARNING, "Odd", "very"
        )
        recorder = EventRecorder(world.cluster, "contract", clock=SystemClock(), random=Random(1))
        for happening in (event, event, replace(event, message="less"), event):
            recorder.record(happening)
            await recorder.flush(WITHIN_S)

        selection = world.selection(fields="regarding.name=m,reason=Odd")
        first, second = (await world.cluster.list(RECORDED_EVENTS, selection)).items
        assert (first["note"], first["series"]["count"]) == ("very", 3)
        assert (second["note"], "series" in second) == ("less", False)
        assert first["regarding"]["uid"] == made.metadata.uid
        assert first["eventTime"] < second["eventTime"] < first["series"]["lastObservedTime"]
        selection = world.selection(fields="involvedObject.name=m,reason=Odd")
        shown = (await world.cluster.list(EVENTS, selection)).items
        assert [one.message for one in shown] == ["very", "less"]

    play(target, act)
