"""The training threads of a group: they form it, take the newest state, and do steps together.

A state is a node of a tree: the steps that led to it. A step is done when all members have begun
it; then each applies it a moment later, unless its generation has broken up by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from swell.train.bus.events import (
    FirstStepBegun,
    JoinAsked,
    LastStepDone,
    StepFailed,
    StepsHeld,
)
from swell.train.bus.plan import NOTHING, Departure, GroupPlan, Held

if TYPE_CHECKING:
    from tests.sim.train.process import SimulatedProcess
    from tests.sim.train.world import BusWorld

FORM_S = 10.0


@dataclass(frozen=True, eq=False, slots=True)
class TrainedState:
    """A state, by the step that made it and the state before that."""

    parent: TrainedState | None = field(repr=False)
    generation: int
    step: int

    def includes(self, other: TrainedState | None) -> bool:
        """Whether this state has all the steps of another one."""
        node: TrainedState | None = self
        while node is not None and node is not other:
            node = node.parent
        return node is other


def steps_lost(tip: TrainedState | None, base: TrainedState | None) -> int:
    """How many steps of one state are not part of another one."""
    n_lost = 0
    while tip is not None and not (base is not None and base.includes(tip)):
        tip, n_lost = tip.parent, n_lost + 1
    return n_lost


@dataclass(eq=False, slots=True)
class Meeting:
    """The processes of one generation that have come to their group."""

    plan: GroupPlan
    base: TrainedState | None = None
    is_formed: bool = False
    is_broken: bool = False
    trainers: dict[int, Trainer] = field(default_factory=dict)  # by incarnation
    begun: dict[int, set[int]] = field(default_factory=dict)  # incarnations by step

    @property
    def is_whole(self) -> bool:
        return all(m.incarnation in self.trainers for m in self.plan.members)


class Trainer:
    """The training thread of a process."""

    def __init__(self, process: SimulatedProcess) -> None:
        self.process = process
        self.world: BusWorld = process.world
        self.state: TrainedState | None = None
        self.held, self.trained = NOTHING, False
        self.meeting: Meeting | None = None
        self.is_loading, self.is_over = True, False
        self._aborted = 0
        self._is_held = False
        self._last: int | None = None
        self._begun = 0
        self._wanted: int | None = None  # the step that waits at the gate
        self._has_begun = False
        self._stuck_until = 0.0
        load_s = self.world.chance.uniform(0.2, self.world.story.loads_s)
        self.world.rules.excuse(self.world.clock.now + load_s)
        process.after(load_s, self._load)

    def stick(self, for_s: float) -> None:
        """Be busy with something else, as a script that evaluates: only the bus answers."""
        self._stuck_until = max(self._stuck_until, self.world.clock.now + for_s)

    def _is_stuck(self, call: Callable[[], None]) -> bool:
        """Whether the thread is busy; the call comes again when it is not."""
        wait_s = self._stuck_until - self.world.clock.now
        if wait_s > 0.0:
            self.process.after(wait_s, call)
        return wait_s > 0.0

    def break_off(self) -> None:
        """Stop loading: the process was told to leave, and the launcher watches for that."""
        if self.is_loading:
            self.process.after(0.1, self._load)

    def _load(self) -> None:
        if not self.is_loading:
            return
        self.is_loading = False
        saved = self.world.checkpoint
        if saved is not None:
            self.state, self.trained = saved, True
            self.held = Held(saved.generation, saved.step)
        self._join()

    @property
    def is_done(self) -> bool:
        """Whether all is trained in the state of this thread."""
        n_steps = self.world.story.n_steps
        return bool(n_steps and self.state is not None and self.state.step >= n_steps)

    def _join(self) -> None:
        self.process.handle(JoinAsked(self.held, self.trained))

    # ---- instructions of the bus

    def take(self, answer: GroupPlan | Departure) -> None:
        """The answer to `join` has come."""
        if isinstance(answer, Departure):
            self.world.rules.departs(self, answer)
            self.is_over = True
            self.process.has_succeeded = answer is Departure.FINISHED
            if self.process.has_succeeded:
                self.world.is_finished = True
                self.world.rules.ends(self)
            if answer is Departure.SAVE and self.state is not None:
                self.world.save(self.state)
            self.process.after(self.world.chance.uniform(0.01, 0.5), self._exit)
            return
        self.world.rules.delivered(self.process, answer)
        self._is_held, self._last, self._has_begun = False, None, False
        self.process.after(self.world.chance.uniform(0.0, 0.1), lambda: self._form(answer))

    def _exit(self) -> None:
        self.world.operator.exited(self.process)

    def abort(self, generation: int) -> None:
        self._aborted = max(self._aborted, generation)
        self._wake()
        # A collective takes a moment to end, and so does the way out of the group.
        self.process.after(self.world.chance.uniform(0.0, 0.3), lambda: self._leave(generation))

    def hold(self, switch: int) -> None:
        self._is_held = True
        self.process.handle(StepsHeld(switch, self._begun))

    def allow(self, last: int) -> None:
        self._is_held, self._last = False, last
        self._wake()

    # ---- the group

    def _form(self, plan: GroupPlan) -> None:
        if plan.generation <= self._aborted:
            self._join()
            return
        self.meeting = self.world.meeting_of(plan)
        self.meeting.trainers[self.process.incarnation] = self
        self.process.after(FORM_S, lambda: self._check_formed(plan.generation))
        if self.meeting.is_broken:
            self.fail_soon(plan.generation)
        elif self.meeting.is_whole:
            self._meet(self.meeting)

    def _check_formed(self, generation: int) -> None:
        meeting = self.meeting
        if meeting is not None and meeting.plan.generation == generation and not self._has_begun:
            self._fail(generation)

    def _meet(self, meeting: Meeting) -> None:
        """All are there: those who are behind take the newest state, one after the other."""
        source = meeting.trainers[meeting.plan.members[meeting.plan.source].incarnation]
        meeting.is_formed, meeting.base = True, source.state
        self.world.rules.formed(meeting)
        for trainer in list(meeting.trainers.values()):
            delay = self.world.chance.uniform(0.0, 0.2)
            trainer.process.after(delay, partial(trainer.synchronise, meeting))

    def synchronise(self, meeting: Meeting) -> None:
        if self.meeting is not meeting or meeting.plan.generation <= self._aborted:
            return
        if meeting.plan.rank_of(self.process.index) in meeting.plan.behind:
            self.state = meeting.base
        self.trained = True
        step = meeting.base.step if meeting.base is not None else 0
        self.held, self._begun = Held(meeting.plan.generation, step), step
        if self.is_done:
            self.process.handle(LastStepDone(meeting.plan.generation))
            return
        self._begin(meeting, step + 1)

    def _begin(self, meeting: Meeting | None, step: int) -> None:
        if meeting is None or meeting is not self.meeting or self.is_over:
            return
        if self._is_stuck(lambda: self._begin(meeting, step)):
            return
        generation = meeting.plan.generation
        if generation <= self._aborted:
            self._leave(generation)
        elif self._is_held:
            self._wanted = step
        elif self._last is not None and step > self._last:
            self._leave(generation)
        else:
            self._begun = step
            if not self._has_begun:
                self._has_begun = True
                self.process.handle(FirstStepBegun(generation))
            begun = meeting.begun.setdefault(step, set())
            begun.add(self.process.incarnation)
            if meeting.is_broken:
                self.fail_soon(generation)
            elif len(begun) == meeting.plan.size:
                self._complete(meeting, step)

    def _wake(self) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._begin(self.meeting, wanted)

    def _complete(self, meeting: Meeting, step: int) -> None:
        """All have begun the step: its result is everywhere in a moment."""
        done = TrainedState(self.state, meeting.plan.generation, step)
        self.world.rules.completed(meeting, done)
        for trainer in list(meeting.trainers.values()):
            delay = self.world.chance.uniform(0.0, 0.02)
            trainer.process.after(delay, partial(trainer.apply, meeting, done))

    def apply(self, meeting: Meeting, done: TrainedState) -> None:
        if self.meeting is not meeting or done.generation <= self._aborted:
            return
        self.state, self.held = done, Held(done.generation, done.step)
        if self.is_done:
            self.process.handle(LastStepDone(done.generation))
            return
        self.process.after(self.world.story.step_s, lambda: self._begin(meeting, done.step + 1))

    # ---- out of the group

    def fail_soon(self, generation: int) -> None:
        """A collective notices a missing member, or does not."""
        if self.world.chance.random() < 0.5:
            self.process.after(self.world.chance.uniform(0.01, 0.2), lambda: self._fail(generation))

    def _fail(self, generation: int) -> None:
        if self._is_stuck(lambda: self._fail(generation)):
            return
        if self.meeting is not None and self.meeting.plan.generation == generation:
            self._aborted = max(self._aborted, generation)
            self.process.handle(StepFailed(generation))
            self._leave(generation)

    def _leave(self, generation: int) -> None:
        meeting = self.meeting
        if meeting is None or meeting.plan.generation > generation or self.is_over:
            return
        if self._is_stuck(lambda: self._leave(generation)):
            return
        self.drop_out()
        self._join()

    def drop_out(self) -> None:
        """Leave the meeting; the others miss this member if they have begun a step with it."""
        meeting, self.meeting = self.meeting, None
        self._wanted = None
        if meeting is not None:
            meeting.trainers.pop(self.process.incarnation, None)
            meeting.is_broken = True
            for other in list(meeting.trainers.values()):
                other.fail_soon(meeting.plan.generation)
