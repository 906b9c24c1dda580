"""Stays with a job to its end, through every Ctrl-C, and reports how it was left."""

from __future__ import annotations

import time

from swell.api.aitrainingjob import AITrainingJobPhase
from swell.cli.command_line import INTERRUPTED
from swell.cli.connection import ClusterConnection
from swell.cli.job_kinds import FoundJob, try_read
from swell.cli.jobs.follow import JobFollower, print_prefixed
from swell.cli.jobs.interrupting import (
    FollowingInterruptedError,
    InterruptAnswer,
    InterruptNote,
    ask_after_interrupt,
)
from swell.cli.jobs.live_line import LiveLine
from swell.cli.jobs.logs import logs_of
from swell.cli.jobs.stopping import StopPhase, stop_job

# 124 is also what timeout(1) ends with; 75 is EX_TEMPFAIL of sysexits: try again later.
EXIT_CODES = {
    AITrainingJobPhase.SUCCEED.value: 0,
    AITrainingJobPhase.FAILED.value: 1,
    AITrainingJobPhase.NODE_FAIL.value: 1,
    AITrainingJobPhase.TIMEOUT.value: 124,
    AITrainingJobPhase.PREEMPTED.value: 75,
}


def follow_job(job: FoundJob, connection: ClusterConnection) -> int:
    """Follow a job to its end and return the exit code that stands for its final phase.

    Ctrl-C detaches, which is no failure, or stops the job.
    """
    name, started = job.key.name, time.monotonic()

    line = LiveLine(name)
    report = line.report
    with InterruptNote() as interrupts:
        logs = logs_of(connection, job)
        follower = JobFollower(connection, job, logs, line, interrupts.raise_if_noted)
        ended, is_stopped = _to_the_end(follower, line)
    if ended is None:
        report("deleted by somebody else")
        return 1
    if not ended.has_ended and is_stopped:
        report("left, while it ends")
        return INTERRUPTED
    if not ended.has_ended:
        report(f"detached, it goes on; again: swell attach {name}; end it: swell stop {name}")
        return 0
    took = f"{ended.phase} after {time.monotonic() - started:.1f} s"
    report(f"{took}: {ended.message}" if ended.message else took)
    return INTERRUPTED if is_stopped else EXIT_CODES[ended.phase]


def _to_the_end(follower: JobFollower, line: LiveLine) -> tuple[FoundJob | None, bool]:
    """Follow a job through every Ctrl-C, and return how it was left, and whether it was stopped.

    A job that is left alone has not ended, and one that was deleted is None.
    """
    is_stopped = False
    while True:
        try:
            return follower.to_the_end(line.making_room(print_prefixed)), is_stopped
        except FollowingInterruptedError:
            line.clear()
            # Whoever has asked to stop it does not want to wait any longer.
            answer = InterruptAnswer.DETACH if is_stopped else ask_after_interrupt()
        except KeyboardInterrupt:  # pressed twice at once
            answer = InterruptAnswer.DETACH
        if answer is InterruptAnswer.DETACH:
            return follower.job, is_stopped
        if answer is InterruptAnswer.STOP:
            is_stopped = _stop(follower)


def _stop(follower: JobFollower) -> bool:
    """Stop the job that is followed; False if it has ended or gone before that."""
    job = try_read(follower.connection, follower.job.resource, follower.job.key)
    if job is None or job.uid != follower.job.uid or job.has_ended:
        return False
    stop_job(follower.connection, job, StopPhase.FAILED, "stopped by Ctrl-C in swell run")
    follower.line.report("stopping it (once more Ctrl-C to leave at once)")
    return True
