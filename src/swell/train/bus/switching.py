"""Voluntary changes: whether one is due, and the step after which all leave the group together.

Every member answers the last step it has begun, and begins no further one until it hears the
greatest of these answers: after that step all leave. So no step is done twice, and none is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from swell.train.bus.choosing import Attendance
from swell.train.bus.messages import (
    AskBegun,
    BegunAnswer,
    MemberPhase,
    MemberStatus,
    SwitchAfter,
)
from swell.train.bus.plan import GroupPlan

# How long newcomers wait for others that are due at the same time.
GATHER_S = 1.0
# How long the last who know the state train on, when told to go, for somebody to take it over.
HANDOVER_S = 5.0


@dataclass(slots=True)
class Switch:
    """One agreement on the last step of a generation."""

    plan: GroupPlan
    number: int
    after: int | None = None
    _begun: dict[int, int] = field(default_factory=dict)  # by incarnation

    @property
    def question(self) -> AskBegun:
        return AskBegun(self.plan.generation, self.number)

    def hear(self, incarnation: int, answer: BegunAnswer) -> Iterator[SwitchAfter]:
        """Take an answer; after the last of them, the word to all."""
        if answer.switch != self.number or self.after is not None:
            return
        self._begun[incarnation] = answer.step
        if all(m.incarnation in self._begun for m in self.plan.members):
            self.after = max(self._begun.values())
            yield SwitchAfter(self.plan.generation, self.number, self.after)


@dataclass(frozen=True, slots=True)
class WantedChange:
    """The members that come and go, and whether they can be waited for or not."""

    is_possible: bool  # all have formed the present group, and nobody has trained all
    newcomers: bool
    are_more_due: bool
    is_leaving: bool
    is_state_kept: bool  # one that stays holds the state, or is ready to take it
    is_anybody_expected: bool

    def is_due(self, now: float, *, knocked: float | None, leaving: float | None) -> bool:
        if not self.is_possible:
            return False
        if self.is_leaving:
            has_waited = leaving is not None and now - leaving >= HANDOVER_S
            return self.is_state_kept or not self.is_anybody_expected or has_waited
        if not self.newcomers:
            return False
        return not self.are_more_due or (knocked is not None and now - knocked >= GATHER_S)


def may_change(
    plan: GroupPlan | None, here: Sequence[MemberStatus], attendance: Attendance
) -> WantedChange:
    """The change that the followers of a leader want; `here` are those of the present group."""
    generation = plan.generation if plan is not None else 0
    own = {member.incarnation for member in plan.members} if plan is not None else set()
    newcomers = [s for s in attendance.candidates if s.incarnation not in own]
    staying = [s for s in here if attendance.stays(s)]
    present = {s.index for s in (*newcomers, *staying)}
    going = {s.index for s in here if not attendance.stays(s)}
    n_hosts = len(attendance.roster.hosts)
    training = [s for s in here if s.phase is MemberPhase.TRAINING]
    return WantedChange(
        is_possible=all(s.formed == generation for s in training)
        and not any(s.done or s.phase is MemberPhase.DONE for s in here),
        newcomers=bool(newcomers),
        are_more_due=any(i not in present for i in range(n_hosts)),
        is_leaving=bool(going),
        is_state_kept=bool(staying or newcomers),
        is_anybody_expected=any(i not in going for i in range(n_hosts)),
    )
