"""The latest run of a container and its state, as values.

(none) --start--> Waiting --the process starts--> Running --it ends--> Exited
                   |   ^                                                 |
                   +---+ cannot be started: again at `retry_at`          |
                   ^                                                     |
                   +-------next attempt, after a back-off: `restarts`----+
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swell.api.pod import StateTerminated
from swell.api.times import parse_time
from swell.node.pods import BoundPod, ReportedContainer

CREATING = "ContainerCreating"
CRASH_LOOP = "CrashLoopBackOff"
INITIALIZING = "PodInitializing"
LOST = "ContainerStatusUnknown"
COMPLETED = "Completed"
ERROR = "Error"
KILLED_CODE = 137  # 128 plus SIGKILL, as shells count


@dataclass(frozen=True, slots=True)
class Waiting:
    """Asked to start and not running yet. If `retry_at` is set, it must be asked again then."""

    reason: str = CREATING
    message: str = ""
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """A process. `unhealthy` is the reason to restart it, when a liveness probe has failed."""

    started_at: float
    is_started: bool = True
    is_ready: bool = True
    unhealthy: str = ""
    unhealthy_grace_s: float | None = None


@dataclass(frozen=True, slots=True)
class Exited:
    """A process that has ended. The signal is 0 unless one ended it."""

    exit_code: int
    started_at: float
    finished_at: float
    reason: str = ""
    message: str = ""
    signal: int = 0

    @property
    def is_success(self) -> bool:
        return self.exit_code == 0

    @property
    def shown_reason(self) -> str:
        return self.reason or (COMPLETED if self.is_success else ERROR)


State = Waiting | Running | Exited


@dataclass(frozen=True, slots=True)
class Run:
    """The latest run of a container, its number counted from 0, and the end of the former one."""

    attempt: int
    state: State
    former: Exited | None = None


Runs = Mapping[str, Run]  # by container; one that was never asked to start is missing


def reported_runs(pod: BoundPod) -> dict[str, Run]:
    """Returns the runs in a pod's reported status, for a runtime that has no record of them."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    found = {status.name: _reported_run(status) for status in statuses}
    return {name: run for name, run in found.items() if run is not None}


def lost(run: Run, now: float) -> Run:
    """Returns a run whose process has vanished as one that was killed; others unchanged."""
    if not isinstance(run.state, Running):
        return run
    message = "the container's process is gone and its exit code is not known"
    ended = Exited(KILLED_CODE, run.state.started_at, now, LOST, message)
    return Run(run.attempt, ended, run.former)


def _reported_run(status: ReportedContainer) -> Run | None:
    state, former = status.state, _exited(status.last_state.terminated)
    if state.terminated is not None:
        ended = _exited(state.terminated)
        return Run(status.restart_count, ended, former) if ended else None
    if state.running is not None:
        started_at = _seconds(state.running.started_at)
        running = Running(started_at, bool(status.started), status.ready)
        return Run(status.restart_count, running, former)
    if former is not None:
        # It waits in its back-off: the latest run is the one that ended.
        return Run(status.restart_count, former)
    return None


def _exited(terminated: StateTerminated | None) -> Exited | None:
    if terminated is None:
        return None
    return Exited(
        terminated.exit_code,
        _seconds(terminated.started_at),
        _seconds(terminated.finished_at),
        terminated.reason,
        terminated.message,
        terminated.signal,
    )


def _seconds(text: str | None) -> float:
    return parse_time(text) if text else 0.0
