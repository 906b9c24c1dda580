"""Hollow nodes on the embedded server: pods live and end as their annotations say."""

from __future__ import annotations

import asyncio

import pytest

from swell.api.kinds import LEASES, NODES, PODS
from swell.api.meta import Key
from swell.node.hollow import HollowRuntime
from swell.node.nodes import SIMULATE_LOSS
from swell.runtime.cluster import Deletion, merge_patch
from tests.sim.undecodable import MARK, HalfBlindCluster
from tests.unit.node.hollow_world import NAMESPACE, Scene, play


def test_node_is_registered_ready_and_without_taint() -> None:
    """After registration pods may be placed on a node, and its Lease is renewed."""

    async def act(scene: Scene) -> None:
        node = await scene.node()
        lease = Key("kube-node-lease", "hollow-0")
        first = (await scene.user.get(LEASES, lease)).spec.renew_time
        await asyncio.sleep(25)
        second = (await scene.user.get(LEASES, lease)).spec.renew_time

        assert {c.type: c.status for c in node.status.conditions}["Ready"] == "True"
        assert node.spec.taints == ()
        assert node.status.allocatable["cpu"] == "32"
        assert first is not None
        assert second is not None
        assert first < second

    play(act)


def test_pod_runs_until_it_is_deleted() -> None:
    """Without annotations a pod starts at once, runs for ever, and goes when it is deleted."""

    async def act(scene: Scene) -> None:
        await scene.pod("p")
        await asyncio.sleep(1000)
        pod = await scene.get("p")
        await scene.user.delete(PODS, pod.metadata.key)
        await asyncio.sleep(1)

        assert pod.status.phase.value == "Running"
        assert pod.status.container_statuses[0].ready
        assert pod.status.container_statuses[0].started
        assert pod.status.pod_ip.startswith("10.")
        conditions = {c.type: c.status for c in pod.status.conditions}
        kinds = ("PodScheduled", "Initialized", "Ready", "ContainersReady")
        assert conditions == dict.fromkeys((*kinds, "PodReadyToStartContainers"), "True")
        assert not await scene.exists("p")

    play(act)


def test_pod_is_left_alone_until_its_node_notices_it() -> None:
    """A node may be late: nothing is written of a pod before, unless it is to go."""

    async def act(scene: Scene) -> None:
        await scene.pod("p", notice_delay="10s")
        await scene.pod("q", notice_delay="10s")
        await asyncio.sleep(9)
        before = [commit for commit in scene.writes() if commit.collection == "pods"]
        await scene.user.delete(PODS, Key(NAMESPACE, "q"))
        await asyncio.sleep(0.5)
        is_gone = not await scene.exists("q")
        await asyncio.sleep(1)

        assert before == []
        assert is_gone
        assert await scene.phase("p") == "Running"

    play(act)


def test_pod_is_over_after_its_duration() -> None:
    """Start delay, duration and exit code are what the annotations say."""

    async def act(scene: Scene) -> None:
        await scene.pod("p", start_delay="10s", duration="30", exit_code="7")
        await asyncio.sleep(5)
        early = await scene.get("p")
        await asyncio.sleep(15)
        running = await scene.phase("p")
        await asyncio.sleep(25)
        ended = await scene.get("p")

        assert early.status.phase.value == "Pending"
        waiting = early.status.container_statuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "ContainerCreating"
        assert running == "Running"
        assert ended.status.phase.value == "Failed"
        terminated = ended.status.container_statuses[0].state.terminated
        assert terminated is not None
        assert (terminated.exit_code, terminated.reason) == (7, "Error")

    play(act)


def test_values_follow_the_restarts() -> None:
    """A list of values has one for each restart of the container."""

    async def act(scene: Scene) -> None:
        spec = {"restartPolicy": "OnFailure"}
        await scene.pod("p", spec, duration="5", exit_code="1,1,0")
        await asyncio.sleep(8)
        second = await scene.get("p")
        await asyncio.sleep(60)
        ended = await scene.get("p")

        assert second.status.container_statuses[0].restart_count == 1
        assert second.status.phase.value == "Running"
        assert ended.status.phase.value == "Succeeded"
        assert ended.status.container_statuses[0].restart_count == 2

    play(act)


def test_running_pod_can_be_asked_to_end() -> None:
    """Annotations are read anew, so a test can let a pod fail when it wants to."""

    async def act(scene: Scene) -> None:
        await scene.pod("p")
        await asyncio.sleep(10)
        await scene.annotate("p", duration="0", exit_code="137", exit_reason="OOMKilled")
        await asyncio.sleep(1)
        terminated = (await scene.get("p")).status.container_statuses[0].state.terminated

        assert terminated is not None
        assert (terminated.exit_code, terminated.reason) == (137, "OOMKilled")

    play(act)


def test_waiting_reason_keeps_a_pod_from_starting() -> None:
    """A creation failure is shown and lasts; the pod can be deleted all the same."""

    async def act(scene: Scene) -> None:
        await scene.pod("p", waiting_reason="ErrImagePull")
        await asyncio.sleep(100)
        pod = await scene.get("p")
        await scene.user.delete(PODS, pod.metadata.key)
        await asyncio.sleep(1)

        waiting = pod.status.container_statuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "ErrImagePull"
        assert pod.status.phase.value == "Pending"
        assert not await scene.exists("p")

    play(act)


def test_slow_stop_lasts_as_long_as_the_grace_period() -> None:
    """A pod that does not obey is there until its grace period is over, and no longer."""

    async def act(scene: Scene) -> None:
        await scene.pod("p", {"terminationGracePeriodSeconds": 20}, stop_delay="1h")
        await asyncio.sleep(5)
        await scene.user.delete(PODS, Key(NAMESPACE, "p"))
        await asyncio.sleep(18)
        still = await scene.exists("p")
        await asyncio.sleep(4)

        assert still
        assert not await scene.exists("p")

    play(act)


def test_last_status_of_a_deleted_pod_is_final() -> None:
    """Whoever watches sees how a stopped pod ended before it goes."""

    async def act(scene: Scene) -> None:
        await scene.pod("p")
        await asyncio.sleep(5)
        await scene.user.delete(PODS, Key(NAMESPACE, "p"))
        await asyncio.sleep(5)
        last = [c for c in scene.writes() if c.collection == "pods" and c.after is not None][-1]
        assert last.after is not None
        status = last.after.body["status"]

        assert status["phase"] == "Failed"
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143

    play(act)


def test_restarted_agent_goes_on_where_the_status_is() -> None:
    """Nothing is started twice, and durations count from the first start."""

    async def act(scene: Scene) -> None:
        await scene.pod("p", duration="100")
        await scene.pod("done", duration="1")
        await asyncio.sleep(50)
        before = await scene.get("p")
        await scene.stop_agent()
        await asyncio.sleep(20)
        await scene.start_agent()
        after = await scene.get("p")
        done = await scene.phase("done")
        await asyncio.sleep(30)

        assert after.status == before.status
        assert done == "Succeeded"
        assert await scene.phase("p") == "Succeeded"

    play(act)


def test_removal_that_fails_as_the_agent_starts_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is left of a pod that went while no agent ran goes as soon as it can be removed."""
    tried: list[str] = []

    async def keep_only(self: HollowRuntime, uids: object) -> tuple[str, ...]:
        return () if tried else ("gone",)

    async def remove(self: HollowRuntime, uid: str) -> bool:
        tried.append(uid)
        return len(tried) == 3

    monkeypatch.setattr(HollowRuntime, "keep_only", keep_only)
    monkeypatch.setattr(HollowRuntime, "remove", remove)

    async def act(scene: Scene) -> None:
        await asyncio.sleep(60)
        assert tried == ["gone", "gone", "gone"]

    play(act)


def test_quiet_pods_cost_no_writes() -> None:
    """Pods that run are not reported again and again; only Leases are renewed."""

    async def act(scene: Scene) -> None:
        for number in range(20):
            await scene.pod(f"p{number}")
        await asyncio.sleep(10)
        scene.commits.clear()
        await asyncio.sleep(600)

        assert {commit.collection for commit in scene.writes()} == {"leases.coordination.k8s.io"}

    play(act)


def test_starting_and_deleting_a_pod_takes_few_writes() -> None:
    """One report when it runs, one when it has ended, and the final delete."""

    async def act(scene: Scene) -> None:
        scene.commits.clear()
        await scene.pod("p")
        await asyncio.sleep(10)
        await scene.user.delete(PODS, Key(NAMESPACE, "p"))
        await asyncio.sleep(10)
        kinds = [c.verb for c in scene.writes() if c.collection == "pods"]

        # A delete without grace is two commits of one request: marked, gone.
        assert kinds == ["patch", "patch", "delete", "delete"]

    play(act)


def test_node_that_plays_dead_is_found_lost_and_comes_back() -> None:
    """No heartbeat and no report while it lasts; then its pods are taken up again."""

    async def act(scene: Scene) -> None:
        await scene.pod("p", duration="20")
        await asyncio.sleep(5)
        dead = merge_patch({"metadata": {"annotations": {SIMULATE_LOSS: "true"}}})
        await scene.user.patch(NODES, Key("", "hollow-0"), dead)
        await asyncio.sleep(60)
        lost, frozen = await scene.node(), await scene.phase("p")
        alive = merge_patch({"metadata": {"annotations": {SIMULATE_LOSS: None}}})
        await scene.user.patch(NODES, Key("", "hollow-0"), alive)
        await asyncio.sleep(10)
        back = await scene.node()

        assert {c.type: c.status for c in lost.status.conditions}["Ready"] == "Unknown"
        assert frozen == "Running"
        assert {c.type: c.status for c in back.status.conditions}["Ready"] == "True"
        assert back.spec.taints == ()
        assert await scene.phase("p") == "Succeeded"

    play(act)


def test_deleted_node_stays_deleted_and_silent() -> None:
    """As with a kubelet, a node object that was deleted comes back with the next start only."""

    async def act(scene: Scene) -> None:
        await scene.user.delete(NODES, Key("", "hollow-0"))
        await asyncio.sleep(60)
        assert not (await scene.user.list(NODES)).items
        assert not (await scene.user.list(LEASES)).items
        await scene.stop_agent()
        await scene.start_agent()
        assert len((await scene.user.list(NODES)).items) == 1

    play(act)


def test_force_deleted_pod_is_forgotten() -> None:
    """A pod that vanishes, and another of its name, are two pods."""

    async def act(scene: Scene) -> None:
        first = await scene.pod("p", duration="30")
        await asyncio.sleep(20)
        await scene.user.delete(PODS, first.metadata.key, Deletion(grace_s=0))
        await scene.pod("p", duration="30")
        await asyncio.sleep(20)
        again = await scene.phase("p")
        await asyncio.sleep(20)

        assert again == "Running"
        assert await scene.phase("p") == "Succeeded"

    play(act)


def test_pod_with_a_finalizer_ends_and_is_deleted_once() -> None:
    """The agent has done its part when nothing runs; it does not delete for ever."""

    async def act(scene: Scene) -> None:
        pod = await scene.pod("p")
        patch = merge_patch({"metadata": {"finalizers": ["a.b/c"]}})
        await scene.user.patch(PODS, pod.metadata.key, patch)
        await asyncio.sleep(5)
        await scene.user.delete(PODS, pod.metadata.key)
        await asyncio.sleep(5)
        scene.commits.clear()
        await asyncio.sleep(100)

        assert await scene.phase("p") == "Failed"
        assert [c for c in scene.commits if c.collection == "pods"] == []

    play(act)


def test_thousand_nodes_take_thousands_of_pods() -> None:
    """Every pod of a full cluster runs, each node with its own."""

    async def act(scene: Scene) -> None:
        spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "8"}}}]}
        for number in range(400):
            await scene.pod(f"p{number:03}", spec)
        await asyncio.sleep(60)
        pods = (await scene.user.list(PODS)).items

        assert {pod.status.phase.value for pod in pods} == {"Running"}
        assert len({pod.spec.node_name for pod in pods}) == 100

    play(act, n_nodes=100)


async def _mark(scene: Scene, field: str | None, name: str = "p") -> None:
    patch = merge_patch({"metadata": {"annotations": {MARK: field}}})
    await scene.user.patch(PODS, Key(NAMESPACE, name), patch)


@pytest.mark.parametrize("field", ["spec.containers", "spec.volumes", "status.containerStatuses"])
def test_pod_that_becomes_undecodable_runs_on(field: str) -> None:
    """It was not deleted: its containers stay, and it ends as it would have."""

    async def act(scene: Scene) -> None:
        await scene.pod("p", duration="100")
        await asyncio.sleep(10)
        await _mark(scene, field)
        await asyncio.sleep(30)
        assert await scene.phase("p") == "Running"
        await asyncio.sleep(100)

        assert await scene.phase("p") == "Succeeded"
        assert (await scene.get("p")).status.container_statuses[0].restart_count == 0

    play(act, decodes=HalfBlindCluster)


def test_pod_that_was_never_decodable_is_left_alone() -> None:
    """Nothing is started, reported or ended, until it is corrected or deleted."""

    async def act(scene: Scene) -> None:
        await scene.pod("p", {"nodeName": "hollow-0"}, notice_delay="5s")
        await scene.pod("q", {"nodeName": "hollow-0"}, notice_delay="5s")
        await scene.stop_agent()
        await _mark(scene, "spec.containers")
        await _mark(scene, "spec.containers", "q")
        await scene.start_agent()
        await asyncio.sleep(100)
        assert await scene.phase("p") == "Pending"
        await scene.user.delete(PODS, Key(NAMESPACE, "q"))
        await _mark(scene, None)
        await asyncio.sleep(20)

        assert await scene.phase("p") == "Running"
        assert not await scene.exists("q")

    play(act, decodes=HalfBlindCluster)
