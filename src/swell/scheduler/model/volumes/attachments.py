"""How many volumes of CSI drivers are attached to nodes, against how many they take.

A volume is a pair of driver and handle and counts once a node, whoever uses it. A claim without a
volume counts under the provisioner of its class, with a handle of its own. Volumes of other kinds
count nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swell.api.storage import PersistentVolume
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.resources import Mask
from swell.scheduler.model.tasks import TAKES_LATER, TAKES_NOW, Task
from swell.scheduler.model.volumes.claims import ClaimUse, has_provisioner, is_bound
from swell.scheduler.model.volumes.objects import StorageObjects

AttachedVolume = tuple[str, str]  # driver and handle


class Attachments:
    """Counts the volumes on each node by the tasks there and the VolumeAttachments."""

    def __init__(self, objects: StorageObjects, uses: dict[str, tuple[ClaimUse, ...]]) -> None:
        self._objects = objects
        self._uses = uses  # task -> its claims
        self._tasks_on: dict[str, dict[str, Task]] = {}  # node -> tasks with claims
        # By node and time: the volumes there. Right for one version of the objects.
        self._known: dict[tuple[str, bool], set[AttachedVolume]] = {}
        self._version = -1

    def follow(self, task: Task, old: str, new: str) -> None:
        """Moves a task from one node to another; an empty name stands for none."""
        if old:
            tasks = self._tasks_on.get(old, {})
            tasks.pop(task.key, None)
            if not tasks:
                self._tasks_on.pop(old, None)
        if new:
            self._tasks_on.setdefault(new, {})[task.key] = task
        # Also when it stays: its status decides whether it counts.
        for node in (old, new):
            self._known.pop((node, True), None)
            self._known.pop((node, False), None)

    def full_nodes(
        self, task: Task, nodes: NodeTable, mask: Mask, *, at_once: bool
    ) -> tuple[Mask, str]:
        """Takes the nodes off the mask that cannot attach what the task needs; names the driver."""
        needed: dict[str, set[AttachedVolume]] = {}
        for one in self._needed(self._uses.get(task.key, ())):
            if self._objects.limits_of(one[0]):
                needed.setdefault(one[0], set()).add(one)
        full = ""
        for driver in sorted(needed):
            for node, limit in self._objects.limits_of(driver).items():
                place = nodes.find(node)
                if place < 0 or not mask[place]:
                    continue
                there = self._on(node, at_once=at_once)
                new = needed[driver] - there
                if new and sum(one[0] == driver for one in there) + len(new) > limit:
                    mask[place] = False
                    full = driver
        return mask, full

    def _on(self, node: str, *, at_once: bool) -> set[AttachedVolume]:
        if self._version != self._objects.version:
            self._version = self._objects.version
            self._known.clear()
        found = self._known.get((node, at_once))
        if found is None:
            takes = TAKES_NOW if at_once else TAKES_LATER
            found = {
                one
                for task in self._tasks_on.get(node, {}).values()
                # A pipelined task takes its volumes later only, but they are reserved from now on.
                if takes[task.status] or TAKES_LATER[task.status]
                for one in self._needed(self._uses.get(task.key, ()))
            }
            found.update(self._by_attachment(node))
            self._known[node, at_once] = found
        return found

    def _by_attachment(self, node: str) -> Iterator[AttachedVolume]:
        for name in self._objects.attached_to(node):
            volume = self._objects.volumes.get(name)
            if volume is not None and (one := _csi_volume(volume)) is not None:
                yield one

    def _needed(self, uses: Iterable[ClaimUse]) -> Iterator[AttachedVolume]:
        objects = self._objects
        for use in uses:
            claim = objects.claims.get(use.key)
            volume = objects.volume_of(claim) if claim is not None and is_bound(claim) else None
            if volume is not None:
                if (one := _csi_volume(volume)) is not None:
                    yield one
                continue
            storage_class = objects.class_of(claim) if claim is not None else None
            if storage_class is not None and has_provisioner(storage_class):
                yield storage_class.provisioner, f"claim {use.key}"


def _csi_volume(volume: PersistentVolume) -> AttachedVolume | None:
    csi = volume.spec.csi
    return None if csi is None else (csi.driver, csi.volume_handle)
