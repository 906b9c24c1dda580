"""The devices that placed pods are to get until that is written, and the pods that use each claim.

A task has a choice while it is allocated, pipelined or binding. A choice that is given back is
remembered until the next session: a step that is undone and done again gets the same devices.

    no choice ---> chosen ---> written: the claim itself has the devices from then on
                     |  ^
                     |  +-- bound before the claim is seen written: a promise holds its devices
                     +----> given back
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from swell.api.devices import AllocationResult
from swell.scheduler.model.devices.claims import (
    DeviceClaimUse,
    device_claims_of,
    is_allocated,
)
from swell.scheduler.model.devices.objects import DeviceObjects
from swell.scheduler.model.devices.usage import devices_of
from swell.scheduler.model.tasks import TAKES_NOW, Task, TaskStatus

_RESERVING = frozenset({TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING})


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """The devices for the claims of one task on one node.

    With a `problem` the node cannot have the claims any more: the task must be placed anew.
    """

    node: str
    # Claim -> its allocation, without a timestamp. Tasks that share a claim have the same one.
    allocations: Mapping[str, AllocationResult] = field(default_factory=dict)
    # Claims that are allocated already: the pod only has to be added to those that use them.
    reserved: tuple[str, ...] = ()
    problem: str = ""

    @property
    def claims(self) -> tuple[str, ...]:
        """All claims that the pod must be allowed to use before it is bound."""
        return (*self.allocations, *self.reserved)


# Returns the choice for a task on the node with this name.
Choose = Callable[[Task, str], DeviceChoice]


class DeviceChoices:
    """The choices of all placed tasks, and what they take from others."""

    def __init__(self, objects: DeviceObjects, choose: Choose) -> None:
        self._objects = objects
        self._choose = choose
        self.by_task: dict[str, DeviceChoice] = {}
        self.users: dict[str, dict[str, Task]] = {}  # claim -> tasks that name it
        self.uses: dict[str, tuple[DeviceClaimUse, ...]] = {}  # task -> its claims
        self._holders: dict[str, dict[str, DeviceChoice]] = {}  # claim -> task -> choice
        self._remembered: dict[str, tuple[str, DeviceChoice]] = {}  # task -> UID and choice
        # Claims of bound pods whose allocation is not seen yet.
        self._promised: dict[str, AllocationResult] = {}

    def take_over(self, old: DeviceChoices) -> None:
        """Remembers the choices of a table that this one replaces, and what it has promised."""
        tasks = {task.key: task for users in old.users.values() for task in users.values()}
        self._remembered = dict(old._remembered)
        for key, choice in old.by_task.items():
            if key in tasks:
                self._remembered[key] = (tasks[key].pod.metadata.uid, choice)
        for claim, allocation in old._promised.items():
            self._promised[claim] = allocation
            self._objects.use.choose(claim, allocation)

    # --- tasks in and out

    def add(self, task: Task) -> None:
        uses = self.uses[task.key] = device_claims_of(task.pod)
        for use in uses:
            if use.key:
                self.users.setdefault(use.key, {})[task.key] = task
        if task.pod.spec.node_name:
            uid, choice = self._remembered.pop(task.key, ("", None))
            if choice is not None and uid == task.pod.metadata.uid:
                self._promise(choice)

    def remove(self, task: Task) -> None:
        self.release(task)
        for use in self.uses.pop(task.key, ()):
            users = self.users.get(use.key, {})
            users.pop(task.key, None)
            if not users:
                self.users.pop(use.key, None)

    def follow(self, task: Task, node: str) -> None:
        """Gives a task its choice, or takes it back, as its status and node ask for."""
        reserves = task.status in _RESERVING and bool(node) and not task.pod.spec.node_name
        known = self.by_task.get(task.key)
        if known is not None and (not reserves or known.node != node):
            self.release(task)
            if not reserves and node and TAKES_NOW[task.status]:
                self._promise(known)
            known = None
        if reserves and known is None:
            self._take(task, self._again(task, node) or self._choose(task, node))

    def release(self, task: Task) -> None:
        choice = self.by_task.pop(task.key, None)
        if choice is None:
            return
        self._remembered[task.key] = (task.pod.metadata.uid, choice)
        for claim in choice.allocations:
            holders = self._holders[claim]
            del holders[task.key]
            if not holders:
                del self._holders[claim]
                self._objects.use.choose(claim, self._promised.get(claim))

    def forget_remembered(self) -> None:
        self._remembered.clear()

    def claim_changed(self, claim: str) -> None:
        """Ends the promise of a claim that is seen allocated, or gone."""
        found = self._objects.claims.get(claim)
        if claim in self._promised and (found is None or is_allocated(found)):
            self.release_promise(claim)

    def release_promise(self, claim: str) -> None:
        """Ends the promise of a claim, because it is known to have no allocation, or has one."""
        if self._promised.pop(claim, None) is not None and claim not in self._holders:
            self._objects.use.choose(claim, None)

    # --- questions

    def is_chosen(self, claim: str) -> bool:
        """Whether a placed task counts on what was chosen for a claim."""
        return claim in self._holders or claim in self._promised

    def other_choice(self, claim: str, task: Task) -> AllocationResult | None:
        """Returns what was chosen for a claim by other tasks that use it, or is promised."""
        for key, choice in self._holders.get(claim, {}).items():
            if key != task.key:
                return choice.allocations[claim]
        return self._promised.get(claim)

    def others(self, claim: str, task: Task) -> Iterable[Task]:
        """Returns the other tasks that name a claim."""
        return (one for one in self.users.get(claim, {}).values() if one is not task)

    # --- inside

    def _take(self, task: Task, choice: DeviceChoice) -> None:
        self.by_task[task.key] = choice
        for claim, allocation in choice.allocations.items():
            self._holders.setdefault(claim, {})[task.key] = choice
            self._objects.use.choose(claim, allocation)

    def _promise(self, choice: DeviceChoice) -> None:
        for claim, allocation in choice.allocations.items():
            found = self._objects.claims.get(claim)
            if found is not None and not is_allocated(found):
                self._promised[claim] = allocation
                self._objects.use.choose(claim, allocation)

    def _again(self, task: Task, node: str) -> DeviceChoice | None:
        """Returns the choice that the task had on this node before, if it can have it again."""
        uid, choice = self._remembered.pop(task.key, ("", None))
        if choice is None or uid != task.pod.metadata.uid or choice.node != node or choice.problem:
            return None
        objects = self._objects
        if {use.key for use in self.uses[task.key]} != set(choice.claims):
            return None
        for claim, allocation in choice.allocations.items():
            found, other = objects.claims.get(claim), self.other_choice(claim, task)
            devices = devices_of(allocation)
            if found is None or objects.use.is_used_by_others(claim, devices):
                return None
            written = found.status.allocation
            if written is not None and devices_of(written) != devices:
                return None
            if other is not None and other != allocation:
                return None
        allocated = (objects.claims.get(claim) for claim in choice.reserved)
        if any(found is None or not is_allocated(found) for found in allocated):
            return None
        return choice
