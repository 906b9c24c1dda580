"""Native groups on a running scheduler: conditions, evictions, restarts."""

from __future__ import annotations

import pytest

from swell.api.core import Lease, LeaseSpec
from swell.api.kinds import NATIVE_GROUPS, PODS, QUEUES
from swell.api.meta import Key
from swell.api.times import parse_time
from swell.cluster.embedded.builtin.podgroups import GATES
from swell.runtime.cluster import Deletion, merge_patch
from swell.scheduler.live.start_warnings import rival_of
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage

ALL = frozenset(GATES)


async def conditions(stage: Stage, name: str) -> dict[str, tuple[str, str]]:
    """Status and the beginning of the message of each condition of a group."""
    found = (await stage.read_native(name)).status.conditions
    return {c.type: (c.status, c.message.partition(":")[0]) for c in found}


def test_group_waits_with_the_reason_and_is_scheduled_when_it_is_bound() -> None:
    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="4")
        stage.start()
        await stage.pod("filler")
        await stage.sleep(2)
        await stage.native_gang("g", 4)
        await stage.sleep(3)
        assert set(await stage.where()) == {"filler"}
        assert await conditions(stage, "g") == {
            "PodGroupScheduled": ("False", "NotEnoughResources")
        }
        await stage.remove("filler")
        await stage.sleep(5)
        assert len(await stage.where()) == 4
        found = await conditions(stage, "g")
        assert found["PodGroupScheduled"][0] == "True"
        version = (await stage.read_native("g")).metadata.resource_version
        await stage.run_pods()
        await stage.sleep(30)
        assert (await stage.read_native("g")).metadata.resource_version == version

    on_stage(play, gates=ALL)


def test_scheduled_is_never_turned_back_and_counts_after_a_restart() -> None:
    """A gang that has lost a pod keeps the others, also under the next scheduler."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="2")
        stage.start()
        await stage.native_gang("g", 2)
        await stage.sleep(3)
        await stage.run_pods()
        await stage.sleep(3)
        await stage.kill()
        await stage.remove("g-1")
        await stage.pod("filler", nodeName="node-0")
        stage.start()
        await stage.native_pods_at("g", 1)
        await stage.sleep(60)
        assert set(await stage.where()) == {"g-0", "filler"}
        assert (await conditions(stage, "g"))["PodGroupScheduled"][0] == "True"

    on_stage(play, gates=ALL)


def test_group_evicted_whole_is_marked_before_its_pods_go_until_it_runs_again() -> None:
    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="3")
        await stage.priority("high", 1000)
        stage.start()
        await stage.native_gang("v", 3, 1, disruptionMode="PodGroup")
        await stage.sleep(3)
        await stage.run_pods()
        await stage.sleep(3)
        await stage.native_gang("g", 2, priorityClassName="high")
        await stage.sleep(3)
        assert (await conditions(stage, "v"))["DisruptionTarget"][0] == "True"
        leaving = [p for p in await stage.pods() if p.metadata.deletion_timestamp]
        assert len(leaving) == 3
        assert all(any(c.type == "DisruptionTarget" for c in p.status.conditions) for p in leaving)
        for pod in leaving:
            await stage.remove(pod.metadata.name)
        await stage.sleep(5)
        assert set(await stage.where()) == {"g-0", "g-1"}
        await stage.native_pods_at("v", 0)
        await stage.sleep(5)
        assert "DisruptionTarget" not in await conditions(stage, "v")

    on_stage(play, gates=ALL)


def test_scheduler_survives_that_a_mark_is_made_while_a_failed_one_is_looked_at() -> None:
    """One worker reads the groups of an eviction again, and another takes them away marked."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="3")
        await stage.priority("high", 1000)
        stage.start()
        await stage.native_gang("v", 3, 1, disruptionMode="PodGroup")
        await stage.sleep(3)
        await stage.run_pods()
        await stage.sleep(3)
        line = stage.lines[-1]
        refused: list[str] = []

        def refuse(verb: str, what: str) -> bool:
            # Two workers fail. The first one reads the pod, and then the group while the mark of
            # the third one is made.
            if verb == "patch" and what.endswith("/v") and len(refused) < 2:
                refused.append(what)
                line.delay_s, line.answer_delay_s = 0.2, 0.1
                return True
            return False

        line.refuse = refuse
        await stage.native_gang("g", 2, priorityClassName="high")
        await stage.sleep(10)

        assert len(refused) == 2
        assert stage.is_alive()
        leaving = [p for p in await stage.pods() if p.metadata.deletion_timestamp]
        assert len(leaving) == 3

    on_stage(play, gates=ALL)


def test_pods_wait_for_their_group_and_go_on_waiting_when_it_goes() -> None:
    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.native_pods("g", 2)
        await stage.sleep(5)
        assert await stage.where() == {}
        pod = await stage.read_pod("g-0")
        assert pod is not None
        assert any(c.message.startswith("PodGroupNotFound: ") for c in pod.status.conditions)
        await stage.native_group("g", 3)
        await stage.sleep(5)
        assert (await conditions(stage, "g"))["PodGroupScheduled"] == ("False", "NotEnoughTasks")
        change = merge_patch({"metadata": {"finalizers": []}})
        key = Key(NAMESPACE, "g")
        await stage.user.patch(NATIVE_GROUPS.untyped(), key, change)
        await stage.user.delete(NATIVE_GROUPS, key, Deletion())
        await stage.native_group("g", 2)
        await stage.sleep(5)
        assert len(await stage.where()) == 2

    on_stage(play, gates=ALL)


def test_queue_counts_native_groups_by_phase() -> None:
    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="2")
        stage.start()
        await stage.native_gang("a", 2)
        await stage.sleep(3)
        await stage.native_gang("b", 2)
        await stage.sleep(10)
        status = (await stage.user.get(QUEUES, Key("", "default"))).status
        assert (status.running, status.pending) == (1, 1)

    on_stage(play, gates=ALL)


@pytest.mark.parametrize("is_broken", [False, True])
def test_queue_counts_a_group_no_more_that_has_gone(is_broken: bool) -> None:
    """Also one that goes while the snapshot is broken and waits to be built anew."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="2")
        scheduler = stage.start()
        await stage.native_gang("a", 2)
        await stage.sleep(3)
        await stage.run_pods()
        await stage.sleep(3)
        assert await _counts(stage) == (1, 0)
        if is_broken:
            scheduler.cache._feed._feed.is_broken = True
        for name in ("a-0", "a-1"):
            await stage.remove(name)
        await stage.sleep(5)
        change = merge_patch({"metadata": {"finalizers": []}})
        await stage.user.patch(NATIVE_GROUPS.untyped(), Key(NAMESPACE, "a"), change)
        await stage.user.delete(NATIVE_GROUPS, Key(NAMESPACE, "a"), Deletion())
        await stage.sleep(3)
        if is_broken:
            scheduler.cache._feed.rebuild()
        await stage.sleep(30)

        assert await _counts(stage) == (0, 0)

    on_stage(play, gates=ALL)


def test_queue_counts_a_group_no_more_that_has_gone_with_its_pods() -> None:
    """No cycle has seen it without them."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="2")
        stage.start()
        await stage.native_gang("a", 2)
        await stage.sleep(3)
        await stage.run_pods()
        await stage.sleep(3)
        before = await _counts(stage)
        change = merge_patch({"metadata": {"finalizers": []}})
        await stage.user.patch(NATIVE_GROUPS.untyped(), Key(NAMESPACE, "a"), change)
        for name in ("a-0", "a-1"):
            await stage.remove(name)
        await stage.user.delete(NATIVE_GROUPS, Key(NAMESPACE, "a"), Deletion())
        await stage.sleep(30)

        assert before == (1, 0)
        assert await _counts(stage) == (0, 0)

    on_stage(play, gates=ALL)


def test_queue_goes_on_counting_groups_that_a_new_scheduler_does_not_know_yet() -> None:
    """Its last status is better than one without them: a queue would say that it has none."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="2")
        stage.start()
        await stage.native_gang("a", 2)
        await stage.sleep(3)
        await stage.run_pods()
        await stage.sleep(3)
        await stage.kill()
        stage.start()
        stage.lines[-1].refuse = lambda verb, kind: (verb, kind) == ("list", "pods")
        await stage.user.patch(
            QUEUES.untyped().status, Key("", "default"), merge_patch({"status": {"inqueue": 7}})
        )
        await stage.sleep(10)
        during = await _counts(stage)
        stage.lines[-1].refuse = lambda *_: False
        await stage.sleep(60)

        assert during == await _counts(stage) == (1, 0)
        assert (await stage.user.get(QUEUES, Key("", "default"))).status.inqueue == 0

    on_stage(play, gates=ALL)


async def _counts(stage: Stage) -> tuple[int, int]:
    status = (await stage.user.get(QUEUES, Key("", "default"))).status
    return status.running, status.pending


def test_without_the_gates_pods_have_no_group_and_start_alone() -> None:
    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.native_pods("g", 2)
        pod = await stage.user.get(PODS, Key(NAMESPACE, "g-0"))
        assert pod.spec.scheduling_group is None
        await stage.sleep(5)
        assert len(await stage.where()) == 2

    on_stage(play)


def test_fresh_lease_of_kube_scheduler_is_a_rival() -> None:
    """One that was not renewed for longer than it lasts is none, nor one without a holder."""
    spec = LeaseSpec(
        holder_identity="vm", lease_duration_seconds=15, renew_time="2026-01-01T00:00:00.000000Z"
    )
    at = parse_time("2026-01-01T00:00:00Z")
    assert rival_of(Lease(spec=spec), at + 10) == "vm"
    assert rival_of(Lease(spec=spec), at + 20) == ""
    assert rival_of(Lease(), at) == ""
