"""How a plan is agreed on: Paxos, with one instance for each plan that follows another.

The electorate is the members of the last committed plan, by incarnation: a process that has
restarted remembers no promise, so it is another voter. Those who leave vote, too. A quorum is

- most of the electorate; or
- exactly half of it with its first; or
- the survivors, however few, if all others are dead for certain *and* every known address was
  settled: its process follows the proposer, or nobody is there. A plan that the dead may have
  committed with newcomers is known to one of these, or to nobody.

Any two of these have a member in common, or the members that they do not share are dead.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from swell.train.bus.messages import (
    Ballot,
    Outbid,
    PlanAccepted,
    Prepare,
    Promise,
    ProposePlan,
)
from swell.train.bus.plan import GroupPlan, Member


class Quorum(enum.Enum):
    """The right of some voters to decide on the next plan."""

    NONE = "none"
    # All the others are dead for certain.
    SURVIVORS = "survivors"
    MOST = "most"


def quorum_of(
    plan: GroupPlan | None,
    agreeing: Collection[int],
    is_dead: Callable[[Member], bool],
    *,
    is_settled: Callable[[], bool],
) -> Quorum:
    """The right of the agreeing incarnations to decide on the plan that follows."""
    voters = plan.members if plan is not None else ()
    n_agreeing = sum(voter.incarnation in agreeing for voter in voters)
    if 2 * n_agreeing > len(voters):
        return Quorum.MOST
    if voters and 2 * n_agreeing == len(voters) and voters[0].incarnation in agreeing:
        return Quorum.MOST
    missing = [voter for voter in voters if voter.incarnation not in agreeing]
    if all(is_dead(voter) for voter in missing) and is_settled():
        return Quorum.SURVIVORS
    return Quorum.NONE


@dataclass(slots=True)
class Acceptor:
    """A voter's memory for the plan that follows the generation `after`."""

    after: int = 0
    promised: Ballot | None = None
    accepted: Ballot | None = None
    plan: GroupPlan | None = None

    def reset(self, after: int) -> None:
        """Begin the next instance: the plan of generation `after` is committed."""
        self.after = after
        self.promised = self.accepted = self.plan = None

    def vote(self, message: Prepare | ProposePlan) -> Promise | PlanAccepted | Outbid | None:
        """The answer to a proposer; None for one that asks about another plan than the next."""
        return self._prepare(message) if isinstance(message, Prepare) else self._accept(message)

    def _prepare(self, message: Prepare) -> Promise | Outbid | None:
        if message.after != self.after:
            return None
        if self.promised is not None and message.ballot < self.promised:
            return Outbid(self.after, self.promised)
        self.promised = message.ballot
        return Promise(self.after, message.ballot, self.accepted, self.plan)

    def _accept(self, message: ProposePlan) -> PlanAccepted | Outbid | None:
        if message.after != self.after:
            return None
        if self.promised is not None and message.ballot < self.promised:
            return Outbid(self.after, self.promised)
        self.promised = self.accepted = message.ballot
        self.plan = message.plan
        return PlanAccepted(self.after, message.ballot)


@dataclass(slots=True)
class Candidacy:
    """A proposer's side of one ballot."""

    after: int
    ballot: Ballot
    promised: set[int] = field(default_factory=set)  # incarnations
    # The plan of the greatest ballot that any voter has accepted: it may have been committed, so
    # it is proposed before any other.
    inherited: tuple[Ballot, GroupPlan] | None = None
    proposed: GroupPlan | None = None
    accepted: set[int] = field(default_factory=set)

    def hear_promise(self, voter: int, promise: Promise) -> None:
        if (promise.after, promise.ballot) != (self.after, self.ballot):
            return
        self.promised.add(voter)
        if promise.accepted is not None and promise.plan is not None:
            found = promise.accepted, promise.plan
            if self.inherited is None or self.inherited[0] < found[0]:
                self.inherited = found

    def hear_accepted(self, voter: int, accepted: PlanAccepted) -> None:
        if (accepted.after, accepted.ballot) == (self.after, self.ballot):
            self.accepted.add(voter)
