"""What the cache believes of the cluster, and what it keeps of what was decided."""

from __future__ import annotations

from swell.api.kinds import NODES, POD_GROUPS, PODS, QUEUES, TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.runtime.cluster import merge_patch
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import COMPLETION_INDEX, TaskStatus
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage

TRAINERS: Body = {
    "apiVersion": TRAINING_JOBS.api_version,
    "kind": TRAINING_JOBS.kind,
    "metadata": {"name": "old", "namespace": NAMESPACE},
    "spec": {
        "image": "i",
        "fault_tolerant": True,
        "trainer": {"min-instance": 1, "max-instance": 4},
    },
    "status": {"trainer_target": 4},
}


def idle_cpu(snapshot: SchedulerSnapshot, node: int = 0) -> float:
    return float(snapshot.nodes.idle[0][node])


def test_nothing_is_decided_before_everything_is_listed() -> None:
    """A kind that cannot be listed yet keeps the scheduler waiting."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.gang("a", 2)
        scheduler = stage.start()
        stage.lines[-1].refuse = lambda verb, name: verb == "list"
        await stage.sleep(5)
        assert scheduler.problem()
        assert scheduler.loop.n_cycles == 0
        stage.lines[-1].refuse = lambda *_: False
        await stage.sleep(40)

        assert not scheduler.problem()
        assert len(await stage.where()) == 2

    on_stage(play)


def test_heartbeat_of_a_node_starts_no_cycle() -> None:
    """Nor does a condition on a pod."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        scheduler = stage.start()
        await stage.pod("p")
        await stage.sleep(10)
        n_cycles = scheduler.loop.n_cycles
        beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-02-02T00:00:00Z"}
        change = merge_patch({"status": {"conditions": [beat]}})
        await stage.user.patch(NODES.untyped().status, Key("", "node-0"), change)
        change = merge_patch({"status": {"conditions": [{"type": "X", "status": "True"}]}})
        await stage.user.patch(PODS.untyped().status, Key(NAMESPACE, "p"), change)
        await stage.sleep(10)

        assert scheduler.loop.n_cycles == n_cycles

    on_stage(play)


def test_gang_is_decided_on_when_its_last_pod_comes() -> None:
    """Not before, or the last would have to wait a period; one that stays incomplete is seen."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        scheduler = stage.start()
        await stage.sleep(10)
        n_cycles = scheduler.loop.n_cycles
        await stage.group("g", 3)
        await stage.pod("g-0", "g")
        await stage.pod("g-1", "g")
        await stage.sleep(0.02)
        assert scheduler.loop.n_cycles == n_cycles
        await stage.pod("g-2", "g")
        await stage.sleep(0.02)
        assert scheduler.loop.n_cycles == n_cycles + 1
        assert len(await stage.where()) == 3
        await stage.sleep(10)
        n_cycles = scheduler.loop.n_cycles
        await stage.group("h", 2)
        await stage.pod("h-0", "h")
        await stage.sleep(0.2)

        assert scheduler.loop.n_cycles > n_cycles
        assert scheduler.cache.snapshot.jobs[f"{NAMESPACE}/h"].tasks

    on_stage(play)


def test_pods_of_others_use_room() -> None:
    """Pods bound by any scheduler take room; when they end or go, it is free again."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        scheduler = stage.start()
        await stage.pod("p", schedulerName="other", nodeName="node-0")
        await stage.pod("q", schedulerName="other", nodeName="node-0")
        await stage.pod("early", schedulerName="other", nodeName="node-9")
        await stage.sleep(2)
        snapshot = scheduler.cache.snapshot
        assert idle_cpu(snapshot) == 2000
        change = merge_patch({"status": {"phase": "Succeeded"}})
        await stage.user.patch(PODS.untyped().status, Key(NAMESPACE, "p"), change)
        await stage.remove("q")
        await stage.sleep(1)
        assert idle_cpu(snapshot) == 4000
        await stage.node("node-9")
        await stage.sleep(1)

        assert idle_cpu(snapshot, snapshot.nodes.find("node-9")) == 3000

    on_stage(play)


def test_waiting_pods_of_others_start_no_cycle() -> None:
    """They take no room here and wait for another scheduler; once they have a node they count."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        scheduler = stage.start()
        await stage.sleep(2)
        n_cycles = scheduler.loop.n_cycles
        for n in range(20):
            await stage.pod(f"p-{n}", schedulerName="other")
            await stage.sleep(0.2)

        assert scheduler.loop.n_cycles == n_cycles
        await stage.pod("q", schedulerName="other", nodeName="node-0")
        await stage.sleep(1)
        assert scheduler.loop.n_cycles == n_cycles + 1

    on_stage(play)


def test_trainers_above_their_target_are_leaving() -> None:
    """Who has lowered a TrainingJob's target has made that room already: no other pod goes."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        await stage.priority("high", 9)
        await stage.user.create(TRAINING_JOBS.untyped(), TRAINERS)
        key = Key(NAMESPACE, "old")
        await stage.gang("old", 4, 1)
        scheduler = stage.start()
        await stage.sleep(2)
        for index in range(4):
            marks = {"paddle-job": "old", COMPLETION_INDEX: str(index)}
            change = merge_patch({"metadata": {"labels": marks}})
            await stage.user.patch(PODS.untyped(), Key(NAMESPACE, f"old-{index}"), change)
        await stage.run_pods()
        lowered = merge_patch({"status": {"trainer_target": 3}})
        await stage.user.patch(TRAINING_JOBS.untyped().status, key, lowered)
        await stage.gang("claim", 1, priorityClassName="high")
        await stage.sleep(20)
        tasks = scheduler.cache.snapshot.jobs[f"{NAMESPACE}/old"].tasks
        leaving = [key for key, task in tasks.items() if task.status is TaskStatus.RELEASING]
        stopped = [p.metadata.name for p in await stage.pods() if p.metadata.deletion_timestamp]

        assert leaving == [f"{NAMESPACE}/old-3"]
        assert stopped == []

    on_stage(play)


def test_node_that_shrinks_gets_nothing_more() -> None:
    """It is over-full, and stays as it is."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.gang("a", 3)
        await stage.sleep(2)
        change = merge_patch({"status": {"allocatable": {"cpu": "2"}}})
        await stage.user.patch(NODES.untyped().status, Key("", "node-0"), change)
        await stage.sleep(1)
        await stage.pod("p", cpu="100m")
        await stage.sleep(2)

        assert sorted(await stage.where()) == ["a-0", "a-1", "a-2"]

    on_stage(play)


def test_group_of_the_same_name_is_another_group() -> None:
    """The phase of the old one says nothing about the new one."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2, cpu="5")
        scheduler = stage.start()
        await stage.sleep(2)
        await stage.gang("a", 3, cpu="3")
        await stage.sleep(2)
        await stage.user.delete(POD_GROUPS, Key(NAMESPACE, "a"))
        await stage.group("a", 2)
        await stage.sleep(2)

        job = scheduler.cache.snapshot.jobs[f"{NAMESPACE}/a"]
        assert job.min_member == 2
        assert len(await stage.where()) == 2

    on_stage(play)


def test_queue_that_goes_takes_its_groups_along() -> None:
    """They say so, and go on when it is back."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2, cpu="5")
        stage.start()
        await stage.queue("q")
        await stage.gang("a", 3, cpu="3", queue="q")
        await stage.sleep(3)
        await stage.user.delete(QUEUES, Key("", "q"))
        await stage.sleep(3)
        said = {c.type: c for c in (await stage.read_group("a")).status.conditions}
        assert said["Unschedulable"].reason == "QueueNotFound"
        await stage.queue("q")
        await stage.node("node-9", cpu="5")
        await stage.sleep(5)

        assert len(await stage.where()) == 3

    on_stage(play)


def test_caches_are_what_the_server_says_at_rest() -> None:
    """Nothing is reserved any more, and every task is in the status of its pod."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2)
        scheduler = stage.start()
        await stage.gang("a", 4)
        await stage.pod("p")
        await stage.sleep(3)
        await stage.run_pods()
        await stage.sleep(3)

        assert statuses(scheduler) == {TaskStatus.RUNNING}
        assert sum(idle_cpu(scheduler.cache.snapshot, node) for node in (0, 1)) == 3000

    on_stage(play)


def statuses(scheduler: Scheduler) -> set[TaskStatus]:
    jobs = scheduler.cache.snapshot.jobs.values()
    return {task.status for job in jobs for task in job.tasks.values()}
