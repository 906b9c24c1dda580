"""The core of `swell plan schedule`: one session over given objects, nothing written.

`SchedulerObjects` are read from files or from the server; `answer` is the JSON of the command.
Rules that depend on time are off, because objects in a file have no present time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, TypeVar

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.core import Namespace, Node
from swell.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from swell.api.meta import Key
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PodDisruptionBudget, PriorityClass
from swell.api.resource import ApiObject
from swell.api.scheduling import PodGroup, Queue
from swell.api.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from swell.api.topology import HyperNode
from swell.scheduler.config import DEFAULT, SCHEDULER_NAMES, Config
from swell.scheduler.cycle import SchedulingPlan, run_cycle
from swell.scheduler.model.devices.extended import claim_body
from swell.scheduler.model.devices.rules import DeviceTable
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import Task
from swell.scheduler.model.volumes.objects import StorageObjects

T = TypeVar("T", bound=ApiObject)


@dataclass(slots=True)
class SchedulerObjects:
    """The objects that a plan is made from. Other kinds are left out by the reader of the files."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    native_groups: list[NativeGroup] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    priority_classes: list[PriorityClass] = field(default_factory=list)
    budgets: list[PodDisruptionBudget] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    training_jobs: list[AITrainingJob] = field(default_factory=list)
    claims: list[PersistentVolumeClaim] = field(default_factory=list)
    storage_classes: list[StorageClass] = field(default_factory=list)
    volumes: list[PersistentVolume] = field(default_factory=list)
    csi_nodes: list[CsiNode] = field(default_factory=list)
    csi_drivers: list[CsiDriver] = field(default_factory=list)
    storage_capacities: list[CsiStorageCapacity] = field(default_factory=list)
    volume_attachments: list[VolumeAttachment] = field(default_factory=list)
    resource_slices: list[ResourceSlice] = field(default_factory=list)
    device_classes: list[DeviceClass] = field(default_factory=list)
    resource_claims: list[ResourceClaim] = field(default_factory=list)
    # Whether the server has these three kinds, and whether all of them could be listed.
    are_devices_served: bool = True
    are_devices_hidden: bool = False
    # Whether the objects are those of a whole cluster. Otherwise, without any claim, volume or
    # class among them, nothing is known of storage and its rules are off; likewise of devices.
    are_whole: bool = False
    hyper_nodes: list[HyperNode] = field(default_factory=list)
    # By kind and key: why an object, of which a placeholder is in the lists, cannot be read.
    unreadable: dict[tuple[str, Key], str] = field(default_factory=dict)

    def snapshot(self, scheduler_names: Iterable[str] = ()) -> SchedulerSnapshot:
        """Returns the snapshot of these objects, which does not depend on their order."""
        snapshot = SchedulerSnapshot({*SCHEDULER_NAMES, *scheduler_names})
        for namespace in _by_name(self.namespaces):
            snapshot.put_namespace(namespace.metadata.name, namespace.metadata.labels)
        # Classes and nodes come first: groups read the classes, and ties between nodes are broken
        # by the order in which the snapshot learns of them.
        _put_all(self.priority_classes, snapshot.put_priority_class)
        for node in _by_name(self.nodes):
            snapshot.put_node(node, self._why_unreadable(node))
        for queue in _by_name(self.queues):
            snapshot.put_queue(queue, self._why_unreadable(queue))
        for group in _by_name(self.groups):
            snapshot.put_group(group, self._why_unreadable(group))
        for native in _by_name(self.native_groups):
            snapshot.put_native_group(native.metadata.key, native)
        _put_all(self.training_jobs, snapshot.put_training_job)
        self._put_storage(snapshot.volumes.objects)
        self._put_devices(snapshot.devices)
        pods = _by_name(self.pods)
        if self.device_classes:  # without one, no resource of a pod stands for devices
            pods = [snapshot.devices.extended.with_claim(pod) for pod in pods]
        snapshot.put_pods((pod, self._why_unreadable(pod)) for pod in pods)
        _put_all(self.budgets, snapshot.put_budget)
        _put_all(self.hyper_nodes, snapshot.hyper_nodes.put)
        return snapshot

    @property
    def knows_storage(self) -> bool:
        return self.are_whole or bool(self.claims or self.volumes or self.storage_classes)

    def _put_storage(self, storage: StorageObjects) -> None:
        storage.are_known = self.knows_storage
        _put_all(self.claims, storage.put_claim)
        _put_all(self.volumes, storage.put_volume)
        _put_all(self.storage_classes, storage.put_class)
        _put_all(self.csi_nodes, storage.put_csi_node)
        _put_all(self.csi_drivers, storage.put_csi_driver)
        _put_all(self.storage_capacities, storage.put_capacity)
        _put_all(self.volume_attachments, storage.put_attachment)

    @property
    def knows_devices(self) -> bool:
        found = self.resource_slices or self.device_classes or self.resource_claims
        return (self.are_whole or bool(found)) and not self.are_devices_hidden

    def _put_devices(self, devices: DeviceTable) -> None:
        devices.objects.are_known = self.knows_devices
        devices.objects.are_served = self.are_devices_served
        _put_all(self.resource_slices, devices.put_slice)
        _put_all(self.device_classes, devices.put_class)
        _put_all(self.resource_claims, devices.put_claim)
        if not self.device_classes:
            return
        # The claims that the scheduler would make for extended resources.
        extended = devices.extended
        for pod in self.pods:
            if pod.spec.node_name or extended.claim_of(pod) is not None:
                continue
            if requests := extended.requests_of(pod.spec):
                devices.put_claim(convert(claim_body(pod, requests), ResourceClaim))

    def _why_unreadable(self, one: Node | Pod | PodGroup | Queue) -> str:
        # Asked for every object, and there is hardly ever one that cannot be read.
        return self.unreadable.get((one.kind, one.metadata.key), "") if self.unreadable else ""


# Nodes and pods from which on a plan is made without collections: those of some seconds.
_LARGE = 20_000


def plan_schedule(
    objects: SchedulerObjects, config: Config = DEFAULT, scheduler_names: Iterable[str] = ()
) -> SchedulingPlan:
    if len(objects.nodes) + len(objects.pods) < _LARGE:
        return run_cycle(objects.snapshot(scheduler_names), config)
    with without_collections():
        return run_cycle(objects.snapshot(scheduler_names), config)


@contextmanager
def without_collections() -> Iterator[None]:
    """Keeps the garbage collector from looking through hundreds of thousands of live objects.

    Next to nothing that a plan makes becomes garbage before it is done. Measured: a tenth of a
    plan of 50,000 pods, and nearly as much for the look that the collector would take at once
    when it is on again. So what the plan has made counts as old by then.

    For large plans, and commands that end with theirs: old objects are rarely looked at, so a
    program that makes many plans, one after the other, would keep all of them.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # To freeze and thaw moves all objects to the oldest generation, without a look at
            # them. Somebody else's frozen objects would be thawed as well.
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def answer(plan: SchedulingPlan) -> dict[str, object]:
    """Returns the plan as JSON data, every map sorted by its keys."""
    body: dict[str, object] = {
        "binds": {task.key: node for task, node in sorted(plan.binds.items(), key=_task_key)},
        "evictions": [
            {"pod": eviction.task.key, "action": eviction.action, "for": eviction.preemptor}
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
    if volumes := _volumes(plan):
        body["volumes"] = volumes
    if devices := _devices(plan):
        body["devices"] = devices
    if plan.domains:
        body["domains"] = {key: one.name for key, one in sorted(plan.domains.items())}
    if plan.shrinks:
        body["shrinks"] = {
            job: dict(sorted(roles.items())) for job, roles in sorted(plan.shrinks.items())
        }
    return body


def _volumes(plan: SchedulingPlan) -> dict[str, dict[str, str]]:
    """Returns what would be written for the claims of the pods that are bound, by claim."""
    found: dict[str, dict[str, str]] = {}
    for _, choice in sorted(plan.volumes.items(), key=lambda entry: entry[0].order):
        for claim, volume in choice.volumes.items():
            found.setdefault(claim, {"pv": volume})
        for claim in choice.provisions:
            found.setdefault(claim, {"selectedNode": choice.node})
    return dict(sorted(found.items()))


def _devices(plan: SchedulingPlan) -> dict[str, list[dict[str, str]]]:
    """Returns the devices that the claims of the pods that are bound would be given, by claim."""
    found: dict[str, list[dict[str, str]]] = {}
    for choice in plan.devices.values():
        for claim, allocation in choice.allocations.items():
            found[claim] = [
                {
                    "request": one.request,
                    "driver": one.driver,
                    "pool": one.pool,
                    "device": one.device,
                }
                for one in allocation.devices.results
            ]
    return dict(sorted(found.items()))


def _task_key(entry: tuple[Task, str]) -> str:
    return entry[0].key


def _put_all(objects: Iterable[T], put: Callable[[T], object]) -> None:
    for one in _by_name(objects):
        put(one)


def _by_name(objects: Iterable[T]) -> list[T]:
    return sorted(objects, key=_NAME_OF)


# What `metadata.key` orders by, without making a Key of it.
_NAME_OF: Final = attrgetter("metadata.namespace", "metadata.name")
