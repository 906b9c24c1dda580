"""Eviction units: a job keeps its minimum of pods that are bound for certain."""

from __future__ import annotations

from typing import Any

import pytest

from swell.scheduler.eviction_units import EvictionCost, EvictionUnit, eviction_units
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.plugins.gang import surplus_only
from tests.topology_clusters import at, gang, objects, pods, racks, running

Row = dict[str, Any]
SUB_GROUP = {"name": "part", "matchLabelKeys": ["part"], "subGroupSize": 3, "minSubGroups": 1}


def cluster(group: Row, **pod: Any) -> SchedulerSnapshot:
    """Three pods of a gang run; the fourth is being bound."""
    rows = running("a", [at(0, n) for n in range(3)], **pod)
    snapshot = objects(racks(1, 4), [group], rows + pods("a", 1, first=3, **pod)).snapshot()
    move(snapshot, TaskStatus.BINDING)
    return snapshot


def move(snapshot: SchedulerSnapshot, status: TaskStatus) -> None:
    last = snapshot.task("ns/a-w-3")
    assert last is not None
    snapshot.move(last, status, snapshot.nodes.find(at(0, 3)))


def candidates(snapshot: SchedulerSnapshot) -> list[Task]:
    return sorted(snapshot.jobs["ns/a"].evictable(), key=lambda task: task.key)


def n_spared(units: list[EvictionUnit]) -> int:
    return sum(len(unit.tasks) for unit in units if unit.cost is EvictionCost.SURPLUS)


CASES = [
    pytest.param({"minMember": 3}, {}, id="in total"),
    pytest.param(
        {"minMember": 3, "minTaskMember": {"worker": 3}}, {"role": "worker"}, id="of a role"
    ),
    pytest.param(
        {"minMember": 1, "subGroups": [SUB_GROUP]},
        {"labels": {"part": "1"}},
        id="of a sub-group",
    ),
]


@pytest.mark.parametrize(("least", "pod"), CASES)
def test_surplus_counts_no_pod_whose_binding_may_fail(least: Row, pod: Row) -> None:
    """Three run and three must: the fourth, which is being bound, makes none of them spare."""
    snapshot = cluster({**gang("a", 0), **least}, **pod)

    assert n_spared(eviction_units(candidates(snapshot))) == 0

    move(snapshot, TaskStatus.BOUND)

    assert n_spared(eviction_units(candidates(snapshot))) == 1


def test_vote_of_gang_counts_no_pod_whose_binding_may_fail() -> None:
    """The plugin votes as units are made."""
    snapshot = cluster(gang("a", 3))
    job, tasks = snapshot.jobs["ns/a"], candidates(snapshot)
    units = [EvictionUnit(job, (task,)) for task in tasks]

    assert surplus_only(tasks[0], units) == []

    move(snapshot, TaskStatus.BOUND)

    assert surplus_only(tasks[0], units) == units[:1]
