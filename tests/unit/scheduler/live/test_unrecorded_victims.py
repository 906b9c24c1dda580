"""Bindings wait until it is on record that the victims leave whose quota they use."""

from __future__ import annotations

from dataclasses import replace

from swell.api.kinds import POD_GROUPS
from swell.api.resource import Resource
from swell.api.scheduling import LOSS_ANNOTATION
from swell.scheduler.config import DEFAULT, PluginOption
from swell.scheduler.live.settings import SchedulerSettings
from tests.unit.runtime.world import failure
from tests.unit.scheduler.live.stage import Stage, on_stage
from tests.unit.scheduler.live.test_shrinker import elastic_job, target

# Where limits hold at every level, preemptors may take other nodes than those of their victims.
TREE = SchedulerSettings(
    config=replace(
        DEFAULT,
        tiers=tuple(
            tuple(
                PluginOption("capacity", {"enableHierarchy": True}) if o.name == "proportion" else o
                for o in tier
            )
            for tier in DEFAULT.tiers
        ),
    )
)
N_REFUSED = 100


async def is_marked(stage: Stage, name: str) -> bool:
    pod = await stage.read_pod(name)
    return pod is None or any(c.type == "DisruptionTarget" for c in pod.status.conditions)


def test_preemptor_is_bound_after_its_victims_are_marked() -> None:
    """Nodes have room and only quota is short; a gang of another queue does not wait along."""

    async def play(stage: Stage) -> None:
        await stage.nodes(4)
        await stage.priority("high", 10)
        await stage.queue("red", capability={"cpu": "4"})
        stage.start()
        await stage.sleep(2)
        await stage.gang("low", 4, queue="red")
        await stage.sleep(2)
        await stage.run_pods()
        stage.lines[-1].fail_before["patch"] = [failure(500) for _ in range(N_REFUSED)]
        await stage.gang("high", 2, queue="red", priorityClassName="high")
        await stage.gang("other", 2)
        had_to_wait = False
        for _ in range(400):
            await stage.sleep(0.5)
            bound = set(await stage.where())
            if {"high-0", "high-1"} & bound:
                assert all([await is_marked(stage, f"low-{n}") for n in range(4)])
                break
            had_to_wait |= {"other-0", "other-1"} <= bound
        await stage.sleep(2)

        assert had_to_wait
        assert {"high-0", "high-1"} <= set(await stage.where())

    on_stage(play, TREE)


def test_preemptor_is_not_bound_when_the_shrink_is_refused() -> None:
    """The victims stay, so their quota is not free; after a cooldown they are asked again."""

    async def play(stage: Stage) -> None:
        await stage.queue("red", capability={"cpu": "4"})
        await elastic_job(stage, queue="red")
        await stage.node("free")
        await stage.change_node("node-0", unschedulable=True)
        codes = (*[500] * N_REFUSED, *[422] * N_REFUSED)
        stage.lines[-1].fail_before["patch"] = list(map(failure, codes))
        await stage.gang("high", 2, queue="red", priorityClassName="high")
        for _ in range(1600):
            await stage.sleep(1)
            if {"high-0", "high-1"} & set(await stage.where()):
                break
        # Pods that stayed for too long, though asked to leave, are evicted in the end.
        are_marked = [await is_marked(stage, f"e-worker-{n}") for n in (2, 3)]

        assert {"high-0", "high-1"} <= set(await stage.where())
        assert await target(stage) == 2 or all(are_marked)

    on_stage(play, TREE)


def test_victims_stay_until_their_group_says_why_though_the_server_has_a_conflict() -> None:
    """The record asks for no version: the conflict is no reason to go on without it."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.priority("high", 10)
        stage.start()
        await stage.sleep(2)
        await stage.gang("low", 4)
        await stage.sleep(2)
        await stage.run_pods()
        line, n_conflicts = stage.lines[-1], 4
        begin = line._begin

        async def conflict_at_records(verb: str, resource: Resource[object], key: object) -> None:
            nonlocal n_conflicts
            await begin(verb, resource, key)
            if (verb, str(resource), str(key)) == ("patch", str(POD_GROUPS), "ns/low") and (
                n_conflicts
            ):
                n_conflicts -= 1
                raise failure(409, "Conflict")

        line._begin = conflict_at_records  # type: ignore[method-assign, assignment]
        await stage.gang("high", 2, priorityClassName="high")
        for _ in range(400):
            await stage.sleep(0.25)
            pods = await stage.pods()
            if any(pod.metadata.deletion_timestamp for pod in pods):
                break
        group = await stage.read_group("low")

        assert n_conflicts == 0
        assert "ns/high" in group.metadata.annotations[LOSS_ANNOTATION]

    on_stage(play)
