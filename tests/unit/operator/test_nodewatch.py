"""What is certain about nodes, and how it becomes so."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from swell.api.core import Node
from swell.api.kinds import NODES
from swell.api.meta import Key
from swell.operator.framework.nodewatch import CERTAIN_S, NodeWatch
from swell.runtime.cluster import merge_patch
from swell.runtime.informer import Informer
from swell.runtime.queue import WorkQueue
from tests.sim.undecodable import MARK, HalfBlindCluster
from tests.unit.operator.stage import Stage, play, staged

LATER = "2026-01-02T00:00:00Z"


class Watched:
    """A watch over a stage's nodes; `known` are the nodes it had news of."""

    def __init__(self, stage: Stage) -> None:
        self.known: list[str] = []
        clock, random = stage.clock, Random(3)
        cluster = HalfBlindCluster(stage.user)
        self.nodes: Informer[Node] = Informer(cluster, NODES, clock=clock, random=random)
        queue = WorkQueue[Key](clock=clock, random=random)
        self.watch = NodeWatch(self.nodes, queue, clock, self.known.append)
        stage.tasks.append(asyncio.create_task(self.nodes.run()))
        stage.tasks.append(asyncio.create_task(self.watch.run()))


def test_ready_node_is_known_at_once() -> None:
    """Nothing follows from it, so nothing has to be certain."""

    async def test() -> None:
        async with staged() as stage:
            await stage.add_node()
            seen = Watched(stage)
            await seen.nodes.wait_synced()

            assert seen.watch.states(["node-a"])["node-a"].unready_since is None
            assert seen.known == []

    play(test())


def test_unready_node_is_read_before_anything_is_said() -> None:
    """Then it is known since when this process has seen it so."""

    async def test() -> None:
        async with staged() as stage:
            await stage.add_node(ready="Unknown")
            seen = Watched(stage)
            await seen.nodes.wait_synced()
            began = stage.clock.now()

            assert seen.watch.states(["node-a"]) == {}
            await stage.clock.sleep(1)
            assert seen.known == ["node-a"]
            state = seen.watch.states(["node-a"])["node-a"]
            assert state.unready_since is not None
            assert abs(state.unready_since - began) < 0.5
            assert state.is_fresh

    play(test())


def test_certainty_ages() -> None:
    """After a while it must be read again before a record may be dropped."""

    async def test() -> None:
        async with staged() as stage:
            await stage.add_node(ready="False")
            seen = Watched(stage)
            await seen.nodes.wait_synced()
            seen.watch.states(["node-a"])
            await stage.clock.sleep(CERTAIN_S + 1)

            assert not seen.watch.states(["node-a"])["node-a"].is_fresh
            await stage.clock.sleep(1)
            assert seen.watch.states(["node-a"])["node-a"].is_fresh

    play(test())


def test_time_counts_without_a_break_and_by_our_own_clock() -> None:
    """A node that changes from False to Unknown is still the same unready node; one that was
    ready in between begins anew; and setting the wall clock changes nothing."""

    async def test() -> None:
        async with staged() as stage:
            await stage.add_node(ready="False")
            seen = Watched(stage)
            await seen.nodes.wait_synced()
            await stage.clock.sleep(10)
            await stage.set_ready("node-a", "Unknown")
            stage.clock.jump(3600)
            seen.watch.states(["node-a"])
            await stage.clock.sleep(1)
            since = seen.watch.states(["node-a"])["node-a"].unready_since
            assert since is not None
            assert abs(stage.clock.now() - since - 11) < 0.5
            await stage.set_ready("node-a", "True")
            await stage.clock.sleep(1)
            await stage.set_ready("node-a", "False")
            await stage.clock.sleep(1)
            seen.watch.states(["node-a"])
            await stage.clock.sleep(1)
            since = seen.watch.states(["node-a"])["node-a"].unready_since
            assert since is not None
            assert stage.clock.now() - since < 3

    play(test())


def test_absent_node_is_gone_only_after_a_consistent_read() -> None:
    """A pod may be seen before the node it runs on."""

    async def test() -> None:
        async with staged() as stage:
            seen = Watched(stage)
            await seen.nodes.wait_synced()

            assert seen.watch.states(["ghost"]) == {}
            await stage.clock.sleep(1)
            assert seen.watch.states(["ghost"])["ghost"].node is None

    play(test())


def test_nothing_is_certain_before_nodes_are_listed() -> None:
    """Nor ever, where nodes may not be listed."""

    async def test() -> None:
        async with staged() as stage:
            await stage.add_node(ready="False")
            seen = Watched(stage)

            assert seen.watch.states(["node-a"]) == {}

    play(test())


def test_break_that_nobody_saw_counts() -> None:
    """A node that names another change was ready in between: its silence begins anew."""

    async def test() -> None:
        async with staged() as stage:
            await stage.add_node(ready="Unknown")
            seen = Watched(stage)
            await seen.nodes.wait_synced()
            seen.watch.states(["node-a"])
            await stage.clock.sleep(60)
            again = {"type": "Ready", "status": "Unknown", "lastTransitionTime": LATER}
            patch = merge_patch({"status": {"conditions": [again]}})
            await stage.user.patch(NODES.status, Key("", "node-a"), patch)
            await stage.clock.sleep(1)
            since = seen.watch.states(["node-a"])["node-a"].unready_since

            assert since is not None
            assert stage.clock.now() - since < 2

    play(test())


@pytest.mark.parametrize("ready", ["True", "False"])
@pytest.mark.parametrize("field", ["status.conditions", "spec.taints"])
def test_nothing_is_certain_of_a_node_that_cannot_be_decoded(ready: str, field: str) -> None:
    """It is neither gone nor unready, so no pod is given up for it, however long it lasts."""

    async def test() -> None:
        async with staged() as stage:
            await stage.add_node(ready=ready)
            mark = merge_patch({"metadata": {"annotations": {MARK: field}}})
            await stage.user.patch(NODES.untyped(), Key("", "node-a"), mark)
            seen = Watched(stage)
            await seen.nodes.wait_synced()
            for _ in range(20):
                assert seen.watch.states(["node-a"]) == {}
                await stage.clock.sleep(60)
            heal = merge_patch({"metadata": {"annotations": {MARK: None}}})
            await stage.user.patch(NODES.untyped(), Key("", "node-a"), heal)
            await stage.clock.sleep(1)
            seen.watch.states(["node-a"])
            await stage.clock.sleep(1)

            assert "node-a" in seen.watch.states(["node-a"])

    play(test())


def test_reads_of_nodes_that_are_gone_are_forgotten() -> None:
    """What is remembered of nodes is bounded by those that are asked for."""

    async def test() -> None:
        async with staged() as stage:
            seen = Watched(stage)
            await seen.nodes.wait_synced()
            for number in range(50):
                seen.watch.states([f"gone-{number}"])
                await stage.clock.sleep(60)

            assert len(seen.watch._read_s) < 15
            assert len(seen.watch._exists) < 15

    play(test())
