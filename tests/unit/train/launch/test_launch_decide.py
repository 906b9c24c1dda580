"""When workers are started and stopped: events in, instructions out."""

from __future__ import annotations

import signal

import pytest

from swell.train.launch.decide import (
    LEAVE_WITHIN_S,
    SETTLE_S,
    Departed,
    Event,
    Exit,
    FinishTraining,
    Instruction,
    JoinGroup,
    LaunchRules,
    LaunchState,
    Observed,
    Planned,
    ReportFailure,
    Say,
    SignalWorkers,
    StartWorkers,
    Unmet,
    WorkerEnded,
    advance,
    begin,
)

RULES = LaunchRules(n_local=2, max_restarts=1, shutdown_s=30.0, change_s=5.0)
THREE = frozenset({11, 12, 13})
QUIET = Observed()


class Story:
    """A launcher's life: each event with its time, and all instructions but what is said."""

    def __init__(self, rules: LaunchRules = RULES) -> None:
        self.rules = rules
        self.state, self.first = begin()

    def after(self, now: float, *events: Event) -> list[Instruction]:
        done: list[Instruction] = []
        for event in events:
            self.state, instructions = advance(self.state, event, now, self.rules)
            done += [one for one in instructions if not isinstance(one, Say)]
        return done


def running(rules: LaunchRules = RULES, incarnations: frozenset[int] = THREE) -> Story:
    story = Story(rules)
    assert story.first == [JoinGroup(0)]
    assert story.after(0.0, Planned(1, incarnations)) == [StartWorkers(0)]
    return story


def test_workers_that_end_well_finish_the_training() -> None:
    """All of them have to end; the launcher ends then, and tells the group first."""
    story = running()

    assert story.after(1.0, WorkerEnded(1, 0), QUIET) == []
    assert story.after(2.0, WorkerEnded(0, 0)) == [FinishTraining(), Exit(0)]


@pytest.mark.parametrize("change", [Observed(may_go_on=False), Observed(is_aborted=True)])
def test_change_stops_workers_and_joins(change: Observed) -> None:
    """Workers get SIGTERM first; the group is joined when the last one has ended."""
    story = running()

    assert story.after(1.0, change) == [SignalWorkers(signal.SIGTERM)]
    assert story.after(1.1, change, WorkerEnded(0, -15)) == []
    assert story.after(1.2, WorkerEnded(1, 0)) == [JoinGroup(1)]
    assert story.after(1.3, Planned(2, THREE)) == [StartWorkers(0)]


def test_slow_workers_are_killed_once() -> None:
    """A change waits for `change_s`, and no longer."""
    story = running()
    story.after(1.0, Observed(may_go_on=False))

    assert story.after(5.9, QUIET) == []
    assert story.after(6.0, QUIET) == [SignalWorkers(signal.SIGKILL)]
    assert story.after(6.1, QUIET) == []
    assert story.after(6.2, WorkerEnded(0, -9), WorkerEnded(1, -9)) == [JoinGroup(1)]


def test_failure_restarts_all_local_workers() -> None:
    """The group hears of it, and the count reaches the script."""
    story = running()

    assert story.after(1.0, WorkerEnded(1, 3)) == [
        ReportFailure(1),
        SignalWorkers(signal.SIGTERM),
    ]
    assert story.after(1.1, Observed(is_aborted=True), WorkerEnded(0, -15)) == [JoinGroup(1)]
    assert story.after(1.2, Planned(2, THREE)) == [StartWorkers(1)]


def test_failure_without_a_restart_left_ends_the_launcher() -> None:
    """The exit code is the worker's; the other workers are stopped first."""
    story = running(LaunchRules(n_local=2, max_restarts=0, shutdown_s=30.0, change_s=5.0))

    assert story.after(1.0, WorkerEnded(1, 3), QUIET) == []
    assert story.after(1.0 + SETTLE_S, QUIET) == [SignalWorkers(signal.SIGTERM)]
    assert story.after(3.0, WorkerEnded(0, -15)) == [Exit(3)]


def test_failure_of_a_lone_member_does_not_wait() -> None:
    """There is nobody whose loss could have caused it."""
    rules = LaunchRules(n_local=1, max_restarts=0, shutdown_s=30.0, change_s=5.0)
    story = running(rules, frozenset({11}))

    assert story.after(1.0, WorkerEnded(0, -9), QUIET) == [Exit(137)]


def test_failure_in_a_broken_group_is_a_change() -> None:
    """A worker fails because a member died, and the bus says so a moment later."""
    story = running(LaunchRules(n_local=1, max_restarts=0, shutdown_s=30.0, change_s=5.0))

    assert story.after(1.0, WorkerEnded(0, 1), QUIET) == []
    assert story.after(1.2, Observed(is_aborted=True)) == [JoinGroup(1)]
    assert story.after(1.3, Planned(2, THREE - {12})) == [StartWorkers(0)]


def test_counted_failure_is_taken_back_when_a_member_was_lost() -> None:
    """Otherwise deaths of others would use up this member's restarts."""
    story = running()
    story.after(1.0, WorkerEnded(0, 1), WorkerEnded(1, 1))
    assert story.after(1.5, Planned(2, THREE - {12})) == [StartWorkers(0)]

    story.after(2.0, WorkerEnded(0, 1), WorkerEnded(1, 1))
    assert story.after(2.5, Planned(3, THREE - {12})) == [StartWorkers(1)]


def test_leaving_waits_for_the_others_to_agree() -> None:
    """Workers of all members stop together then, and no step breaks."""
    story = running()
    leaving = Observed(is_leaving=True, signal=signal.SIGTERM, n_signals=1)

    assert story.after(1.0, leaving) == []
    stop = Observed(may_go_on=False, is_leaving=True, signal=signal.SIGTERM, n_signals=1)
    assert story.after(1.1, stop) == [SignalWorkers(signal.SIGTERM)]
    assert story.after(20.0, stop) == []  # a leaver has its grace period
    assert story.after(21.0, WorkerEnded(0, 0), WorkerEnded(1, 0)) == [JoinGroup(1)]
    assert story.after(21.1, Departed()) == [Exit(143)]


def test_leaving_does_not_wait_for_long() -> None:
    """Nobody may be there to agree."""
    story = running()
    leaving = Observed(is_leaving=True, signal=signal.SIGINT, n_signals=1)
    story.after(1.0, leaving)

    assert story.after(1.0 + LEAVE_WITHIN_S, leaving) == [SignalWorkers(signal.SIGINT)]
    assert story.after(3.0, WorkerEnded(0, 0), WorkerEnded(1, 0)) == [JoinGroup(1)]
    assert story.after(3.1, Departed()) == [Exit(130)]


def test_second_signal_kills() -> None:
    """Ctrl-C twice: the user does not want to wait."""
    story = running()
    story.after(1.0, Observed(may_go_on=False, is_leaving=True, signal=2, n_signals=1))

    again = Observed(may_go_on=False, is_leaving=True, signal=2, n_signals=2)
    assert story.after(1.5, again) == [SignalWorkers(signal.SIGKILL)]


def test_late_newcomer_ends_well() -> None:
    """The others have trained all there is while it loaded."""
    story = Story()

    assert story.after(1.0, Departed(is_finished=True)) == [Exit(0)]


def test_members_that_do_not_meet_join_again() -> None:
    """The generation broke before its workers were started."""
    story = Story()

    assert story.after(1.0, Unmet(4)) == [ReportFailure(4), JoinGroup(0)]


def test_every_state_is_left() -> None:
    """Whatever happened before, an abort and the ends of workers lead to the next join."""
    for code in (0, 1, -9, 143):
        for max_restarts in (0, 1, 5):
            rules = LaunchRules(2, max_restarts, 30.0, 5.0)
            story = running(rules)
            done = story.after(1.0, WorkerEnded(0, code), Observed(is_aborted=True))
            done += story.after(7.0, QUIET, WorkerEnded(1, -9))
            assert done[-1] == JoinGroup(1), (code, max_restarts)
            assert isinstance(story.state, LaunchState)


PATIENT = LaunchRules(n_local=2, max_restarts=1, shutdown_s=30.0, change_s=5.0, await_due_s=3.0)


def test_workers_wait_for_a_member_that_is_due() -> None:
    """A start that takes seconds is not begun when the successor of a dead one would break it."""
    story = Story(PATIENT)

    assert story.after(0.0, Planned(1, THREE, n_due=1), QUIET) == []
    assert story.after(1.0, Observed(may_go_on=False)) == [JoinGroup(1)]
    assert story.after(1.1, Planned(2, THREE)) == [StartWorkers(0)]


def test_workers_do_not_wait_longer_than_that() -> None:
    """The member may never come: its node may be gone."""
    story = Story(PATIENT)

    assert story.after(0.0, Planned(1, THREE, n_due=1), QUIET) == []
    assert story.after(2.9, QUIET) == []
    assert story.after(3.0, QUIET) == [StartWorkers(0)]
    assert story.after(3.1, QUIET) == []
    assert story.after(9.0, WorkerEnded(0, 0), WorkerEnded(1, 0)) == [FinishTraining(), Exit(0)]


@pytest.mark.parametrize(
    "change", [Observed(is_aborted=True), Observed(is_leaving=True, may_go_on=False)]
)
def test_held_back_workers_are_not_signalled(change: Observed) -> None:
    """There are none yet: the group is joined again at once."""
    story = Story(PATIENT)
    story.after(0.0, Planned(1, THREE, n_due=1), QUIET)

    assert story.after(1.0, change) == [JoinGroup(1)]
    assert story.after(5.0, QUIET) == []
