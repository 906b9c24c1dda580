"""Gangs with volumes: all claims are bound before the first pod is, or none of its pods is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from swell.api.kinds import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from swell.api.meta import Body, Key
from swell.api.storage import SELECTED_NODE, PersistentVolumeClaim
from swell.cluster.embedded.controllers.volumes import PROVISIONER
from swell.runtime.cluster import merge_patch
from swell.scheduler.config import DEFAULT, Arguments, Config, PluginOption
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.model.volumes.claims import selected_node
from tests.storage_objects import HOST, a_claim, a_class, a_volume, mounts
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage
from tests.volume_actor import VolumeActor

FOLDERS = "folders"
KINDS = {
    "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
    "PersistentVolume": PERSISTENT_VOLUMES,
    "StorageClass": STORAGE_CLASSES,
}


def with_timeout(seconds: float) -> SchedulerSettings:
    """Settings under which volumes have so long to be bound."""
    patient = {"volumebinding.bindTimeoutSeconds": seconds}
    tiers = tuple(
        tuple(
            PluginOption(one.name, one.switches, Arguments(patient))
            if one.name == "predicates"
            else one
            for one in tier
        )
        for tier in DEFAULT.tiers
    )
    return SchedulerSettings(config=Config(DEFAULT.actions, tiers))


async def have(stage: Stage, *bodies: dict[str, Any]) -> None:
    for body in bodies:
        meta = {k: v for k, v in body["metadata"].items() if k != "uid"}
        plain = {k: v for k, v in body.items() if k != "status"}
        await stage.user.create(KINDS[body["kind"]].untyped(), {**plain, "metadata": meta})


async def have_nodes(stage: Stage, *names: str, cpu: str = "4") -> None:
    for name in names:
        await stage.node(name, cpu)
        await stage.label_node(name, **{HOST: name})


def folders(**parameters: str) -> dict[str, Any]:
    made = a_class(FOLDERS, parameters=parameters)
    return {**made, "provisioner": PROVISIONER}


async def gang(stage: Stage, size: int, *claims: str) -> None:
    """A gang whose pods have a claim each, or share the given ones."""
    await stage.group("gang", size)
    for at in range(size):
        names = claims or (f"data-{at}",)
        await stage.pod(f"gang-{at}", "gang", volumes=mounts(*names))


async def claims_of(stage: Stage) -> dict[str, PersistentVolumeClaim]:
    found = (await stage.user.list(PERSISTENT_VOLUME_CLAIMS)).items
    return {claim.metadata.name: claim for claim in found}


async def until(stage: Stage, holds: Callable[[], Awaitable[bool]], within_s: float = 60) -> None:
    async with asyncio.timeout(within_s):
        while not await holds():
            await stage.sleep(0.05)


def played(
    play: Callable[[Stage], Awaitable[None]], settings: SchedulerSettings | None = None
) -> None:
    """Have a play played with a volume controller, and a scheduler that has just started."""

    async def whole(stage: Stage) -> None:
        actor = VolumeActor(stage.server.connect("volumes"), stage.clock)
        running = asyncio.create_task(actor.run())
        try:
            await play(stage)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    on_stage(whole, settings or SchedulerSettings())


def bound(stage: Stage, n: int) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return len(await stage.where()) == n

    return holds


def test_gang_is_bound_after_all_of_its_volumes() -> None:
    """No pod is bound before the last claim is, and every pod is on its volume's node."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b", cpu="2")
        await have(stage, folders(), *(a_claim(f"data-{i}", FOLDERS) for i in range(4)))
        scheduler = stage.start()
        await gang(stage, 4)
        await until(stage, bound(stage, 4))

        writes = stage.lines[0].writes()
        first = next(at for at, call in enumerate(writes) if call.startswith("create pods"))
        selected = [at for at, c in enumerate(writes) if c.startswith("patch persistentvolumecl")]
        assert len(selected) == 4
        assert max(selected) < first
        where, claims = await stage.where(), await claims_of(stage)
        for at in range(4):
            assert claims[f"data-{at}"].status.phase == "Bound"
            assert claims[f"data-{at}"].metadata.annotations[SELECTED_NODE] == where[f"gang-{at}"]
        reserved = scheduler.cache.snapshot.volumes.reservations
        assert not reserved.choices
        assert not scheduler.cache.snapshot.preparing

    played(play)


def test_gang_with_volumes_made_by_hand() -> None:
    """Volumes get their claims, and the volume controller does the rest."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        await have(stage, a_class(), *(a_claim(f"data-{i}") for i in range(4)))
        hand: Body = {"hostPath": {"path": "/x"}}
        volumes = [a_volume(f"pv-{n}-{i}", n, **hand) for n in "ab" for i in range(2)]
        await have(stage, *volumes)
        stage.start()
        await gang(stage, 4)
        await until(stage, bound(stage, 4))

        where, claims = await stage.where(), await claims_of(stage)
        for at in range(4):
            node = where[f"gang-{at}"]
            assert claims[f"data-{at}"].spec.volume_name.startswith(f"pv-{node}-")

    played(play)


def test_nothing_is_written_for_a_gang_that_lacks_a_volume() -> None:
    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        await have(stage, a_class(), *(a_claim(f"data-{i}") for i in range(4)))
        await have(stage, *(a_volume(f"pv-{i}", "a", hostPath={"path": "/x"}) for i in range(3)))
        stage.start()
        await gang(stage, 4)
        await stage.sleep(30)

        volumes = (await stage.user.list(PERSISTENT_VOLUMES)).items
        (condition,) = (await stage.read_group("gang")).status.conditions
        assert not await stage.where()
        assert [v.spec.claim_ref for v in volumes] == [None] * 3
        assert "claim ns/data-3 (1Gi, class 'local') has no volume there" in condition.message

    played(play)


def test_provisioning_that_fails_goes_to_another_node() -> None:
    """The provisioner gives up on the node that scores best; the pod ends on the other."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        await have(stage, folders(failOn="a"), a_claim("data-0", FOLDERS))
        stage.start()
        await gang(stage, 1)
        await until(stage, bound(stage, 1))

        assert await stage.where() == {"gang-0": "b"}

    played(play)


def test_provisioning_that_hangs_is_taken_back() -> None:
    """After the deadline the selected node is removed, and the whole gang runs elsewhere."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        await have(stage, folders(hangOn="a"), *(a_claim(f"data-{i}", FOLDERS) for i in range(2)))
        stage.start()
        await gang(stage, 2)
        await stage.sleep(15)
        assert not await stage.where()
        (condition,) = (await stage.read_group("gang")).status.conditions
        assert condition.reason == "Preparing"
        assert "of 2 volume claims are bound; waiting for" in condition.message
        assert "to be provisioned for a" in condition.message
        await until(stage, bound(stage, 2))

        assert set((await stage.where()).values()) == {"b"}
        events = [text for _, reason, text in await stage.events() if reason == "FailedScheduling"]
        assert any("its volumes were not bound in time" in text for text in events)

    played(play, with_timeout(20))


def test_volume_lost_to_another_claim_is_replaced_on_the_same_node() -> None:
    """Between decision and write another claim takes the volume: the pod gets the next one."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a")
        await have(stage, a_class(), a_claim("data-0"), a_claim("thief"))
        hand: Body = {"hostPath": {"path": "/x"}}
        await have(stage, *(a_volume(f"pv-{i}", "a", size=f"{i + 1}Gi", **hand) for i in range(3)))
        await stage.sleep(1)  # they become Available
        stage.start()
        line = stage.lines[0]
        line.delay_s = 0.1  # a call is recorded, and done so much later

        async def is_asked_for() -> bool:
            return "patch persistentvolumes pv-0" in line.calls

        await gang(stage, 1)
        await until(stage, is_asked_for)
        body = {"spec": {"claimRef": {"namespace": NAMESPACE, "name": "thief", "uid": "x"}}}
        await stage.user.patch(PERSISTENT_VOLUMES, Key("", "pv-0"), merge_patch(body))
        await until(stage, bound(stage, 1))

        claims = await claims_of(stage)
        assert await stage.where() == {"gang-0": "a"}
        assert claims["data-0"].spec.volume_name == "pv-1"

    played(play)


def test_gang_shares_one_claim_over_two_nodes() -> None:
    """Four pods on two nodes share a claim that every node reaches."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b", cpu="2")
        claim = a_claim("shared", FOLDERS, modes=("ReadWriteMany",))
        await have(stage, folders(anywhere="true"), claim)
        stage.start()
        await gang(stage, 4, "shared")
        await until(stage, bound(stage, 4))

        assert sorted((await stage.where()).values()) == ["a", "a", "b", "b"]

    played(play)


def test_node_that_goes_is_taken_back_from_its_claims() -> None:
    """A claim that waits for a volume on a node that is gone is provisioned elsewhere."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        await have(stage, folders(hangOn="a"), a_claim("data-0", FOLDERS))
        stage.start()
        await gang(stage, 1)
        await stage.sleep(5)
        assert (await claims_of(stage))["data-0"].metadata.annotations[SELECTED_NODE] == "a"
        await stage.user.delete(NODES, Key("", "a"))
        await until(stage, bound(stage, 1))

        assert await stage.where() == {"gang-0": "b"}

    played(play)


def test_next_process_goes_on_where_the_last_one_died() -> None:
    """What was written stays and is honoured; nothing is written twice."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        await have(stage, folders(hangOn="a,b"), a_claim("data-0", FOLDERS))
        stage.start()
        await gang(stage, 1)
        await stage.sleep(5)
        await stage.kill()
        first = (await claims_of(stage))["data-0"]
        await stage.user.delete(STORAGE_CLASSES, Key("", FOLDERS))
        await have(stage, folders())
        stage.start()
        await until(stage, bound(stage, 1))

        node = first.metadata.annotations[SELECTED_NODE]
        assert await stage.where() == {"gang-0": node}
        assert not [c for c in stage.lines[1].writes() if "persistentvolumeclaims" in c]

    played(play)


def test_claims_that_are_mended_need_no_restart() -> None:
    """A missing claim, and one of a class that binds at once, are refused until they are there."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a")
        stage.start()
        await gang(stage, 2)
        await have(stage, a_class("now", "Immediate"), a_claim("data-0", "now"))
        await stage.sleep(5)
        assert not await stage.where()
        await have(stage, folders(), a_claim("data-1", FOLDERS))
        await have(stage, a_volume("pv", class_name="now", hostPath={"path": "/x"}))
        await until(stage, bound(stage, 2))

    played(play)


def test_claim_that_waits_for_a_node_without_its_pod_goes_elsewhere_in_time() -> None:
    """Provisioning hangs on a node that takes no pods any more: the batch has not waited on."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        await have(stage, folders(hangOn="a"), *(a_claim(f"data-{i}", FOLDERS) for i in range(2)))
        await stage.change_node("b", unschedulable=True)
        stage.start()
        await gang(stage, 2)
        await stage.sleep(10)
        await stage.change_node("a", unschedulable=True)
        await stage.change_node("b", unschedulable=None)
        await stage.kill()  # the next process has no record of when the wait began
        stage.start()
        await stage.sleep(30)
        assert {selected_node(one) for one in (await claims_of(stage)).values()} == {"a"}
        await until(stage, bound(stage, 2))

        assert set((await stage.where()).values()) == {"b"}

    played(play, with_timeout(40))


def test_claim_of_another_scheduler_keeps_its_node() -> None:
    """It may have selected the node, and takes it back by rules of its own."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        claim = a_claim("data-0", FOLDERS, notes={SELECTED_NODE: "a"})
        await have(stage, folders(hangOn="a"), claim)
        await stage.change_node("a", unschedulable=True)
        await stage.pod("other", volumes=mounts("data-0"), schedulerName="default-scheduler")
        stage.start()
        await gang(stage, 1)
        await stage.sleep(200)

        assert selected_node((await claims_of(stage))["data-0"]) == "a"

    played(play, with_timeout(20))
