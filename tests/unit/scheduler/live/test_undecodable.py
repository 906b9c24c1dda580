"""An object that cannot be decoded goes on holding what it held, and says why others wait."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from swell.api.kinds import (
    NATIVE_GROUPS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESOURCE_CLAIMS,
)
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.api.scheduling import PodGroupPhase
from swell.cluster.embedded.builtin.podgroups import GATES
from swell.runtime.cluster import merge_patch
from swell.scheduler.config import DEFAULT, PluginOption
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.model.reasons import WaitReason
from tests.resource_objects import DRIVER, a_resource_claim
from tests.sim.undecodable import MARK, HalfBlindCluster
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage
from tests.unit.scheduler.live.test_devices import OWN, claims_of, devices_of, played, until_bound
from tests.unit.scheduler.live.test_devices import gang as devices_gang
from tests.unit.scheduler.live.test_unrecorded_victims import TREE

PROTECTED = SchedulerSettings(
    config=replace(DEFAULT, tiers=((*DEFAULT.tiers[0], PluginOption("pdb")), *DEFAULT.tiers[1:]))
)


def start(stage: Stage) -> Scheduler:
    """A scheduler that cannot decode what is marked."""
    cluster = HalfBlindCluster(stage.server.connect("scheduler"))
    scheduler = Scheduler(cluster, stage.settings, clock=stage.clock, random=Random(1))
    stage.adopt(scheduler)
    return scheduler


async def mark(stage: Stage, resource: Resource[Any], name: str, field: str | None) -> None:
    key = Key(NAMESPACE if resource.namespaced else "", name)
    change: Body = {"metadata": {"annotations": {MARK: field}}}
    await stage.user.patch(resource.untyped(), key, merge_patch(change))


FIELDS = ["spec.containers", "status.phase", "spec.tolerations"]


@pytest.mark.parametrize("field", FIELDS)
def test_pod_that_becomes_undecodable_keeps_its_room(field: str) -> None:
    """Room is free again when the pod is gone, and not before."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.pod("old", cpu="4", schedulerName="other", nodeName="node-0")
        scheduler = start(stage)
        await stage.sleep(2)
        await mark(stage, PODS, "old", field)
        await stage.pod("new", cpu="2")
        await stage.sleep(30)
        assert "new" not in await stage.where()
        assert scheduler.informers.pods.n_malformed == 1
        assert ("old", "Undecodable") in {event[:2] for event in await stage.events()}
        await stage.remove("old")
        await stage.sleep(30)

        assert (await stage.where())["new"] == "node-0"
        assert scheduler.informers.pods.n_malformed == 0

    on_stage(play)


def test_pod_that_was_never_decodable_closes_its_node() -> None:
    """What it takes is not known, so the node takes no others; the reason is on those that wait."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.pod("old", schedulerName="other", nodeName="node-0")
        await mark(stage, PODS, "old", "spec.containers")
        scheduler = start(stage)
        await stage.gang("new", 1)
        await stage.sleep(40)
        assert "new-0" not in await stage.where()
        group = await stage.read_group("new")
        assert any("cannot be read" in c.message for c in group.status.conditions)
        closed = scheduler.cache.snapshot.nodes.closed
        assert list(closed) == ["node-0"]
        assert "spec.containers" in " ".join(closed["node-0"].values())
        await mark(stage, PODS, "old", None)
        await stage.sleep(40)

        assert (await stage.where())["new-0"] == "node-0"
        assert not scheduler.cache.snapshot.nodes.closed

    on_stage(play)


@pytest.mark.parametrize("field", ["status.allocatable", "spec.taints", "metadata.labels"])
def test_node_that_was_never_decodable_takes_no_pods(field: str) -> None:
    """Another node does meanwhile, and the first one again once it can be decoded."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await mark(stage, NODES, "node-0", field)
        start(stage)
        await stage.pod("new", cpu="3")
        await stage.sleep(20)
        assert await stage.where() == {}
        await mark(stage, NODES, "node-0", None)
        await stage.sleep(20)

        assert await stage.where() == {"new": "node-0"}

    on_stage(play)


def test_node_that_becomes_undecodable_keeps_what_it_had() -> None:
    """Pods go on being placed there, by the amounts that were read last, and no further."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        start(stage)
        await stage.sleep(2)
        await mark(stage, NODES, "node-0", "status.allocatable")
        await stage.pod("first", cpu="3")
        await stage.pod("second", cpu="3")
        await stage.sleep(20)

        assert len(await stage.where()) == 1

    on_stage(play)


@pytest.mark.parametrize("field", ["spec.minMember", "spec.minTaskMember", "spec.queue"])
def test_gang_of_an_unknown_minimum_waits(field: str) -> None:
    """A part of it must not start, and it must not be taken for one without a minimum."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.gang("g", 2)
        await mark(stage, POD_GROUPS, "g", field)
        scheduler = start(stage)
        await stage.sleep(20)
        assert await stage.where() == {}
        job = scheduler.cache.snapshot.jobs[f"{NAMESPACE}/g"]
        assert field in job.on_hold
        assert (await stage.read_group("g")).status.phase is PodGroupPhase.PENDING
        pod = await stage.read_pod("g-0")
        assert pod is not None
        assert any(WaitReason.UNREADABLE.value in c.message for c in pod.status.conditions)
        await mark(stage, POD_GROUPS, "g", None)
        await stage.sleep(20)

        assert len(await stage.where()) == 2

    on_stage(play)


def test_native_group_of_an_unknown_minimum_waits() -> None:
    """As a group of our own does."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.native_gang("g", 2)
        await mark(stage, NATIVE_GROUPS, "g", "spec.schedulingPolicy")
        start(stage)
        await stage.sleep(20)
        assert await stage.where() == {}
        await mark(stage, NATIVE_GROUPS, "g", None)
        await stage.sleep(20)

        assert len(await stage.where()) == 2

    on_stage(play, gates=frozenset(GATES))


def test_budget_that_was_never_decodable_protects_its_namespace() -> None:
    """Which pods it is about is not known, so nobody there is evicted until it can be read."""

    async def play(stage: Stage) -> None:
        await stage.priority("low", 1)
        await stage.priority("high", 9)
        await stage.nodes(1)
        budget = {
            "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
            "kind": POD_DISRUPTION_BUDGETS.kind,
            "metadata": {"name": "b", "namespace": NAMESPACE},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "other"}}},
        }
        await stage.user.create(POD_DISRUPTION_BUDGETS.untyped(), budget)
        await mark(stage, POD_DISRUPTION_BUDGETS, "b", "spec.selector")
        start(stage)
        await stage.gang("old", 1, cpu="3", priorityClassName="low")
        labelled = merge_patch({"metadata": {"labels": {"app": "old"}}})
        await stage.user.patch(PODS.untyped(), Key(NAMESPACE, "old-0"), labelled)
        await stage.sleep(3)
        await stage.run_pods()
        await stage.gang("new", 1, cpu="3", priorityClassName="high")
        await stage.sleep(30)
        old = await stage.read_pod("old-0")
        assert old is not None
        assert old.metadata.deletion_timestamp is None
        await mark(stage, POD_DISRUPTION_BUDGETS, "b", None)
        await stage.sleep(60)

        old = await stage.read_pod("old-0")
        assert old is None or old.metadata.deletion_timestamp is not None

    on_stage(play, PROTECTED)


def test_claim_of_others_that_was_never_decodable_keeps_its_devices() -> None:
    """As one that another scheduler has served, in a form that is not known here."""

    async def play(stage: Stage) -> None:
        start(stage)
        await stage.sleep(2)
        claim = a_resource_claim("others", 1, NAMESPACE)
        claim["metadata"]["annotations"] = {MARK: "status.allocation"}
        await stage.user.create(RESOURCE_CLAIMS.untyped(), claim)
        result = {"request": "r", "driver": DRIVER, "pool": "a", "device": "gpu-0"}
        status: Body = {"status": {"allocation": {"devices": {"results": [result]}}}}
        key = Key(NAMESPACE, "others")
        await stage.user.patch(RESOURCE_CLAIMS.untyped().status, key, merge_patch(status))
        await devices_gang(stage, 3)
        await stage.sleep(30)
        assert await stage.where() == {}
        await mark(stage, RESOURCE_CLAIMS, "others", None)
        await until_bound(stage, 3)

        given = devices_of(*await claims_of(stage))
        assert len(set(given)) == len(given) == 4

    played(play)


def test_claim_that_was_never_decodable_keeps_its_devices() -> None:
    """Which ones it has is not known, so none is given to others until it can be read."""

    async def play(stage: Stage) -> None:
        stage.start()
        await stage.group("old", 1)
        await stage.pod("old-0", "old", **OWN)
        await until_bound(stage, 1)
        await stage.kill()
        (claim,) = await claims_of(stage)
        await mark(stage, RESOURCE_CLAIMS, claim.metadata.name, "status.allocation")
        start(stage)
        await devices_gang(stage, 3)
        await stage.sleep(30)
        assert set(await stage.where()) == {"old-0"}
        waiting = await stage.read_pod("gang-0")
        assert waiting is not None
        assert any("cannot be read" in c.message for c in waiting.status.conditions)
        await mark(stage, RESOURCE_CLAIMS, claim.metadata.name, None)
        await until_bound(stage, 4)

        given = devices_of(*await claims_of(stage))
        assert len(set(given)) == len(given) == 4

    played(play)


def test_queue_of_unknown_limits_gives_nothing() -> None:
    """A limit that cannot be read is not taken for none."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.queue("q", capability={"cpu": "1"})
        await stage.gang("g", 2, queue="q")
        await mark(stage, QUEUES, "q", "spec.capability")
        start(stage)
        await stage.sleep(20)
        assert await stage.where() == {}

    on_stage(play)


def test_gang_does_not_start_without_a_pod_that_was_never_decodable() -> None:
    """What such a pod asks for is not known; it is not taken for one that asks for nothing."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.gang("g", 3)
        await mark(stage, PODS, "g-1", "spec.containers")
        start(stage)
        await stage.sleep(30)
        assert await stage.where() == {}
        await mark(stage, PODS, "g-1", None)
        await stage.sleep(30)

        assert len(await stage.where()) == 3

    on_stage(play)


@pytest.mark.parametrize("limited", ["q", "parent", "none"])
def test_queue_with_a_pod_that_was_never_decodable_gets_nothing_more(limited: str) -> None:
    """Where it or one above has a limit: what is left of that is not known."""

    async def play(stage: Stage) -> None:
        limits = {limited: {"capability": {"cpu": "4"}}}
        await stage.queue("parent", **limits.get("parent", {}))
        await stage.queue("q", parent="parent", **limits.get("q", {}))
        await stage.queue("sibling", parent="parent")
        await stage.nodes(2)
        stage.start()
        await stage.gang("old", 1, cpu="3", queue="q")
        await stage.sleep(20)
        await stage.run_pods()
        await stage.kill()
        await mark(stage, PODS, "old-0", "spec.containers")
        start(stage)
        await stage.gang("new", 1, cpu="2", queue="q")
        await stage.gang("beside", 1, cpu="1", queue="sibling")
        await stage.sleep(40)
        where = await stage.where()
        assert ("new-0" in where) is (limited == "none")
        assert ("beside-0" in where) is (limited != "parent")
        if limited != "none":
            group = await stage.read_group("new")
            texts = [c.message for c in group.status.conditions]
            assert any(f"ns/old-0 takes of queue {limited}" in text for text in texts)
        # It leaves, so its amount no longer matters.
        await stage.remove("old-0")
        await stage.sleep(40)

        assert {"new-0", "beside-0"} <= set(await stage.where())

    on_stage(play, TREE)
