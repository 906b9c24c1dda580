"""When all is trained: members end together, and hand the last state to those who lack it.

A member that has done the last step waits in its group. If the group breaks up meanwhile, it takes
part in the next one, which gives its state to the others.
"""

from __future__ import annotations

from typing import Protocol

from swell.train.bus.knowledge import Knowledge
from swell.train.bus.messages import MemberPhase, MemberStatus

# How long a group of some that have trained all waits for those that it has lost.
MISSING_S = 3.0
# How long a member that has trained all waits for a next group, which may need its state.
REGROUP_S = 10.0


class Attendees(Protocol):
    """The leader's view of a process that follows it."""

    def __call__(self, incarnation: int, /) -> MemberStatus | None: ...


def is_all_trained(know: Knowledge, status_of: Attendees, waited: float, now: float) -> bool:
    """Whether all of the last plan have the last state, apart from the dead and the lost.

    A process that lost its line comes back soon, unless it is frozen or cut off.
    """
    n_done = 0
    for member in know.plan.members if know.plan is not None else ():
        status = status_of(member.incarnation)
        if status is None:
            is_gone = know.deaths.has_said_goodbye(member.incarnation) or know.is_dead(member, now)
            if not is_gone and waited < MISSING_S:
                return False
        elif not status.done:
            return False
        else:
            n_done += 1
    return n_done > 0


class LastWait:
    """How long a member that has trained all has waited outside any group."""

    def __init__(self) -> None:
        self._since: float | None = None

    def is_due(self, know: Knowledge, now: float, *, is_alone: bool) -> bool:
        """Whether it ends by itself: it finds no group any more."""
        if not know.status.done or know.status.phase is not MemberPhase.READY:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        return is_alone or now - self._since > REGROUP_S
