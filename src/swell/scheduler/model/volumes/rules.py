"""The rules about volumes: for a task, the nodes that refuse it, and the choice on its node.

Rules are those of kube-scheduler, checked for all nodes at once. They differ in four ways: storage
that is promised to one pod is not promised to another; pods of a gang may share one claim that
several nodes can use; a full matching is searched for where the greedy one fails; and a volume that
is reserved for a claim counts as the claim's own, since the volume controller will bind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from swell.api.storage import CsiStorageCapacity, PersistentVolumeClaim, StorageClass
from swell.scheduler.model.nodes import NodeTable, slots
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.resources import Mask, Vector
from swell.scheduler.model.tasks import NOWHERE, TAKES_LATER, TAKES_NOW, Task, TaskStatus
from swell.scheduler.model.volumes import refusals
from swell.scheduler.model.volumes.attachments import Attachments
from swell.scheduler.model.volumes.claims import (
    ClaimState,
    ClaimUse,
    amount_bytes,
    belongs_to,
    has_provisioner,
    is_exclusive,
    is_shareable,
    offers_modes_for,
    requested_bytes,
    selected_node,
    state_of,
)
from swell.scheduler.model.volumes.matching import Candidates, candidates_for, choose
from swell.scheduler.model.volumes.node_masks import NodeMasks
from swell.scheduler.model.volumes.objects import StorageObjects
from swell.scheduler.model.volumes.reservations import VolumeChoice, VolumeReservations

# What a node loses in score where a claim has failed before, and gains where all pods that must
# share a node have room: more than all other scores together.
_DECISIVE = 1e6


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """The nodes that pass one rule, and in words why the others do not."""

    reason: WaitReason
    passing: Mask
    detail: str


@dataclass(frozen=True, slots=True)
class _OpenClaim:
    """A claim without a volume, with the nodes where it may have which."""

    key: str
    size: int
    candidates: Candidates
    reachable: Mask  # candidates x nodes
    provisionable: Mask  # nodes where a new volume can be made
    exhausted: Mask  # nodes where only the storage is missing for that

    def names_at(self, place: int) -> list[str]:
        return [name for at, name in enumerate(self.candidates.names) if self.reachable[at, place]]


class VolumeTable:
    """The storage objects of a cluster, the volumes reserved in it, and the rules about them."""

    def __init__(self, nodes: NodeTable, avoided: Mapping[str, Mapping[str, float]]) -> None:
        self._nodes = nodes
        self._avoided = avoided  # claim -> nodes where it got no volume
        self.objects = StorageObjects()
        self.masks = NodeMasks(nodes)
        self.reservations = VolumeReservations(self.objects, self._choice)
        self._attachments = Attachments(self.objects, self.reservations.uses)

    # --- tasks in and out

    def add(self, task: Task) -> None:
        self.reservations.add(task)
        self.follow(task, NOWHERE)

    def remove(self, task: Task) -> None:
        self.reservations.remove(task)
        self._attachments.follow(task, self._name(task.node), "")

    def follow(self, task: Task, old: int) -> None:
        """Reserves or gives back the volumes of a task that has a new status or node."""
        node = self._name(task.node)
        self._attachments.follow(task, self._name(old), node)
        self.reservations.follow(task, node)

    def _name(self, place: int) -> str:
        return self._nodes.names[place] if place != NOWHERE else ""

    # --- the rules

    def verdicts(
        self, task: Task, *, at_once: bool, zones: bool = True, limits: bool = True
    ) -> Iterator[NodeVerdict]:
        """Yields the rules that apply to the claims of a task, with the nodes that pass each."""
        if not self.objects.are_known:
            return
        delayed: list[PersistentVolumeClaim] = []
        immediate: list[str] = []
        for use in self.reservations.uses.get(task.key, ()):
            claim = self.objects.claims.get(use.key)
            if claim is None or (use.is_ephemeral and not belongs_to(claim, task.pod)):
                served = self.objects.are_claims_served
                detail = refusals.missing(use, is_foreign=claim is not None, are_served=served)
                yield self._none(WaitReason.VOLUME_NOT_FOUND, detail)
                continue
            match state_of(claim, self.objects.class_of(claim)):
                case ClaimState.UNUSABLE:
                    yield self._none(WaitReason.VOLUME_NOT_FOUND, refusals.unusable(claim))
                case ClaimState.IMMEDIATE:
                    immediate.append(use.key)
                case ClaimState.DELAYED:
                    delayed.append(claim)
                case ClaimState.BOUND:
                    yield from self._bound(claim, use, zones=zones)
            yield from self._exclusive(claim, task, at_once=at_once)
        if immediate:
            yield self._none(WaitReason.VOLUME_NOT_BOUND, refusals.immediate(immediate))
        yield from self._delayed(task, delayed)
        if limits:
            yield from self._limits(task, at_once=at_once)

    def _limits(self, task: Task, *, at_once: bool) -> Iterator[NodeVerdict]:
        mask, driver = self._attachments.full_nodes(
            task, self._nodes, self.masks.every(), at_once=at_once
        )
        if driver:
            yield NodeVerdict(WaitReason.VOLUME_LIMIT, mask, refusals.limit(driver))

    def scores(self, task: Task) -> Vector | None:
        """Returns what nodes lose where a claim of the task failed, and gain for shared claims."""
        total: Vector | None = None
        for use in self.reservations.uses.get(task.key, ()):
            for node in self._avoided.get(use.key, ()):
                total = np.zeros(len(self._nodes)) if total is None else total
                if (place := self._nodes.find(node)) >= 0:
                    total[place] -= _DECISIVE
            n_sharing = self._n_sharing(use.key, task)
            if n_sharing > 1:
                roomy = slots(task.shape, self._nodes.idle) >= n_sharing
                total = (0.0 if total is None else total) + np.where(roomy, _DECISIVE, 0.0)
        return total

    def _n_sharing(self, key: str, task: Task) -> int:
        """Returns how many pending pods of the gang must be on one node because of a claim."""
        claim = self.objects.claims.get(key)
        users = self.reservations.users.get(key, {})
        if claim is None or len(users) <= 1 or is_shareable(claim):
            return 0
        pending = TaskStatus.PENDING
        return sum(one.job is task.job and one.status is pending for one in users.values())

    # --- bound claims

    def _bound(
        self, claim: PersistentVolumeClaim, use: ClaimUse, *, zones: bool
    ) -> Iterator[NodeVerdict]:
        volume = self.objects.volume_of(claim)
        if volume is None:
            detail = refusals.volume_gone(claim)
            yield self._none(WaitReason.VOLUME_NODE_MISMATCH, detail)
            return
        reaching = self.masks.reaching(volume)
        detail = refusals.bound_elsewhere(claim, volume)
        yield NodeVerdict(WaitReason.VOLUME_NODE_MISMATCH, reaching, detail)
        if zones and not use.is_ephemeral:
            in_zones = self.masks.in_zones_of(volume)
            if in_zones is not None:
                detail = refusals.other_zone(claim, volume)
                yield NodeVerdict(WaitReason.VOLUME_ZONE_MISMATCH, in_zones, detail)

    def _exclusive(
        self, claim: PersistentVolumeClaim, task: Task, *, at_once: bool
    ) -> Iterator[NodeVerdict]:
        if not is_exclusive(claim):
            return
        key = str(claim.metadata.key)
        takes = TAKES_NOW if at_once else TAKES_LATER
        for other in self.reservations.users.get(key, {}).values():
            if other is task or not (takes[other.status] or TAKES_LATER[other.status]):
                continue
            is_same_gang = other.job is not None and other.job is task.job
            detail = refusals.in_use(key, other.key, is_same_gang=is_same_gang)
            yield self._none(WaitReason.VOLUME_IN_USE, detail)
            return

    # --- claims that wait for a node

    def _delayed(
        self, task: Task, claims: Sequence[PersistentVolumeClaim]
    ) -> Iterator[NodeVerdict]:
        for claim in claims:
            if (pinned := self._pinned(claim, task)) is not None:
                yield pinned
        found = self._open(task, claims)
        if not found:
            return
        passing = self._solvable(found)
        exhausted = np.logical_or.reduce([one.exhausted for one in found]) & ~passing
        if exhausted.any():
            short = [one.key for one in found if one.exhausted.any()]
            detail = refusals.exhausted(short)
            yield NodeVerdict(WaitReason.STORAGE_EXHAUSTED, ~exhausted, detail)
        detail = refusals.no_volume([self._why_none(one) for one in found])
        yield NodeVerdict(WaitReason.NO_VOLUME_FITS, passing | exhausted, detail)

    def _pinned(self, claim: PersistentVolumeClaim, task: Task) -> NodeVerdict | None:
        """Returns the nodes that a claim allows whose node or volume is chosen already."""
        key = str(claim.metadata.key)
        other = next(iter(self.reservations.other_choices(key, task)), None)
        can_spread = is_shareable(claim) and len(self.reservations.users.get(key, ())) > 1
        if other is not None and key in other.volumes:
            volume = self.objects.volumes.get(other.volumes[key])
            mask = self.masks.none() if volume is None else self.masks.reaching(volume)
            if not is_shareable(claim):
                mask = mask & self.masks.only(other.node)
            detail = refusals.shared(key, other.node)
            return NodeVerdict(WaitReason.VOLUME_PINNED, mask, detail)
        node = selected_node(claim) or (other.node if other is not None else "")
        if not node:
            return None
        if can_spread:
            mask, _ = self._provisionable(claim, 0)
            return NodeVerdict(WaitReason.NO_VOLUME_FITS, mask, refusals.not_allowed(key))
        mask = self.masks.only(node)
        is_known = self._nodes.find(node) >= 0
        detail = refusals.pinned(key, node, is_known=is_known)
        return NodeVerdict(WaitReason.VOLUME_PINNED, mask, detail)

    def _open(self, task: Task, claims: Sequence[PersistentVolumeClaim]) -> list[_OpenClaim]:
        """Returns the claims that are free to be matched or provisioned, the smallest first."""
        found: list[_OpenClaim] = []
        beside: dict[str, int] = {}  # bytes that other claims of the pod will need, by class
        for claim in sorted(claims, key=requested_bytes):
            key = str(claim.metadata.key)
            if selected_node(claim) or any(self.reservations.other_choices(key, task)):
                continue
            one = self._open_claim(claim, beside.get(claim.spec.storage_class_name or "", 0))
            found.append(one)
            if not one.candidates.names:
                name = claim.spec.storage_class_name or ""
                beside[name] = beside.get(name, 0) + one.size
        return found

    def _open_claim(self, claim: PersistentVolumeClaim, beside: int) -> _OpenClaim:
        key, objects = str(claim.metadata.key), self.objects
        storage_class = objects.class_of(claim)
        name = storage_class.metadata.name if storage_class is not None else ""
        of_class = list(objects.volumes_of(name))
        candidates = candidates_for(claim, of_class, self.reservations.taken)
        masks = [self.masks.reaching(objects.volumes[name]) for name in candidates.names]
        if len(self.reservations.users.get(key, ())) > 1 and len(masks) > 1:
            # Pods of a gang share it: volumes that more nodes reach come first.
            order = sorted(range(len(masks)), key=lambda at: -int(masks[at].sum()))
            candidates = Candidates(tuple(candidates.names[at] for at in order))
            masks = [masks[at] for at in order]
        none = self.masks.none()
        provisionable, exhausted = none, none
        # The volume controller will bind a volume that is reserved for the claim, unless a mode of
        # access is missing: then the claim can be provisioned where the volume is not reached.
        is_waited_for = candidates.is_final and offers_modes_for(
            objects.volumes[candidates.names[0]], claim
        )
        if not is_waited_for:
            provisionable, exhausted = self._provisionable(claim, beside)
        reachable = np.array(masks) if masks else np.zeros((0, len(none)), dtype=np.bool_)
        size = requested_bytes(claim)
        return _OpenClaim(key, size, candidates, reachable, provisionable, exhausted)

    def _provisionable(self, claim: PersistentVolumeClaim, beside: int) -> tuple[Mask, Mask]:
        """Returns where a new volume can be made, and where only the storage is missing."""
        storage_class = self.objects.class_of(claim)
        if storage_class is None or not has_provisioner(storage_class):
            return self.masks.none(), self.masks.none()
        allowed = self.masks.allowed(storage_class.allowed_topologies)
        driver = self.objects.csi_drivers.get(storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return allowed, self.masks.none()
        size, enough = requested_bytes(claim), self.masks.none()
        for one in self.objects.capacities_of(storage_class.metadata.name):
            if self._suffices(one, size, beside):
                enough = enough | self.masks.labelled(one.node_topology)
        return allowed & enough, allowed & ~enough

    def _suffices(self, one: CsiStorageCapacity, size: int, beside: int) -> bool:
        largest = one.capacity if one.maximum_volume_size is None else one.maximum_volume_size
        if largest is None or amount_bytes(largest) < size:
            return False
        if one.capacity is None:
            return True
        meta = one.metadata
        promised = self.reservations.promised(str(meta.key), meta.resource_version)
        return size + beside + promised <= amount_bytes(one.capacity)

    def _solvable(self, found: Sequence[_OpenClaim]) -> Mask:
        """Returns the nodes where every claim can have a volume."""
        if len(found) == 1:
            (one,) = found
            passing: Mask = one.reachable.any(axis=0) | one.provisionable
            return passing
        # Nodes of equal columns have equal answers: each kind of node is solved once.
        rows = [one.provisionable[None, :] for one in found] + [one.reachable for one in found]
        _, first, kind = np.unique(
            np.concatenate(rows), axis=1, return_index=True, return_inverse=True
        )
        answers = np.array([_solve(found, int(place)) is not None for place in first])
        solvable: Mask = answers[kind.reshape(-1)]
        return solvable

    def _why_none(self, one: _OpenClaim) -> str:
        claim = self.objects.claims[one.key]
        storage_class = self.objects.class_of(claim)
        if one.candidates.is_final:
            return refusals.reserved_elsewhere(claim, self.objects.volumes[one.candidates.names[0]])
        of_class = [] if storage_class is None else self._of_class(storage_class)
        return refusals.no_volume_for(claim, of_class, len(one.candidates.names))

    def _of_class(self, storage_class: StorageClass) -> list[bool]:
        """Returns for each volume of a class whether another claim has it, or was given it."""
        return [
            volume.spec.claim_ref is not None or volume.metadata.name in self.reservations.taken
            for volume in self.objects.volumes_of(storage_class.metadata.name)
        ]

    # --- the choice on one node

    def _choice(self, task: Task, node: str) -> VolumeChoice:
        """Returns the volumes for the claims of a task on one node."""
        place = self._nodes.find(node)
        if place < 0 or not self.objects.are_known:
            return VolumeChoice(node)
        volumes: dict[str, str] = {}
        provisions: dict[str, int] = {}
        delayed: list[PersistentVolumeClaim] = []
        for use in self.reservations.uses.get(task.key, ()):
            claim = self.objects.claims.get(use.key)
            if claim is None:
                return VolumeChoice(node, problem=f"claim {use.key} is gone")
            if state_of(claim, self.objects.class_of(claim)) is ClaimState.DELAYED:
                delayed.append(claim)
        for claim in delayed:
            key = str(claim.metadata.key)
            pinned = self._pinned(claim, task)
            if pinned is None:
                continue
            if not pinned.passing[place]:
                return VolumeChoice(node, problem=pinned.detail)
            shared = next(iter(self.reservations.other_choices(key, task)), None)
            if shared is not None and key in shared.volumes:
                volumes[key] = shared.volumes[key]
            else:
                provisions[key] = requested_bytes(claim)
        found = self._open(task, delayed)
        solved = _solve(found, place)
        if solved is None:
            detail = refusals.no_volume([self._why_none(one) for one in found])
            return VolumeChoice(node, problem=detail)
        sizes = {one.key: one.size for one in found}
        volumes |= {key: name for key, name in solved.items() if name is not None}
        provisions |= {key: sizes[key] for key, name in solved.items() if name is None}
        return VolumeChoice(node, volumes, provisions, self._promises(provisions, place))

    def _promises(self, provisions: dict[str, int], place: int) -> dict[str, str]:
        """Returns the storage objects that the provisions count on, with their versions."""
        found: dict[str, str] = {}
        for key in provisions:
            storage_class = self.objects.class_of(self.objects.claims[key])
            if storage_class is None or storage_class.provisioner not in self.objects.csi_drivers:
                continue
            for one in self.objects.capacities_of(storage_class.metadata.name):
                if self.masks.labelled(one.node_topology)[place]:
                    found[str(one.metadata.key)] = one.metadata.resource_version
        return found

    def _none(self, reason: WaitReason, detail: str) -> NodeVerdict:
        return NodeVerdict(reason, self.masks.none(), detail)


def _solve(found: Sequence[_OpenClaim], place: int) -> dict[str, str | None] | None:
    return choose(
        [(one.key, one.names_at(place)) for one in found],
        {one.key for one in found if one.provisionable[place]},
    )
