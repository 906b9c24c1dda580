"""Decides when workers are started, stopped and started again: events in, instructions out.

It sees no process, socket or clock. The life of a launcher:

    JOINING --plan--> RUNNING --all ended well--> ENDED
       ^  |              |  |
       |  |              |  +--group changed, left, failed--> STOPPING --all ended--+
       |  +--departure--> ENDED                                  |                  |
       +---------------------------------------------------------+--or------------> ENDED

A worker may fail because a member that it talked to is gone. So a failure in a generation that has
broken up is no failure of this worker, and one that was counted is taken back if the next plan
shows that a member was lost.
"""

from __future__ import annotations

import enum
import signal
from dataclasses import dataclass, replace

# Others are told of our leaving over the bus, and stop their workers at the same time. If they do
# not agree within this, our workers are stopped all the same.
LEAVE_WITHIN_S = 1.0
# How long a failure that would end this launcher waits for the word that a member was lost: the
# bus needs a moment longer than a worker whose connection broke when the leader is the lost one.
SETTLE_S = 1.5
SIGNALLED = 128


class LaunchPhase(enum.Enum):
    """Where a launcher is in its life; the picture is in the module's docstring."""

    JOINING = "joining"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan has come. `incarnations` are those of its members; `n_due` more are listed."""

    generation: int
    incarnations: frozenset[int]
    n_due: int = 0


@dataclass(frozen=True, slots=True)
class Unmet:
    """The members of the plan did not meet: somebody did not come to the roll call."""

    generation: int


@dataclass(frozen=True, slots=True)
class Departed:
    """The answer to `JoinGroup` was that this member is not in the next plan.

    `is_finished`: because the others have trained all there is.
    """

    is_finished: bool = False


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A worker has ended. The code of one that was killed is the signal's number, negative."""

    local_rank: int
    code: int


@dataclass(frozen=True, slots=True)
class Observed:
    """The state of the group and the signals so far, as seen every few milliseconds."""

    may_go_on: bool = True
    is_aborted: bool = False
    is_leaving: bool = False
    # The last signal that was caught, and how many of them.
    signal: int | None = None
    n_signals: int = 0


Event = Planned | Unmet | Departed | WorkerEnded | Observed


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Wait for the next plan. `generation` is the last one that workers were started in."""

    generation: int


@dataclass(frozen=True, slots=True)
class StartWorkers:
    """Start all workers of this member."""

    n_restarts: int


@dataclass(frozen=True, slots=True)
class SignalWorkers:
    """Send a signal to all workers that run, and to all processes they have started."""

    signal: int


@dataclass(frozen=True, slots=True)
class ReportFailure:
    """Tell the group that this generation broke here."""

    generation: int


@dataclass(frozen=True, slots=True)
class FinishTraining:
    """Tell the group that all is trained."""


@dataclass(frozen=True, slots=True)
class Exit:
    """End the launcher with this exit code, once the group knows of it."""

    code: int


@dataclass(frozen=True, slots=True)
class Say:
    """Write a sentence to the standard error stream."""

    text: str


Instruction = JoinGroup | StartWorkers | SignalWorkers | ReportFailure | FinishTraining | Exit | Say


@dataclass(frozen=True, slots=True)
class LaunchRules:
    """The numbers that a user may set."""

    n_local: int
    max_restarts: int
    shutdown_s: float
    change_s: float
    # How long workers are not started yet while a listed member is missing.
    await_due_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LaunchState:
    """All that the next decision depends on."""

    phase: LaunchPhase = LaunchPhase.JOINING
    generation: int = 0
    incarnations: frozenset[int] = frozenset()
    running: frozenset[int] = frozenset()
    # When workers are started that are held back until then; None if none are.
    start_at: float | None = None
    n_restarts: int = 0
    # The incarnations of the generation in which a failure was counted, until the next plan.
    counted_in: frozenset[int] | None = None
    # The exit code of a worker that failed, when no restart is left for it; and how long it waits.
    failed_code: int | None = None
    settle_until: float = 0.0
    leave_by: float | None = None
    # When workers that were told to stop are killed; None once they were.
    kill_at: float | None = None
    # The exit code after the stop; None to join the group again.
    exit_code: int | None = None
    last_signal: int = signal.SIGTERM
    n_signals: int = 0


Decision = tuple[LaunchState, list[Instruction]]


def begin() -> Decision:
    """The state of a launcher that starts, and its first instruction."""
    return LaunchState(), [JoinGroup(0)]


def advance(state: LaunchState, event: Event, now: float, rules: LaunchRules) -> Decision:
    """The state after an event, and all that has to be done about it, in order."""
    match event:
        case Planned():
            return _start(state, event, now, rules)
        case Unmet():
            return state, [ReportFailure(event.generation), JoinGroup(state.generation)]
        case Departed():
            code = 0 if event.is_finished else SIGNALLED + state.last_signal
            return replace(state, phase=LaunchPhase.ENDED), [Exit(code)]
        case WorkerEnded():
            return _worker_ended(state, event, now, rules)
        case Observed():
            return _observe(state, event, now, rules)


def _start(state: LaunchState, plan: Planned, now: float, rules: LaunchRules) -> Decision:
    """Start workers, or hold them back: a start that a newcomer breaks off is lost time."""
    is_held = plan.n_due > 0 and rules.await_due_s > 0
    said: list[Instruction] = []
    n_restarts = state.n_restarts
    if state.counted_in is not None and not state.counted_in <= plan.incarnations:
        n_restarts -= 1
        said.append(Say("the workers failed because a member was lost: this is no restart"))
    started = replace(
        state,
        phase=LaunchPhase.RUNNING,
        generation=plan.generation,
        incarnations=plan.incarnations,
        running=frozenset() if is_held else frozenset(range(rules.n_local)),
        start_at=now + rules.await_due_s if is_held else None,
        n_restarts=n_restarts,
        counted_in=None,
        failed_code=None,
        leave_by=None,
        kill_at=None,
        exit_code=None,
    )
    return started, said if is_held else [*said, StartWorkers(n_restarts)]


def _worker_ended(
    state: LaunchState, ended: WorkerEnded, now: float, rules: LaunchRules
) -> Decision:
    state = replace(state, running=state.running - {ended.local_rank})
    if state.phase is LaunchPhase.STOPPING:
        return _after_stop(state)
    if state.phase is not LaunchPhase.RUNNING or state.failed_code is not None:
        return state, []
    if ended.code == 0:
        if state.running:
            return state, []
        return replace(state, phase=LaunchPhase.ENDED), [FinishTraining(), Exit(0)]
    return _failed(state, ended, now, rules)


def _failed(state: LaunchState, ended: WorkerEnded, now: float, rules: LaunchRules) -> Decision:
    code = exit_code_of(ended.code)
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    said = Say(f"worker {ended.local_rank} ended with {how}")
    if state.n_restarts >= rules.max_restarts:
        settle_s = SETTLE_S if len(state.incarnations) > 1 else 0.0
        return replace(state, failed_code=code, settle_until=now + settle_s), [said]
    counted = replace(
        state, n_restarts=state.n_restarts + 1, counted_in=state.incarnations, failed_code=None
    )
    stopped, instructions = _stop(counted, now + rules.change_s)
    return stopped, [said, ReportFailure(state.generation), *instructions]


def exit_code_of(code: int) -> int:
    """The exit code that a shell would give to a process that ended so."""
    return SIGNALLED - code if code < 0 else code


def _observe(state: LaunchState, seen: Observed, now: float, rules: LaunchRules) -> Decision:
    is_urgent = seen.n_signals > max(state.n_signals, 1)
    state = replace(state, n_signals=seen.n_signals, last_signal=seen.signal or state.last_signal)
    if state.phase is LaunchPhase.STOPPING:
        # A second signal says that the user does not want to wait.
        if state.kill_at is not None and (now >= state.kill_at or is_urgent):
            return replace(state, kill_at=None), [SignalWorkers(signal.SIGKILL)]
        return state, []
    if state.phase is not LaunchPhase.RUNNING:
        return state, []
    if seen.is_aborted:
        return _stop(state, now + rules.change_s)
    if seen.is_leaving:
        return _leave(state, seen, now, rules)
    if not seen.may_go_on:
        return _stop(state, now + rules.change_s)
    if state.start_at is not None and now >= state.start_at:
        running = frozenset(range(rules.n_local))
        return replace(state, start_at=None, running=running), [StartWorkers(state.n_restarts)]
    if state.failed_code is not None and now >= state.settle_until:
        return _give_up(state, now, rules)
    return state, []


def _leave(state: LaunchState, seen: Observed, now: float, rules: LaunchRules) -> Decision:
    leave_by = now + LEAVE_WITHIN_S if state.leave_by is None else state.leave_by
    state = replace(state, leave_by=leave_by)
    if seen.may_go_on and now < leave_by:
        return state, []
    return _stop(state, now + rules.shutdown_s)


def _give_up(state: LaunchState, now: float, rules: LaunchRules) -> Decision:
    said = Say(f"no restart is left of {rules.max_restarts}")
    stopped, instructions = _stop(replace(state, exit_code=state.failed_code), now + rules.change_s)
    return stopped, [said, *instructions]


def _stop(state: LaunchState, kill_at: float) -> Decision:
    stopping = replace(state, phase=LaunchPhase.STOPPING, kill_at=kill_at, start_at=None)
    if not state.running:
        return _after_stop(stopping)
    return stopping, [SignalWorkers(state.last_signal)]


def _after_stop(state: LaunchState) -> Decision:
    if state.running:
        return state, []
    if state.exit_code is not None:
        return replace(state, phase=LaunchPhase.ENDED), [Exit(state.exit_code)]
    return replace(state, phase=LaunchPhase.JOINING), [JoinGroup(state.generation)]
