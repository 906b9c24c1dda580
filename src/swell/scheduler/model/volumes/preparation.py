"""Decides what has to happen to the volumes of a gang before its pods are bound. Pure.

The steps of one batch of tasks, in this order. Nothing of it can be taken back but a node that was
selected, and no pod is bound before the last step, so a crash leaves no part of a gang bound.

    reserve volumes ---> select nodes ---> wait until all are bound ---> ready
          |                   |                      |
          +-------------------+----------------------+---> failed (released and placed anew)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from swell.api.codec import to_body
from swell.api.core import ObjectReference
from swell.api.kinds import PERSISTENT_VOLUME_CLAIMS
from swell.api.meta import Body
from swell.api.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus
from swell.scheduler.model.volumes.claims import is_bound, is_for, is_shareable, selected_node
from swell.scheduler.model.volumes.reservations import VolumeChoice
from swell.scheduler.model.volumes.rules import VolumeTable

_WAITING_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class ReserveVolume:
    """A volume is to be given to a claim; the volume controller then binds the claim to it."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class SelectNode:
    """A claim is to be provisioned for a node; None takes an earlier node back."""

    claim: PersistentVolumeClaim
    node: str | None


VolumeWrite = ReserveVolume | SelectNode


@dataclass(frozen=True, slots=True)
class PreparationReady:
    """Every claim is bound, and every pod reaches its volumes."""


@dataclass(frozen=True, slots=True)
class PreparationWrites:
    """Writes that do not depend on each other. The next step follows when all have succeeded."""

    writes: tuple[VolumeWrite, ...]


@dataclass(frozen=True, slots=True)
class PreparationWaits:
    """Claims that are not bound yet, with what was chosen for each, and how many are."""

    awaited: Mapping[str, str]
    n_bound: int
    has_volumes: bool = True  # or else the claims are about devices

    @property
    def text(self) -> str:
        named = [f"{claim} {where}" for claim, where in sorted(self.awaited.items())]
        more = len(named) - _WAITING_NAMED
        listed = ", ".join(named[:_WAITING_NAMED]) + (f" and {more} more" if more > 0 else "")
        total = self.n_bound + len(named)
        so_far = f"{self.n_bound} of {total} volume claims are bound; " if self.has_volumes else ""
        return f"{so_far}waiting for {listed}"


@dataclass(frozen=True, slots=True)
class VolumeLost:
    """Another claim was faster: the task needs another volume for the same claim."""

    task: Task
    claim: str
    volume: str


@dataclass(frozen=True, slots=True)
class PreparationFailed:
    """The gang cannot be bound as decided. `avoided` are claims with nodes to try last."""

    why: str
    avoided: Mapping[str, str] = field(default_factory=dict)


PreparationStep = (
    PreparationReady | PreparationWrites | PreparationWaits | VolumeLost | PreparationFailed
)


def needs_preparation(choice: VolumeChoice) -> bool:
    return bool(choice.volumes or choice.provisions or choice.problem)


def next_step(
    table: VolumeTable, tasks: Sequence[Task], written: Collection[str]
) -> PreparationStep:
    """Returns what is to be done next for the volumes of these tasks.

    `written` are the claims for which a write of this batch has succeeded: one of them that lacks
    what was written has lost it since.
    """
    progress = _Progress(table, written)
    for task in tasks:
        choice = table.reservations.choices.get(task.key)
        if choice is None or choice.problem:
            return PreparationFailed(choice.problem if choice else f"{task.key} has no volumes")
        for key in (*choice.volumes, *choice.provisions):
            stopped = progress.look_at(task, choice, key)
            if stopped is not None:
                return stopped
    if progress.reserve:
        return PreparationWrites(tuple(progress.reserve.values()))
    if progress.select:
        return PreparationWrites(tuple(progress.select.values()))
    if progress.awaited:
        return PreparationWaits(progress.awaited, len(progress.bound))
    return PreparationReady()


@dataclass(slots=True)
class _Progress:
    """The writes and waits that are left, by claim: tasks may share one."""

    table: VolumeTable
    written: Collection[str]
    reserve: dict[str, ReserveVolume] = field(default_factory=dict)
    select: dict[str, SelectNode] = field(default_factory=dict)
    awaited: dict[str, str] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)

    def look_at(
        self, task: Task, choice: VolumeChoice, key: str
    ) -> PreparationFailed | VolumeLost | None:
        """Notes how far one claim is. Returns why the batch cannot go on, if it cannot."""
        claim = self.table.objects.claims.get(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return PreparationFailed(f"claim {key} is gone or being deleted")
        if is_bound(claim):
            return self._look_at_bound(task, choice, claim)
        if key in choice.volumes:
            return self._look_at_volume(task, choice.volumes[key], claim)
        return self._look_at_provision(choice.node, claim)

    def _look_at_bound(
        self, task: Task, choice: VolumeChoice, claim: PersistentVolumeClaim
    ) -> PreparationFailed | None:
        key, volume = str(claim.metadata.key), self.table.objects.volume_of(claim)
        if volume is None:
            name = claim.spec.volume_name
            self.awaited.setdefault(key, f"whose volume {name} is not known yet")
            return None
        if task.node == NOWHERE or not self.table.masks.reaching(volume)[task.node]:
            why = f"volume {volume.metadata.name} of claim {key} is not reached from {choice.node}"
            return PreparationFailed(why)
        self.bound.add(key)
        return None

    def _look_at_volume(
        self, task: Task, name: str, claim: PersistentVolumeClaim
    ) -> PreparationFailed | VolumeLost | None:
        key = str(claim.metadata.key)
        volume = self.table.objects.volumes.get(name)
        if volume is None or (volume.spec.claim_ref is not None and not is_for(volume, claim)):
            return VolumeLost(task, key, name)
        # A reservation by hand leaves the UID out; the volume controller completes it by itself.
        if volume.spec.claim_ref is None:
            if key in self.written:
                return PreparationFailed(f"volume {name} was taken back from claim {key}")
            self.reserve.setdefault(key, ReserveVolume(volume, claim))
        self.awaited.setdefault(key, f"to be bound to volume {name}")
        return None

    def _look_at_provision(
        self, node: str, claim: PersistentVolumeClaim
    ) -> PreparationFailed | None:
        key, chosen = str(claim.metadata.key), selected_node(claim)
        # Pods that share a claim may be on several nodes; the first one's is written.
        n_users = len(self.table.reservations.users.get(key, ()))
        is_shared = is_shareable(claim) and n_users > 1
        if chosen and chosen != node and not is_shared:
            why = f"claim {key} is being provisioned for {chosen}, not for {node}"
            return PreparationFailed(why)
        if not chosen and key in self.written:
            why = f"the provisioner gave up on a volume for claim {key} on {node}"
            return PreparationFailed(why, {key: node})
        if not chosen:
            self.select.setdefault(key, SelectNode(claim, node))
        self.awaited.setdefault(key, f"to be provisioned for {chosen or node}")
        return None


def removable_pins(table: VolumeTable, tasks: Sequence[Task]) -> Iterator[SelectNode]:
    """Yields the writes that take back the nodes selected for claims of a batch that failed."""
    seen: set[str] = set()
    for task in tasks:
        choice = table.reservations.choices.get(task.key)
        for key in choice.provisions if choice is not None else ():
            claim = table.objects.claims.get(key)
            if claim is None or is_bound(claim) or key in seen or choice is None:
                continue
            if selected_node(claim) == choice.node:
                seen.add(key)
                yield SelectNode(claim, None)


def lost_pins(snapshot: SchedulerSnapshot) -> dict[str, str]:
    """Returns the claims of waiting pods that are to be provisioned on a node that is gone."""
    table, nodes = snapshot.volumes, snapshot.nodes
    return {
        key: node
        for key, node in sorted(table.objects.pinned.items())
        if ((place := nodes.find(node)) < 0 or nodes.objects[place] is None)
        and any(_is_waiting(task) for task in table.reservations.users.get(key, {}).values())
    }


def waiting_pins(snapshot: SchedulerSnapshot) -> dict[str, str]:
    """Returns the claims of waiting pods that are to be provisioned on a node that is there.

    Those on which a placed pod counts are left out, and those that pods of another scheduler use:
    it may have selected the node.
    """
    table, nodes = snapshot.volumes, snapshot.nodes
    found: dict[str, str] = {}
    for key, node in sorted(table.objects.pinned.items()):
        place, users = nodes.find(node), table.reservations.users.get(key, {}).values()
        is_gone = place < 0 or nodes.objects[place] is None
        if is_gone or not users or table.reservations.is_chosen(key):
            continue
        if all(map(_is_waiting, users)):
            found[key] = node
    return found


def _is_waiting(task: Task) -> bool:
    return task.job is not None and not task.is_foreign and task.status is TaskStatus.PENDING


def body_of(write: VolumeWrite) -> Body:
    """Returns the content of the merge patch that does a write."""
    match write:
        case ReserveVolume(_, claim):
            meta = claim.metadata
            reference = ObjectReference(
                api_version="v1",
                kind=PERSISTENT_VOLUME_CLAIMS.kind,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
            # With the annotation the volume controller may undo the reservation, too; without it
            # a reservation counts as made by hand, for ever.
            return {
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
                "spec": {"claimRef": to_body(reference)},
            }
        case SelectNode(_, node):
            return {"metadata": {"annotations": {SELECTED_NODE: node}}}
