"""Equal nodes have one state, and a placed task leads to the state that it should."""

from __future__ import annotations

import numpy as np

from swell.scheduler.config import DEFAULT
from swell.scheduler.cycle import run_cycle
from swell.scheduler.model.snapshot import SchedulerSnapshot
from tests.scheduler_cases import objects_of, pod_of

HAS = {"cpu": "4", "memory": "8Gi", "pods": "9"}


def snapshot_of(n_nodes: int) -> SchedulerSnapshot:
    nodes = [{"name": f"n{n}", "allocatable": HAS} for n in range(n_nodes)]
    return objects_of({"nodes": nodes, "queues": [{"name": "q", "weight": 1}]}).snapshot()


def put_running(snapshot: SchedulerSnapshot, name: str, node: str, cpu: str) -> None:
    pod = {"namespace": "ns", "name": name, "phase": "Running", "node": node}
    snapshot.put_pod(pod_of({**pod, "requests": {"cpu": cpu}}))


def test_equal_nodes_have_one_state() -> None:
    snapshot = snapshot_of(3)
    assert len(set(snapshot.nodes.state_of().tolist())) == 1

    put_running(snapshot, "a", "n0", "1")
    put_running(snapshot, "b", "n2", "1")

    first, second, third = snapshot.nodes.state_of().tolist()
    assert first == third != second


def test_states_after_placed_tasks_have_what_is_left() -> None:
    snapshot = snapshot_of(1)
    put_running(snapshot, "a", "n0", "1")
    task = snapshot.task("ns/a")
    assert task is not None
    states, (start,) = snapshot.nodes.states, snapshot.nodes.state_of().tolist()

    n_known, chain = states.n, [start]
    for _ in range(3):
        chain.append(states.after(chain[-1], task.shape, now=True))

    assert states.columns(chain).idle[0].tolist() == [3000, 2000, 1000, 0]
    assert states.since(n_known, task.shape, now=True).idle[0].tolist() == [
        *(2000, 1000, 0),
        *(1000, 0, -1000),
    ]
    assert states.after(start, task.shape, now=True) == chain[1]
    assert states.idle_is_future
    later = states.columns([states.after(start, task.shape, now=False)])
    assert (later.idle[0].item(), later.future[0].item()) == (3000, 2000)
    assert not states.idle_is_future


def test_states_that_no_node_has_are_forgotten() -> None:
    snapshot = snapshot_of(2)
    for n in range(1, 2000):
        put_running(snapshot, "a", "n0", f"{n}m")
        assert snapshot.nodes.states.n < 300
        if n % 40 == 0:
            run_cycle(snapshot, DEFAULT)
            used = snapshot.nodes.allocatable - snapshot.nodes.idle
            assert np.array_equal(used[0], [n, 0])
