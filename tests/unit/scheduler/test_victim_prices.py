"""Of victims of equal priority, the one with the least unsaved work leaves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swell.api import codec
from swell.api.aitrainingjob import AITrainingJob
from swell.api.times import format_time
from swell.scheduler.config import DEFAULT
from swell.scheduler.cycle import SchedulingPlan, run_cycle
from swell.scheduler.explain.explain import explain
from swell.scheduler.model.elastic import INDEX_LABEL, JOB_LABEL, ROLE_LABEL
from swell.scheduler.model.unsaved import UnsavedWork, gpu_places, unsaved_work
from swell.scheduler.plan import SchedulerObjects
from tests.scheduler_cases import Case, objects_of

GPU = "nvidia.com/gpu"
NOW = 1_800_000_000.0


class Runner:
    """A job of pods that run: when they started and when they last saved, in seconds before now."""

    def __init__(
        self,
        name: str,
        *nodes: str,
        started: float,
        saved: float | None = None,
        gpus: int = 1,
        priority: str = "low",
        min_member: int = 0,
    ) -> None:
        self.name, self.nodes, self.started, self.saved = name, nodes, started, saved
        self.gpus, self.priority, self.min_member = gpus, priority, min_member or len(nodes)

    @property
    def group(self) -> dict[str, Any]:
        return {
            "namespace": "ns",
            "name": self.name,
            "queue": "q",
            "minMember": self.min_member,
            "phase": "Running",
            "priorityClassName": self.priority,
        }

    @property
    def pods(self) -> list[dict[str, Any]]:
        requests = {"cpu": "2", **({GPU: str(self.gpus)} if self.gpus else {})}
        return [
            {
                "namespace": "ns",
                "name": f"{self.name}-w-{index}",
                "group": self.name,
                "phase": "Running",
                "node": node,
                "requests": requests,
                "labels": {JOB_LABEL: self.name, ROLE_LABEL: "w", INDEX_LABEL: str(index)},
            }
            for index, node in enumerate(self.nodes)
        ]

    @property
    def training_job(self) -> AITrainingJob:
        training = None
        if self.saved is not None:
            training = {"lastSave": {"step": 7, "time": format_time(NOW - self.saved)}}
        return codec.convert(
            {
                "metadata": {"namespace": "ns", "name": self.name, "uid": self.name},
                "spec": {"replicaSpecs": {"w": {"replicas": len(self.nodes)}}},
                "status": {"phase": "Running", "training": training},
            },
            AITrainingJob,
        )


def world(*runners: Runner, gpus: int = 1, n_gpus: int = 1) -> SchedulerObjects:
    """Nodes full of these jobs, and one important pod that waits for n GPUs."""
    nodes = sorted({node for runner in runners for node in runner.nodes})
    case: Case = {
        "priorityClasses": {"low": {"value": 1}, "middle": {"value": 5}, "high": {"value": 10}},
        "nodes": [
            {"name": name, "allocatable": {"cpu": "64", GPU: str(gpus), "pods": "20"}}
            for name in nodes
        ],
        "queues": [{"name": "q", "weight": 1}],
        "podGroups": [
            *(runner.group for runner in runners),
            {"namespace": "ns", "name": "claim", "queue": "q", "minMember": 1}
            | {"phase": "Inqueue", "priorityClassName": "high"},
        ],
        "pods": [
            *(pod for runner in runners for pod in runner.pods),
            {"namespace": "ns", "name": "claim", "group": "claim", "phase": "Pending"}
            | {"node": "", "requests": {"cpu": "1", GPU: str(n_gpus)}},
        ],
    }
    found = objects_of(case)
    found.training_jobs += [runner.training_job for runner in runners]
    started = {
        f"{runner.name}-w-{n}": runner.started
        for runner in runners
        for n in range(len(runner.nodes))
    }
    found.pods = [
        msgspec.structs.replace(
            pod,
            status=msgspec.structs.replace(
                pod.status, start_time=format_time(NOW - started[pod.metadata.name])
            ),
        )
        if pod.metadata.name in started
        else pod
        for pod in found.pods
    ]
    return found


def decide(objects: SchedulerObjects, now: float | None = NOW) -> SchedulingPlan:
    return run_cycle(objects.snapshot(), DEFAULT, now)


def victims(objects: SchedulerObjects) -> list[str]:
    return sorted(one.task.key.removeprefix("ns/") for one in decide(objects).evictions)


@pytest.mark.parametrize("cheap", ["a", "b"])
def test_job_that_saved_last_leaves(cheap: str) -> None:
    """Both have run for an hour; the one that saved a minute ago loses less, whatever its name."""
    runners = [
        Runner(name, f"n-{name}", started=3600, saved=60 if name == cheap else 1800)
        for name in ("a", "b")
    ]

    assert victims(world(*runners)) == [f"{cheap}-w-0"]


@pytest.mark.parametrize("cheap", ["a", "b"])
def test_price_decides_on_one_node(cheap: str) -> None:
    """The same among the pods of one node."""
    runners = [
        Runner(name, "n", started=3600, saved=60 if name == cheap else 1800) for name in ("a", "b")
    ]

    assert victims(world(*runners, gpus=2)) == [f"{cheap}-w-0"]


def test_unknown_save_counts_from_the_start() -> None:
    """A job that reports nothing loses all since its start, a minute ago."""
    silent = Runner("a", "n-a", started=60)
    saver = Runner("b", "n-b", started=7200, saved=600)

    assert victims(world(silent, saver)) == ["a-w-0"]


def test_save_of_an_earlier_run_does_not_count() -> None:
    """A pod that went on from an old checkpoint has lost nothing by its age."""
    back = Runner("a", "n-a", started=30, saved=7200)
    saver = Runner("b", "n-b", started=7200, saved=600)

    assert victims(world(back, saver)) == ["a-w-0"]


def test_priority_comes_before_the_price() -> None:
    """A less important job leaves, however much it has not saved."""
    dear = Runner("a", "n-a", started=86400)
    fresh = Runner("b", "n-b", started=10, saved=1, priority="middle")

    assert victims(world(dear, fresh)) == ["a-w-0"]


def test_whole_gang_is_priced_as_a_whole() -> None:
    """Four GPUs for a minute are more than one for two minutes."""
    gang = Runner("a", "n-1", "n-2", "n-3", "n-4", started=60)
    single = Runner("b", "n-5", started=120)

    assert victims(world(gang, single)) == ["b-w-0"]


def test_gpus_count_by_their_number() -> None:
    """Two GPUs for a minute are more than one for 100 s."""
    wide = Runner("a", "n-a", started=60, gpus=2)
    narrow = Runner("b", "n-b", "n-b", started=50)

    assert victims(world(wide, narrow, gpus=2, n_gpus=2)) == ["b-w-0", "b-w-1"]


def test_surplus_pod_goes_before_a_whole_gang_that_is_cheaper() -> None:
    """That nothing has to start anew counts for more than work."""
    surplus = Runner("a", "n-a", "n-b", started=7200, min_member=1)
    gang = Runner("b", "n-c", started=10)

    (victim,) = victims(world(surplus, gang))

    assert victim.startswith("a-")


def test_victims_keep_their_order_without_a_present_time() -> None:
    """A plan from files compares no prices: the younger job leaves, as ever."""
    runners = [Runner(name, "n", started=3600, saved=60) for name in ("a", "b")]
    found = decide(world(*runners, gpus=2), None).evictions

    assert [one.task.key for one in found] == ["ns/b-w-0"]


def test_time_in_the_future_costs_nothing() -> None:
    """A save that lies ahead is of another clock."""
    snapshot = world(Runner("a", "n-a", started=3600, saved=-500)).snapshot()
    tasks = [snapshot.task("ns/a-w-0")]

    assert unsaved_work(
        [task for task in tasks if task is not None], NOW, gpu_places(snapshot.dimensions)
    ) == UnsavedWork(0.0, 0.0)


def test_explain_says_what_a_victim_costs() -> None:
    """Each victim comes with its price."""
    found = explain(world(Runner("a", "n-a", started=3600, saved=60)), "ns/claim", now=NOW)

    assert found is not None
    assert found.victims == (
        "pod ns/a-w-0: costs 60 GPU-seconds of work: the last save was 60 s ago",
    )


def test_explain_says_what_is_not_known() -> None:
    """Without a report the whole run counts, and processors if there are no GPUs."""
    runner = Runner("a", "n-a", started=100, gpus=0)
    objects = world(runner, n_gpus=0)
    objects.nodes = [
        msgspec.structs.replace(
            node, status=msgspec.structs.replace(node.status, allocatable={"cpu": "2", "pods": "9"})
        )
        for node in objects.nodes
    ]
    found = explain(objects, "ns/claim", now=NOW)

    assert found is not None
    assert found.victims == (
        "pod ns/a-w-0: costs 200 CPU-seconds of work: no save is reported since the start "
        "100 s ago",
    )
