"""Everything that a scheduling session depends on, read from a cluster with the caller's rights.

The lists are named here and asked for by whoever has a client: the command line's sends one request
after the other, the page's is asynchronous. What may not be listed is left out, with a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DEVICE_CLASSES,
    HYPER_NODES,
    NAMESPACES,
    NATIVE_GROUPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from swell.api.resource import Resource
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.outlook.target import ExplainTarget
from swell.runtime.cluster import Cluster, Malformed
from swell.runtime.errors import ForbiddenError, NotFoundError
from swell.runtime.salvage import salvage
from swell.scheduler.plan import SchedulerObjects

# Objects of one request; decoding more at once would hold up everything else in a server.
_PAGE = 500
# Without these no session can be run: it would find room that is taken.
_NEEDED: Mapping[str, Resource[Any]] = {
    "nodes": NODES,
    "pods": PODS,
    "groups": POD_GROUPS,
    "queues": QUEUES,
}
# These refine the answer: without them priorities, budgets or claims count as absent.
_REFINING: Mapping[str, Resource[Any]] = {
    "native_groups": NATIVE_GROUPS,
    "priority_classes": PRIORITY_CLASSES,
    "budgets": POD_DISRUPTION_BUDGETS,
    "namespaces": NAMESPACES,
    "training_jobs": AI_TRAINING_JOBS,
    "claims": PERSISTENT_VOLUME_CLAIMS,
    "volumes": PERSISTENT_VOLUMES,
    "storage_classes": STORAGE_CLASSES,
    "csi_nodes": CSI_NODES,
    "csi_drivers": CSI_DRIVERS,
    "storage_capacities": CSI_STORAGE_CAPACITIES,
    "volume_attachments": VOLUME_ATTACHMENTS,
    "resource_slices": RESOURCE_SLICES,
    "device_classes": DEVICE_CLASSES,
    "resource_claims": RESOURCE_CLAIMS,
    "hyper_nodes": HYPER_NODES,
}
_OF_DEVICES = (RESOURCE_SLICES, DEVICE_CLASSES, RESOURCE_CLAIMS)


@dataclass(frozen=True, slots=True)
class ExplainInput:
    """The objects a report is made from.

    No session can be run over them unless `is_whole`: it would find room that is taken.
    """

    objects: SchedulerObjects
    notes: tuple[str, ...] = ()
    is_whole: bool = True
    is_live: bool = True  # of a cluster, not of files


@dataclass(slots=True)
class _Gathering:
    """The objects that were listed so far, and what could not be."""

    objects: SchedulerObjects = field(default_factory=lambda: SchedulerObjects(are_whole=True))
    notes: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)

    def take(self, place: str, items: Any, malformed: Any, resource: Resource[Any]) -> None:
        found: list[Any] = getattr(self.objects, place)
        found.extend(items)
        found.extend(_placeholder(one, resource, self.objects, self.notes) for one in malformed)

    def not_served(self, resource: Resource[Any]) -> None:
        if resource is RESOURCE_CLAIMS:
            self.objects.are_devices_served = False
        if resource in _NEEDED.values():
            self.notes.append(f"the cluster has no {resource.plural}")

    def forbidden(self, resource: Resource[Any]) -> None:
        if resource in _OF_DEVICES:
            # Who sees only a part of them would call claims missing, or devices free.
            self.objects.are_devices_hidden = True
        if resource in _NEEDED.values():
            self.hidden.append(resource.plural)

    @property
    def hides_groups(self) -> bool:
        return POD_GROUPS.plural in self.hidden

    def done(self) -> ExplainInput:
        if self.hidden:
            known = "only what the scheduler wrote is known"
            which = ", ".join(self.hidden)
            self.notes.append(f"you may not list {which} of the whole cluster: {known}")
        return ExplainInput(self.objects, tuple(self.notes), is_whole=not self.hidden)


def read_input(client: OneShot, target: ExplainTarget | None = None) -> ExplainInput:
    """List everything that a session about a target depends on; nothing for one that has ended."""
    found = _Gathering()
    if target is not None and target.is_final:
        return found.done()
    for place, resource in (*_NEEDED.items(), *_REFINING.items()):
        try:
            page = client.send(calls.list_page(resource))
        except NotFoundError:
            found.not_served(resource)
        except ForbiddenError:
            found.forbidden(resource)
        else:
            found.take(place, page.items, page.malformed, resource)
    # A user who may not list the whole cluster can often still read the group of the own job.
    if target is not None and found.hides_groups:
        with suppress(NotFoundError, ForbiddenError):
            found.objects.groups.append(client.send(calls.get(POD_GROUPS, target.group)))
    return found.done()


async def gather_input(cluster: Cluster, target: ExplainTarget | None = None) -> ExplainInput:
    """As `read_input`, page by page, so that a server goes on answering meanwhile."""
    found = _Gathering()
    if target is not None and target.is_final:
        return found.done()
    for place, resource in (*_NEEDED.items(), *_REFINING.items()):
        token = ""
        try:
            while True:
                page = await cluster.list(resource, limit=_PAGE, continue_token=token)
                found.take(place, page.items, page.malformed, resource)
                token = page.continue_token
                if not token:
                    break
        except NotFoundError:
            found.not_served(resource)
        except ForbiddenError:
            found.forbidden(resource)
    if target is not None and found.hides_groups:
        with suppress(NotFoundError, ForbiddenError):
            found.objects.groups.append(await cluster.get(POD_GROUPS, target.group))
    return found.done()


def _placeholder(
    found: Malformed, resource: Resource[Any], objects: SchedulerObjects, notes: list[str]
) -> Any:
    """Return what can be read of an object, as the scheduler counts it, and note the rest."""
    seen = salvage(found, resource.struct, None)
    why = f"{resource.kind} {found.key}: {found.error}"
    notes.append(f"cannot be read: {why}")
    # The room that an object takes does not depend on its status.
    if not all(path.partition(".")[0] == "status" for path in seen.unknown):
        objects.unreadable[resource.kind, found.key] = why
    return seen.object
