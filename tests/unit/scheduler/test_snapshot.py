"""The snapshot keeps its sums right, in any order of puts, removals and moves."""

from __future__ import annotations

import gc
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from swell.api.pod import PodSpec
from swell.scheduler.config import DEFAULT
from swell.scheduler.cycle import run_cycle
from swell.scheduler.model.pod_notes import STRATEGY_TYPE_KEY
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, TAKES_LATER, TAKES_NOW, TaskStatus
from swell.scheduler.plan import SchedulerObjects, answer, plan_schedule
from tests.property.scheduler_clusters import random_cluster
from tests.scheduler_cases import objects_of, pod_of

ONE_NODE: dict[str, Any] = {
    "nodes": [{"name": "n1", "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}],
    "queues": [{"name": "q", "weight": 1}],
    "podGroups": [
        {"namespace": "ns", "name": "g", "queue": "q", "minMember": 2, "phase": "Inqueue"}
    ],
    "pods": [
        {
            "namespace": "ns",
            "name": f"g-w-{n}",
            "group": "g",
            "phase": "Pending",
            "requests": {"cpu": "1"},
        }
        for n in range(2)
    ],
}


def check_sums(snapshot: SchedulerSnapshot) -> None:
    """Compares every sum of the snapshot with a fresh count."""
    nodes = snapshot.nodes
    idle, future = nodes.allocatable.copy(), nodes.allocatable.copy()
    for place, tasks in enumerate(nodes.tasks):
        for task in tasks.values():
            idle[:, place] -= TAKES_NOW[task.status] * task.request
            future[:, place] -= TAKES_LATER[task.status] * task.request
    np.testing.assert_array_equal(idle, nodes.idle)
    np.testing.assert_array_equal(future, nodes.future)
    of_states = nodes.states.columns(nodes.state_of())
    for seen, own in zip(of_states, nodes.columns(), strict=True):
        np.testing.assert_array_equal(seen, own)
    counted = [task.status for tasks in nodes.tasks for task in tasks.values()]
    assert nodes.idle_is_future == all(TAKES_NOW[one] == TAKES_LATER[one] for one in counted)
    for queue in snapshot.queues.values():
        held = sum((job.allocated for job in queue.jobs.values()), snapshot.dimensions.zero())
        asked = sum((job.pending for job in queue.jobs.values()), snapshot.dimensions.zero())
        np.testing.assert_array_equal(held, queue.allocated)
        np.testing.assert_array_equal(asked, queue.pending)
    for job in snapshot.jobs.values():
        for status in TaskStatus:
            assert job.counts[status] == len(list(job.in_status(status)))


def fill_slowly(objects: SchedulerObjects, chance: Random) -> SchedulerSnapshot:
    """Puts all objects in random order, some twice, some removed and put again."""
    snapshot = SchedulerSnapshot()
    for node in sorted(objects.nodes, key=lambda n: n.metadata.name):
        snapshot.nodes.place(node.metadata.name)
    steps = [
        *((snapshot.put_node, node) for node in objects.nodes),
        *((snapshot.put_queue, queue) for queue in objects.queues),
        *((snapshot.put_group, group) for group in objects.groups),
        *((snapshot.put_priority_class, c) for c in objects.priority_classes),
        *((snapshot.put_training_job, job) for job in objects.training_jobs),
        *((snapshot.put_pod, pod) for pod in objects.pods),
    ]
    chance.shuffle(steps)
    for put, thing in steps + chance.sample(steps, len(steps) // 3):
        put(thing)  # type: ignore[operator]
    for pod in chance.sample(objects.pods, len(objects.pods) // 3):
        snapshot.remove_pod(f"ns/{pod.metadata.name}")
        snapshot.put_pod(pod)
    for group in chance.sample(objects.groups, len(objects.groups) // 3):
        snapshot.remove_group(f"ns/{group.metadata.name}")
        snapshot.put_group(group)
    return snapshot


def test_snapshot_sums_survive_any_history() -> None:
    """A snapshot of the same objects decides the same, whatever its history."""
    for seed in range(40):
        chance = Random(seed)
        objects = random_cluster(chance)
        snapshot = fill_slowly(objects, chance)
        check_sums(snapshot)

        decided = answer(run_cycle(snapshot, DEFAULT))

        check_sums(snapshot)
        assert decided == answer(plan_schedule(objects)), f"seed {seed}"


def test_session_leaves_no_trace_of_what_it_only_tried() -> None:
    """A gang that finds no room leaves every amount as it was."""
    objects = objects_of(ONE_NODE)
    objects.pods[1] = pod_of({**ONE_NODE["pods"][1], "requests": {"cpu": "9"}})
    snapshot = objects.snapshot()
    idle = snapshot.nodes.idle.copy()

    plan = run_cycle(snapshot, DEFAULT)

    assert not plan.binds
    np.testing.assert_array_equal(idle, snapshot.nodes.idle)
    check_sums(snapshot)


def test_decided_bindings_stay_assumed() -> None:
    """A binding takes room in the next cycle, before any pod has changed."""
    snapshot = objects_of(ONE_NODE).snapshot()

    first, second = run_cycle(snapshot, DEFAULT), run_cycle(snapshot, DEFAULT)

    assert len(first.binds) == 2
    assert not second.binds
    assert snapshot.nodes.idle[0, 0] == 2000


def test_pipelined_gang_keeps_its_node_until_it_starts() -> None:
    """A pipelined gang keeps its node across cycles and starts there once the room is free."""
    case = {
        **ONE_NODE,
        "podGroups": [
            *ONE_NODE["podGroups"],
            {"namespace": "ns", "name": "old", "queue": "q", "minMember": 0, "phase": "Running"},
        ],
        "pods": [
            *ONE_NODE["pods"],
            {
                "namespace": "ns",
                "name": "old-w-0",
                "group": "old",
                "phase": "Running",
                "node": "n1",
                "requests": {"cpu": "3"},
                "deleting": True,
            },
        ],
    }
    snapshot = objects_of(case).snapshot()

    first = run_cycle(snapshot, DEFAULT)
    second = run_cycle(snapshot, DEFAULT)
    snapshot.remove_pod("ns/old-w-0")
    third = run_cycle(snapshot, DEFAULT)

    assert (len(first.binds), len(first.pipelined)) == (0, 2)
    assert (len(second.binds), len(second.pipelined)) == (0, 2)
    assert {task.key: node for task, node in third.binds.items()} == {
        "ns/g-w-0": "n1",
        "ns/g-w-1": "n1",
    }


def test_new_resource_name_widens_every_vector() -> None:
    """A resource name that was never seen is one more dimension."""
    snapshot = objects_of(ONE_NODE).snapshot()
    for n in range(12):
        requests = {f"example.com/r{n}": "1"}
        snapshot.put_pod(pod_of({"namespace": "ns", "name": f"x-{n}", "requests": requests}))

    check_sums(snapshot)
    assert len(run_cycle(snapshot, DEFAULT).binds) == 2


def test_pod_of_an_unknown_node_makes_no_place() -> None:
    """A node that is only named by a pod takes no pods."""
    snapshot = objects_of({**ONE_NODE, "nodes": []}).snapshot()
    snapshot.put_pod(pod_of({"namespace": "ns", "name": "x", "phase": "Running", "node": "ghost"}))

    assert snapshot.nodes.find("ghost") != NOWHERE
    assert not run_cycle(snapshot, DEFAULT).binds


def test_pipelined_task_that_starts_is_counted_once() -> None:
    """A gang that waited for a pod to leave starts when it has left, and all sums stay true."""
    leaving = {
        "namespace": "ns",
        "name": "old",
        "phase": "Running",
        "node": "n1",
        "deleting": True,
        "requests": {"cpu": "3"},
    }
    snapshot = objects_of({**ONE_NODE, "pods": [*ONE_NODE["pods"], leaving]}).snapshot()
    waiting = run_cycle(snapshot, DEFAULT)
    snapshot.remove_pod("ns/old")
    kept = run_cycle(snapshot, DEFAULT)

    assert (len(waiting.pipelined), len(waiting.binds)) == (2, 0)
    assert len(kept.binds) == 2
    check_sums(snapshot)


def test_tasks_pipelined_in_two_passes_both_stay() -> None:
    """A gang that waits with its minimum and then gets one more node keeps all of them."""
    rows = [*ONE_NODE["pods"], {**ONE_NODE["pods"][0], "name": "g-w-2"}]
    leaving = {
        "namespace": "ns",
        "phase": "Running",
        "node": "n1",
        "deleting": True,
        "requests": {"cpu": "1500m"},
    }
    old = [{**leaving, "name": f"old-{n}"} for n in range(2)]
    snapshot = objects_of({**ONE_NODE, "pods": [*rows[:2], *old]}).snapshot()
    run_cycle(snapshot, DEFAULT)
    snapshot.put_pod(pod_of(rows[2]))
    again = run_cycle(snapshot, DEFAULT)

    assert sorted(task.key for task in again.pipelined) == ["ns/g-w-0", "ns/g-w-1", "ns/g-w-2"]
    check_sums(snapshot)


@pytest.mark.parametrize("amount", ["lots", "1e", "--1"])
def test_amount_that_is_no_number_closes_the_node(amount: str) -> None:
    """A pod of an unknown amount holds its node closed until it is corrected or gone."""
    snapshot = objects_of(ONE_NODE).snapshot()
    odd = {"namespace": "ns", "name": "odd", "phase": "Running", "node": "n1"}

    snapshot.put_pod(pod_of({**odd, "requests": {"cpu": amount}}))
    assert amount in snapshot.nodes.closed["n1"]["ns/odd"]
    assert not run_cycle(snapshot, DEFAULT).binds
    check_sums(snapshot)
    snapshot.put_pod(pod_of({**odd, "requests": {"cpu": "1"}}))
    assert not snapshot.nodes.closed

    assert len(run_cycle(snapshot, DEFAULT).binds) == 2


def test_churn_of_nodes_leaves_no_trace() -> None:
    """Columns, shapes and arrays are bounded by what lives, not by what has lived."""
    snapshot = objects_of(ONE_NODE).snapshot()
    node = snapshot.nodes.objects[0]
    assert node is not None
    before = sizes_of(snapshot)
    for number in range(10_000):
        meta = msgspec.structs.replace(node.metadata, name=f"guest-{number}")
        snapshot.put_node(msgspec.structs.replace(node, metadata=meta))
        pod = {"namespace": "ns", "name": "p", "phase": "Running", "node": f"guest-{number}"}
        snapshot.put_pod(pod_of({**pod, "requests": {"cpu": f"{number}m"}}))
        # In either order: a pod may outlive its node.
        if number % 2:
            snapshot.remove_node(f"guest-{number}")
        snapshot.remove_pod("ns/p")
        snapshot.remove_node(f"guest-{number}")

    assert sizes_of(snapshot) == before
    assert len(snapshot.nodes) <= 2
    check_sums(snapshot)
    assert len(run_cycle(snapshot, DEFAULT).binds) == 2


def test_nodes_that_go_give_their_columns_back() -> None:
    """After a peak the table shrinks; tasks, ports and names stay with their nodes."""
    snapshot = objects_of(ONE_NODE).snapshot()
    node = snapshot.nodes.objects[0]
    assert node is not None
    names = [f"m{number:04}" for number in range(2_000)]
    for name in names:
        meta = msgspec.structs.replace(node.metadata, name=name)
        snapshot.put_node(msgspec.structs.replace(node, metadata=meta))
    kept = names[::400]
    for name in kept:
        pod = {"namespace": "ns", "name": f"on-{name}", "phase": "Running", "node": name}
        snapshot.put_pod(pod_of({**pod, "requests": {"cpu": "1"}}))
    for name in names:
        if name not in kept:
            snapshot.remove_node(name)

    assert len(snapshot.nodes) < 200
    assert snapshot.nodes._idle.shape[1] < 200
    check_sums(snapshot)
    for name in kept:
        place = snapshot.nodes.find(name)
        task = snapshot.task(f"ns/on-{name}")
        assert task is not None
        assert task.node == place
        assert list(snapshot.nodes.tasks[place]) == [f"ns/on-{name}"]
    assert len(run_cycle(snapshot, DEFAULT).binds) == 2


def test_random_history_with_churn_keeps_every_sum() -> None:
    """Nodes, pods and groups come and go in any order, with cycles in between."""
    for seed in range(15):
        chance = Random(seed)
        objects = random_cluster(chance)
        snapshot = objects.snapshot()
        for number in range(60):
            node = chance.choice(objects.nodes)
            pod = chance.choice(objects.pods)
            match chance.randrange(5):
                case 0:
                    snapshot.remove_node(node.metadata.name)
                case 1:
                    snapshot.put_node(node)
                case 2:
                    snapshot.remove_pod(f"ns/{pod.metadata.name}")
                case 3:
                    snapshot.put_pod(pod)
                case _:
                    meta = msgspec.structs.replace(node.metadata, name=f"extra-{number}")
                    snapshot.put_node(msgspec.structs.replace(node, metadata=meta))
                    snapshot.remove_node(f"extra-{number - chance.randrange(4)}")
            if not number % 20:
                run_cycle(snapshot, DEFAULT)
            check_sums(snapshot)
            check_places(snapshot)


def sizes_of(snapshot: SchedulerSnapshot) -> tuple[int, ...]:
    """How large the tables are that grow with objects."""
    nodes = snapshot.nodes
    return (
        nodes._idle.shape[1],
        snapshot.n_shapes,
        len(nodes._ports),
        len(nodes._temporary),
        len(snapshot._tasks),
        len(snapshot._job_table.membership._waiting),
        len(snapshot.roles._members),
        len(snapshot.affinity_index._matching),
    )


def check_places(snapshot: SchedulerSnapshot) -> None:
    """Every task is where it is counted, and every place that is in use has its name."""
    nodes = snapshot.nodes
    counted = {task.key for tasks in nodes.tasks for task in tasks.values()}
    placed = {task.key for task in snapshot.tasks() if task.node != NOWHERE}
    assert counted == placed
    for place, name in enumerate(nodes.names):
        assert bool(name) or not (nodes.tasks[place] or nodes.objects[place])
        assert not name or nodes.find(name) == place
        node = nodes.objects[place]
        assert node is None or node.metadata.name == name


_PLAIN: dict[str, Any] = {
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "volumes": [{"name": "token"}],
}


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
        {"containers": [*_PLAIN["containers"], *_PLAIN["containers"]]},
        {"containers": [{**_PLAIN["containers"][0], "ports": [{"hostPort": 80}]}]},
        {"initContainers": [{"name": "i"}]},
        {"resources": {"requests": {"cpu": "3"}}},
        {"overhead": {"cpu": "1"}},
        {"hostNetwork": True},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"volumes": [{"name": "v", "ephemeral": {}}]},
        {"nodeSelector": {"a": "b"}},
        {"affinity": {"nodeAffinity": {}}},
        {"tolerations": []},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]},
        {"resourceClaims": [{"name": "gpu"}]},
    ],
)
def test_pods_that_differ_to_a_node_have_different_shapes(change: dict[str, Any]) -> None:
    """A shape stands for all that a node looks at; names and volumes without a claim are not."""
    snapshot = SchedulerSnapshot()
    plain = snapshot.shape_of(msgspec.convert(_PLAIN, PodSpec))
    renamed = {**_PLAIN, "containers": [{**_PLAIN["containers"][0], "name": "d"}], "volumes": []}

    assert snapshot.shape_of(msgspec.convert({**_PLAIN, **change}, PodSpec)) is not plain
    assert snapshot.shape_of(msgspec.convert(renamed, PodSpec)) is plain


def test_pods_whose_annotations_differ_have_different_shapes() -> None:
    """Two pods of one spec in a row are not alike if one chooses its scores by annotations."""
    pod = {"namespace": "ns", "phase": "Pending", "requests": {"cpu": "1"}}
    plain, choosy = pod_of({**pod, "name": "a"}), pod_of({**pod, "name": "b"})
    choosy.metadata.annotations[STRATEGY_TYPE_KEY] = "MostAllocated"
    snapshot = SchedulerSnapshot()

    shapes = [snapshot.put_pod(one).shape for one in (plain, choosy)]

    assert shapes[0] is not shapes[1]
    assert shapes[1].strategy == ("MostAllocated", "")


def test_many_small_plans_do_not_pile_up() -> None:
    """What a plan has made is as young as anything else afterwards, so it is collected soon."""
    gc.collect()
    of_others = old_snapshots()

    plan = plan_schedule(SchedulerObjects())

    assert plan.groups == {}
    assert [one for one in old_snapshots() if one not in of_others] == []


def old_snapshots() -> list[SchedulerSnapshot]:
    return [one for one in gc.get_objects(generation=2) if isinstance(one, SchedulerSnapshot)]
