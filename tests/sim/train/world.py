"""A group of simulated processes, and one run of it from a story."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from swell.train.bus.events import (
    AbortGeneration,
    AllowSteps,
    Deliver,
    Dial,
    HangUp,
    HoldSteps,
    Instruction,
    SendMessage,
)
from swell.train.bus.member import BusMember
from swell.train.bus.plan import GroupPlan
from tests.sim.train.clock import VirtualClock
from tests.sim.train.network import Network
from tests.sim.train.operator import SimulatedOperator
from tests.sim.train.process import SimulatedProcess
from tests.sim.train.rules import LIVE_WITHIN_S, BrokenRule, BusRules
from tests.sim.train.story import FAULTY_S, PARTING, Action, ActionKind, Story
from tests.sim.train.training import Meeting, TrainedState

MakeMember = Callable[..., BusMember]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run."""

    story: Story
    broken: tuple[BrokenRule, ...]
    hits: Counter[str]
    n_checks: int
    n_steps: int
    n_plans: int
    virtual_s: float
    trace: tuple[str, ...]

    def breaks(self, rule: str) -> bool:
        return any(broken.rule == rule for broken in self.broken)


class BusWorld:
    """All that is simulated."""

    def __init__(self, story: Story, make_member: MakeMember, *, keep: bool) -> None:
        self.story = story
        self.make_member = make_member
        self.chance = random.Random(f"world {story.seed}")
        self.clock = VirtualClock()
        self.network = Network(self)
        self.operator = SimulatedOperator(self)
        self.rules = BusRules(self)
        self.checkpoint: TrainedState | None = None
        self.is_finished = False
        self.hits: Counter[str] = Counter()
        self.trace: list[str] = []
        self._keep = keep
        self._meetings: dict[int, Meeting] = {}
        self._armed: list[Action] = []

    def tell(self, text: str) -> None:
        if self._keep:
            self.trace.append(f"{self.clock.now:9.3f}  {text}")

    def run(self) -> RunResult:
        self.operator.resize(self.story.size)
        for action in self.story.actions:
            self.clock.at(action.at, partial(self._disturb, action))

        def is_over() -> bool:
            return bool(self.rules.broken)

        self.clock.run_until(FAULTY_S, is_over)
        self._armed.clear()
        self.network.heal()
        self.clock.run_until(FAULTY_S + 1.0, is_over)
        end = FAULTY_S + LIVE_WITHIN_S
        self.clock.run_until(end, lambda: is_over() or self.rules.is_live())
        if not is_over():
            self.rules.end()
        return RunResult(
            self.story,
            tuple(self.rules.broken),
            self.hits,
            self.rules.n_checks,
            self.rules.n_steps,
            self.rules.n_plans,
            self.clock.now,
            tuple(self.trace),
        )

    def meeting_of(self, plan: GroupPlan) -> Meeting:
        return self._meetings.setdefault(plan.generation, Meeting(plan))

    def save(self, state: TrainedState) -> None:
        """Write a checkpoint, unless there is a newer one."""
        saved = self.checkpoint
        new = state.generation, state.step
        if saved is None or (saved.generation, saved.step) < new:
            self.checkpoint = state

    def carry_out(self, process: SimulatedProcess, instruction: Instruction) -> None:
        trainer = process.trainer
        match instruction:
            case Dial(line, host, _):
                self.network.dial(process, line, host)
            case SendMessage(line, number, message):
                if self._keep and (word := type(message).__name__) != "Ping":
                    self.tell(f"{process.name} sends {word} on {line}")
                self.network.send(process, line, number, message)
                self._spring(process, type(message).__name__)
            case HangUp(line):
                self.network.hang_up(process, line)
            case _ if trainer is None:
                raise RuntimeError(f"{instruction} before there is a training thread")
            case AbortGeneration(generation):
                self.tell(f"{process.name} aborts {generation}")
                trainer.abort(generation)
            case Deliver(answer):
                trainer.take(answer)
            case HoldSteps(switch):
                trainer.hold(switch)
            case AllowSteps(last):
                trainer.allow(last)

    # ---- disturbances

    def _delay(self, process: SimulatedProcess, action: Action) -> None:
        """Stop a process for a while, or its training thread only."""
        self.rules.excuse(self.clock.now + action.lasts_s)
        process.pauses_s += action.lasts_s
        if action.kind is not ActionKind.STICK:
            process.pause(action.lasts_s)
        elif process.trainer is not None:
            process.trainer.stick(action.lasts_s)

    def _spring(self, process: SimulatedProcess, word: str) -> None:
        """Do what was armed for the moment at which this message is sent."""
        for action in self._armed:
            if action.word == word and action.index in (process.index, self.story.size):
                self._armed.remove(action)
                self.hits[action.kind] += 1
                self.tell(f"** {action.kind.value} {word}")
                if action.kind is ActionKind.KILL_ON_SEND:
                    self.operator.kill(process)
                else:
                    self.rules.part()
                    self._delay(process, action)
                return

    def _disturb(self, action: Action) -> None:
        self.tell(f"** {action.kind.value} {action.index} {action.amount} {action.other}")
        kind = action.kind
        if kind in PARTING:
            self.rules.part()
        if action.word:
            self._armed.append(action)
            return
        self.rules.excuse(self.clock.now + action.lasts_s + self.story.lag_s)
        if kind is ActionKind.RESIZE:
            self.hits[kind] += 1
            self.operator.resize(max(self.story.minimum, 1 + action.other % (self.story.size + 1)))
            return
        if kind is ActionKind.SLOW:
            self.hits[kind] += 1
            self.network.is_slow_until = self.clock.now + action.lasts_s
            return
        if kind is ActionKind.LEAVE_ALL:
            self.hits[kind] += 1
            for process in self.operator.living():
                self.operator.terminate(process)
            return
        target = self.operator.process(action.index)
        if target is not None:
            self.hits[kind] += 1
            self._strike(target, action)

    def _strike(self, process: SimulatedProcess, action: Action) -> None:
        match action.kind:
            case ActionKind.KILL:
                self.operator.kill(process)
            case ActionKind.KILL_TWO:
                self.operator.kill(process)
                other = self.operator.process(action.other)
                if other is not None:
                    self.clock.after(action.scaled(0.0, 0.3), lambda: self.operator.kill(other))
            case ActionKind.PAUSE | ActionKind.STICK:
                self._delay(process, action)
            case ActionKind.VANISH:
                self.operator.vanish(process, for_s=action.lasts_s, dies=action.kills)
            case ActionKind.BREAK:
                self.network.break_lines(process)
            case ActionKind.LOSE_MESSAGE:
                self.network.lose_next(process)
            case ActionKind.CLOCK:
                process.step_clock(action.scaled(1.0, 30.0))
            case ActionKind.LEAVE:
                self.operator.terminate(process)
            case _:
                is_both = action.kind is ActionKind.CUT_BOTH
                out = is_both or action.kind is ActionKind.CUT_OUT
                into = is_both or action.kind is ActionKind.CUT_IN
                self.network.cut(process, out=out, into=into)
                self.clock.after(action.lasts_s, lambda: self.network.heal(process))


def run_story(
    story: Story, make_member: MakeMember = BusMember, *, keep: bool = False
) -> RunResult:
    return BusWorld(story, make_member, keep=keep).run()
