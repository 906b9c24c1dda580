"""Volumes and devices side by side: what a task with claims takes and gives back of both."""

from __future__ import annotations

from collections.abc import Mapping

from swell.scheduler.model.devices.rules import DeviceTable
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.tasks import NOWHERE, Task
from swell.scheduler.model.volumes.rules import VolumeTable


class ClaimTables:
    """Is told of every task with claims that comes, goes, or changes its status or node."""

    def __init__(
        self,
        nodes: NodeTable,
        avoided: Mapping[str, Mapping[str, float]],
        old: ClaimTables | None = None,
    ) -> None:
        self.volumes = VolumeTable(nodes, avoided)
        # Devices that tasks were given before are remembered: some may be written already.
        self.devices: DeviceTable = DeviceTable(nodes, None if old is None else old.devices)

    def add(self, task: Task) -> None:
        if task.shape.claims_volumes:
            self.volumes.add(task)
        if task.shape.claims_devices:
            self.devices.add(task)

    def remove(self, task: Task) -> None:
        if task.shape.claims_volumes:
            self.volumes.remove(task)
        if task.shape.claims_devices:
            self.devices.remove(task)

    def follow(self, task: Task, before: int = NOWHERE) -> None:
        """Reserves what the task needs on its new node, or gives back what it had."""
        if task.shape.claims_volumes:
            self.volumes.follow(task, before)
        if task.shape.claims_devices:
            self.devices.follow(task)

    def forget_remembered(self) -> None:
        """Begins a session."""
        self.volumes.reservations.forget_remembered()
        self.devices.forget_remembered()
