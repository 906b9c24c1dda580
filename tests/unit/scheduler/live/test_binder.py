"""Binding gangs when calls fail, pods change and schedulers die."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.api.scheduling import PodGroupPhase
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import OutcomeUnknownError
from swell.scheduler.config import DEFAULT
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.model.tasks import TaskStatus
from tests.unit.runtime.world import failure
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage


def bindings(stage: Stage) -> list[str]:
    return [call.split()[-1] for call in stage.lines[-1].calls if call.startswith("create pods ")]


def test_binding_refused_once_is_tried_again() -> None:
    """The pod is read first, keeps its room, and is bound in the end."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.sleep(2)
        stage.lines[-1].fail_before["create"] = [failure(500), failure(409)]
        await stage.gang("a", 2)
        await stage.sleep(5)

        assert sorted(await stage.where()) == ["a-0", "a-1"]
        assert len(bindings(stage)) == 4
        assert any("metadata.name=a-0" in call for call in stage.lines[-1].calls)

    on_stage(play)


def test_binding_of_unknown_outcome_is_looked_up() -> None:
    """It was done, though no answer came: it is not sent again."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.sleep(2)
        stage.lines[-1].fail_after["create"] = [OutcomeUnknownError("lost"), failure(500)]
        await stage.gang("a", 2)
        await stage.sleep(5)

        assert sorted(bindings(stage)) == ["a-0", "a-1"]
        assert (await stage.read_group("a")).status.phase is PodGroupPhase.RUNNING

    on_stage(play)


def test_update_without_a_node_does_not_undo_a_binding() -> None:
    """Room stays taken while the watch lags behind."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="1")
        scheduler = stage.start()
        await stage.sleep(2)
        await stage.pod("a")
        await stage.sleep(0.05)
        stage.lines[-1].delay_s = 3.0
        await stage.pod("b")
        await stage.sleep(0.5)
        task = scheduler.cache.snapshot.task(f"{NAMESPACE}/a")
        assert task is not None
        assert task.status in {TaskStatus.BINDING, TaskStatus.BOUND}
        change = merge_patch({"metadata": {"labels": {"touched": "yes"}}})
        await stage.user.patch(PODS, Key(NAMESPACE, "a"), change)
        await stage.sleep(0.5)

        task = scheduler.cache.snapshot.task(f"{NAMESPACE}/a")
        assert task is not None
        assert task.pod.metadata.labels == {"touched": "yes"}
        assert task.status in {TaskStatus.BINDING, TaskStatus.BOUND}
        assert float(scheduler.cache.snapshot.nodes.idle[0][0]) == 0

    on_stage(play)


def test_gang_not_completed_in_time_is_released() -> None:
    """What was bound of it is marked and deleted; nothing of it stays reserved."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        scheduler = stage.start()
        await stage.sleep(2)
        refuse_all_but_first(stage)
        await stage.gang("a", 3)
        await stage.sleep(25)
        assert sorted(await stage.where()) == ["a-0"]
        await stage.sleep(15)

        pod = await stage.read_pod("a-0")
        assert pod is None or pod.metadata.deletion_timestamp is not None
        assert ("a-0", "Evicted") in {event[:2] for event in await stage.events()}
        await stage.remove("a-0") if pod else None
        await stage.sleep(20)
        assert float(scheduler.cache.snapshot.nodes.idle[0][0]) == 4000

    on_stage(play)


def refuse_all_but_first(stage: Stage) -> None:
    stage.lines[-1].refuse = lambda verb, name: verb == "create" and name in {"a-1", "a-2"}


def test_parts_of_gangs_stay_where_nobody_keeps_gangs() -> None:
    """Without the gang plugin a job may run in part, for as long as it likes."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.sleep(2)
        refuse_all_but_first(stage)
        await stage.gang("a", 3)
        await stage.sleep(60)

        assert sorted(await stage.where()) == ["a-0"]

    tiers = (tuple(o for o in DEFAULT.tiers[0] if o.name != "gang"), *DEFAULT.tiers[1:])
    on_stage(play, SchedulerSettings(config=replace(DEFAULT, tiers=tiers)))


def test_once_complete_gang_is_never_released() -> None:
    """A lost pod that cannot be bound again costs the others nothing."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.sleep(2)
        await stage.gang("a", 3)
        await stage.sleep(2)
        await stage.run_pods()
        assert len(await stage.where()) == 3
        refuse_all_but_first(stage)
        await stage.remove("a-1")
        await stage.pod("a-1", "a")
        await stage.sleep(60)

        assert sorted(await stage.where()) == ["a-0", "a-2"]
        stage.lines[-1].refuse = lambda *_: False
        await stage.sleep(30)
        assert sorted(await stage.where()) == ["a-0", "a-1", "a-2"]

    on_stage(play)


def test_restart_between_bindings_completes_the_gang() -> None:
    """The next process finds a gang bound in part, and binds the rest of it first."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2, cpu="2")
        stage.start()
        await stage.sleep(2)
        refuse_all_but_first(stage)
        await stage.gang("a", 4)
        await stage.sleep(0.5)
        assert 0 < len(await stage.where()) < 4
        await stage.kill()
        stage.start()
        await stage.sleep(5)

        assert len(await stage.where()) == 4
        assert (await stage.read_group("a")).status.phase is PodGroupPhase.RUNNING

    on_stage(play)


def test_restart_between_bindings_releases_a_gang_without_room() -> None:
    """Another pod took the room meanwhile: the gang that is bound in part is released."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.sleep(2)
        refuse_all_but_first(stage)
        await stage.gang("a", 3)
        await stage.sleep(0.5)
        await stage.kill()
        await stage.pod("thief", cpu="2", schedulerName="other", nodeName="node-0")
        stage.start()
        await stage.sleep(45)

        pod = await stage.read_pod("a-0")
        assert pod is None or pod.metadata.deletion_timestamp is not None
        assert await stage.read_pod("thief") is not None

    on_stage(play)


def test_node_that_is_cordoned_meanwhile_gets_nothing() -> None:
    """Bindings that wait are looked at again before they are sent."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2)
        scheduler = stage.start()
        await stage.sleep(2)
        stage.lines[-1].delay_s = 1.0  # one binding at a time, slowly
        await stage.gang("a", 4, cpu="2")
        await stage.sleep(2.5)
        assert scheduler.binder.n_waiting > 0
        await stage.change_node("node-1", unschedulable=True)
        n_there = list((await stage.where()).values()).count("node-1")
        await stage.sleep(10)

        after = list((await stage.where()).values()).count("node-1")
        assert after <= n_there + 1

    on_stage(play, SchedulerSettings(bind_workers=1))


def test_pod_of_the_same_name_is_another_pod() -> None:
    """What was decided about the old one is not done to the new one."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="1")
        scheduler = stage.start()
        await stage.sleep(2)
        stage.lines[-1].delay_s = 1.0
        await stage.pod("a")
        await asyncio.sleep(0.3)
        await stage.remove("a")
        await stage.pod("a", schedulerName="other")
        await stage.sleep(10)

        assert await stage.where() == {}
        assert float(scheduler.cache.snapshot.nodes.idle[0][0]) == 1000

    on_stage(play)
