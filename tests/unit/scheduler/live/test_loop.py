"""The plan of a cycle: evictions, nominations, admissions that end; no cycles when idle."""

from __future__ import annotations

from swell.api.kinds import POD_GROUPS, PODS
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.api.scheduling import PodGroupPhase
from swell.runtime.cluster import merge_patch
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.model.tasks import TaskStatus
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage


async def leaving(stage: Stage) -> list[str]:
    return [p.metadata.name for p in await stage.pods() if p.metadata.deletion_timestamp]


def said(pod: Pod, kind: str) -> str:
    return next((c.message for c in pod.status.conditions if c.type == kind), "")


async def full_of_unimportant(stage: Stage, call_s: float = 0.0) -> None:
    """One node, taken by a gang of low priority; a more important one comes.

    From then on every call of the scheduler takes so long.
    """
    await stage.nodes(1)
    await stage.priority("high", 10)
    stage.start()
    await stage.sleep(2)
    await stage.gang("low", 4)
    await stage.sleep(2)
    await stage.run_pods()
    stage.lines[-1].delay_s = call_s
    await stage.gang("high", 2, priorityClassName="high")
    await stage.sleep(2)


def test_preemption_takes_the_whole_gang_and_says_for_whom() -> None:
    """A gang at its minimum leaves whole; the preemptor's pods name their node and then get it."""

    async def play(stage: Stage) -> None:
        await full_of_unimportant(stage)
        assert await leaving(stage) == ["low-0", "low-1", "low-2", "low-3"]
        pod = await stage.read_pod("low-0")
        assert pod is not None
        assert said(pod, "DisruptionTarget") == (
            "preempted by the scheduler for ns/high (queue default, priority 10): 4 pods leave;"
            " its own priority is 0"
        )
        waiting = await stage.read_pod("high-0")
        assert waiting is not None
        assert waiting.status.nominated_node_name == "node-0"
        for name in await leaving(stage):
            await stage.remove(name)
        await stage.sleep(2)

        assert sorted(await stage.where()) == ["high-0", "high-1"]

    on_stage(play)


def test_promise_outlives_the_scheduler() -> None:
    """Room nominated before a restart is not given to others after it."""

    async def play(stage: Stage) -> None:
        await full_of_unimportant(stage)
        await stage.kill()
        scheduler = stage.start()
        await stage.sleep(1)
        task = scheduler.cache.snapshot.task(f"{NAMESPACE}/high-0")
        assert task is not None
        assert task.status is TaskStatus.PIPELINED
        await stage.gang("late", 4)
        for name in await leaving(stage):
            await stage.remove(name)
        await stage.sleep(2)

        assert sorted(await stage.where()) == ["high-0", "high-1"]

    on_stage(play)


def test_promise_ends_when_victims_stay() -> None:
    """A minute beyond their grace the pods name no node any more."""

    async def play(stage: Stage) -> None:
        await full_of_unimportant(stage)
        await stage.user.delete(PODS, Key(NAMESPACE, "high-1"))
        await stage.sleep(60 + 30 + 5)

        pod = await stage.read_pod("high-0")
        assert pod is not None
        assert pod.status.nominated_node_name == ""

    on_stage(play)


def test_half_done_eviction_is_finished_by_the_next() -> None:
    """Marked and not deleted when the scheduler died: the whole gang still goes."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.priority("high", 10)
        stage.start()
        await stage.sleep(2)
        await stage.gang("low", 4)
        await stage.sleep(2)
        await stage.run_pods()
        stage.lines[-1].refuse = lambda verb, name: (
            verb == "delete" or (verb == "patch" and name == "ns/low-3")
        )
        await stage.gang("high", 2, priorityClassName="high")
        await stage.sleep(3)
        assert await leaving(stage) == []
        await stage.kill()
        stage.start()
        await stage.sleep(3)

        assert await leaving(stage) == ["low-0", "low-1", "low-2", "low-3"]

    on_stage(play)


def test_victim_that_ends_while_its_delete_is_under_way_is_kept() -> None:
    """All that tells its job of its success is the pod; the others of its gang leave."""

    async def play(stage: Stage) -> None:
        await full_of_unimportant(stage, call_s=2.0)
        line = stage.lines[-1]
        while not any(call.startswith("delete") and "low-0" in call for call in line.calls):
            await stage.sleep(0.1)
        ended = merge_patch({"status": {"phase": "Succeeded"}})
        await stage.user.patch(PODS.untyped().status, Key(NAMESPACE, "low-0"), ended)
        await stage.sleep(30)

        pod = await stage.read_pod("low-0")
        assert pod is not None
        assert pod.metadata.deletion_timestamp is None
        assert await leaving(stage) == ["low-1", "low-2", "low-3"]

    on_stage(play)


def test_admission_without_a_place_ends() -> None:
    """The group goes back to Pending, says so, and is admitted again after a while."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2, cpu="5")
        stage.start()
        await stage.gang("a", 3, cpu="3")
        await stage.sleep(50)
        assert (await stage.read_group("a")).status.phase is PodGroupPhase.INQUEUE
        await stage.sleep(15)
        group = await stage.read_group("a")
        assert group.status.phase is PodGroupPhase.PENDING
        assert group.status.conditions[0].reason == "AdmissionBackOff"
        await stage.sleep(31)

        assert (await stage.read_group("a")).status.phase is PodGroupPhase.INQUEUE

    on_stage(play, SchedulerSettings(inqueue_timeout_s=60.0))


def test_group_without_pods_asks_ever_more_rarely_until_a_pod_comes() -> None:
    """A group that was left behind costs few writes, and none is shut out."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2, cpu="5")
        scheduler = stage.start()
        await stage.group("a", 1)
        await stage.sleep(50)
        assert (await stage.read_group("a")).status.phase is PodGroupPhase.INQUEUE
        n_timeouts = []
        for _ in range(6):
            await stage.sleep(14_400)
            n_timeouts.append(sum(n for _, n in scheduler.loop._admissions._n_timeouts.values()))
        # It has waited 30 s, 1 min, 2 min and so on: 2,880 times 30 s are a day.
        assert n_timeouts[-1] <= 12
        assert (await stage.read_group("a")).status.phase is PodGroupPhase.PENDING
        await stage.pod("a-0", "a")
        await stage.sleep(5)

        assert list(await stage.where()) == ["a-0"]
        assert not scheduler.cache.snapshot.backed_off

    on_stage(play, SchedulerSettings(inqueue_timeout_s=60.0))


def test_idle_scheduler_does_not_decide() -> None:
    """Nothing waits and nothing happens: no cycle, and no write."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2)
        scheduler = stage.start()
        await stage.gang("a", 4)
        await stage.sleep(5)
        await stage.run_pods()
        await stage.sleep(60)
        n_cycles, n_writes = scheduler.loop.n_cycles, len(stage.lines[-1].writes())
        await stage.sleep(600)

        assert scheduler.loop.n_cycles == n_cycles
        assert len(stage.lines[-1].writes()) == n_writes

    on_stage(play)


def test_waiting_gang_is_not_written_again_and_again() -> None:
    """A reason that stays the same is said once."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2, cpu="5")
        stage.start()
        await stage.gang("a", 3, cpu="3")
        await stage.sleep(20)
        n_writes = len(stage.lines[-1].writes())
        await stage.sleep(300)

        assert len(stage.lines[-1].writes()) == n_writes

    on_stage(play)


def test_gang_raised_above_what_is_there_is_not_begun() -> None:
    """The minimum counts as it is now, not as it was when the first pods came."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2)
        stage.start()
        await stage.sleep(2)
        await stage.group("a", 4)
        await stage.pod("a-0", "a")
        await stage.pod("a-1", "a")
        await stage.sleep(1)
        change = merge_patch({"spec": {"minMember": 2}})
        await stage.user.patch(POD_GROUPS.untyped(), Key(NAMESPACE, "a"), change)
        await stage.sleep(1)

        assert sorted(await stage.where()) == ["a-0", "a-1"]

    on_stage(play)


def test_gang_of_which_nothing_is_left_begins_anew() -> None:
    """That it was complete once protects its survivors; where there are none, nothing."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        scheduler = stage.start()
        await stage.sleep(2)
        await stage.gang("g", 2)
        await stage.sleep(2)
        job = scheduler.cache.snapshot.jobs["ns/g"]
        assert scheduler.windows.was_complete(job)
        await stage.remove("g-0")
        await stage.sleep(2)
        assert scheduler.windows.was_complete(job)
        await stage.remove("g-1")
        await stage.sleep(2)
        group = await stage.user.get(POD_GROUPS, Key(NAMESPACE, "g"))

        assert not scheduler.windows.was_complete(job)
        assert {c.type: c.status for c in group.status.conditions}["Scheduled"] == "False"

    on_stage(play)


def test_flood_is_decided_on_as_a_whole_but_nobody_waits_for_its_end() -> None:
    """Pods that come in quick succession are let come, for a moment."""

    async def play(stage: Stage) -> None:
        await stage.nodes(30, cpu="100")
        scheduler = stage.start()
        await stage.sleep(2)
        n_cycles = scheduler.loop.n_cycles
        for n in range(60):  # 1.2 s long
            for m in range(25):
                await stage.pod(f"p-{n}-{m}", cpu="10m")
            await stage.sleep(0.02)
            if n == 45:
                assert len(await stage.where()) > 500
        await stage.sleep(1)

        assert len(await stage.where()) == 1500
        assert scheduler.loop.n_cycles <= n_cycles + 6

    on_stage(play)
