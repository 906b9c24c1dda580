"""The rules about devices: for a task, the nodes that refuse it, and the choice on its node.

They are those of kube-scheduler, and differ in three ways: a distinct attribute is compared with
all devices of a claim, a pool that is being updated closes only the nodes that reach it, and pods
of a gang that share a claim are placed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from swell.api import codec
from swell.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from swell.api.matching import node_selector_matches
from swell.api.pod import NodeSelector
from swell.scheduler.model.devices import refusals
from swell.scheduler.model.devices.answers import DemandAnswers
from swell.scheduler.model.devices.choices import DeviceChoice, DeviceChoices
from swell.scheduler.model.devices.claims import (
    is_allocated,
    is_only_for,
)
from swell.scheduler.model.devices.extended import EXTENDED, ExtendedResources
from swell.scheduler.model.devices.objects import DeviceObjects
from swell.scheduler.model.devices.pools import DeviceViews
from swell.scheduler.model.devices.resolving import ClaimResolver, ResolvedClaims
from swell.scheduler.model.devices.results import allocation_of
from swell.scheduler.model.devices.room import ExtendedRoom
from swell.scheduler.model.devices.search import Fit
from swell.scheduler.model.devices.usage import devices_of
from swell.scheduler.model.devices.wanted import WantedClaim
from swell.scheduler.model.gpus import faults_text
from swell.scheduler.model.nodes import NodeTable, slots
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.resources import Mask, Vector
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus
from swell.scheduler.model.volumes.rules import NodeVerdict

# What a node gains where all pods that must share it have room: more than all scores together.
_DECISIVE = 1e6
# Combinations of claims whose answers are kept; it only bounds memory.
_KEPT = 512
# Pods that will not use their claims any longer.
_LEAVING = frozenset({TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED})


class DeviceTable:
    """The devices of a cluster, those that placed tasks are to get, and the rules about them."""

    def __init__(self, nodes: NodeTable, old: DeviceTable | None = None) -> None:
        self._nodes = nodes
        self.objects = DeviceObjects()
        self.choices = DeviceChoices(self.objects, self._choice)
        self._claims = ClaimResolver(self.objects, self.choices)
        self._views = DeviceViews(nodes, self.objects.pools)
        self._demands: dict[tuple[object, ...], DemandAnswers] = {}
        self._selected: dict[bytes, Mask] = {}
        self._layout = -1
        self.extended = ExtendedResources()
        self.room = ExtendedRoom(nodes, self.objects, self._views, self.extended)
        # Tasks whose claim for extended resources has not been made yet.
        self.lacking: dict[str, Task] = {}
        if old is not None:
            self.objects.are_known = old.objects.are_known
            self.objects.are_served = old.objects.are_served
            self.choices.take_over(old.choices)

    # --- objects in and out

    def put_slice(self, found: ResourceSlice) -> None:
        self.objects.put_slice(found)

    def remove_slice(self, name: str) -> None:
        self.objects.remove_slice(name)

    def put_class(self, found: DeviceClass) -> None:
        self.objects.put_class(found)
        self.extended.put_classes(self.objects.classes)
        self._demands.clear()

    def remove_class(self, name: str) -> None:
        self.objects.remove_class(name)
        self.extended.put_classes(self.objects.classes)
        self._demands.clear()

    def put_claim(self, claim: ResourceClaim, unreadable: str = "") -> None:
        key = str(claim.metadata.key)
        self.objects.put_claim(claim, unreadable)
        self.extended.put_claim(key, claim)
        self.choices.claim_changed(key)
        self._follow_leaving(key)

    def remove_claim(self, key: str) -> None:
        self.objects.remove_claim(key)
        self.extended.remove_claim(key)
        self.choices.claim_changed(key)
        self._follow_leaving(key)

    # --- tasks in and out

    def add(self, task: Task) -> None:
        self.choices.add(task)
        self.room.add(task, 1)
        if any(one.name == EXTENDED and not one.key for one in self.choices.uses[task.key]):
            self.lacking[task.key] = task
        self.follow(task)

    def remove(self, task: Task) -> None:
        uses = self.choices.uses.get(task.key, ())
        self.choices.remove(task)
        self.room.add(task, -1)
        self.lacking.pop(task.key, None)
        for use in uses:
            self._follow_leaving(use.key)

    def follow(self, task: Task) -> None:
        """Reserves or gives back the devices of a task that has a new status or node."""
        node = self._nodes.names[task.node] if task.node != NOWHERE else ""
        self.choices.follow(task, node)
        for use in self.choices.uses.get(task.key, ()):
            self._follow_leaving(use.key)

    def forget_remembered(self) -> None:
        """Begins a session."""
        self.choices.forget_remembered()
        self.objects.use.forget_changes()
        self.room.refresh()

    def _follow_leaving(self, key: str) -> None:
        """Notes whether all pods that may use a claim are leaving, or have left."""
        claim = self.objects.claims.get(key)
        is_leaving = False
        if claim is not None and is_allocated(claim) and claim.status.reserved_for:
            users = self.choices.users.get(key, {}).values()
            staying = {one.pod.metadata.uid for one in users if one.status not in _LEAVING}
            is_leaving = is_only_pods(claim) and not any(
                one.uid in staying for one in claim.status.reserved_for
            )
        self.objects.use.set_leaving(key, is_leaving=is_leaving)

    # --- the rules

    def passing(
        self, task: Task, *, at_once: bool, eligible: Callable[[], Mask] | None = None
    ) -> Mask | None:
        """Returns the nodes that can have the claims of a task; None if devices do not matter.

        `eligible` gives the nodes where the task may go at all: a selector without a result counts
        only there, since kube-scheduler looks nowhere else.
        """
        if not self.objects.are_known:
            return None
        if not self.objects.are_served:
            return self._none()
        mask = self._mask(self._claims.resolve(task), at_once=at_once, eligible=eligible)
        native = self.room.native(task)
        if native is not None:
            others = self._claims.resolve(task, with_extended=False)
            there = self._mask(others, at_once=at_once, eligible=eligible)
            mask = np.where(native, there, mask)
        return mask

    def offered(self, task: Task) -> Mask:
        """Returns the nodes where a task has no need of devices, as plugins offer all of them."""
        native = None
        if all(one.name == EXTENDED for one in task.pod.spec.resource_claims):
            native = self.room.native(task)
        return self._none() if native is None else native

    def _mask(
        self, resolved: ResolvedClaims, *, at_once: bool, eligible: Callable[[], Mask] | None
    ) -> Mask:
        if resolved.problems:
            return self._none()
        mask = np.ones(len(self._nodes), dtype=np.bool_)
        for _, allocation, _ in resolved.fixed:
            mask &= self._reached(allocation.node_selector)
        if at_once and self._awaited(resolved):
            return self._none()
        if resolved.open:
            demand = self._demand(resolved.wanted, at_once=at_once)
            if self._has_error(demand, eligible):
                return self._none()
            mask &= demand.mask(Fit.FITS)
        sound = self._sound(resolved, at_once=at_once)
        return mask if sound is None else mask & sound

    def verdicts(
        self, task: Task, *, at_once: bool, eligible: Callable[[], Mask] | None = None
    ) -> Iterator[NodeVerdict]:
        """Yields the rules that apply to the claims of a task, with the nodes that pass each."""
        if not self.objects.are_known:
            return
        if not self.objects.are_served:
            yield self._never(WaitReason.DEVICES_NOT_SERVED, refusals.NOT_SERVED)
            return
        native = self.room.native(task)
        for verdict in self._verdicts(task, at_once=at_once, eligible=eligible):
            passing = verdict.passing if native is None else verdict.passing | native
            yield NodeVerdict(verdict.reason, passing, verdict.detail)

    def _verdicts(
        self, task: Task, *, at_once: bool, eligible: Callable[[], Mask] | None
    ) -> Iterator[NodeVerdict]:
        resolved = self._claims.resolve(task)
        for problem in resolved.problems:
            yield self._never(problem.reason, problem.text)
        for key, allocation, is_chosen in resolved.fixed:
            selector = allocation.node_selector
            detail = refusals.elsewhere(key, selector, is_chosen=is_chosen)
            yield NodeVerdict(WaitReason.DEVICE_ELSEWHERE, self._reached(selector), detail)
        if at_once and (awaited := self._awaited(resolved)):
            yield self._never(WaitReason.NO_DEVICE_FITS, refusals.still_used(awaited))
        if resolved.open and not resolved.problems:
            yield from self._open(resolved, at_once=at_once, eligible=eligible)
        sound = self._sound(resolved, at_once=at_once)
        if sound is not None and not sound.all():
            yield NodeVerdict(WaitReason.GPU_FAULT, sound, faults_text(self._nodes.gpu_faults))

    def _sound(self, resolved: ResolvedClaims, *, at_once: bool) -> Mask | None:
        """Returns the nodes whose GPUs are whole, or that give the task none; None for all."""
        nodes = self._nodes
        if not nodes.gpu_faults or resolved.problems:
            return None
        drivers = nodes.gpu_drivers
        has_gpu = any(
            one.driver in drivers and not one.admin_access
            for _, allocation, _ in resolved.fixed
            for one in allocation.devices.results
        )
        gets = np.full(len(nodes), has_gpu)
        if resolved.open and not has_gpu:
            gets = self._demand(resolved.wanted, at_once=at_once).giving(drivers)
        sound: Mask = ~(gets & nodes.has_gpu_fault)
        return sound

    def _open(
        self, resolved: ResolvedClaims, *, at_once: bool, eligible: Callable[[], Mask] | None
    ) -> Iterator[NodeVerdict]:
        keys = resolved.open
        demand = self._demand(resolved.wanted, at_once=at_once)
        if self._has_error(demand, eligible):
            text = demand.example(Fit.ERROR).why
            named = refusals.of_claim(", ".join(keys), text)
            yield self._never(WaitReason.DEVICE_SELECTOR_ERROR, named)
        if demand.has(Fit.TOO_LONG):
            detail = refusals.too_long(keys)
            yield NodeVerdict(WaitReason.NO_DEVICE_FITS, ~demand.mask(Fit.TOO_LONG), detail)
        incomplete = demand.has_incomplete()
        notes = demand.problems()
        if incomplete.any():
            detail = refusals.incomplete(keys, notes)
            yield NodeVerdict(WaitReason.DEVICE_POOL_INCOMPLETE, ~incomplete, detail)
        detail = refusals.no_device(keys, demand.counts(), [*notes, *demand.unsupported()])
        yield NodeVerdict(WaitReason.NO_DEVICE_FITS, demand.mask(Fit.FITS), detail)

    def scores(self, task: Task) -> Vector | None:
        """Returns what nodes gain for devices that are preferred, and for claims that are shared.

        None if all nodes are alike.
        """
        if not (self.objects.are_known and self.objects.are_served):
            return None
        resolved = self._claims.resolve(task)
        if resolved.problems or not resolved.open:
            return None
        total = self._demand(resolved.wanted, at_once=True).scores()
        n_sharing = max(self._n_sharing(key, task) for key in resolved.open)
        if n_sharing > 1:
            # Devices of one node tie all pods that share them to it.
            roomy = slots(task.shape, self._nodes.idle) >= n_sharing
            total = (0.0 if total is None else total) + np.where(roomy, _DECISIVE, 0.0)
        return total

    def _n_sharing(self, key: str, task: Task) -> int:
        users = self.choices.users.get(key, {})
        if len(users) <= 1:
            return 0
        pending = TaskStatus.PENDING
        return sum(one.job is task.job and one.status is pending for one in users.values())

    def _awaited(self, resolved: ResolvedClaims) -> list[str]:
        """Returns the claims for which other tasks wait to get devices that are still in use.

        Tasks that share such a claim wait with them: the devices are not theirs to take now.
        """
        use = self.objects.use
        return [
            key
            for key, allocation, is_chosen in resolved.fixed
            if is_chosen and use.is_used_by_others(key, devices_of(allocation))
        ]

    # --- claims that are in the way

    def stuck_claims(self, tasks: Sequence[Task]) -> list[str]:
        """Returns the allocated claims of waiting tasks that nobody but these tasks may use.

        They can be freed, so that all is chosen anew.
        """
        uids = {task.pod.metadata.uid for task in tasks}
        found: dict[str, None] = {}
        for task in tasks:
            for use in self.choices.uses.get(task.key, ()):
                claim = self.objects.claims.get(use.key)
                if claim is None or not is_allocated(claim) or self.choices.is_chosen(use.key):
                    continue
                if claim.metadata.deletion_timestamp is None and is_only_for(claim, uids):
                    found[use.key] = None
        return list(found)

    # --- inside

    def _demand(self, wanted: Sequence[WantedClaim], *, at_once: bool) -> DemandAnswers:
        use = self.objects.use
        now = at_once or not use.has_leaving
        key = (*map(id, wanted), now)
        demand = self._demands.get(key)
        if demand is None:
            if len(self._demands) >= _KEPT:
                self._demands.clear()
            # It holds on to the wanted claims, so that their identities stay theirs.
            demand = self._demands[key] = DemandAnswers(
                wanted, self._views, use, self.objects.selectors, at_once=now
            )
        return demand

    def _has_error(self, demand: DemandAnswers, eligible: Callable[[], Mask] | None) -> bool:
        if not demand.has(Fit.ERROR):
            return False
        return eligible is None or bool((demand.mask(Fit.ERROR) & eligible()).any())

    def _reached(self, selector: NodeSelector | None) -> Mask:
        """Returns the nodes that a selector of an allocation admits."""
        nodes = self._nodes
        if selector is None:
            return np.ones(len(nodes), dtype=np.bool_)
        if host := refusals.host_of(selector):
            mask, place = self._none(), nodes.find(host)
            if place >= 0 and nodes.objects[place] is not None:
                mask[place] = True
            return mask
        if self._layout != nodes.layout:
            self._layout = nodes.layout
            self._selected.clear()
        key = codec.encode(selector)
        if key not in self._selected:
            self._selected[key] = nodes.where(lambda node: node_selector_matches(selector, node))
        return self._selected[key]

    def _choice(self, task: Task, node: str) -> DeviceChoice:
        """Returns the devices for the claims of a task on one node."""
        place = self._nodes.find(node)
        if place < 0 or not (self.objects.are_known and self.objects.are_served):
            return DeviceChoice(node)
        native = self.room.native(task)
        resolved = self._claims.resolve(task, with_extended=native is None or not native[place])
        if resolved.problems:
            return DeviceChoice(node, problem=resolved.problems[0].text)
        if task.status is not TaskStatus.PIPELINED and (awaited := self._awaited(resolved)):
            return DeviceChoice(node, problem=refusals.still_used(awaited))
        allocations: dict[str, AllocationResult] = {}
        reserved: list[str] = []
        for key, allocation, is_chosen in resolved.fixed:
            if not self._reached(allocation.node_selector)[place]:
                detail = refusals.elsewhere(key, allocation.node_selector, is_chosen=is_chosen)
                return DeviceChoice(node, problem=detail)
            if is_chosen:
                allocations[key] = allocation
            else:
                reserved.append(key)
        if resolved.open:
            found = self._found(resolved, task, node, place)
            if isinstance(found, str):
                return DeviceChoice(node, problem=found)
            allocations |= found
        return DeviceChoice(node, allocations, tuple(reserved))

    def _found(
        self, resolved: ResolvedClaims, task: Task, node: str, place: int
    ) -> dict[str, AllocationResult] | str:
        """Returns the allocations of open claims on a node, or why there are none."""
        answer = self._demand(resolved.wanted, at_once=True).at(place)
        if answer.fit is not Fit.FITS and task.status is TaskStatus.PIPELINED:
            answer = self._demand(resolved.wanted, at_once=False).at(place)
        if answer.fit is not Fit.FITS:
            return f"the devices for {', '.join(resolved.open)} on {node} are gone"
        return {
            key: allocation_of(wanted, devices, ways, node)
            for key, wanted, devices, ways in zip(
                resolved.open, resolved.wanted, answer.devices, answer.ways, strict=True
            )
        }

    def _none(self) -> Mask:
        return np.zeros(len(self._nodes), dtype=np.bool_)

    def _never(self, reason: WaitReason, detail: str) -> NodeVerdict:
        return NodeVerdict(reason, self._none(), detail)


def is_only_pods(claim: ResourceClaim) -> bool:
    """Whether only pods may use a claim: what else may, is not known to leave."""
    return all(one.resource == "pods" and not one.api_group for one in claim.status.reserved_for)
