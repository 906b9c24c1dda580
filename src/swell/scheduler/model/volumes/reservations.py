"""The volumes that placed pods reserve until they are bound, and the pods that use each claim.

A task has a choice while it is allocated, pipelined or binding. A choice that is given back is
remembered until the next session: a step that is undone and done again gets the same volumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.model.volumes.claims import ClaimUse, claims_of, is_for
from swell.scheduler.model.volumes.objects import StorageObjects

_RESERVING = frozenset({TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING})


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """The volumes for the claims of one task on one node.

    A task whose claims are all bound has an empty choice. With a `problem` the node cannot have
    the claims any more: the task must be placed anew.
    """

    node: str
    volumes: Mapping[str, str] = field(default_factory=dict)  # claim -> existing volume
    provisions: Mapping[str, int] = field(default_factory=dict)  # claim -> bytes to be provisioned
    # The storage that the provisions count on: capacity object -> its version at the decision.
    promised_by: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


# Returns the choice for a task on the node with this name.
Choose = Callable[[Task, str], VolumeChoice]


class VolumeReservations:
    """The choices of all placed tasks, and what they take from others."""

    def __init__(self, objects: StorageObjects, choose: Choose) -> None:
        self._objects = objects
        self._choose = choose
        self.choices: dict[str, VolumeChoice] = {}  # by task
        self.taken: dict[str, str] = {}  # volume -> the claim it is chosen for
        self._chosen_for: dict[str, dict[str, VolumeChoice]] = {}  # claim -> task -> choice
        self._remembered: dict[str, tuple[str, VolumeChoice]] = {}  # task -> UID and choice
        self.users: dict[str, dict[str, Task]] = {}  # claim -> tasks that name it
        self.uses: dict[str, tuple[ClaimUse, ...]] = {}  # task -> its claims

    # --- tasks in and out

    def add(self, task: Task) -> None:
        uses = self.uses[task.key] = claims_of(task.pod)
        for use in uses:
            self.users.setdefault(use.key, {})[task.key] = task

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
        known = self.choices.get(task.key)
        if known is not None and (not reserves or known.node != node):
            self.release(task)
            known = None
        if reserves and known is None:
            self._take(task, self._again(task, node) or self._choose(task, node))

    def rechoose(self, task: Task) -> VolumeChoice:
        """Chooses anew for a task that stays on its node, because a volume of it was lost."""
        old = self.choices[task.key]
        self.release(task)
        self._remembered.pop(task.key, None)
        choice = self._choose(task, old.node)
        self._take(task, choice)
        return choice

    def forget_remembered(self) -> None:
        self._remembered.clear()

    # --- questions

    def other_choices(self, claim: str, task: Task) -> Iterable[VolumeChoice]:
        """Returns the choices of other tasks that use the same claim."""
        return (
            choice
            for key, choice in self._chosen_for.get(claim, {}).items()
            if key != task.key and not choice.problem
        )

    def is_chosen(self, claim: str) -> bool:
        """Whether a placed task counts on what was chosen for a claim."""
        return claim in self._chosen_for

    def promised(self, capacity: str, version: str) -> int:
        """Returns the bytes that placed tasks count on from one object, unchanged since."""
        sizes: dict[str, int] = {}
        for claim, choices in self._chosen_for.items():
            for choice in choices.values():
                if choice.promised_by.get(capacity) == version and claim in choice.provisions:
                    sizes[claim] = choice.provisions[claim]
        return sum(sizes.values())

    # --- inside

    def release(self, task: Task) -> None:
        choice = self.choices.pop(task.key, None)
        if choice is None:
            return
        self._remembered[task.key] = (task.pod.metadata.uid, choice)
        for claim in (*choice.volumes, *choice.provisions):
            holders = self._chosen_for.get(claim, {})
            holders.pop(task.key, None)
            if not holders:
                self._chosen_for.pop(claim, None)
        for claim, volume in choice.volumes.items():
            # Another task of the gang may share the claim, and count on the same volume.
            if not any(o.volumes.get(claim) == volume for o in self._holders(claim)):
                self.taken.pop(volume, None)

    def _holders(self, claim: str) -> Iterable[VolumeChoice]:
        return self._chosen_for.get(claim, {}).values()

    def _take(self, task: Task, choice: VolumeChoice) -> None:
        self.choices[task.key] = choice
        for claim in (*choice.volumes, *choice.provisions):
            self._chosen_for.setdefault(claim, {})[task.key] = choice
        for claim, volume in choice.volumes.items():
            self.taken[volume] = claim

    def _again(self, task: Task, node: str) -> VolumeChoice | None:
        """Returns the choice that the task had on this node before, if it can have it again."""
        uid, choice = self._remembered.pop(task.key, ("", None))
        if choice is None or uid != task.pod.metadata.uid or choice.node != node or choice.problem:
            return None
        objects = self._objects
        for key, name in choice.volumes.items():
            claim, volume = objects.claims.get(key), objects.volumes.get(name)
            if claim is None or volume is None or self.taken.get(name, key) != key:
                return None
            if volume.spec.claim_ref is not None and not is_for(volume, claim):
                return None
        return choice
