"""The engine of elastic training: join, form, step, redo, leave. It knows no framework.

        ┌────────────── broken, or the next step may not begin ─────────────┐
        ▼                                                                   │
    joining ──plan──> forming ──state of the newest──> formed ──step by step┘
        │ word to leave   │ broken: joining again
        ▼                 ▼
    (save,) exit 143

A step is done by all, or redone from the state before it: members that finished it hand their
state to those that did not.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from swell.api.report import TrainingState
from swell.train.bus.plan import NOTHING, Departure, GroupPlan, Held
from swell.train.checkpoints.saver import Saver
from swell.train.checkpoints.schedule import SaveSchedule
from swell.train.collectives import Collectives, Learner
from swell.train.errors import CheckpointError, GroupBrokenError, TrainError
from swell.train.group import Group
from swell.train.hang import HangWatch
from swell.train.hooks import TrainHooks
from swell.train.reports.measures import Measures
from swell.train.reports.reporter import Reporter
from swell.train.setbacks import Setbacks
from swell.train.state.ledger import Progress, TrainLedger

# The status of a process that left because it was told to; 0 would say that all is trained.
LEFT_STATUS = 143

# How long the others wait for the checkpoint of the first before they write one themselves: far
# less than the usual grace period of 30 s.
PATIENCE_S = 5.0


class _AllTrainedError(Exception):
    """All members have the last state."""


@dataclass(slots=True)
class Generation:
    """The group that is formed now."""

    plan: GroupPlan
    rank: int


class Engine:
    """Keeps one member in the group, and its state equal to that of the others."""

    def __init__(
        self,
        *,
        group: Group,
        collectives: Collectives,
        learner: Learner,
        ledger: TrainLedger,
        index: int = 0,
        saver: Saver | None = None,
        hooks: TrainHooks | None = None,
        hang: HangWatch | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.group, self.collectives, self.learner = group, collectives, learner
        self.ledger, self._index, self._saver = ledger, index, saver
        self.hooks = hooks or TrainHooks()
        self.reporter = Reporter(group.publish, saver, hang=hang)
        self.measures = Measures(collectives, self.reporter.facts, ledger)
        self._schedule = SaveSchedule(collectives)
        self._setbacks, self._warn = Setbacks(warn), warn
        self.now: Generation | None = None
        self._held, self._trained = NOTHING, False
        self._broken = self._is_in_step = False
        self._stored: list[Path] | None = None  # a checkpoint that is not read yet
        self._old_size = 0
        self._last_step_end: float | None = None
        self._begun = False
        self._final_step: int | None = None  # the number of steps, once all is trained
        self._look_for_checkpoint()

    # ---- for the loop

    def ready(self) -> Generation:
        """Wait until the next step may begin, in a group that is formed. A leaver exits here."""
        if self.group.is_leaving:
            self.hooks.say_release()
        while True:
            if self.now is None or self._broken or not self._may_begin():
                self.reporter.pause()
                self._rejoin()
                continue
            with self._breaks():
                self._exchange(self.now.plan)
            if not self._broken:
                self._begun = True
                return self.now

    @contextlib.contextmanager
    def step(self, n_samples: int, n_mine: int, weight: float) -> Iterator[None]:
        """Run one step. If the group breaks up meanwhile, the state is as it was before."""
        if self._is_in_step:
            raise TrainError("a step within a step: its samples would count twice")
        if not self._begun:  # a loop of the user's own, without batches
            self.ready()
        self._begun, self._is_in_step = False, True
        formed = self._formed()
        values = self.ledger.user.plain_values()
        self.learner.before_step(n_mine, weight)
        started = time.monotonic()
        done, failed = False, True
        try:
            with self._breaks():
                yield
                self.learner.check_step()
                done = True
            failed = False
        finally:
            self._is_in_step = False
            # An update that was applied cannot be taken back: its step is done, whatever failed
            # later.
            if done or self.learner.has_updated:
                self._commit(n_samples, formed, started)
            else:
                if failed:
                    self._fall_behind(formed.plan, sys.exception())
                self.ledger.user.put_back(values)
                self.learner.undo_step()

    def _fall_behind(self, plan: GroupPlan, error: BaseException | None) -> None:
        """Leave the others, who may do this step without the program's own error.

        A program that catches its error and goes on would be a step behind them, in collectives
        that are about other samples. So it goes on in the next group, with their state.
        """
        if plan.size > 1:
            self._warn(
                f"a step broke off by an error of the program ({type(error).__name__}); if it is"
                " caught, this member goes on where the others are"
            )
            self._broken = True
            self.group.failed(plan.generation)

    @contextlib.contextmanager
    def broken_up(self) -> Iterator[None]:
        """Raise GroupBrokenError for any error that means so, and say so to the others.

        The next step is begun in another group.
        """
        formed = self._formed()
        try:
            yield
        except (GroupBrokenError, RuntimeError, OSError, ValueError) as error:
            if not self._is_breakup(error, formed.plan):
                raise
            self._broken = True
            self.group.failed(formed.plan.generation)
            raise GroupBrokenError(f"the group broke up: {error}") from error

    def finish(self) -> bool:
        """End with all others: they have the last state, or get it from this member.

        False when others have gone on from an older state, which this member has taken over.
        """
        if self._saver and self._writes_checkpoints():
            self._save_now()
        self.reporter.pause()
        self.reporter.publish(self.ledger.progress)
        if self.now is not None and not self._conclude(self.now):
            return False
        self.group.finish()
        self.collectives.leave(broken=False)
        self.group.close()
        return True

    def _conclude(self, formed: Generation) -> bool:
        """Wait until all have the last state; whether this member still has it then."""
        self._final_step = self.ledger.progress.step
        with contextlib.suppress(_AllTrainedError):
            while not self.group.conclude(formed.plan.generation):
                self._broken = True
                # As those who lack the state do: nothing else keeps the collectives in step.
                formed = self.ready()
                if self.ledger.progress.step != self._final_step:
                    self._final_step = None
                    return False
        return True

    def save(self) -> None:
        """Save now, and return when the checkpoint is complete."""
        if self._is_in_step:
            raise TrainError(
                "a checkpoint within a step would have its update without counting it: save after"
                " the step"
            )
        if self._saver and self._writes_checkpoints():
            self._save_now()

    @property
    def is_broken(self) -> bool:
        """Whether the group has broken up, and its collectives are not to be used any more."""
        return self._broken or (
            self.now is not None and self.group.is_aborted(self.now.plan.generation)
        )

    # ---- steps

    def _exchange(self, plan: GroupPlan) -> None:
        """Bring together what members have measured, and the time of the next sharded save."""
        step = self.ledger.progress.step
        self.measures.exchange(step, plan)
        if self._saver and self.learner.is_sharded:
            self._schedule.agree(step, plan, self._saver.due_in_s, time.monotonic())

    def _may_begin(self) -> bool:
        return self.group.begin(self.ledger.progress.step + 1)

    def _formed(self) -> Generation:
        if self.now is None:
            raise RuntimeError("a step outside any group")
        return self.now

    def _commit(self, n_samples: int, formed: Generation, started: float) -> None:
        now = time.monotonic()
        self.ledger.progress = self.ledger.progress.after(n_samples)
        self._held = Held(formed.plan.generation, self.ledger.progress.step)
        self._trained = True
        with self._breaks():
            self.learner.after_step()
        self.measures.step_done(formed.plan.size, n_samples, now - started)
        facts = self.reporter.facts
        if self._last_step_end is not None and self._old_size:
            facts.last_pause_s = round(started - self._last_step_end, 4)
            self._old_size = 0
        self._last_step_end = now
        if self._is_save_due() and self._writes_checkpoints():
            self._start_save()
        if facts.state is not TrainingState.TRAINING:
            self.reporter.enter(TrainingState.TRAINING, self.ledger.progress)
        self.reporter.tick(self.ledger.progress)

    @contextlib.contextmanager
    def _breaks(self) -> Iterator[None]:
        """Swallow an error that means that the group broke up, and say so to the others."""
        with contextlib.suppress(GroupBrokenError), self.broken_up():
            yield

    def _is_breakup(self, error: Exception, plan: GroupPlan) -> bool:
        """Whether an error comes of a member's death, and not of the program."""
        if self.group.is_aborted(plan.generation):
            return True
        is_group = isinstance(error, GroupBrokenError)
        # One process alone exchanges nothing: whatever fails there is the program's.
        if not is_group and (plan.size == 1 or not self.collectives.is_failure(error)):
            return False
        members = frozenset(member.incarnation for member in plan.members)
        now = time.monotonic()
        self._setbacks.add(self.ledger.progress.step, members, error, now)
        return is_group or not self._setbacks.is_too_much(now)

    # ---- changes

    def _rejoin(self) -> None:
        """Leave the group, and join the next one; a group that cannot be formed is left again."""
        if self.now is not None:
            self._old_size = self.now.plan.size
            with self._breaks():
                self.learner.detach(broken=self._broken, leaving=self.group.is_leaving)
            self.collectives.leave(broken=self._broken)
        old_size = self._old_size
        while True:
            answer = self.group.join(self._held, trained=self._trained)
            if isinstance(answer, Departure):
                self._depart(answer)
            self.now, self._broken = Generation(answer, answer.rank_of(self._index)), False
            with self._breaks():
                self._form(self.now)
            if not self._broken:
                break
            self.collectives.leave(broken=True)
        self.hooks.say_change(old_size, self.now.plan.size)
        self.collectives.settle()

    def _form(self, formed: Generation) -> None:
        plan, rank = formed.plan, formed.rank
        facts = self.reporter.facts
        facts.generation, facts.epoch, facts.size = plan.generation, plan.epoch, plan.size
        self.reporter.is_leader = rank == 0
        self.collectives.form(plan, rank)
        if plan.members[plan.source].held.generation == 0:
            # Reading a checkpoint may take longer than a group may take to form.
            self.collectives.settle()
        if rank not in plan.behind:
            if not self._trained:
                # One that left may have written a checkpoint while this process waited.
                self._look_for_checkpoint()
            self._restore()
        n_bytes = self.learner.synchronise(plan, rank)
        if n_bytes:
            facts.state_bytes = n_bytes
        if self.group.is_aborted(plan.generation):
            raise GroupBrokenError("the group broke up while it was formed")
        self.learner.attach(rank, plan.size)
        self._stored = None
        self._held = Held(plan.generation, self.ledger.progress.step)
        self._trained = True

    def _depart(self, departure: Departure) -> NoReturn:
        if self.group.is_leaving:
            self.hooks.say_release()
        if departure is Departure.FINISHED and self.ledger.progress.step == self._final_step:
            raise _AllTrainedError
        if departure is Departure.SAVE and self._saver and self._trained and self._stored is None:
            self._save_last()
        elif self._saver:
            self._saver.wait()
        self.group.close()
        raise SystemExit(0 if departure is Departure.FINISHED else LEFT_STATUS)

    # ---- checkpoints

    def _tree(self) -> dict[str, Any]:
        return {"ledger": self.ledger.capture(), "learner": self.learner.capture()}

    def restore_tree(self, tree: dict[str, Any]) -> None:
        self.ledger.restore(tree["ledger"])
        self.learner.restore(tree["learner"])

    def _writes_checkpoints(self) -> bool:
        """Whether this member writes: the leader, and every holder of a shard."""
        return self._part() is not None

    def _part(self) -> tuple[int, int] | None:
        if self.learner.is_sharded and self.now is not None:
            return self.now.rank, self.now.plan.size
        return (0, 1) if self.now is None or self.now.rank == 0 else None

    def _is_save_due(self) -> bool:
        if self._saver and self.learner.is_sharded:
            return self._schedule.is_due(self.ledger.progress.step)
        return self._saver is not None and self._saver.is_due

    def _start_save(self) -> None:
        if self._saver:
            self._saver.start(self._tree(), self.ledger.progress.step, self._part() or (0, 1))

    def _save_now(self) -> None:
        if self._saver:
            self.reporter.enter(TrainingState.SAVING, self.ledger.progress)
            self._saver.save(self._tree(), self.ledger.progress.step, self._part() or (0, 1))
            self.reporter.publish(self.ledger.progress)

    def _save_last(self) -> None:
        """Save when all holders of the state go. Of equal ones the first writes, if it can."""
        if self._saver is None:
            return
        step = self.ledger.progress.step
        if self._writes_checkpoints() or not self._saver.folder.awaits(step, PATIENCE_S):
            self._save_now()

    def _look_for_checkpoint(self) -> None:
        """Offer the newest checkpoint's step to the group; it is read only if it is needed."""
        newest = self._saver.folder.newest() if self._saver else None
        if newest is None:
            self._stored, self._held, self._trained = None, NOTHING, False
            return
        step, self._stored = newest
        # Generation 0: whoever has trained in a group of this run has a newer state.
        self._held, self._trained = Held(0, step), True

    def read_checkpoint(self) -> tuple[int, Any] | None:
        """Step and model state of the newest checkpoint, for a state that no member holds."""
        newest = self._saver.folder.newest() if self._saver else None
        if newest is None or self._saver is None:
            return None
        return newest[0], self._load(self._saver, newest[1])["learner"]

    def _load(self, saver: Saver, files: list[Path]) -> dict[str, Any]:
        """The state in these files; that of a sharded model lies there until it is taken."""
        parts = saver.folder.load(files, mapped=self.learner.is_sharded)
        found: dict[str, Any] = self.learner.joined_parts([part for _, part in parts])
        return found

    def _restore(self) -> None:
        if self._saver is None or self._stored is None:
            return
        self.reporter.enter(TrainingState.RESTORING, Progress())
        try:
            self.restore_tree(self._load(self._saver, self._stored))
            self._stored = None
        except CheckpointError as error:
            # Another one, or none, is offered to the next group.
            self._look_for_checkpoint()
            raise GroupBrokenError(str(error)) from error
