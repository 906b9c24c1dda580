"""A runtime that only pretends: containers start, run and end by the clock, without a process.

What a pod does is in its annotations, read anew at every look, so that a test may change the mind
of a pod that runs. Durations are numbers of seconds, or written as 500ms, 2s, 5m, 1h. A list
separated by commas has one value for each restart (the pod's RestartCount label plus the
container's own restarts); the last one goes on counting.

    elasticdeeplearning.ai/hollow-notice-delay     until its node does or says anything (0)
    elasticdeeplearning.ai/hollow-start-delay      until its containers run (0)
    elasticdeeplearning.ai/hollow-duration         how long they run (until deleted)
    elasticdeeplearning.ai/hollow-exit-code        what they end with (0)
    elasticdeeplearning.ai/hollow-exit-reason      the reason shown with it, such as OOMKilled
    elasticdeeplearning.ai/hollow-stop-delay       how long they take to end when asked to (0)
    elasticdeeplearning.ai/hollow-waiting-reason   they never start, for this reason

Nothing is kept but begin times: a restarted agent goes on from what the pods' status says.
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
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")


@dataclass(frozen=True, slots=True)
class HollowScript:
    """What a pod's containers do if they are left alone, and how they take being stopped."""

    start_delay_s: float = 0.0
    duration_s: float | None = None
    exit_code: int = 0
    exit_reason: str = ""
    stop_delay_s: float = 0.0
    waiting_reason: str = ""


@dataclass(frozen=True, slots=True)
class HollowRun:
    """A pretended run: when it was asked to start, and to end. Times are wall time."""

    attempt: int
    begun_at: float
    running_since: float | None = None
    stopped_at: float | None = None
    kill_at: float = 0.0
    ended: Exited | None = None
    former: Exited | None = None


def script_of(pod: BoundPod, attempt: int) -> HollowScript:
    """The story of a pod's containers; what cannot be read counts as not said."""
    annotations, labels = pod.metadata.annotations, pod.metadata.labels
    restarted = labels.get(RESTART_COUNT, "")
    turn = attempt + (int(restarted) if restarted.isdigit() else 0)

    def said(name: str) -> str:
        values = annotations.get(PREFIX + name, "").split(",")
        return values[min(turn, len(values) - 1)].strip()

    code = said("exit-code")
    return HollowScript(
        start_delay_s=_seconds(said("start-delay")) or 0.0,
        duration_s=_seconds(said("duration")),
        exit_code=int(code) if code.isdigit() else 0,
        exit_reason=said("exit-reason"),
        stop_delay_s=_seconds(said("stop-delay")) or 0.0,
        waiting_reason=said("waiting-reason"),
    )


def notice_delay_s(pod: BoundPod) -> float:
    """After which time the node looks at a pod of which it has not reported anything."""
    if pod.status.start_time is not None or pod.metadata.deletion_timestamp is not None:
        return 0.0
    return _seconds(pod.metadata.annotations.get(f"{PREFIX}notice-delay", "")) or 0.0


def state_at(story: HollowScript, run: HollowRun, now: float) -> tuple[HollowRun, float | None]:
    """The run as it stands, and when that changes next."""
    if run.ended is not None:
        return run, None
    if run.running_since is None:
        starts_at = run.begun_at + story.start_delay_s
        if story.waiting_reason or starts_at > now:
            return run, None if story.waiting_reason else starts_at
        run = replace(run, running_since=starts_at)
    since = run.running_since or 0.0
    ends: list[Exited] = []
    if story.duration_s is not None:
        at = since + story.duration_s
        ends.append(_exit(story.exit_code, since, at, story.exit_reason))
    if run.stopped_at is not None:
        obeys = run.stopped_at + story.stop_delay_s
        number, at = (SIGTERM, obeys) if obeys <= run.kill_at else (SIGKILL, run.kill_at)
        ends.append(_exit(SIGNAL_BASE + number, since, at))
    first = min(ends, key=lambda end: end.finished_at, default=None)
    if first is None or first.finished_at > now:
        return run, first.finished_at if first else None
    # A story changed in the middle may put the end into the past; nobody saw it then.
    seen = max(first.finished_at, since)
    return replace(run, ended=replace(first, finished_at=seen)), None


class HollowRuntime:
    """See the module's docstring. `wake` is called with a key and a delay."""

    def __init__(self, clock: Clock, wake: Callable[[Key, float], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._pods: dict[Uid, dict[str, HollowRun]] = {}

    def runs(self, pod: BoundPod) -> Runs:
        now = self._clock.now()
        pretended = self._pods.setdefault(pod.metadata.uid, _resumed(pod))
        due: list[float] = []
        for name, held in pretended.items():
            pretended[name], changes_at = state_at(script_of(pod, held.attempt), held, now)
            if changes_at is not None:
                due.append(changes_at)
        if due:
            self._wake(pod.metadata.key, max(0.0, min(due) - now))
        return {name: _shown(pod, run) for name, run in pretended.items()}

    def addresses(self, pod: BoundPod) -> Addresses:
        number = zlib.crc32(pod.metadata.uid.encode()) & 0xFFFFFF
        ip = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        return Addresses(pod.status.pod_ip or ip, HOST_IP)

    async def start(self, pod: BoundPod, name: str, attempt: int) -> None:
        pretended = self._pods.setdefault(pod.metadata.uid, {})
        before = pretended.get(name)
        former = before.ended if before else None
        pretended[name] = HollowRun(attempt, self._clock.now(), former=former)

    async def stop(self, pod: BoundPod, name: str, grace_s: float) -> None:
        pretended = self._pods.get(pod.metadata.uid, {})
        run = pretended.get(name)
        if run is None or run.ended is not None:
            return
        if run.running_since is None:
            del pretended[name]  # nothing runs yet, so nothing has to end
            return
        now = self._clock.now()
        kill_at = now + grace_s
        if run.stopped_at is None:
            run = replace(run, stopped_at=now, kill_at=kill_at)
        pretended[name] = replace(run, kill_at=min(run.kill_at, kill_at))

    async def remove(self, uid: Uid) -> None:
        self._pods.pop(uid, None)

    async def keep_only(self, uids: Collection[Uid]) -> None:
        self._pods = {uid: runs for uid, runs in self._pods.items() if uid in uids}


def _resumed(pod: BoundPod) -> dict[str, HollowRun]:
    """What an agent before us had begun, as far as the status tells."""
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


def _shown(pod: BoundPod, run: HollowRun) -> Run:
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
