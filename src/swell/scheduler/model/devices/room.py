"""How much of an extended resource nodes have by the devices that they reach.

See `extended`. It is an upper bound: devices that other claims have, or that are tainted, count.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from swell.api.core import Node
from swell.scheduler.model.devices.extended import EXTENDED, ExtendedResources
from swell.scheduler.model.devices.objects import DeviceObjects
from swell.scheduler.model.devices.pools import DeviceView, DeviceViews
from swell.scheduler.model.devices.selectors import DeviceSelectorError
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.provided import offers
from swell.scheduler.model.resources import Mask
from swell.scheduler.model.tasks import Task


class ExtendedRoom:
    """Tells the nodes what their devices stand for, as far as tasks request it."""

    def __init__(
        self,
        nodes: NodeTable,
        objects: DeviceObjects,
        views: DeviceViews,
        extended: ExtendedResources,
    ) -> None:
        self._nodes, self._objects = nodes, objects
        self._views, self._extended = views, extended
        self._requested: Counter[str] = Counter()
        self._stamp: tuple[object, ...] = ()
        self._provided: dict[str, None] = {}  # resources of which some node has devices
        self._native: dict[str, Mask] = {}
        self._native_version = -1

    def add(self, task: Task, sign: int) -> None:
        """Notes that a task has come, or with a negative sign that it has gone."""
        if _is_extended(task):
            for resource in self._extended.resources_of(task.pod.spec):
                self._requested[resource] += sign

    def refresh(self) -> None:
        """Brings what nodes have up to date; at no cost while nobody requests any of it."""
        requested = tuple(sorted(one for one, n in self._requested.items() if n > 0))
        if not requested and not self._provided:
            return
        self._views.refresh()
        classes = tuple((one, self._extended.class_of(one)) for one in requested)
        stamp = (self._views.version, classes, self._objects.classes_version)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        amounts = {
            view.index: {
                resource: n
                for resource, of_class in classes
                if (n := self._n_devices(view, of_class))
            }
            for view in self._views.all
        }
        self._provided = {one: None for found in amounts.values() for one in found}
        of_node = self._views.of_node.tolist()
        self._nodes.provide(
            {name: amounts[of_node[place]] for place, name in enumerate(self._nodes.names) if name}
        )

    def is_provided(self, task: Task) -> bool:
        """Whether some node has devices for what a task requests."""
        resources = self._extended.resources_of(task.pod.spec)
        return any(one in self._provided for one in resources)

    def native(self, task: Task) -> Mask | None:
        """Returns the nodes whose device plugins offer all that a task requests; None for none.

        A pod whose status names its claim needs it wherever it runs.
        """
        if not _is_extended(task) or task.pod.status.extended_resource_claim_status is not None:
            return None
        if self._native_version != self._nodes.version:
            self._native_version = self._nodes.version
            self._native.clear()
        mask = np.ones(len(self._nodes), dtype=np.bool_)
        for resource in self._extended.resources_of(task.pod.spec):
            if resource not in self._native:
                self._native[resource] = self._nodes.where(partial(_offers, resource))
            mask &= self._native[resource]
        return mask if mask.any() else None

    def _n_devices(self, view: DeviceView, class_name: str) -> int:
        of_class = self._objects.classes.get(class_name)
        if of_class is None or of_class.problem:
            return 0
        n = 0
        for _, one in view.usable:
            content = one.device.content
            if content is None or one.device.unsupported:
                continue
            try:
                selectors = self._objects.selectors
                n += all(selectors.admits(text, content) for text in of_class.selectors)
            except DeviceSelectorError:
                continue  # the search says so
        return n


def _offers(resource: str, node: Node) -> bool:
    return offers(node, resource)


def _is_extended(task: Task) -> bool:
    return any(one.name == EXTENDED for one in task.pod.spec.resource_claims)
