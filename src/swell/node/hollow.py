"""A runtime that simulates containers: they start, run and end by the clock, without a process.

A pod's annotations say how its containers behave. They are read at every look, so that a test can
change the behaviour of a running pod. Durations are numbers of seconds, or written as 500ms, 2s,
5m, 1h. A list separated by commas has one value for each restart (the pod's RestartCount label
plus the container's own restarts); the last one holds for all later restarts.

    elasticdeeplearning.ai/hollow-notice-delay     until its node acts on it or reports it (0)
    elasticdeeplearning.ai/hollow-start-delay      until its containers run (0)
    elasticdeeplearning.ai/hollow-duration         how long they run (until deleted)
    elasticdeeplearning.ai/hollow-exit-code        what they end with (0)
    elasticdeeplearning.ai/hollow-exit-reason      the reason shown with it, such as OOMKilled
    elasticdeeplearning.ai/hollow-stop-delay       how long they take to end when asked to (0)
    elasticdeeplearning.ai/hollow-waiting-reason   they never start, for this reason

Only start times are kept: a restarted agent goes on from the status of the pods.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from swell.api.meta import Key, Uid
from swell.node.pods import BoundPod
from swell.node.runs import CREATING, Exited, Run, Running, Runs, Waiting, reported_runs
from swell.node.status import Addresses
from swell.runtime.clock import Clock

PREFIX = "elasticdeeplearning.ai/hollow-"
RESTART_COUNT = "RestartCount"
SIGTERM, SIGKILL = 15, 9
SIGNAL_BASE = 128
HOST_IP = "127.0.0.1"
_UNITS_S = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_COUNT = re.compile(r"[0-9]{1,9}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")


@dataclass(frozen=True, slots=True)
class HollowScript:
    """How the containers of a pod behave, by its annotations."""

    start_delay_s: float = 0.0
    duration_s: float | None = None
    exit_code: int = 0
    exit_reason: str = ""
    stop_delay_s: float = 0.0
    waiting_reason: str = ""


@dataclass(frozen=True, slots=True)
class HollowRun:
    """A simulated run. Times are wall time.

    begun --start delay--> running --duration, or stopped and stop delay--> ended
    """

    attempt: int
    begun_at: float
    running_since: float | None = None
    stopped_at: float | None = None
    kill_at: float = 0.0
    ended: Exited | None = None
    former: Exited | None = None


def script_of(pod: BoundPod, attempt: int) -> HollowScript:
    """Returns the script of a pod's containers. Annotations that cannot be read are ignored."""
    annotations, labels = pod.metadata.annotations, pod.metadata.labels
    restarted = labels.get(RESTART_COUNT, "")
    turn = attempt + (int(restarted) if _COUNT.fullmatch(restarted) else 0)

    def value(name: str) -> str:
        values = annotations.get(PREFIX + name, "").split(",")
        return values[min(turn, len(values) - 1)].strip()

    code = value("exit-code")
    return HollowScript(
        start_delay_s=_seconds(value("start-delay")) or 0.0,
        duration_s=_seconds(value("duration")),
        exit_code=int(code) if _COUNT.fullmatch(code) else 0,
        exit_reason=value("exit-reason"),
        stop_delay_s=_seconds(value("stop-delay")) or 0.0,
        waiting_reason=value("waiting-reason"),
    )


def notice_delay_s(pod: BoundPod) -> float:
    """Returns the time after which the node first looks at a pod."""
    if pod.status.start_time is not None or pod.metadata.deletion_timestamp is not None:
        return 0.0
    return _seconds(pod.metadata.annotations.get(f"{PREFIX}notice-delay", "")) or 0.0


def state_at(script: HollowScript, run: HollowRun, now: float) -> tuple[HollowRun, float | None]:
    """Returns the run as it is now, and the time of its next change."""
    if run.ended is not None:
        return run, None
    if run.running_since is None:
        starts_at = run.begun_at + script.start_delay_s
        if script.waiting_reason or starts_at > now:
            return run, None if script.waiting_reason else starts_at
        run = replace(run, running_since=starts_at)
    since = run.running_since or 0.0
    ends: list[Exited] = []
    if script.duration_s is not None:
        at = since + script.duration_s
        ends.append(_exit(script.exit_code, since, at, script.exit_reason))
    if run.stopped_at is not None:
        obeys = run.stopped_at + script.stop_delay_s
        number, at = (SIGTERM, obeys) if obeys <= run.kill_at else (SIGKILL, run.kill_at)
        ends.append(_exit(SIGNAL_BASE + number, since, at))
    first = min(ends, key=lambda end: end.finished_at, default=None)
    if first is None or first.finished_at > now:
        return run, first.finished_at if first else None
    # A script that was changed meanwhile may put the end before the start.
    seen = max(first.finished_at, since)
    return replace(run, ended=replace(first, finished_at=seen)), None


class HollowRuntime:
    """The simulated runs of all pods. `wake` is called with a pod's key and a delay."""

    def __init__(self, clock: Clock, wake: Callable[[Key, float], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._pods: dict[Uid, dict[str, HollowRun]] = {}

    def observe(self, pod: BoundPod) -> None:
        """Let the time pass for a pod's containers, and have it woken at their next change."""
        now = self._clock.now()
        runs = self._pods.setdefault(pod.metadata.uid, _resumed(pod))
        due: list[float] = []
        for name, run in runs.items():
            runs[name], changes_at = state_at(script_of(pod, run.attempt), run, now)
            if changes_at is not None:
                due.append(changes_at)
        if due:
            self._wake(pod.metadata.key, max(0.0, min(due) - now))

    def runs(self, pod: BoundPod) -> Runs:
        """Returns the runs as they were when the pod was last observed."""
        runs = self._pods.get(pod.metadata.uid)
        if runs is None:
            runs = _resumed(pod)
        return {name: _simulated(pod, run) for name, run in runs.items()}

    def addresses(self, pod: BoundPod) -> Addresses:
        number = zlib.crc32(pod.metadata.uid.encode()) & 0xFFFFFF
        ip = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        return Addresses(pod.status.pod_ip or ip, HOST_IP)

    async def start(self, pod: BoundPod, name: str, attempt: int) -> None:
        runs = self._pods.setdefault(pod.metadata.uid, {})
        before = runs.get(name)
        former = before.ended if before else None
        runs[name] = HollowRun(attempt, self._clock.now(), former=former)

    async def stop(self, pod: BoundPod, name: str, grace_s: float) -> None:
        runs = self._pods.get(pod.metadata.uid, {})
        run = runs.get(name)
        if run is None or run.ended is not None:
            return
        if run.running_since is None:
            del runs[name]  # it does not run yet, so it ends at once
            return
        now = self._clock.now()
        kill_at = now + grace_s
        if run.stopped_at is None:
            run = replace(run, stopped_at=now, kill_at=kill_at)
        runs[name] = replace(run, kill_at=min(run.kill_at, kill_at))

    async def remove(self, uid: Uid) -> bool:
        self._pods.pop(uid, None)
        return True

    async def keep_only(self, uids: Collection[Uid]) -> tuple[Uid, ...]:
        self._pods = {uid: runs for uid, runs in self._pods.items() if uid in uids}
        return ()


def _resumed(pod: BoundPod) -> dict[str, HollowRun]:
    """Returns the runs that an earlier agent has reported."""
    found: dict[str, HollowRun] = {}
    for name, run in reported_runs(pod).items():
        match run.state:
            case Running(started_at=since):
                found[name] = HollowRun(run.attempt, since, since, former=run.former)
            case Exited() as ended:
                found[name] = HollowRun(
                    run.attempt, ended.started_at, ended.started_at, ended=ended, former=run.former
                )
            case Waiting():
                continue
    return found


def _simulated(pod: BoundPod, run: HollowRun) -> Run:
    if run.ended is not None:
        return Run(run.attempt, run.ended, run.former)
    if run.running_since is not None:
        return Run(run.attempt, Running(run.running_since), run.former)
    reason = script_of(pod, run.attempt).waiting_reason
    message = "as the pod's annotations want it" if reason else ""
    return Run(run.attempt, Waiting(reason or CREATING, message), run.former)


def _exit(code: int, since: float, at: float, reason: str = "") -> Exited:
    return Exited(code, since, at, reason)


def _seconds(text: str) -> float | None:
    found = _DURATION.fullmatch(text)
    return float(found[1]) * _UNITS_S[found[2]] if found else None
