"""What must never happen to a group, and what must come about once the faults are over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swell.train.bus.departing import ANSWER_S
from swell.train.bus.plan import Departure, GroupPlan
from tests.sim.train.training import Meeting, TrainedState, Trainer, steps_lost

if TYPE_CHECKING:
    from tests.sim.train.process import SimulatedProcess
    from tests.sim.train.world import BusWorld

# Steps of a whole group after the faults, and members that leave, take less than this.
LIVE_WITHIN_S = 150.0
STEPS_AFTER = 3
# The longest fault that keeps members from each other takes less than this, with its aftermath.
PARTED_S = 60.0
# Once all disturbances are over and all processes have loaded, a step is done within this time.
STANDS_S = 20.0


@dataclass(frozen=True, slots=True)
class BrokenRule:
    rule: str
    message: str
    at: float


@dataclass(eq=False, slots=True)
class BusRules:
    """Checks every plan that is delivered, every group that forms, every step, every departure."""

    world: BusWorld
    broken: list[BrokenRule] = field(default_factory=list)
    n_checks: int = 0
    n_steps: int = 0
    n_plans: int = 0
    tip: TrainedState | None = None  # the last step that a group has done
    last: Meeting | None = None  # the group that did it
    _over: set[int] = field(default_factory=set)  # generations after which another one trained
    _plans: dict[int, GroupPlan] = field(default_factory=dict)
    _delivered: dict[int, int] = field(default_factory=dict)  # by incarnation, the generation
    _in_row: int = 0
    _parted: float = float("-inf")  # when the last fault began that keeps members from each other
    _moved: float = 0.0  # when the last step was done, or would have been but for a disturbance

    def _check(self, rule: str, message: str, *, holds: bool) -> None:
        self.n_checks += 1
        if not holds:
            self.world.tell(f"BROKEN {rule}: {message}")
            self.broken.append(BrokenRule(rule, message, self.world.clock.now))

    def delivered(self, process: SimulatedProcess, plan: GroupPlan) -> None:
        """A plan is given to a training thread."""
        self.world.tell(f"{process.name} gets {describe(plan)}")
        held = self._plans.setdefault(plan.generation, plan)
        self.n_plans = len(self._plans)
        self._check("numbers never come twice", describe(plan), holds=held == plan)
        before = self._delivered.get(process.incarnation, 0)
        self._delivered[process.incarnation] = plan.generation
        message = f"{process.name} got {before}, then {plan.generation}"
        self._check("generations only grow", message, holds=before < plan.generation)
        is_in = any(m.incarnation == process.incarnation for m in plan.members)
        self._check("members only", f"{process.name}: {describe(plan)}", holds=is_in)
        size, minimum = plan.size, self.world.story.minimum
        self._check("enough members", f"{size} of {minimum}", holds=size >= minimum)

    def formed(self, meeting: Meeting) -> None:
        """All members of a plan have met, and are about to take the state of one."""
        for trainer in meeting.trainers.values():
            state = trainer.state
            is_newer = (
                state is not None
                and state is not meeting.base
                and (meeting.base is None or state.includes(meeting.base))
            )
            message = f"{trainer.process.name} had {state} and takes {meeting.base}"
            self._check("no newer state is overwritten", message, holds=not is_newer)

    def completed(self, meeting: Meeting, done: TrainedState) -> None:
        """All members of a generation have begun a step."""
        generation = meeting.plan.generation
        stood_s = self.world.clock.now - self._moved
        self._check("nobody stands for long", f"{stood_s:.1f} s", holds=stood_s < STANDS_S)
        self.excuse(self.world.clock.now)
        states = {id(trainer.state) for trainer in meeting.trainers.values()}
        names = sorted(trainer.process.name for trainer in meeting.trainers.values())
        self._check("equal states", f"step {done.step} of {names}", holds=len(states) == 1)
        if self.last is not None and self.last is not meeting:
            self._over.add(self.last.plan.generation)
            self._check_roll_back(meeting)
            self._in_row = 0
        message = f"{generation} trains after another one has"
        self._check("one group trains", message, holds=generation not in self._over)
        self.last, self.tip = meeting, done
        self.n_steps += 1
        self._in_row += 1

    def _check_roll_back(self, meeting: Meeting) -> None:
        """Steps are lost only with all who held them; or one, which one that is cut off did."""
        n_lost = steps_lost(self.tip, meeting.base)
        if n_lost < 2:
            return
        holders = [
            process.name
            for process in self.world.operator.living()
            if process.trainer is not None
            and not process.trainer.is_over
            and process.incarnation not in meeting.trainers
            and steps_lost(process.trainer.state, meeting.base) > 1
            and steps_lost(process.trainer.state, self.tip) == 0
        ]
        message = f"{n_lost} steps that {holders} hold"
        self._check("no state goes backwards", message, holds=not holders)

    def departs(self, trainer: Trainer, departure: Departure) -> None:
        """A training thread is told to leave."""
        self.world.tell(f"{trainer.process.name} departs: {departure.value}")
        if departure is not Departure.LEAVE or self.world.is_finished:
            return
        if steps_lost(trainer.state, self.world.checkpoint) < 2 or trainer.state is None:
            return
        if steps_lost(trainer.state, self.tip) > 0:
            return  # The others have gone on without it.
        operator = self.world.operator
        # A process that was paused between its member's word and its end has left by that word.
        paused_s = self.world.clock.now - trainer.process.answered
        others = [
            other.trainer
            # The word that others hold the state was true when it was sent.
            for other in (*operator.living(), *operator.just_ended(ANSWER_S + paused_s))
            if other.trainer is not None and other.trainer is not trainer
        ]
        kept = any(
            steps_lost(trainer.state, other.state) < 2 for other in others if not other.is_over
        )
        message = f"{trainer.process.name} leaves with step {trainer.state.step}"
        self._check("no state is thrown away", message, holds=kept)

    def excuse(self, until: float) -> None:
        """No step can be expected before this time."""
        self._moved = max(self._moved, until)

    def part(self) -> None:
        """Members are kept from each other for a while, by a fault."""
        self._parted = self.world.clock.now

    def ends(self, trainer: Trainer) -> None:
        """A training thread ends with success: those of the last group do, with its last step."""
        process, state = trainer.process, trainer.state
        self.world.tell(f"{process.name} ends with {state}")
        is_member = self.last is not None and any(
            m.incarnation == process.incarnation for m in self.last.plan.members
        )
        was_parted = self.world.clock.now - self._parted < PARTED_S
        lacks = steps_lost(self.tip, state)
        message = f"{process.name} ends and lacks {lacks} steps"
        self._check(
            "members end together", message, holds=not is_member or was_parted or lacks == 0
        )

    def overstayed(self, process: SimulatedProcess) -> None:
        """A process that was told to leave is still there at the end of its grace period."""
        was_able = not process.is_paused and not process.is_vanished
        is_at_fault = was_able and process.pauses_s < 1.0
        self._check("leavers leave", process.name, holds=not is_at_fault)

    # ---- liveness

    def is_live(self) -> bool:
        """Whether all that should train do, and all that should leave have left."""
        operator, world = self.world.operator, self.world
        living = operator.living()
        if world.is_finished:
            return not living
        if any(process.asked_to_leave is not None for process in living):
            return False
        members = {p.incarnation for p in living if p.index < operator.size}
        if len(members) != operator.size or len(living) != operator.size or self.last is None:
            return False
        trained = {m.incarnation for m in self.last.plan.members}
        return trained == members and self._in_row >= STEPS_AFTER

    def end(self) -> None:
        states = [
            f"{p.name} {p.member.know.status.phase} of {p.member.know.generation}"
            f"{' leads' if p.member.leads else f' follows {p.member.leader}'}"
            for p in self.world.operator.living()
        ]
        self._check("all train in the end", "; ".join(states), holds=self.is_live())


def describe(plan: GroupPlan) -> str:
    members = " ".join(f"{m.index}.{m.instance}.{m.incarnation % 1000:03d}" for m in plan.members)
    return f"plan {plan.generation}: {members}, source {plan.source}, behind {plan.behind}"
