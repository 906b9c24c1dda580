"""Which members are dead for certain, and which addresses are settled. No answer is not death."""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.train.bus.lines import Address
from swell.train.bus.messages import MemberStatus, Roster
from swell.train.bus.plan import GroupPlan, Member

# A member that a newer folder lists no more may train until it has heard of it. By this time its
# folder has been told (a minute at most on Kubernetes) or its process has been killed.
UNLISTED_S = 60.0


@dataclass(slots=True)
class Deaths:
    """All that is known for certain about deaths.

    Dead is a process whose port refuses, that has said goodbye, in whose place another one
    answers, whose instance the operator has raised, whose pod it knows to be gone, or that has not
    been listed for a minute.
    """

    _dead: set[int] = field(default_factory=set)  # incarnations
    _departed: set[int] = field(default_factory=set)  # those of them that said goodbye
    _empty: dict[Address, float] = field(default_factory=dict)  # when nobody was there
    _silent: dict[Address, float] = field(default_factory=dict)
    _unlisted: dict[int, float] = field(default_factory=dict)  # by index, since when

    def hear_goodbye(self, incarnation: int) -> None:
        self._dead.add(incarnation)
        self._departed.add(incarnation)

    def has_said_goodbye(self, incarnation: int) -> bool:
        return incarnation in self._departed

    def hear_refusal(self, address: Address, plan: GroupPlan | None, now: float) -> None:
        """The port refuses: the member that listened there is dead."""
        self._empty[address] = now
        self._silent.pop(address, None)
        if plan is not None:
            self._dead |= {m.incarnation for m in plan.members if (m.host, m.bus) == address}

    def hear_no_name(self, address: Address, now: float) -> None:
        """The name does not exist: nobody is there, though a member may have been."""
        self._empty[address] = now

    def hear_presence(self, address: Address) -> None:
        """A process answers that is at this address, by whichever of its names it was called."""
        self._empty.pop(address, None)
        self._silent.pop(address, None)

    def hear_silence(self, address: Address, now: float) -> None:
        self._silent[address] = now

    def hear_status(self, status: MemberStatus, plan: GroupPlan | None, attached: set[int]) -> None:
        """A process answers: earlier ones at its index are dead, and its own address is not empty.

        A ghost of an earlier instance proves nothing about its successor. Nor does a hello prove
        anything about a process that has a line to us at this moment.
        """
        self.hear_presence((status.host, status.bus))
        for member in plan.members if plan is not None else ():
            if member.index != status.index or member.incarnation == status.incarnation:
                continue
            same = member.instance == status.instance and member.incarnation not in attached
            if member.instance < status.instance or same:
                self._dead.add(member.incarnation)

    def read_roster(self, roster: Roster, plan: GroupPlan | None, now: float) -> None:
        for member in plan.members if plan is not None else ():
            if roster.lists(member.index):
                self._unlisted.pop(member.index, None)
            else:
                self._unlisted.setdefault(member.index, now)

    def is_dead(self, member: Member, roster: Roster, now: float) -> bool:
        if member.incarnation in self._dead or roster.instance_of(member.index) > member.instance:
            return True
        if roster.is_gone(member.index):
            return True
        unlisted = self._unlisted.get(member.index)
        return unlisted is not None and now - unlisted > UNLISTED_S

    def was_empty(self, address: Address, since: float) -> bool:
        """Whether nobody was at the address at some time since then."""
        return self._empty.get(address, -1.0) >= since

    def was_silent(self, address: Address, since: float) -> bool:
        return self._silent.get(address, -1.0) >= since
