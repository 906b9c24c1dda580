"""Pods that are read in a row give the same tasks and sums as pods that are read one by one."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from swell.api.pod import Pod, PodPhase, PodSchedulingGate
from swell.scheduler.model.elastic import INDEX_LABEL, JOB_LABEL, ROLE_LABEL
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION, PREEMPTABLE_KEY, ROLE_KEY
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import Task
from tests.scheduler_cases import objects_of, pod_of
from tests.unit.scheduler.test_snapshot import check_sums

GROUPS = ("a", "b", "missing")
CASE = {
    "nodes": [{"name": "n0", "allocatable": {"cpu": "99", "memory": "99Gi", "pods": "99"}}],
    "queues": [{"name": "q", "weight": 1}],
    "podGroups": [
        {"namespace": "ns", "name": name, "minMember": 2, "queue": "q", "phase": "Pending"}
        for name in ("a", "b")
    ],
}


def pods_in_a_row(chance: Random, n: int) -> list[Pod]:
    """Pods of which most are like the one before, and some differ in one thing."""
    found: list[Pod] = []
    like = pod_of({"namespace": "ns", "name": "p", "requests": {"cpu": "1"}})
    for index in range(n):
        if chance.random() < 0.3:
            like = changed(like, chance)
        meta = like.metadata
        labels = {**meta.labels, "index": str(index)}
        if JOB_LABEL in labels:
            labels[INDEX_LABEL] = str(index)
        name = f"p-{index}" if chance.random() < 0.95 else f"p-{max(index - 1, 0)}"
        found.append(replace(like, metadata=replace(meta, name=name, labels=labels)))
    return found


def changed(pod: Pod, chance: Random) -> Pod:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    yes = chance.random() < 0.5
    match chance.randrange(9):
        case 0:
            meta = replace(meta, annotations={GROUP_ANNOTATION: chance.choice(GROUPS)})
        case 1:
            meta = replace(meta, labels={**meta.labels, ROLE_KEY: chance.choice(("x", "y"))})
        case 2:
            meta = replace(meta, labels={**meta.labels, PREEMPTABLE_KEY: "true" if yes else "no"})
        case 3:
            meta = replace(meta, labels={JOB_LABEL: "job", ROLE_LABEL: "worker"} if yes else {})
        case 4:
            meta = replace(meta, deletion_timestamp="2026-01-01T00:00:00Z" if yes else None)
        case 5:
            spec = replace(spec, node_name="n0" if yes else "")
        case 6:
            status = replace(status, phase=PodPhase.RUNNING if yes else PodPhase.PENDING)
        case 7:
            spec = replace(spec, scheduling_gates=(PodSchedulingGate(name="wait"),) if yes else ())
        case _:
            status = replace(status, nominated_node_name="n0" if yes else "")
    return replace(pod, metadata=meta, spec=spec, status=status)


def facts_of(task: Task) -> tuple[object, ...]:
    """Returns every field of a task, objects of its snapshot by their names."""
    named = {
        "shape": task.shape.key,
        "job": task.job.key if task.job else None,
        "elastic": task.elastic and (task.elastic.job, task.elastic.role),
    }
    return tuple(named.get(name, getattr(task, name)) for name in task.__struct_fields__)


def test_pods_in_a_row_are_read_as_one_by_one() -> None:
    for seed in range(150):
        chance = Random(seed)
        pods = pods_in_a_row(chance, 12)
        at_once, one_by_one = (objects_of(CASE).snapshot() for _ in range(2))

        at_once.put_pods((pod, "unknown amount" if at == 5 else "") for at, pod in enumerate(pods))
        for at, pod in enumerate(pods):
            one_by_one.put_pod(pod, unreadable="unknown amount" if at == 5 else "")

        assert all_facts(at_once) == all_facts(one_by_one), f"seed {seed}"
        assert at_once.n_shapes == one_by_one.n_shapes
        check_sums(at_once)


def all_facts(snapshot: SchedulerSnapshot) -> dict[str, tuple[object, ...]]:
    counts = {key: (list(job.tasks), job.counts._counts) for key, job in snapshot.jobs.items()}
    n_tasks = {shape.key: shape.n_tasks for shape in {task.shape for task in snapshot.tasks()}}
    return {
        **{task.key: facts_of(task) for task in snapshot.tasks()},
        "jobs": (counts,),
        "shapes": (n_tasks,),
    }
