"""All that a member knows, apart from its lines and its leadership."""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.train.bus.ballots import Acceptor
from swell.train.bus.lines import Address
from swell.train.bus.liveness import UNLISTED_S, Deaths
from swell.train.bus.messages import MemberStatus, Roster
from swell.train.bus.plan import GroupPlan, Member


@dataclass(frozen=True, slots=True)
class Target:
    """A place where the leader may be. A member of the plan is one process; a row, any."""

    index: int
    address: Address
    incarnation: int | None


@dataclass(slots=True)
class Knowledge:
    """A member's own status, the newest folder and plan it has seen, and the deaths it knows of."""

    status: MemberStatus
    roster: Roster
    minimum: int
    started: float
    plan: GroupPlan | None = None  # the last one that is known to be committed
    broken: int = 0  # no step of this generation, or of one before it, is done any more
    was_listed: bool = False
    # Rows that a newer folder lists no more, and since when: somebody may still be there.
    former: dict[int, tuple[Address, float]] = field(default_factory=dict)
    finished: bool = False  # somebody has trained all there was
    deaths: Deaths = field(default_factory=Deaths)
    acceptor: Acceptor = field(default_factory=Acceptor)

    @property
    def generation(self) -> int:
        return self.plan.generation if self.plan is not None else 0

    @property
    def is_broken(self) -> bool:
        return self.broken >= self.generation

    @property
    def is_ghost(self) -> bool:
        """Whether a successor of this process has been created."""
        return self.roster.instance_of(self.status.index) > self.status.instance

    @property
    def is_leaving(self) -> bool:
        """Whether this process was asked to leave, or is listed no more."""
        is_unlisted = self.was_listed and not self.roster.lists(self.status.index)
        return self.status.leaving or is_unlisted

    def is_dead(self, member: Member, now: float) -> bool:
        """Whether a member is dead for certain. So is one in whose place this process is."""
        own = self.status
        is_predecessor = member.index == own.index and member.incarnation != own.incarnation
        if is_predecessor and member.instance <= own.instance:
            return True
        return self.deaths.is_dead(member, self.roster, now)

    def is_in_plan(self, incarnation: int) -> bool:
        plan = self.plan
        return plan is not None and any(m.incarnation == incarnation for m in plan.members)

    def row(self, index: int) -> Address:
        return self.roster.hosts[index], self.status.bus

    def targets(self, now: float) -> list[Target]:
        """The places where the leader may be, likeliest first; this member's own among them.

        They are the members of the last plan by rank, then all that are listed, by index.
        """
        living = [m for m in (self.plan.members if self.plan else ()) if not self.is_dead(m, now)]
        of_plan = [Target(m.index, (m.host, m.bus), m.incarnation) for m in living]
        taken = {target.index for target in of_plan}
        listed = [
            Target(i, self.row(i), self.status.incarnation if i == self.status.index else None)
            for i in range(len(self.roster.hosts))
            if i not in taken
        ]
        former = [
            Target(index, address, None)
            for index, (address, since) in sorted(self.former.items())
            if index not in taken and now - since < UNLISTED_S
        ]
        return [*of_plan, *listed, *(t for t in former if t.index != self.status.index)]

    def replace_roster(self, roster: Roster, now: float) -> None:
        """Take a newer folder."""
        for index in range(len(roster.hosts), len(self.roster.hosts)):
            self.former.setdefault(index, (self.row(index), now))
        self.roster = roster
        self.read_former(now)
        self.was_listed = self.was_listed or roster.lists(self.status.index)
        self.deaths.read_roster(roster, self.plan, now)

    def read_former(self, now: float) -> None:
        """Take the folder's word on pods that it lists no more and that may still live."""
        for index, host in self.roster.former or ():
            self.former.setdefault(index, ((host, self.status.bus), now))
        for index in list(self.former):
            if self.roster.lists(index) or self.roster.is_gone(index):
                del self.former[index]

    def position(self, status: MemberStatus, now: float) -> int | None:
        """The place of a process among the targets; None for one that may not lead."""
        for position, target in enumerate(self.targets(now)):
            if target.incarnation == status.incarnation:
                return position
            if target.incarnation is None and target.index == status.index:
                return position
        return None

    def is_settled(self, agreed: set[int], since: float, now: float) -> bool:
        """Whether at every known address a process has agreed, or nobody was there since then."""
        known = [self.row(index) for index in range(len(self.roster.hosts))]
        former = [
            address
            for index, (address, at) in self.former.items()
            if index not in agreed and now - at < UNLISTED_S
        ]
        missing = [row for index, row in enumerate(known) if index not in agreed]
        return all(self.deaths.was_empty(address, since) for address in (*missing, *former))
