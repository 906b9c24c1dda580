"""`swell plan schedule`: one session over given objects, nothing written.

Objects in, answer out. Time-based rules are off, since a file has no present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Namespace, Node
from swell.api.pod import Pod
from swell.api.policy import PodDisruptionBudget, PriorityClass
from swell.api.resource import ApiObject
from swell.api.scheduling import PodGroup, Queue
from swell.api.storage import PersistentVolumeClaim, StorageClass
from swell.scheduler.config import DEFAULT, Config
from swell.scheduler.cycle import Plan, run_cycle
from swell.scheduler.model.snapshot import SCHEDULER_NAMES, Snapshot
from swell.scheduler.model.tasks import Task

T = TypeVar("T", bound=ApiObject)


@dataclass(slots=True)
class Objects:
    """What a plan is made of; kinds that play no role are left out by whoever reads them."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    priority_classes: list[PriorityClass] = field(default_factory=list)
    budgets: list[PodDisruptionBudget] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    training_jobs: list[AITrainingJob] = field(default_factory=list)
    claims: list[PersistentVolumeClaim] = field(default_factory=list)
    storage_classes: list[StorageClass] = field(default_factory=list)

    def snapshot(self, scheduler_names: Iterable[str] = ()) -> Snapshot:
        """The same for the same objects, in whatever order they came."""
        snapshot = Snapshot({*SCHEDULER_NAMES, *scheduler_names})
        for namespace in _by_name(self.namespaces):
            snapshot.put_namespace(namespace.metadata.name, namespace.metadata.labels)
        _put_all(self.priority_classes, snapshot.put_priority_class)
        _put_all(self.nodes, snapshot.put_node)
        _put_all(self.queues, snapshot.put_queue)
        _put_all(self.groups, snapshot.put_group)
        _put_all(self.training_jobs, snapshot.put_training_job)
        _put_all(self.pods, snapshot.put_pod)
        _put_all(self.budgets, snapshot.put_budget)
        _put_all(self.claims, snapshot.put_claim)
        _put_all(self.storage_classes, snapshot.put_storage_class)
        return snapshot


def plan_schedule(
    objects: Objects, config: Config = DEFAULT, scheduler_names: Iterable[str] = ()
) -> Plan:
    return run_cycle(objects.snapshot(scheduler_names), config)


def answer(plan: Plan) -> dict[str, object]:
    """The plan as JSON data, every map in order of its keys."""
    body: dict[str, object] = {
        "binds": {task.key: node for task, node in sorted(plan.binds.items(), key=_task_key)},
        "evictions": [
            {"pod": eviction.task.key, "action": eviction.action, "for": eviction.claimer}
            for eviction in sorted(plan.evictions, key=lambda e: e.task.key)
        ],
        "pipelined": {
            task.key: node for task, node in sorted(plan.pipelined.items(), key=_task_key)
        },
        "podGroups": {
            key: {
                "phase": status.phase.value,
                "reason": status.refusal.reason.value if status.refusal else "",
                "message": status.refusal.message if status.refusal else "",
            }
            for key, status in sorted(plan.groups.items())
        },
    }
    if plan.shrinks:
        body["shrinks"] = {
            job: dict(sorted(roles.items())) for job, roles in sorted(plan.shrinks.items())
        }
    return body


def _task_key(entry: tuple[Task, str]) -> str:
    return entry[0].key


def _put_all(objects: Iterable[T], put: Callable[[T], object]) -> None:
    for thing in _by_name(objects):
        put(thing)


def _by_name(objects: Iterable[T]) -> list[T]:
    return sorted(objects, key=lambda thing: thing.metadata.key)
