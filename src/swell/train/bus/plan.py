"""A plan is one generation of the group: who trains, in which order, and whose state counts."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Held:
    """The state that a member holds; the greater one is newer.

    A step counts only within its generation: after a loss, a group that went on from an older
    state may reach a step's number a second time.
    """

    generation: int
    step: int


# Held by a member that has built its model and trained nothing.
NOTHING = Held(0, 0)


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a plan.

    The incarnation is drawn at random by the process; the instance is the operator's count of pods
    at this index. `meeting` is the port of the member's own store, where a group can meet.
    """

    index: int
    instance: int
    incarnation: int
    host: str
    meeting: int
    held: Held
    bus: int = 0  # the port at which the member listens for the others


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One generation. Members stand in the order of their ranks; the first is the leader."""

    generation: int
    epoch: int
    members: tuple[Member, ...]
    # A prefix of keys in the meeting point's store, never used before.
    prefix: str
    # The rank whose state the others take over, and the ranks that have to take it.
    source: int
    behind: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def meeting(self) -> tuple[str, int]:
        """Host and port where the members of this generation meet."""
        return self.members[self.source].host, self.members[self.source].meeting

    def rank_of(self, index: int) -> int:
        return [member.index for member in self.members].index(index)


class Departure(enum.Enum):
    """The answer to a member that will not be in the next generation."""

    LEAVE = "leave"
    # Nobody who stays holds the state: write a checkpoint first.
    SAVE = "save"
    # The others have trained all there was; nothing is left to do.
    FINISHED = "finished"
