"""What a policy is given and what it answers. Values, and no decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple, Protocol

from swell.autoscaler.cluster_resource import ClusterResource, JobState
from swell.autoscaler.views import JobId

MAX_LOAD = "0.97"


class MaxLoadError(ValueError):
    """The text is no share of a cluster."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is no load: give a number from 0 to 1, such as {MAX_LOAD}")
        self.text = text


def parse_max_load(text: str) -> Fraction:
    """The share a text stands for, exactly: 0.97 is 97/100 and not the float next to it."""
    try:
        load = Decimal(text)
    except InvalidOperation:
        raise MaxLoadError(text) from None
    if not load.is_finite() or not 0 <= load <= 1:
        raise MaxLoadError(text)
    return Fraction(load)


class SizeReason(StrEnum):
    """Why a role gets the target it gets: for events, records, metrics and the command line."""

    ROOM = "RoomForMore"
    BELOW_MINIMUM = "BelowMinimum"
    ABOVE_MAXIMUM = "AboveMaximum"
    PENDING_JOB = "PendingJob"
    OVER_COMMITTED = "OverCommitted"
    NOT_BOUND = "NotBoundInTime"
    # nothing changes
    AT_MAXIMUM = "AtMaximum"
    BALANCED = "Balanced"
    FULL = "ClusterFull"
    NO_NODE = "NoNodeFits"
    NO_CANDIDATE = "NotConsideredNow"
    HOPELESS = "CannotStart"
    # a change was wanted and is held back
    IN_PROGRESS = "ResizeInProgress"
    COOLING_DOWN = "CoolingDown"
    HELD_FOR_GROUP = "RoomHeldForGroup"
    RAISE_FAILED = "RaiseFailedBefore"
    PODS_MISSING = "PodsMissing"


class RoleId(NamedTuple):
    job: JobId
    role: str


@dataclass(frozen=True, slots=True)
class RoleTarget:
    """What one role should be, and why in words."""

    current: int
    target: int
    reason: SizeReason
    message: str
    for_group: str = ""  # who is to get the room that a shrink makes

    @property
    def delta(self) -> int:
        return self.target - self.current


@dataclass(frozen=True, slots=True)
class Parameters:
    max_load: Fraction = field(default_factory=lambda: parse_max_load(MAX_LOAD))


RoleTargets = Mapping[RoleId, RoleTarget]


class Policy(Protocol):
    def __call__(
        self, jobs: Sequence[JobState], cluster: ClusterResource, parameters: Parameters
    ) -> RoleTargets:
        """A target for every role that is considered, also where it stays as it is."""
        ...
