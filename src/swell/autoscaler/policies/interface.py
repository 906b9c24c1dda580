"""The arguments and results of a policy. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple, Protocol

from swell.autoscaler.cluster_resource import ClusterResource
from swell.autoscaler.goodput.sharing import SharedProfiles
from swell.autoscaler.job_state import JobState
from swell.autoscaler.views import JobId

# The default share of cpu and memory that elastic jobs may fill.
MAX_LOAD = "0.97"


class MaxLoadError(ValueError):
    """The text is not a number from 0 to 1."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is no load: give a number from 0 to 1, such as {MAX_LOAD}")
        self.text = text


def parse_max_load(text: str) -> Fraction:
    """Returns the exact share that a text means: 0.97 is 97/100 and not the nearest float."""
    try:
        load = Decimal(text)
    except InvalidOperation:
        raise MaxLoadError(text) from None
    if not load.is_finite() or not 0 <= load <= 1:
        raise MaxLoadError(text)
    return Fraction(load)


class SizeReason(StrEnum):
    """Why a role gets its target. Used by events, scale records, metrics and the command line."""

    ROOM = "RoomForMore"
    BELOW_MINIMUM = "BelowMinimum"
    ABOVE_MAXIMUM = "AboveMaximum"
    PENDING_JOB = "PendingJob"
    FASTER = "FasterWithMore"
    WORTH_MORE_ELSEWHERE = "WorthMoreElsewhere"
    OVER_COMMITTED = "OverCommitted"
    YIELDS = "YieldsToOthers"
    GOES_ON = "GoesOn"
    MOVES = "MovesTogether"
    NOT_BOUND = "NotBoundInTime"
    # The size does not change.
    AT_MAXIMUM = "AtMaximum"
    BALANCED = "Balanced"
    FULL = "ClusterFull"
    NOT_FREE_YET = "RoomNotFreeYet"
    NO_NODE = "NoNodeFits"
    TOPOLOGY_HELD = "TopologyHeld"
    QUEUE_REFUSES = "QueueRefuses"
    NO_CANDIDATE = "NotConsideredNow"
    HOPELESS = "CannotStart"
    # A change was wanted, and damping holds it back.
    IN_PROGRESS = "ResizeInProgress"
    COOLING_DOWN = "CoolingDown"
    HELD_FOR_GROUP = "RoomHeldForGroup"
    RAISE_FAILED = "RaiseFailedBefore"
    PODS_MISSING = "PodsMissing"


class RoleId(NamedTuple):
    """Identifies a role of a job."""

    job: JobId
    role: str


@dataclass(frozen=True, slots=True)
class RoleTarget:
    """The size that one role has and should have, and the reason.

    A target of 0 is no size: the whole job gives its devices to others for a while. A job that has
    done so has 0 now. With `moves` the whole job is placed anew, whether its size changes or not.
    """

    current: int
    target: int
    reason: SizeReason
    message: str
    for_group: str = ""  # the group that is to get the room of a shrink
    moves: bool = False

    @property
    def delta(self) -> int:
        return self.target - self.current

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.delta != 0 or self.moves

    @property
    def stops(self) -> bool:
        """Whether the job gives up all that it has, for a while."""
        return self.current > 0 and not self.target

    @property
    def goes_on(self) -> bool:
        """Whether the job has given up what it had, and is to queue anew."""
        return not self.current and self.target > 0


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of policies. `max_load` is the share of cpu and memory that may be used.

    `now` is the time of the decision, or None where there is none. A job that has waited for longer
    than `starve_after_s` goes before all others. `profiles` has what programs have measured in
    earlier runs; it counts for jobs that name their program. `stopped` has the jobs that have given
    their devices to others.
    """

    max_load: Fraction = field(default_factory=lambda: parse_max_load(MAX_LOAD))
    now: float | None = None
    starve_after_s: float = 1800.0
    profiles: SharedProfiles | None = None
    stopped: tuple[JobState, ...] = ()


RoleTargets = Mapping[RoleId, RoleTarget]


class Policy(Protocol):
    """A policy. It must be pure: the same arguments give the same targets."""

    def __call__(
        self, jobs: Sequence[JobState], cluster: ClusterResource, parameters: Parameters
    ) -> RoleTargets:
        """Returns a target for every role considered, changed or not."""
        ...
