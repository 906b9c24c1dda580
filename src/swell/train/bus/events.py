"""Events that go into a member's state machine, and instructions that come out of it."""

from __future__ import annotations

from dataclasses import dataclass

from swell.train.bus.messages import Message, Roster
from swell.train.bus.plan import Departure, GroupPlan, Held

LineId = int
# The line of a member to itself: a leader is among its own followers.
SELF: LineId = 0


@dataclass(frozen=True, slots=True)
class LineOpened:
    """A line is open and both ends have proved that they know the job's secret.

    Lines that a member dials have the even numbers it gave them; those it accepts, odd ones.
    """

    line: LineId


@dataclass(frozen=True, slots=True)
class DialRefused:
    """The port refuses: the process that listened there is dead."""

    line: LineId


@dataclass(frozen=True, slots=True)
class DialUnnamed:
    """The host's name does not exist: there is no such pod (yet)."""

    line: LineId


@dataclass(frozen=True, slots=True)
class LineClosed:
    """A line is closed, or could not be opened for a reason that proves nothing."""

    line: LineId


@dataclass(frozen=True, slots=True)
class Received:
    """A message has come, with its number on the line."""

    line: LineId
    number: int
    message: Message


@dataclass(frozen=True, slots=True)
class RosterRead:
    """The members folder was read."""

    roster: Roster


@dataclass(frozen=True, slots=True)
class LeaveAsked:
    """This process was asked to leave, and has to be gone within some seconds if that is known."""

    within_s: float | None = None


@dataclass(frozen=True, slots=True)
class JoinAsked:
    """The training thread is outside any group and waits for a plan."""

    held: Held
    trained: bool


@dataclass(frozen=True, slots=True)
class StepFailed:
    """A step broke off, or the group of this generation could not be formed."""

    generation: int


@dataclass(frozen=True, slots=True)
class StepsHeld:
    """The answer to `HoldSteps`: the last step that has begun."""

    switch: int
    step: int


@dataclass(frozen=True, slots=True)
class FirstStepBegun:
    """The first step of this generation has begun."""

    generation: int


@dataclass(frozen=True, slots=True)
class LastStepDone:
    """All is trained in this generation: the training thread waits until the others say so, too."""

    generation: int


@dataclass(frozen=True, slots=True)
class TrainingDone:
    """All is trained, and nobody is waited for."""


@dataclass(frozen=True, slots=True)
class Closing:
    """This process takes part no more, though not all is trained."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    LineOpened
    | DialRefused
    | DialUnnamed
    | LineClosed
    | Received
    | RosterRead
    | LeaveAsked
    | JoinAsked
    | StepFailed
    | StepsHeld
    | FirstStepBegun
    | LastStepDone
    | TrainingDone
    | Closing
    | Tick
)


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a line to this address."""

    line: LineId
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Send a message, as the line's next one."""

    line: LineId
    number: int
    message: Message


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close a line, after all that was sent over it has gone out."""

    line: LineId


@dataclass(frozen=True, slots=True)
class AbortGeneration:
    """End the collectives of this generation; no step of it begins any more."""

    generation: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """Give this to the training thread, which waits in `join`."""

    answer: GroupPlan | Departure


@dataclass(frozen=True, slots=True)
class HoldSteps:
    """Let no step begin until `AllowSteps`, and answer with `StepsHeld`."""

    switch: int


@dataclass(frozen=True, slots=True)
class AllowSteps:
    """Let steps begin up to this one; those after it are refused."""

    last: int


Instruction = Dial | SendMessage | HangUp | AbortGeneration | Deliver | HoldSteps | AllowSteps
