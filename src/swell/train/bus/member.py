"""A member as a state machine: events in, instructions out. It knows no socket, clock or thread.

Time comes in with every event. Chance came in once, as the incarnation. The parts do the work:
`Lines` numbers messages, `Following` finds the leader or leads, `Departing` says when to leave,
`Knowledge` remembers.
"""

from __future__ import annotations

import msgspec

from swell.train.bus.departing import Departing
from swell.train.bus.ending import LastWait
from swell.train.bus.events import (
    SELF,
    AbortGeneration,
    AllowSteps,
    Closing,
    Deliver,
    DialRefused,
    DialUnnamed,
    Event,
    FirstStepBegun,
    HoldSteps,
    Instruction,
    JoinAsked,
    LastStepDone,
    LeaveAsked,
    LineClosed,
    LineId,
    LineOpened,
    Received,
    RosterRead,
    StepFailed,
    StepsHeld,
    Tick,
    TrainingDone,
)
from swell.train.bus.following import Following
from swell.train.bus.knowledge import Knowledge
from swell.train.bus.lines import Line, Lines
from swell.train.bus.messages import (
    Abort,
    AskBegun,
    BegunAnswer,
    Bye,
    Depart,
    FailedGeneration,
    Follow,
    Hello,
    MayLeave,
    MemberPhase,
    MemberStatus,
    Message,
    NewRoster,
    Ping,
    PlanCommitted,
    Prepare,
    ProposePlan,
    Roster,
    StatusChange,
    SwitchAfter,
)
from swell.train.bus.plan import Departure, GroupPlan

# More rounds than this for one event mean a bug.
_ROUNDS_MAX = 1000


class BusMember:
    """One process of the group."""

    def __init__(self, status: MemberStatus, roster: Roster, *, minimum: int, now: float) -> None:
        self.know = Knowledge(status, roster, minimum, started=now)
        self.know.was_listed = roster.lists(status.index)
        self.know.read_former(now)
        self.lines = Lines()
        self.following = Following(self.know, self.lines, now)
        self._departing = Departing()
        self._ending = LastWait()

    # ---- for the shell

    @property
    def leads(self) -> bool:
        return self.following.leadership is not None

    @property
    def leader(self) -> int | None:
        """The index of the leader, as far as it is known."""
        return self.following.leader

    @property
    def is_leaving(self) -> bool:
        """Whether this process was asked to leave, or is listed no more."""
        return self.know.is_leaving

    @property
    def is_over(self) -> bool:
        """Whether this process takes part no more: it trained all, or it was told to leave."""
        return self.know.status.phase in (MemberPhase.DONE, MemberPhase.GONE)

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Take an event; returns the instructions that follow from it, in order."""
        if self.is_over:
            self._handle_after_the_end(event)
        else:
            self._take(event, now)
            self._settle(now)
        done, self.lines.instructions = self.lines.instructions, []
        return done

    def _handle_after_the_end(self, event: Event) -> None:
        if isinstance(event, LineOpened):
            self.lines.open(event.line, 0.0)
            self.lines.send(event.line, Bye(done=self.know.finished))
            self.lines.drop(event.line)
        elif isinstance(event, JoinAsked):
            self.lines.instructions.append(Deliver(self._departing.departure or Departure.FINISHED))

    def _take(self, event: Event, now: float) -> None:
        match event:
            case LineOpened(line):
                self._greet(self.lines.open(line, now))
            case DialRefused(line) | DialUnnamed(line):
                self._learn_empty(line, is_refused=isinstance(event, DialRefused), now=now)
            case LineClosed(line):
                self._lose(self.lines.forget(line), now)
            case Received():
                self._receive(event, now)
            case RosterRead(roster):
                self._learn_roster(roster, None, now)
            case LeaveAsked(within_s):
                self._ask_to_leave(within_s, now)
            case Tick():
                self._check_lines(now)
            case _:
                self._take_from_training(event, now)

    def _learn_empty(self, line: LineId, *, is_refused: bool, now: float) -> None:
        """Remember that no process is at the address of a line that was dialled."""
        closed = self.lines.forget(line)
        if closed is None or closed.address is None:
            return
        if is_refused:
            self.know.deaths.hear_refusal(closed.address, self.know.plan, now)
        else:
            self.know.deaths.hear_no_name(closed.address, now)

    def _take_from_training(self, event: Event, now: float) -> None:
        """Take an event of the training thread."""
        generation = self.know.status.generation
        match event:
            case JoinAsked(held, trained):
                self._change(phase=MemberPhase.READY, held=held, trained=trained)
                if self._departing.deferred is not None:
                    self._obey(Depart(self._departing.deferred), now)
            case StepFailed(failed):
                if failed == generation:
                    self.following.say(FailedGeneration(failed))
                    self._abort(failed)
            case FirstStepBegun(begun):
                if begun == generation:
                    self._change(formed=begun)
            case LastStepDone(done):
                self._wait_for_others(done)
            case StepsHeld(switch, step):
                self.following.say(BegunAnswer(switch, step))
            case TrainingDone() | Closing():
                self._end(is_done=isinstance(event, TrainingDone))

    def _wait_for_others(self, generation: int) -> None:
        """All is trained here. In a group that has broken up, others may lack the last state."""
        status = self.know.status
        if status.generation == generation and status.phase is MemberPhase.TRAINING:
            self._change(done=True)

    def _end(self, *, is_done: bool) -> None:
        self.know.finished = self.know.finished or is_done
        self._change(phase=MemberPhase.DONE if is_done else MemberPhase.GONE)
        self._say_goodbye(done=is_done)

    # ---- after every event

    def _settle(self, now: float) -> None:
        """Let all follow that can: own messages, leadership, the search for a leader."""
        for _ in range(_ROUNDS_MAX):
            if self.is_over:
                return
            if self.lines.to_self:
                self._hear(SELF, self.lines.to_self.pop(0), now)
            elif not self._go_on(now):
                return
        raise RuntimeError(f"no end of messages of member {self.know.status.index} to itself")

    def _go_on(self, now: float) -> bool:
        """Do what is due by now; whether there are messages to itself after that."""
        self._check_departure(now)
        know = self.know
        if self._ending.is_due(know, now, is_alone=self.following.is_alone(now)):
            know.finished = True
        if know.finished and (know.status.done or know.status.phase is MemberPhase.READY):
            # This member has the last state, or cannot get it: those who had it are gone.
            self._depart(Departure.FINISHED)
        if not self.is_over:
            self.following.seek(now)
        if self.following.leadership is not None:
            self.following.leadership.consider(now)
        return bool(self.lines.to_self)

    # ---- lines

    def _greet(self, line: Line) -> None:
        know = self.know
        self.lines.send(
            line.line, Hello(know.status, know.roster, know.generation, leads=self.leads)
        )

    def _check_lines(self, now: float) -> None:
        self.lines.ping(now)
        self.following.call_the_first(now)
        for line in self.lines.overdue(now):
            self.lines.drop(line.line)
            self._lose(line, now)
        self.following.check(now)
        if self.following.is_alone(now) and not self.know.finished:
            self._abort(self.know.generation)

    def _lose(self, line: Line | None, now: float) -> None:
        """A line is closed: the process at its other end may be dead, or only out of reach."""
        if line is None:
            return
        if line.address is not None and line.status is None:
            self.know.deaths.hear_silence(line.address, now)
        if self.following.lose(line, now) and not self.know.finished:
            self._abort(self.know.generation)

    # ---- messages

    def _receive(self, event: Received, now: float) -> None:
        line = self.lines.get(event.line)
        if line is None:
            return
        if not self.lines.accepts(event, now):
            # A message was lost: nothing that this line says can be relied on.
            self.lines.drop(event.line)
            self._lose(line, now)
            return
        if line.status is None and not isinstance(event.message, Hello | Bye):
            self.lines.drop(event.line)
            self._lose(line, now)
            return
        self._hear(event.line, event.message, now)

    def _hear(self, line: LineId, message: Message, now: float) -> None:
        match message:
            case Ping():
                pass
            case Hello():
                self._hear_hello(line, message, now)
            case NewRoster(roster):
                self._learn_roster(roster, line, now)
            case PlanCommitted(plan, forms):
                is_new = plan.generation > self.know.generation
                if is_new and line != SELF and self.following.leadership is not None:
                    # The followers of this member have to know who leads now.
                    passed_on = PlanCommitted(plan, forms=False)
                    self.following.leadership.broadcast(passed_on, but=line)
                self._learn_plan(plan, forms=forms, now=now)
            case Bye(done):
                self._hear_goodbye(line, done=done, now=now)
            case Prepare() | ProposePlan():
                self.following.vote(line, message, now)
            case Abort() | AskBegun() | SwitchAfter() | Depart():
                if line == self.following.up:
                    self._obey(message, now)
            case _:
                self._hear_follower(line, message, now)

    def _hear_hello(self, line: LineId, hello: Hello, now: float) -> None:
        found = self.lines.get(line)
        if found is None:
            return
        found.status, found.leads = hello.status, hello.leads
        found.generation = hello.generation
        self._learn_deaths(found)
        self._learn_roster(hello.roster, line, now)
        if self.know.roster.lists(hello.status.index):
            # Rows are names, and members tell their addresses.
            self.know.deaths.hear_presence(self.know.row(hello.status.index))
        if hello.roster.epoch < self.know.roster.epoch:
            self.lines.send(line, NewRoster(self.know.roster))
        if hello.generation < self.know.generation and self.know.plan is not None:
            self.lines.send(line, PlanCommitted(self.know.plan, forms=False))
        self.following.hear_hello(hello, now)

    def _learn_deaths(self, line: Line) -> None:
        """Conclude from the process at the other end which members of the plan are dead."""
        others = {o.status.incarnation for o in self.lines.known() if o is not line and o.status}
        if line.status is not None:
            self.know.deaths.hear_status(line.status, self.know.plan, others)

    def _hear_follower(self, line: LineId, message: Message, now: float) -> None:
        found = self.lines.get(line)
        if found is not None and isinstance(message, StatusChange):
            found.status = message.status
        if found is not None and isinstance(message, Follow):
            found.follows = True
        status = self.know.status if line == SELF else found.status if found else None
        if self.following.leadership is not None and status is not None:
            self.following.leadership.hear(line, status, message, now)

    def _hear_goodbye(self, line: LineId, *, done: bool, now: float) -> None:
        """The process at the other end trains no more."""
        found = self.lines.get(line)
        if found is None:
            return
        if found.status is None:
            # It was over before it said hello: nobody is there.
            if found.address is not None:
                self.know.deaths.hear_refusal(found.address, self.know.plan, now)
            self.lines.drop(line)
            return
        self.know.deaths.hear_goodbye(found.status.incarnation)
        self.know.finished = self.know.finished or done
        if self.following.leadership is not None and done:
            gone = msgspec.structs.replace(found.status, phase=MemberPhase.DONE)
            self.following.leadership.hear_status(line, gone)
        self.lines.drop(line)
        self._lose(found, now)

    # ---- the leader's word

    def _obey(self, message: Abort | AskBegun | SwitchAfter | Depart, now: float) -> None:
        status = self.know.status
        is_training = status.phase is MemberPhase.TRAINING
        match message:
            case Abort(generation):
                self._abort(generation)
            case AskBegun(generation, switch):
                if is_training and generation == status.generation:
                    self.lines.instructions.append(HoldSteps(switch))
            case SwitchAfter(generation, _, step):
                if is_training and generation == status.generation:
                    self.lines.instructions.append(AllowSteps(step))
            case Depart(departure):
                self.know.finished = self.know.finished or departure is Departure.FINISHED
                if self._departing.is_sure(message, self.know, now):
                    self._depart(departure)
                else:
                    self.following.say(MayLeave())

    def _abort(self, generation: int) -> None:
        """No step of this generation is done any more."""
        if generation <= self.know.broken:
            return
        self.know.broken = generation
        status = self.know.status
        if status.phase is MemberPhase.TRAINING and status.generation <= generation:
            self.lines.instructions.append(AbortGeneration(status.generation))
            self._change(phase=MemberPhase.BROKEN)

    def _learn_plan(self, plan: GroupPlan, *, forms: bool, now: float) -> None:
        """A plan was committed: from now on its members decide what follows."""
        know = self.know
        if plan.generation <= know.generation:
            return
        self._abort(plan.generation - 1)
        know.plan = plan
        know.acceptor.reset(plan.generation)
        know.deaths.read_roster(know.roster, plan, now)
        for line in self.lines.known():
            self._learn_deaths(line)
        is_member = know.is_in_plan(know.status.incarnation)
        is_ready = know.status.phase is MemberPhase.READY
        if not forms or (is_member and not is_ready):
            know.broken = max(know.broken, plan.generation)
        self.following.follow_plan(plan, now)
        if is_member and is_ready and forms:
            self._change(phase=MemberPhase.TRAINING, generation=plan.generation, done=False)
            self.lines.instructions.append(Deliver(plan))
        elif is_member and forms:
            self.following.say(FailedGeneration(plan.generation))

    # ---- changes of circumstances

    def _learn_roster(self, roster: Roster, line: LineId | None, now: float) -> None:
        know = self.know
        if roster.epoch < know.roster.epoch:
            return
        roster = roster.joined(know.roster)
        if roster == know.roster:
            return
        know.replace_roster(roster, now)
        if self.following.leadership is not None:
            self.following.leadership.broadcast(NewRoster(roster), but=line)
        elif self.following.up != line:
            self.following.say(NewRoster(roster))

    def _ask_to_leave(self, within_s: float | None, now: float) -> None:
        self._departing.ask(within_s, now)
        if not self.know.status.leaving:
            self._change(leaving=True)

    def _check_departure(self, now: float) -> None:
        """Leave, if there is nothing to wait for; or if nothing came of waiting."""
        if self._departing.must_stop(self.know, now):
            self._abort(self.know.generation)
        departure = self._departing.due(self.know, now)
        if departure is not None:
            self._depart(departure)

    def _depart(self, departure: Departure) -> None:
        status = self.know.status
        if status.done:
            # Whoever lacks its state, it has trained to the end.
            departure = Departure.FINISHED
        is_waiting = status.done and status.phase is MemberPhase.TRAINING
        if status.phase is not MemberPhase.READY and not is_waiting:
            # The training thread is in a group, or not here yet.
            self._departing.deferred = departure
            return
        self._departing.departure = departure
        self._change(phase=MemberPhase.GONE)
        self.lines.instructions.append(Deliver(departure))
        self._say_goodbye(done=self.know.finished)

    def _say_goodbye(self, *, done: bool) -> None:
        for line in self.lines.all():
            self.lines.send(line.line, Bye(done))
            self.lines.drop(line.line)
        self.following.end()
        self.lines.to_self.clear()

    # ---- own status

    def _change(self, **changes: object) -> None:
        self.know.status = msgspec.structs.replace(self.know.status, **changes)
        self.following.say(StatusChange(self.know.status))
