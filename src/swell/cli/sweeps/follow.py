"""Stays with a sweep until all its jobs have ended, and reports its progress."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.cli.command_line import INTERRUPTED, is_quiet, note
from swell.cli.connection import ClusterConnection
from swell.cli.jobs.interrupting import (
    FollowingInterruptedError,
    InterruptAnswer,
    InterruptNote,
    ask_after_interrupt,
)
from swell.cli.progress import ProgressLine, counted
from swell.cli.sweeps.actions import stop_jobs
from swell.cli.sweeps.state import (
    SweepState,
    read_sweep,
    sweep_selection,
    sweep_state,
    table_of,
)
from swell.cluster.kube import calls
from swell.cluster.kube.watching import WatchedObjects
from swell.runtime.cluster import merge_patch

POLL_S = 0.2
# Without a terminal a line is printed when the counts have changed, at most this often.
PLAIN_LINES_EVERY_S = 5.0


def follow_sweep(connection: ClusterConnection, namespace: str, sweep: str) -> int:
    """Follow a sweep, print its table at the end, and return the exit code.

    Ctrl-C asks as it does for a job.
    """
    is_stopped = False
    with InterruptNote() as interrupts:
        while True:
            try:
                state = _shown_to_the_end(connection, namespace, sweep, interrupts.raise_if_noted)
            except FollowingInterruptedError:
                answer = InterruptAnswer.DETACH if is_stopped else ask_after_interrupt()
            except KeyboardInterrupt:  # pressed twice at once
                answer = InterruptAnswer.DETACH
            else:
                break
            if answer is InterruptAnswer.DETACH:
                where = f"again: swell attach sweep/{sweep}; end it: swell stop sweep/{sweep}"
                note(f"sweep/{sweep}: detached, it goes on; {where}")
                return INTERRUPTED if is_stopped else 0
            if answer is InterruptAnswer.STOP:
                stop_jobs(connection, read_sweep(connection, namespace, sweep))
                is_stopped = True
    sys.stdout.write(table_of(state))
    if is_stopped:
        return INTERRUPTED
    return 0 if state.has_succeeded else 1


def _shown_to_the_end(
    connection: ClusterConnection, namespace: str, sweep: str, check: Callable[[], None]
) -> SweepState:
    with ProgressLine() as line:
        reporter = _SweepReporter(sweep, line)

        def look(state: SweepState) -> None:
            check()
            reporter.report(state)

        return sweep_to_the_end(connection, namespace, sweep, look)


def sweep_to_the_end(
    connection: ClusterConnection, namespace: str, sweep: str, look: Callable[[SweepState], None]
) -> SweepState:
    """Return the state of a sweep whose jobs have all ended, or are gone.

    Suspended jobs are resumed as others end. `look` is called with every state before the last;
    following is broken off by what it raises.
    """
    resource, selection = AI_TRAINING_JOBS.untyped(), sweep_selection(namespace, sweep)
    rng = random.Random()  # noqa: S311
    with WatchedObjects(connection.client, resource, selection, rng) as watched:
        while True:
            watched.poll(POLL_S)
            state = sweep_state(namespace, sweep, watched.objects.values())
            if state.has_ended:
                return state
            look(state)
            # Their change comes back by the watch before the next look, or they are resumed twice,
            # which does no harm.
            for job in state.next_jobs:
                body: Body = {"metadata": {"uid": job.uid}, "spec": {"suspend": False}}
                connection.client.send(calls.patch(job.resource, job.key, merge_patch(body)))


class _SweepReporter:
    """Reports counts: on a terminal in a line that is replaced, elsewhere now and then."""

    def __init__(self, sweep: str, line: ProgressLine) -> None:
        self._sweep = sweep
        self._line = line
        self._said = ""
        self._said_at = float("-inf")

    def report(self, state: SweepState) -> None:
        n_ended = sum(job.has_ended for job in state.jobs)
        bar = counted(f"sweep/{self._sweep}", n_ended, len(state.jobs))
        self._line.say(f"{bar}  {state.summary.partition(': ')[2]}")
        text, now = state.summary, time.monotonic()
        is_due = text != self._said and now - self._said_at >= PLAIN_LINES_EVERY_S
        if is_due and not self._line.is_shown and not is_quiet():
            note(f"sweep/{self._sweep}: {text}")
            self._said, self._said_at = text, now
