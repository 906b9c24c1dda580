"""The words that members exchange over their lines, and their form on the wire."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import msgspec

from swell.train.bus.plan import NOTHING, Departure, GroupPlan, Held, Member

# A plan of 4,096 members has about half a mebibyte; a longer frame is no message of ours.
FRAME_BYTES_MAX = 4 << 20


@dataclass(frozen=True, slots=True, order=True)
class Ballot:
    """One attempt of one process to have a plan agreed on; the greater one wins."""

    number: int
    index: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class Roster:
    """The members folder: host by index, and the operator's count of pods at each index.

    The count is 0 where no pod has been created. There may be more counts than hosts: those of
    indexes that a shrink gave up.

    `former` are the pods at such indexes that may still live, by index and address; None where the
    folder does not say. `succeeded` are pods that have ended with success, by index and count.
    """

    epoch: int
    hosts: tuple[str, ...]
    instances: tuple[int, ...] = ()
    former: tuple[tuple[int, str], ...] | None = None
    succeeded: tuple[tuple[int, int], ...] = ()

    def lists(self, index: int) -> bool:
        return 0 <= index < len(self.hosts)

    def instance_of(self, index: int) -> int:
        return self.instances[index] if index < len(self.instances) else 0

    @property
    def last_succeeded(self) -> set[tuple[int, int]]:
        """The pods that have ended with success and have no successor."""
        return {
            (index, count) for index, count in self.succeeded if self.instance_of(index) <= count
        }

    def is_gone(self, index: int) -> bool:
        """Whether no pod is at an index, for certain."""
        former = self.former
        return former is not None and not self.lists(index) and all(i != index for i, _ in former)

    def joined(self, older: Roster) -> Roster:
        """This folder, with all that one of the same epoch or an earlier one knows besides.

        Counts only grow. Within an epoch former pods only go, and successes only come.
        """
        counts = _larger(self.instances, older.instances)
        if older.epoch < self.epoch:
            return replace(self, instances=counts)
        former = self.former if older.former is None else older.former
        if self.former is not None and older.former is not None:
            former = tuple(one for one in older.former if one in self.former)
        succeeded = tuple(sorted({*self.succeeded, *older.succeeded}))
        return Roster(self.epoch, older.hosts, counts, former, succeeded)


def _larger(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The greater count at every index."""
    n = max(len(one), len(other))
    padded = [(*counts, *([0] * (n - len(counts)))) for counts in (one, other)]
    return tuple(max(pair) for pair in zip(*padded, strict=True))


class MemberPhase(enum.StrEnum):
    """The whereabouts of a member's training thread.

    LOADING -> READY -> TRAINING -> (BROKEN ->) READY -> ... -> DONE or GONE
    """

    LOADING = "loading"
    READY = "ready"  # it waits in `join`
    TRAINING = "training"
    BROKEN = "broken"  # its generation has broken up, and it has not noticed yet
    DONE = "done"  # it has trained all there was
    GONE = "gone"  # it was told to leave


class MemberStatus(msgspec.Struct, frozen=True):
    """A member's word about itself."""

    index: int
    instance: int
    incarnation: int
    host: str
    bus: int
    meeting: int
    phase: MemberPhase = MemberPhase.LOADING
    held: Held = NOTHING
    trained: bool = False
    leaving: bool = False
    # The last generation that was given to the training thread, and the last one in which it has
    # begun a step: from then on it holds the state of the group.
    generation: int = 0
    formed: int = 0
    # It has trained all there was, and waits for the others with the last state.
    done: bool = False

    def as_member(self) -> Member:
        held = self.held if self.trained else NOTHING
        return Member(
            self.index, self.instance, self.incarnation, self.host, self.meeting, held, self.bus
        )


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The first message in each direction of a line."""

    status: MemberStatus
    roster: Roster
    generation: int  # of the last plan that the sender knows
    leads: bool


class Follow(msgspec.Struct, frozen=True, tag=True):
    """The sender takes the receiver for the leader."""


class StatusChange(msgspec.Struct, frozen=True, tag=True):
    """A change of a follower's status."""

    status: MemberStatus


class NewRoster(msgspec.Struct, frozen=True, tag=True):
    """A newer members folder than the receiver has seen."""

    roster: Roster


class FailedGeneration(msgspec.Struct, frozen=True, tag=True):
    """A step of this generation broke off at the sender, or the group could not be formed."""

    generation: int


class Ping(msgspec.Struct, frozen=True, tag=True):
    """A sign of life."""


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """The sender leads, and asks for a promise: no ballot below this one for the plan `after`."""

    after: int
    ballot: Ballot


class Promise(msgspec.Struct, frozen=True, tag=True):
    """The promise, with the plan that the sender has accepted before, if any."""

    after: int
    ballot: Ballot
    accepted: Ballot | None = None
    plan: GroupPlan | None = None


class Outbid(msgspec.Struct, frozen=True, tag=True):
    """A refusal: the sender has promised a greater ballot to another process."""

    after: int
    promised: Ballot


class ProposePlan(msgspec.Struct, frozen=True, tag=True):
    """The plan that the sender proposes to follow the plan `after`."""

    after: int
    ballot: Ballot
    plan: GroupPlan


class PlanAccepted(msgspec.Struct, frozen=True, tag=True):
    """The sender has accepted the proposed plan."""

    after: int
    ballot: Ballot


class PlanCommitted(msgspec.Struct, frozen=True, tag=True):
    """A plan that was agreed on. `forms` is false where it is known to have broken up already."""

    plan: GroupPlan
    forms: bool


class Abort(msgspec.Struct, frozen=True, tag=True):
    """This generation has broken up."""

    generation: int


class AskBegun(msgspec.Struct, frozen=True, tag=True):
    """A question for the last step begun. No further one begins until the answer's answer."""

    generation: int
    switch: int


class BegunAnswer(msgspec.Struct, frozen=True, tag=True):
    """The last step that the sender has begun."""

    switch: int
    step: int


class SwitchAfter(msgspec.Struct, frozen=True, tag=True):
    """The step after which all leave the group together."""

    generation: int
    switch: int
    step: int


class Depart(msgspec.Struct, frozen=True, tag=True):
    """The word to leave, when there is no next plan.

    One that holds a state asks back before it leaves; `is_final` says that this is the answer.
    """

    departure: Departure
    is_final: bool = False


class MayLeave(msgspec.Struct, frozen=True, tag=True):
    """A question of one that was told to leave: whether others still hold its state."""


class Bye(msgspec.Struct, frozen=True, tag=True):
    """The last message: the sender trains no more. `done`: since all is trained."""

    done: bool


Message = (
    Hello
    | Follow
    | StatusChange
    | NewRoster
    | FailedGeneration
    | Ping
    | Prepare
    | Promise
    | Outbid
    | ProposePlan
    | PlanAccepted
    | PlanCommitted
    | Abort
    | AskBegun
    | BegunAnswer
    | SwitchAfter
    | Depart
    | MayLeave
    | Bye
)


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A message with its number on its line, from 1."""

    number: int
    message: Message


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Frame)


def encode_frame(frame: Frame) -> bytes:
    return _ENCODER.encode(frame)


def decode_frame(raw: bytes) -> Frame:
    """The frame in these bytes. Raises ValueError when they are none."""
    try:
        return _DECODER.decode(raw)
    except RecursionError as error:
        raise ValueError("nested deeper than any message") from error
