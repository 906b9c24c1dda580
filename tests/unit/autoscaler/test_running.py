"""Who of several autoscalers works, and when it looks."""

from __future__ import annotations

import asyncio
from random import Random

from swell.api.kinds import AI_TRAINING_JOBS, NAMESPACES
from swell.api.meta import Key
from swell.autoscaler.controller import autoscale
from swell.runtime.leader import Election
from swell.sim.loop import run
from tests.autoscaler_cases import a_job
from tests.unit.autoscaler.test_controller import ROLE, SETTINGS, Stage

LEASE = Key("ns", "autoscaler")


async def replica(stage: Stage, name: str) -> None:
    await autoscale(
        stage.server.connect(name),
        clock=stage.clock,
        random=Random(name),
        settings=SETTINGS,
        election=Election(LEASE, name),
    )


async def a_cluster() -> Stage:
    """A job that has all the room there is."""
    stage = Stage()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    await stage.user.create(NAMESPACES, namespace)
    await stage.node("n1", cpu=1, memory="8Gi")
    await stage.job(a_job("a", t=ROLE))
    await stage.pod("a", 0, "n1")
    return stage


async def resizes(stage: Stage) -> list[tuple[int, int]]:
    job = await stage.user.get(AI_TRAINING_JOBS, Key("ns", "a"))
    return [(record.from_, record.to) for record in job.status.scale_records]


def test_of_two_replicas_only_the_leader_works() -> None:
    """What there is to write is written once; when the leader is gone, by the other."""

    async def main() -> None:
        stage = await a_cluster()
        first = asyncio.create_task(replica(stage, "first"))
        await stage.clock.sleep(1)
        second = asyncio.create_task(replica(stage, "second"))
        await stage.node("n2", cpu=2, memory="8Gi")
        await stage.clock.sleep(SETTINGS.scale_period_s + 5)

        assert await resizes(stage) == [(1, 2)]

        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await stage.pod("a", 1, "n2")
        await stage.node("n3", cpu=4, memory="8Gi")
        await stage.clock.sleep(SETTINGS.scale_period_s)

        assert await resizes(stage) == [(1, 2), (2, 4)]

        second.cancel()
        await asyncio.gather(second, return_exceptions=True)

    run(main())


def test_new_room_is_found_at_the_next_look() -> None:
    """While no job waits it decides once a period, and not before."""

    async def main() -> None:
        stage = await a_cluster()
        working = asyncio.create_task(stage.autoscale())
        await stage.clock.sleep(5)
        await stage.node("n2", cpu=4, memory="8Gi")
        await stage.clock.sleep(SETTINGS.scale_period_s - 10)
        before = await stage.target("a")
        await stage.clock.sleep(10)

        assert before == 1
        assert await stage.target("a") == 4

        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    run(main())
