r"""A member's relation to its leader: the line to it, or its own leadership.

seeking -> following, unconfirmed -> led      (the line breaks: seeking)
   \-> leading                                (another one leads by right: seeking)
"""

from __future__ import annotations

from swell.train.bus.events import SELF, LineId
from swell.train.bus.knowledge import Knowledge
from swell.train.bus.leading import ATTACH_S, Leadership
from swell.train.bus.lines import Line, Lines
from swell.train.bus.messages import (
    Follow,
    Hello,
    MemberPhase,
    MemberStatus,
    Message,
    PlanCommitted,
    Prepare,
    ProposePlan,
    StatusChange,
)
from swell.train.bus.plan import GroupPlan
from swell.train.bus.seeking import EMPTY_S, LEADS_S, Seeker


class Following:
    """The leader that a member follows, which may be itself."""

    def __init__(self, know: Knowledge, lines: Lines, now: float) -> None:
        self._know = know
        self._lines = lines
        self._seeker = Seeker()
        self.leadership: Leadership | None = None
        self.up: LineId | None = None  # the line to the leader; SELF for the leader
        self._up_since = now
        self.is_led = False  # the leader has said that it is one
        self._unled_since = now

    @property
    def leader(self) -> int | None:
        """The index of the leader, as far as it is known."""
        if self.leadership is not None:
            return self._know.status.index
        line = self._lines.get(self.up) if self.up is not None else None
        return line.status.index if line is not None and line.status is not None else None

    def say(self, message: Message) -> None:
        """Tell the leader, which may be this member itself."""
        if self.up is not None:
            self._lines.send(self.up, message)

    # ---- finding a leader

    def seek(self, now: float) -> None:
        """Look for the leader, if there is none."""
        if self.up is not None:
            return
        found = self._seeker.seek(self._know, self._lines, now)
        if isinstance(found, Line):
            self._follow(found, now)
        elif found:
            self._lead(now)

    def _follow(self, line: Line, now: float) -> None:
        self.up, self._up_since, self.is_led = line.line, now, False
        self._lines.send(line.line, StatusChange(self._know.status))
        self._lines.send(line.line, Follow())
        for other in self._lines.all():
            if other.address is not None and other.line != line.line:
                self._lines.drop(other.line)

    def _lead(self, now: float) -> None:
        self.up, self.is_led = SELF, True
        self.leadership = Leadership(self._know, self._lines, now)
        self.leadership.welcome(SELF, self._know.status, now)
        for line in self._lines.known():
            if line.follows and line.status is not None:
                self.leadership.welcome(line.line, line.status, now)

    def follow_plan(self, plan: GroupPlan, now: float) -> None:
        """Follow the first of a new plan, on the line that there is, if it is the same one."""
        first = plan.members[0].incarnation
        self._resign(now)
        if first == self._know.status.incarnation:
            self.up = None
            self._lead(now)
            return
        line = self._lines.get(self.up) if self.up is not None else None
        if line is None or line.status is None or line.status.incarnation != first:
            self.up, self.is_led, self._unled_since = None, False, now

    def vote(self, line: LineId, message: Prepare | ProposePlan, now: float) -> None:
        """Answer a proposer that this member follows, or may follow from now on."""
        if self.leadership is not None and line != SELF and isinstance(message, Prepare):
            self._meet_rival(line, message, now)
        is_free = self.up is None or (not self.is_led and line != self.up)
        if is_free and line != SELF and isinstance(message, Prepare):
            self._take_for_leader(line, now)
        if line != self.up:
            return
        self.is_led = True
        know = self._know
        answer: Message | None = know.acceptor.vote(message)
        if know.plan is not None and message.after < know.generation:
            # This member has learned of a plan since they said hello, and nobody else may know it.
            answer = PlanCommitted(know.plan, forms=False)
        if answer is not None:
            self._lines.send(line, answer)

    def _take_for_leader(self, line: LineId, now: float) -> None:
        self.up, self._up_since = line, now
        # It may have changed while there was no leader to hear of it.
        self._lines.send(line, StatusChange(self._know.status))

    def call_the_first(self, now: float) -> None:
        """Let the first that is listed know of a state that leaves.

        It may be new and alone, its folder may list nobody else, and the leader may be paused.
        """
        know, status = self._know, self._know.status
        is_keeper = know.is_leaving and status.trained and status.phase is MemberPhase.READY
        if self.leadership is not None or not is_keeper or not know.roster.hosts:
            return
        is_known = any(line.status and line.status.index == 0 for line in self._lines.known())
        address = know.row(0)
        was_empty = know.deaths.was_empty(address, now - EMPTY_S)
        if not is_known and not was_empty and self._lines.to_address(address) is None:
            self._lines.dial(address, now)

    # ---- losing a leader

    def hear_hello(self, hello: Hello, now: float) -> None:
        """Give way to another leader of the same generation whose turn comes first."""
        know = self._know
        is_rival = hello.leads and hello.generation == know.generation
        if self.leadership is None or not is_rival:
            return
        if self._comes_first(hello.status, now):
            self._give_way(now)

    def _meet_rival(self, line: LineId, prepare: Prepare, now: float) -> None:
        """Another leader takes this one for a follower, as it may have been before.

        Each would wait for the other's promise for ever. The one whose turn comes later gives way;
        it hears whose turn that is on a new line, if this member does not give way itself.
        """
        rival = self._lines.get(line)
        if rival is None or rival.status is None or prepare.after != self._know.generation:
            return
        if self._comes_first(rival.status, now):
            self._give_way(now, keep=line)
        else:
            self._lines.drop(line)
            self.lose(rival, now)

    def _comes_first(self, other: MemberStatus, now: float) -> bool:
        """Whether it is another one's turn to lead before this member's."""
        know = self._know
        own, theirs = know.position(know.status, now), know.position(other, now)
        return theirs is not None and (own is None or theirs < own)

    def _give_way(self, now: float, keep: LineId | None = None) -> None:
        """Lead no more: those who follow this member have to find another leader."""
        for line in self._lines.known():
            if line.follows and line.line != keep:
                self._lines.drop(line.line)
        self._resign(now)

    def _resign(self, now: float) -> None:
        """Lead no more; the lines of followers stay until they have found another leader."""
        self.leadership = None
        if self.up == SELF:
            self.up, self.is_led, self._unled_since = None, False, now

    def lose(self, line: Line, now: float) -> bool:
        """A line is closed; whether it was the one to the leader."""
        if self.leadership is not None:
            self.leadership.lose(line.line, now)
        if line.line != self.up:
            return False
        self.up, self._unled_since = None, now
        return True

    def check(self, now: float) -> None:
        """Pass over one that was taken for the leader, and does not say that it is."""
        if self.leadership is not None:
            self.leadership.drop_idle_probes(now)
        elif self.up is not None and not self.is_led and now - self._up_since > LEADS_S:
            self._seeker.pass_over(self.up, now)
            self.up = None

    def is_alone(self, now: float) -> bool:
        """Whether this member cannot find the leader of its plan, and so must not train."""
        is_unled = self.up is None or not self.is_led
        return is_unled and now - self._unled_since > ATTACH_S

    def end(self) -> None:
        """Neither follow nor lead any more."""
        self.leadership, self.up = None, None
