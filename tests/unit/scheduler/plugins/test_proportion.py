"""The shares that queues deserve by weight, and what they take back."""

from __future__ import annotations

import numpy as np
import pytest

from swell.api.meta import ObjectMeta
from swell.api.scheduling import Queue, QueueSpec
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.resources import Dimensions
from swell.scheduler.plugins.proportion import deserved_shares
from tests.scheduler_cases import Case, run


def test_shares_are_whole_where_rounds_only_come_close() -> None:
    """Two of eight stay exactly two: queues that ask for none of it take no fraction."""
    dimensions = Dimensions()
    total = dimensions.vector({"cpu": "1000", "memory": "1Ti", "nvidia.com/gpu": "8"})
    wants = {"light": (1, "8"), "heavy": (3, "8"), "other": (1, "0"), "another": (1, "0")}
    cpus = {"light": "4", "heavy": "4", "other": "4000", "another": "4000"}
    queues = []
    for name, (weight, gpus) in wants.items():
        spec = QueueSpec(weight=weight)
        queue = QueueInfo(Queue(metadata=ObjectMeta(name=name), spec=spec), dimensions)
        queue.pending = dimensions.vector({"cpu": cpus[name], "nvidia.com/gpu": gpus})
        queues.append(queue)
    limits = {queue.name: np.full_like(total, np.inf) for queue in queues}

    deserved = deserved_shares(total, queues, limits)

    gpu = int(np.flatnonzero(dimensions.vector({"nvidia.com/gpu": "1"}))[0])
    assert [deserved[name][gpu] for name in wants] == [2000, 6000, 0, 0]


def _queue_case(actions: list[str], cpus: int) -> Case:
    hooks = ["Allocatable", "Preemptive", "QueueOrder", "Reclaimable", "Overused"]
    gang = {"name": "gang", "enable": ["JobStarving", "JobPipelined", "JobReady"]}
    priority = {"name": "priority", "enable": ["Preemptable"]}
    node = {"name": "n0", "allocatable": {"cpu": str(cpus), "memory": "64Gi", "pods": "50"}}
    case: Case = {
        "actions": actions,
        "tiers": [[{"name": "proportion", "enable": hooks}, gang, priority]],
        "nodes": [node, {**node, "name": "n1"}],
        "priorityClasses": {"high": {"value": 10}},
        "queues": [],
        "podGroups": [],
        "pods": [],
    }
    return case


def _add(case: Case, name: str, queue: str, *nodes: str, cpu: int = 1, high: bool = False) -> None:
    group = {"namespace": "ns", "name": name, "queue": queue, "minMember": 1}
    group |= {"phase": "Running" if nodes else "Inqueue"}
    case["podGroups"].append({**group, "priorityClassName": "high" if high else ""})
    for index, node in enumerate(nodes or [""]):
        pod = {"namespace": "ns", "name": f"{name}-{index}", "group": name}
        pod |= {"phase": "Running", "node": node} if node else {"phase": "Pending"}
        case["pods"].append({**pod, "requests": {"cpu": str(cpu)}})


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_siblings_take_back_whatever_is_above_them(depth: int) -> None:
    """A queue below its share takes from one above, also where both have a full parent."""
    case = _queue_case(["reclaim"], cpus=2)
    line = ["root", *(f"level{at}" for at in range(depth))]
    case["queues"] = [{"name": "root", "weight": 1}]
    for at, name in enumerate(line[1:]):
        limit = {"cpu": "4"}
        case["queues"].append({"name": name, "weight": 1, "parent": line[at], "capability": limit})
    case["queues"] += [{"name": name, "weight": 1, "parent": line[-1]} for name in "ab"]
    _add(case, "b1", "b", "n0", "n0", "n1", "n1")
    _add(case, "a1", "a")

    plan = run(case).plan

    assert len(plan.evictions) == 1
    assert [task.key for task in plan.pipelined] == ["ns/a1-0"]


def test_queue_at_its_limit_preempts_on_other_nodes() -> None:
    """The queue has all it may have, on two nodes; one pod of two processors replaces two."""
    case = _queue_case(["allocate", "preempt"], cpus=4)
    case["queues"] = [{"name": "a", "weight": 1, "capability": {"cpu": "2"}}]
    _add(case, "low", "a", "n0", "n1")
    _add(case, "high", "a", cpu=2, high=True)

    plan = run(case).plan

    assert sorted(eviction.task.key for eviction in plan.evictions) == ["ns/low-0", "ns/low-1"]
    assert [task.key for task in plan.pipelined] == ["ns/high-0"]
