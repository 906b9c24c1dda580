"""The leader's part: it sees who is there, has steps held for a change, and proposes plans.

    steady -> (switching ->) forming -> proposing -> steady, as the leader of the next plan
       any death or failure: broken ->^

A leader without a quorum waits, and goes on asking at every known address.
"""

from __future__ import annotations

from swell.train.bus.ballots import Candidacy, Quorum, quorum_of
from swell.train.bus.choosing import (
    Attendance,
    base_of,
    choose_members,
    make_plan,
    next_generation,
)
from swell.train.bus.ending import is_all_trained
from swell.train.bus.events import SELF, LineId
from swell.train.bus.knowledge import Knowledge
from swell.train.bus.lines import Lines
from swell.train.bus.messages import (
    Abort,
    Ballot,
    BegunAnswer,
    Depart,
    FailedGeneration,
    Follow,
    MayLeave,
    MemberPhase,
    MemberStatus,
    Message,
    Outbid,
    PlanAccepted,
    PlanCommitted,
    Prepare,
    Promise,
    ProposePlan,
    StatusChange,
)
from swell.train.bus.plan import Departure, GroupPlan, Held
from swell.train.bus.probing import MemberProber
from swell.train.bus.switching import Switch, may_change

# How long members of the last plan that are not known to be dead are waited for.
TAKEOVER_S = 1.0
# How long members may take to find the leader of a plan that another one has proposed.
ATTACH_S = 3.0
# How long a training thread may take to leave a generation that has broken up.
FORM_S = 10.0
# How long a first group waits for all that are listed, if at least the minimum is there.
START_S = 30.0
# How long a group of new processes alone waits for one that may be about to load the state of those
# before. A large checkpoint takes minutes; one that never joins must not hold up the others.
LOAD_S = 300.0
# A group that holds a state asks at every listed address in this time, so that no new process
# begins from nothing beside it, whatever its own folder lists.
COLD_S = 1.0
_OUT = (MemberPhase.LOADING, MemberPhase.READY, MemberPhase.DONE, MemberPhase.GONE)


class Leadership:
    """One process' leadership after one plan, from the first follower to the next plan."""

    def __init__(self, know: Knowledge, lines: Lines, now: float) -> None:
        self._know = know
        self._lines = lines
        self._since = now  # when the last change of circumstances began
        self._statuses: dict[LineId, MemberStatus] = {}
        self._arrived: dict[int, float] = {}  # by incarnation
        self._switch: Switch | None = None
        self._n_switches = 0
        self._knocked: float | None = None
        self._leaving: float | None = None
        self._lost = False  # a member of the proposed plan
        self._has_broken_up = False
        self._dismissed: set[LineId] = set()  # followers that were told to leave
        self._ended: set[LineId] = set()  # followers that were told that all is trained
        self._prober = MemberProber(know, lines)
        promised = know.acceptor.promised
        self._candidacy = self._candidacy_above(promised.number if promised else 0)

    def _candidacy_above(self, number: int) -> Candidacy:
        me = self._know.status
        ballot = Ballot(number + 1, me.index, me.incarnation)
        return Candidacy(self._know.generation, ballot)

    def hear(self, line: LineId, status: MemberStatus, message: Message, now: float) -> None:
        """Take a message of a process that follows, or wants to."""
        if isinstance(message, Follow):
            self.welcome(line, status, now)
        if line not in self._statuses:
            return
        match message:
            case StatusChange():
                self._statuses[line] = message.status
            case FailedGeneration() if message.generation == self._know.generation:
                self.break_up(now)
            case Promise():
                self._hear_promise(line, status, message)
            case PlanAccepted():
                self._candidacy.hear_accepted(status.incarnation, message)
            case Outbid():
                self._hear_outbid(message)
            case BegunAnswer():
                self._hear_begun(status, message)
            case MayLeave() if line in self._dismissed and self._is_kept_without(status):
                self._send(line, Depart(Departure.LEAVE, is_final=True))

    def _hear_begun(self, status: MemberStatus, answer: BegunAnswer) -> None:
        for word in self._switch.hear(status.incarnation, answer) if self._switch else ():
            self._send_to_plan(word)

    # ---- followers come and go

    def welcome(self, line: LineId, status: MemberStatus, now: float) -> None:
        """Take a follower, whose earlier lines are of no use any more."""
        for other, held in list(self._statuses.items()):
            if held.incarnation == status.incarnation and other != line:
                del self._statuses[other]
        self._statuses[line] = status
        self._arrived[status.incarnation] = now
        if self._know.plan is not None and line != SELF:
            # It may have said hello before this member knew of the plan.
            self._send(line, PlanCommitted(self._know.plan, forms=False))
        self._send(line, Prepare(self._candidacy.after, self._candidacy.ballot))
        know = self._know
        if know.plan and know.is_broken and status.generation == know.generation:
            self._send(line, Abort(self._know.generation))

    def hear_status(self, line: LineId, status: MemberStatus) -> None:
        if line in self._statuses:
            self._statuses[line] = status

    def lose(self, line: LineId, now: float) -> None:
        """A follower's line is closed."""
        status = self._statuses.pop(line, None)
        if status is None:
            return
        proposed = self._candidacy.proposed
        if proposed and any(m.incarnation == status.incarnation for m in proposed.members):
            self._lost = True
        is_out = status.phase in (MemberPhase.DONE, MemberPhase.GONE)
        if self._know.is_in_plan(status.incarnation) and not is_out:
            self.break_up(now)

    def break_up(self, now: float) -> None:
        """The group cannot go on: all leave it, at once."""
        know = self._know
        if know.plan is None or self._has_broken_up:
            return
        self._has_broken_up = True
        self._since, self._switch = now, None
        for line, status in list(self._statuses.items()):
            if line == SELF or know.is_in_plan(status.incarnation):
                self._send(line, Abort(know.generation))

    def _hear_promise(self, line: LineId, status: MemberStatus, promise: Promise) -> None:
        self._candidacy.hear_promise(status.incarnation, promise)
        candidacy = self._candidacy
        if candidacy.proposed is not None:
            # It has come, or come back, while the others vote.
            self._send(line, ProposePlan(candidacy.after, candidacy.ballot, candidacy.proposed))

    def _hear_outbid(self, outbid: Outbid) -> None:
        """Somebody promised another process more: begin again above that ballot."""
        if outbid.after != self._candidacy.after or outbid.promised <= self._candidacy.ballot:
            return
        self._candidacy = self._candidacy_above(outbid.promised.number)
        for line in list(self._statuses):
            self._send(line, Prepare(self._candidacy.after, self._candidacy.ballot))

    def drop_idle_probes(self, now: float) -> None:
        self._prober.drop_idle(self._statuses, now)

    # ---- decisions

    def consider(self, now: float) -> None:
        """Do all that can be done now."""
        self._prober.probe(self._statuses.values(), self._since, now)
        if self._know.is_broken:
            # Also when the leader itself was the first to leave.
            self.break_up(now)
        waited = now - self._since
        if self._candidacy.proposed is not None:
            self._count(self._candidacy.proposed, now)
        elif is_all_trained(self._know, self._status_of, waited, now):
            self._end()
        elif self._know.plan is None or self._know.is_broken:
            self._form(now)
        else:
            self._keep(self._know.plan, now)

    def _end(self) -> None:
        """All is trained: let everybody end. The leader comes last: by then the word is out."""
        for line in sorted(self._statuses, reverse=True):
            if line not in self._ended:
                self._ended.add(line)
                self._send(line, Depart(Departure.FINISHED))

    def _keep(self, plan: GroupPlan, now: float) -> None:
        """The group trains: see that it is whole, and whether somebody comes or goes."""
        by_incarnation = {status.incarnation: status for status in self._statuses.values()}
        members = [by_incarnation.get(m.incarnation) for m in plan.members]
        here = [status for status in members if status is not None]
        if len(here) < len(members):
            if now - self._since > ATTACH_S:
                self.break_up(now)
            return
        if all(status.formed == plan.generation for status in here):
            self._dismiss_outsiders()
        is_switching = self._switch is not None and self._switch.after is not None
        if any(_has_left(s, plan.generation, is_switching=is_switching) for s in here):
            self.break_up(now)
        elif is_switching:
            if all(s.phase in _OUT for s in here):
                self._form(now)
        elif self._switch is None and self._wants_change(plan, here, now):
            self._n_switches += 1
            self._switch = Switch(plan, self._n_switches)
            self._send_to_plan(self._switch.question)

    def _dismiss_outsiders(self) -> None:
        """Let those go that leave and are in no group: all of it holds the state now."""
        attendance = self._attendance()
        for line, status in list(self._statuses.items()):
            is_member = self._know.is_in_plan(status.incarnation)
            if not is_member and not attendance.stays(status) and line not in self._dismissed:
                self._dismissed.add(line)
                self._send(line, Depart(Departure.LEAVE))

    def _is_kept_without(self, leaver: MemberStatus) -> bool:
        """Whether one that stays holds the state of a leaver."""
        attendance = self._attendance()
        others = [s for s in attendance.statuses if s.incarnation != leaver.incarnation]
        return any(
            attendance.stays(other)
            and (
                (other.phase is MemberPhase.TRAINING and other.formed == self._know.generation)
                or (other.trained and other.held >= leaver.held)
            )
            for other in others
        )

    def _wants_change(self, plan: GroupPlan, here: list[MemberStatus], now: float) -> bool:
        attendance = self._attendance()
        change = may_change(plan, here, attendance)
        if change.is_leaving and self._leaving is None:
            self._leaving = now
        if not change.newcomers:
            self._knocked = None
        elif self._knocked is None:
            self._knocked = now
        return change.is_due(now, knocked=self._knocked, leaving=self._leaving)

    def _form(self, now: float) -> None:
        """All are out of the group, or should be: choose the next plan, if that may be done."""
        know, candidacy = self._know, self._candidacy
        here = {status.incarnation for status in self._statuses.values()}
        quorum = self._quorum(candidacy.promised & here, now)
        if quorum is not Quorum.MOST and self._have_others_finished(now):
            # This member ends in the same turn, and its followers hear of it by its goodbye.
            know.finished = True
            return
        if quorum is Quorum.NONE:
            return
        if candidacy.inherited is not None:
            # It may have been committed: nothing else can be proposed before it.
            self._propose(candidacy.inherited[1])
            return
        if self._waits_for_members(now):
            return
        attendance = self._attendance()
        newest = attendance.newest
        if (newest is None or newest < base_of(know.plan)) and not self._is_certain(now):
            return  # one that does not answer holds a newer state
        chosen = choose_members(attendance)
        cold = not any(know.is_in_plan(incarnation) for incarnation in here)
        if self._begins_anew(here, newest) and self._waits_for_start(attendance, now):
            return
        if not chosen or len(chosen) < know.minimum:
            self._let_go(attendance, now)
            return
        self._propose(self._plan_of(chosen, quorum, newest, cold=cold))

    def _have_others_finished(self, now: float) -> bool:
        """Whether one that is missing has ended with success: then it has trained all there was.

        One that ended for another reason has said goodbye. To a new process, which knows no plan,
        the folder alone says so: the address of an ended pod may be silent for ever.
        """
        know = self._know
        if now - self._since < TAKEOVER_S:
            return False
        here = {status.incarnation for status in self._statuses.values()}
        accounted = {
            (m.index, m.instance)
            for m in (know.plan.members if know.plan is not None else ())
            if m.incarnation in here or know.deaths.has_said_goodbye(m.incarnation)
        }
        return bool(know.roster.last_succeeded - accounted)

    def _plan_of(
        self, chosen: list[MemberStatus], quorum: Quorum, newest: Held | None, *, cold: bool
    ) -> GroupPlan:
        know = self._know
        generation = next_generation(
            know.generation,
            know.roster,
            newest=newest,
            survivors=quorum is Quorum.SURVIVORS,
            cold=know.status.incarnation if cold else None,
        )
        return make_plan(
            chosen,
            generation=generation,
            epoch=know.roster.epoch,
            last=know.plan,
            proposer=know.status.incarnation,
        )

    def _waits_for_members(self, now: float) -> bool:
        """Whether a member of the last plan may still come, or leave its group."""
        know, waited = self._know, now - self._since
        for member in know.plan.members if know.plan else ():
            status = self._status_of(member.incarnation)
            if status is not None and status.phase not in _OUT:
                here = now - self._arrived[member.incarnation]
                if not know.is_broken or min(waited, here) < FORM_S:
                    return True
            elif status is None and waited < TAKEOVER_S and not know.is_dead(member, now):
                return True
        return False

    def _begins_anew(self, here: set[int], newest: Held | None) -> bool:
        """Whether nobody here has been in the last group, or nobody has the state of it.

        A member of the last plan may have been paused until that group was over: it then holds no
        more than a new process.
        """
        return newest is None or not any(map(self._know.is_in_plan, here))

    def _waits_for_start(self, attendance: Attendance, now: float) -> bool:
        # After a plan, those who have heard of it as late as this process may hold its state.
        since = self._since if self._know.plan is not None else self._know.started
        if now - since < COLD_S or self._may_load_state(attendance, now):
            return True
        return not self._are_all_here(attendance) and now - self._since < START_S

    def _are_all_here(self, attendance: Attendance) -> bool:
        """Whether a first plan would wait in vain for more processes.

        One that leaves with the state waits for this plan, and its successor comes when it is gone.
        """
        ready = {s.index for s in (*attendance.candidates, *attendance.holders)}
        return all(index in ready for index in range(len(self._know.roster.hosts)))

    def _may_load_state(self, attendance: Attendance, now: float) -> bool:
        """Whether one that follows may load what the group before has trained, and saved."""
        return self._know.plan is not None and any(
            status.phase is MemberPhase.LOADING
            and attendance.stays(status)
            and now - self._arrived[status.incarnation] < LOAD_S
            for status in attendance.statuses
        )

    def _let_go(self, attendance: Attendance, now: float) -> None:
        """There is no next plan now, but those who leave shall not wait for one."""
        going = [status for status in attendance.ready if not attendance.stays(status)]
        kept = any(attendance.stays(status) for status in attendance.holders)
        if not going:
            return
        if self._leaving is None:
            self._leaving = now
        change = may_change(self._know.plan, going, attendance)
        if not kept and not change.is_due(now, knocked=None, leaving=self._leaving):
            return
        for line, status in list(self._statuses.items()):
            if status in going and line not in self._dismissed:
                self._dismissed.add(line)
                saves = not kept and status in attendance.holders
                self._send(line, Depart(Departure.SAVE if saves else Departure.LEAVE))

    # ---- proposals

    def _propose(self, plan: GroupPlan) -> None:
        self._candidacy.proposed, self._lost = plan, False
        for line in list(self._statuses):
            self._send(line, ProposePlan(self._candidacy.after, self._candidacy.ballot, plan))

    def _count(self, plan: GroupPlan, now: float) -> None:
        """Commit the proposed plan when enough have accepted it."""
        if self._quorum(self._candidacy.accepted, now) is Quorum.NONE:
            # Those who were to agree may have trained all without this member, which was frozen.
            if self._have_others_finished(now):
                self._know.finished = True
            return
        ready = {s.incarnation for s in self._attendance().ready}
        forms = not self._lost and all(m.incarnation in ready for m in plan.members)
        # The leader comes last: by then the word is out.
        for line in sorted(self._statuses, reverse=True):
            self._send(line, PlanCommitted(plan, forms))

    def _quorum(self, agreeing: set[int], now: float) -> Quorum:
        know = self._know
        return quorum_of(
            know.plan,
            agreeing,
            lambda member: know.is_dead(member, now),
            is_settled=lambda: self._is_settled(agreeing, now),
        )

    def _is_certain(self, now: float) -> bool:
        """Whether nobody can hold a state that is not known here.

        All of the last plan that are not ready are dead, and no listed address is left out.
        """
        ready = {status.incarnation for status in self._statuses.values() if status.phase in _OUT}
        missing = [
            m
            for m in (self._know.plan.members if self._know.plan else ())
            if m.incarnation not in ready
        ]
        if not all(self._know.is_dead(m, now) for m in missing):
            return False
        # One that has a line to here may be about to follow.
        are_known_here = all(
            line.status is None or line.status.incarnation in ready for line in self._lines.known()
        )
        return are_known_here and self._is_settled(ready, now)

    def _is_settled(self, agreeing: set[int], now: float) -> bool:
        agreed = {s.index for s in self._statuses.values() if s.incarnation in agreeing}
        return self._know.is_settled(agreed, self._since, now)

    # ---- small things

    def _attendance(self) -> Attendance:
        ordered = sorted(self._statuses.values(), key=lambda s: (s.index, s.incarnation))
        return Attendance(tuple(ordered), self._know.roster)

    def _status_of(self, incarnation: int) -> MemberStatus | None:
        found = (s for s in self._statuses.values() if s.incarnation == incarnation)
        return next(found, None)

    def _send_to_plan(self, message: Message) -> None:
        for line, status in list(self._statuses.items()):
            if self._know.is_in_plan(status.incarnation):
                self._send(line, message)

    def _send(self, line: LineId, message: Message) -> None:
        self._lines.send(line, message)

    def broadcast(self, message: Message, *, but: LineId | None = None) -> None:
        for line in list(self._statuses):
            if line not in (SELF, but):
                self._send(line, message)


def _has_left(status: MemberStatus, generation: int, *, is_switching: bool) -> bool:
    """Whether a member has left its group without a word of the leader."""
    if status.phase is MemberPhase.BROKEN:
        return True
    is_out = status.phase in (MemberPhase.LOADING, MemberPhase.READY)
    return is_out and status.generation == generation and not is_switching
