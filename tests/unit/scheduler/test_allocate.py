"""The action allocate: a job that is served twice in a session is bound as one gang."""

from __future__ import annotations

from swell.scheduler.model.tasks import TaskStatus
from tests.topology_clusters import HARD_2, binds, decide_on, gang, objects, pods

CPU = {"cpu": "1", "memory": "1Gi"}


def test_job_that_becomes_ready_in_a_second_turn_is_bound_with_what_the_first_one_held() -> None:
    """Three pods wait for a rack that is being freed, room for two is there; a fourth pod comes.

    It fits elsewhere, with it the gang is ready, and the two must not be left behind.
    """
    nodes = [
        {"name": name, "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}}
        for name, cpu in (("n0", "3"), ("n1", "1"))
    ]
    network = [
        {"name": "r0", "tier": 1, "members": ["n0"]},
        {"name": "r1", "tier": 1, "members": ["n1"]},
        {"name": "b0", "tier": 2, "members": ["r0", "r1"]},
    ]
    leaving = pods("old", 1, phase="Running", node="n0", requests=CPU, deleting=True)
    snapshot = objects(
        {"nodes": nodes, "queues": [{"name": "q1", "weight": 1}], "hyperNodes": network},
        [gang("old", 1), gang("new", 3, HARD_2)],
        leaving + pods("new", 4, requests=CPU),
    ).snapshot()
    for index in range(3):
        task = snapshot.task(f"ns/new-w-{index}")
        assert task is not None
        snapshot.move(task, TaskStatus.PIPELINED, snapshot.nodes.find("n0"))

    plan = decide_on(snapshot)

    assert len(binds(plan, "new")) == 3
    assert {task.key for task in plan.pipelined} == {"ns/new-w-2"}
