"""A member as a state machine: events in, instructions out. It knows no socket, clock or thread.

Time comes in with every event. Chance came in once, as the incarnation. The parts do the work:
`Lines` numbers messages, `Seeker` finds the leader, `Leadership` leads, `Knowledge` remembers.
"""

from __future__ import annotations

import msgspec

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
from swell.train.bus.knowledge import Knowledge
from swell.train.bus.leading import ATTACH_S, Leadership
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
from swell.train.bus.seeking import EMPTY_S, LEADS_S, Seeker

# One that was asked to leave goes after this time, whatever the others say: the default grace
# period of Kubernetes is 30 s, and a checkpoint may have to be written within it.
LEAVE_S = 20.0
SAVE_S = 10.0
# The word that others hold the state is true when it is sent. A process that was paused since it
# asked for it asks again, since those others may be dead by now.
ANSWER_S = 1.0
# More rounds than this for one event mean a bug.
_ROUNDS_MAX = 1000


class BusMember:
    """One process of the group."""

    def __init__(self, status: MemberStatus, roster: Roster, *, minimum: int, now: float) -> None:
        self.know = Knowledge(status, roster, minimum, started=now)
        self.know.was_listed = roster.lists(status.index)
        self.know.read_former(now)
        self.lines = Lines()
        self.leadership: Leadership | None = None
        self._seeker = Seeker()
        self._up: LineId | None = None  # the line to the leader; SELF for the leader
        self._up_since = now
        self._is_led = False  # the leader has said that it is one
        self._unled_since = now
        self._leave_by: float | None = None
        self._departure: Departure | None = None
        self._deferred_departure: Departure | None = None
        self._asked_back = now - ANSWER_S  # when it asked whether it may leave

    # ---- for the shell

    @property
    def leads(self) -> bool:
        return self.leadership is not None

    @property
    def leader(self) -> int | None:
        """The index of the leader, as far as it is known."""
        if self.leads:
            return self.know.status.index
        line = self.lines.get(self._up) if self._up is not None else None
        return line.status.index if line is not None and line.status is not None else None

    @property
    def is_leaving(self) -> bool:
        """Whether this process was asked to leave, or is listed no more."""
        return self.know.status.leaving or self._is_unlisted

    @property
    def _is_unlisted(self) -> bool:
        return self.know.was_listed and not self.know.roster.lists(self.know.status.index)

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
            self.lines.instructions.append(Deliver(self._departure or Departure.FINISHED))

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
                if self._deferred_departure is not None:
                    self._obey(Depart(self._deferred_departure), now)
            case StepFailed(failed):
                if failed == generation:
                    self._say(FailedGeneration(failed))
                    self._abort(failed)
            case FirstStepBegun(begun):
                if begun == generation:
                    self._change(formed=begun)
            case StepsHeld(switch, step):
                self._say(BegunAnswer(switch, step))
            case TrainingDone():
                self.know.finished = True
                self._change(phase=MemberPhase.DONE)
                self._say_goodbye(done=True)
            case Closing():
                self._change(phase=MemberPhase.GONE)
                self._say_goodbye(done=False)

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
        if self.know.finished and self.know.status.phase is MemberPhase.READY:
            # Somebody has trained to the end, with all the steps that this member lacks.
            self._depart(Departure.FINISHED)
        if self._up is None and not self.is_over:
            self._seek(now)
        if self.leadership is not None:
            self.leadership.consider(now)
        return bool(self.lines.to_self)

    def _seek(self, now: float) -> None:
        found = self._seeker.seek(self.know, self.lines, now)
        if isinstance(found, Line):
            self._follow(found, now)
        elif found:
            self._lead(now)

    def _follow(self, line: Line, now: float) -> None:
        self._up, self._up_since, self._is_led = line.line, now, False
        self.lines.send(line.line, StatusChange(self.know.status))
        self.lines.send(line.line, Follow())
        for other in self.lines.all():
            if other.address is not None and other.line != line.line:
                self.lines.drop(other.line)

    def _lead(self, now: float) -> None:
        self._up, self._is_led = SELF, True
        self.leadership = Leadership(self.know, self.lines, now)
        self.leadership.welcome(SELF, self.know.status, now)
        for line in self.lines.known():
            if line.follows and line.status is not None:
                self.leadership.welcome(line.line, line.status, now)

    def _dismiss_followers(self) -> None:
        """Close the lines of those who follow this member: they have to find another leader."""
        for line in self.lines.known():
            if line.follows:
                self.lines.drop(line.line)

    def _resign(self, now: float) -> None:
        """Lead no more; the lines of followers stay until they have found another leader."""
        self.leadership = None
        if self._up == SELF:
            self._up, self._is_led, self._unled_since = None, False, now

    # ---- lines

    def _greet(self, line: Line) -> None:
        know = self.know
        self.lines.send(
            line.line, Hello(know.status, know.roster, know.generation, leads=self.leads)
        )

    def _call_the_first(self, now: float) -> None:
        """Let the first that is listed know of a state that leaves.

        It may be new and alone, its folder may list nobody else, and the leader may be paused.
        """
        know, status = self.know, self.know.status
        is_keeper = self.is_leaving and status.trained and status.phase is MemberPhase.READY
        if self.leads or not is_keeper or not know.roster.hosts:
            return
        is_known = any(line.status and line.status.index == 0 for line in self.lines.known())
        address = know.row(0)
        was_empty = know.deaths.was_empty(address, now - EMPTY_S)
        if not is_known and not was_empty and self.lines.to_address(address) is None:
            self.lines.dial(address, now)

    def _check_lines(self, now: float) -> None:
        self.lines.ping(now)
        self._call_the_first(now)
        for line in self.lines.overdue(now):
            self.lines.drop(line.line)
            self._lose(line, now)
        if self.leadership is not None:
            self.leadership.drop_idle_probes(now)
        elif self._up is not None and not self._is_led and now - self._up_since > LEADS_S:
            self._seeker.pass_over(self._up, now)
            self._up = None
        # A member that cannot find the leader of its plan is alone, and must not train.
        is_unled = self._up is None or not self._is_led
        if is_unled and now - self._unled_since > ATTACH_S and not self.know.finished:
            self._abort(self.know.generation)

    def _lose(self, line: Line | None, now: float) -> None:
        """A line is closed: the process at its other end may be dead, or only out of reach."""
        if line is None:
            return
        if line.address is not None and line.status is None:
            self.know.deaths.hear_silence(line.address, now)
        if self.leadership is not None:
            self.leadership.lose(line.line, now)
        if line.line == self._up:
            self._up, self._unled_since = None, now
            if not self.know.finished:
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
                if is_new and line != SELF and self.leadership is not None:
                    # The followers of this member have to know who leads now.
                    self.leadership.broadcast(PlanCommitted(plan, forms=False), but=line)
                self._learn_plan(plan, forms=forms, now=now)
            case Bye(done):
                self._hear_goodbye(line, done=done, now=now)
            case Prepare() | ProposePlan():
                self._vote(line, message, now)
            case Abort() | AskBegun() | SwitchAfter() | Depart():
                if line == self._up:
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
        if self.leadership is not None and hello.leads and hello.generation == self.know.generation:
            own = self.know.position(self.know.status, now)
            theirs = self.know.position(hello.status, now)
            if theirs is not None and (own is None or theirs < own):
                self._dismiss_followers()
                self._resign(now)

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
        if self.leadership is not None and status is not None:
            self.leadership.hear(line, status, message, now)

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
        if self.leadership is not None and done:
            gone = msgspec.structs.replace(found.status, phase=MemberPhase.DONE)
            self.leadership.hear_status(line, gone)
        self.lines.drop(line)
        self._lose(found, now)

    # ---- the leader's word

    def _vote(self, line: LineId, message: Prepare | ProposePlan, now: float) -> None:
        is_free = self._up is None or (not self._is_led and line != self._up)
        if is_free and line != SELF and isinstance(message, Prepare):
            self._up, self._up_since = line, now
        if line != self._up:
            return
        self._is_led = True
        answer = self.know.acceptor.vote(message)
        if answer is not None:
            self.lines.send(line, answer)

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
            case Depart(departure, is_final):
                is_keeper = status.trained and status.phase is MemberPhase.READY
                is_sure = is_final and now - self._asked_back <= ANSWER_S
                if departure is Departure.LEAVE and is_keeper and not is_sure:
                    self._asked_back = now
                    self._say(MayLeave())
                else:
                    self._depart(departure)

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
        self._find_leader_of(plan, now)
        if is_member and is_ready and forms:
            self._change(phase=MemberPhase.TRAINING, generation=plan.generation)
            self.lines.instructions.append(Deliver(plan))
        elif is_member and forms:
            self._say(FailedGeneration(plan.generation))

    def _find_leader_of(self, plan: GroupPlan, now: float) -> None:
        """Follow the first of the new plan, on the line that there is, if it is the same one."""
        first = plan.members[0].incarnation
        self._resign(now)
        if first == self.know.status.incarnation:
            self._up = None
            self._lead(now)
            return
        line = self.lines.get(self._up) if self._up is not None else None
        if line is None or line.status is None or line.status.incarnation != first:
            self._up, self._is_led, self._unled_since = None, False, now

    # ---- changes of circumstances

    def _learn_roster(self, roster: Roster, line: LineId | None, now: float) -> None:
        know = self.know
        if roster.epoch < know.roster.epoch:
            return
        roster = roster.joined(know.roster)
        if roster == know.roster:
            return
        know.replace_roster(roster, now)
        if self.leadership is not None:
            self.leadership.broadcast(NewRoster(roster), but=line)
        elif self._up is not None and self._up != line:
            self.lines.send(self._up, NewRoster(roster))

    def _ask_to_leave(self, within_s: float | None, now: float) -> None:
        limit = LEAVE_S if within_s is None else max(1.0, min(LEAVE_S, within_s - SAVE_S))
        self._leave_by = min(now + limit, self._leave_by or now + limit)
        if not self.know.status.leaving:
            self._change(leaving=True)

    def _check_departure(self, now: float) -> None:
        """Leave, if there is nothing to wait for; or if nothing came of waiting."""
        know, status = self.know, self.know.status
        is_ghost = know.roster.instance_of(status.index) > status.instance
        if is_ghost:
            self._abort(know.generation)
            if status.phase is MemberPhase.READY:
                self._depart(Departure.LEAVE)
            return
        if not self.is_leaving:
            return
        is_late = self._leave_by is not None and now > self._leave_by
        if is_late:
            self._abort(know.generation)
        if self.know.status.phase is not MemberPhase.READY:
            return
        # Until a new group has formed, it may need the state again: its leader says when.
        is_needed = know.plan is not None and status.trained
        if not is_needed and not know.is_in_plan(status.incarnation):
            self._depart(Departure.LEAVE)
        elif is_late:
            self._depart(Departure.SAVE if status.trained else Departure.LEAVE)

    def _depart(self, departure: Departure) -> None:
        if self.know.status.phase is not MemberPhase.READY:
            # The training thread is in a group, or not here yet.
            self._deferred_departure = departure
            return
        self._departure = departure
        self._change(phase=MemberPhase.GONE)
        self.lines.instructions.append(Deliver(departure))
        self._say_goodbye(done=self.know.finished)

    def _say_goodbye(self, *, done: bool) -> None:
        for line in self.lines.all():
            self.lines.send(line.line, Bye(done))
            self.lines.drop(line.line)
        self.leadership, self._up = None, None
        self.lines.to_self.clear()

    # ---- own status

    def _change(self, **changes: object) -> None:
        self.know.status = msgspec.structs.replace(self.know.status, **changes)
        self._say(StatusChange(self.know.status))

    def _say(self, message: Message) -> None:
        """Tell the leader, which may be this member itself."""
        if self._up is not None:
            self.lines.send(self._up, message)
