"""`make demo`: an elastic job's life on this machine, in well under a minute, asking nothing.

Runs the same commands a user would type, on an embedded cluster in a folder of its own. The
folder is kept, for its logs; no process is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJob,
    AITrainingJobPhase,
    AITrainingJobStatus,
)
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Key
from swell.api.pod import PodPhase
from swell.cli.connection import connected
from swell.cli.options import ClusterOptions
from swell.cli.output import aligned
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection

ROOT = Path(__file__).parents[2]
JOB_FILE = ROOT / "examples" / "elastic.yaml"
JOB = "elastic"
ROLE = "trainer"
NAMESPACE = "default"
WAIT_S_MAX = 45.0
POLL_S = 0.2


def main() -> int:
    """Tell the story; the first command that does not do as told ends it."""
    started = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="swell-demo-"))
    os.environ["SWELL_HOME"] = str(home)
    os.environ.pop("KUBECONFIG", None)
    try:
        status = _story()
    finally:
        _swell("down")
    _say("What happened:")
    sys.stdout.write(aligned(_table(status)) + "\n")
    _say(f"Logs: {home / 'logs' / 'default' / JOB}")
    _say(f"Done in {time.monotonic() - started:.1f} s. Nothing is left running.")
    return 0


def _story() -> AITrainingJobStatus:
    _say("A cluster on this machine: API server, operator, scheduler, autoscaler, node.")
    _swell("up", "--detach", "--cpu", "4", "--memory", "4Gi")

    _say("An elastic job of two trainers.")
    _swell("run", "--detach", str(JOB_FILE))
    _wait("2 trainers run", lambda seen: seen.has(2))
    _swell("get")

    _say("It grows.")
    _swell("scale", JOB, f"{ROLE}=4")
    _wait("4 trainers run", lambda seen: seen.has(4))

    _say("A pod is killed, and comes back.")
    victim = f"{JOB}-{ROLE}-3"
    _swell("chaos", "kill-pod", victim)
    _wait("it runs again", lambda seen: seen.has(4) and seen.pods.get(victim) == "1")
    _swell("get", "pods")

    _say("It shrinks.")
    _swell("scale", JOB, f"{ROLE}=1")
    _wait("1 trainer is left", lambda seen: seen.has(1))

    _say("It ends, and what it has printed is still there.")
    ended = _wait("the job has ended", lambda seen: seen.has_ended)
    _swell("logs", JOB, "--role", ROLE, "--index", "0")
    _swell("get")
    return ended.job.status


@dataclass(frozen=True, slots=True)
class DemoJobState:
    """The job, and its pods that run with the number of their restart."""

    job: AITrainingJob
    pods: dict[str, str]

    @property
    def has_ended(self) -> bool:
        return self.job.status.phase in FINAL_PHASES

    def has(self, size: int) -> bool:
        return len(self.pods) == size and self.job.status.phase is AITrainingJobPhase.RUNNING


def _look() -> DemoJobState:
    with connected(ClusterOptions(embedded=True)) as connection:
        job = connection.client.send(calls.get(AI_TRAINING_JOBS, Key(NAMESPACE, JOB)))
        pods = connection.client.send(calls.list_page(PODS, Selection(NAMESPACE))).items
    running = {
        pod.metadata.name: pod.metadata.labels.get("RestartCount", "")
        for pod in pods
        if pod.status.phase is PodPhase.RUNNING and pod.metadata.deletion_timestamp is None
    }
    return DemoJobState(job, running)


def _wait(what: str, holds: Callable[[DemoJobState], bool]) -> DemoJobState:
    """Look at the job until something holds."""
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        seen = _look()
        if holds(seen):
            _say(f"  ... {what}", gap="")
            return seen
        if seen.has_ended:
            raise SystemExit(f"the job has ended before {what}: {seen.job.status.message}")
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {WAIT_S_MAX:.0f} s: {what}; {seen}")
        time.sleep(POLL_S)


def _table(status: AITrainingJobStatus) -> list[list[str]]:
    """Phases and resizes, in the order of time."""
    phases = [[one.time, one.phase.value, one.message] for one in status.phase_history]
    resizes = [
        [one.time, "Resized", f"{one.role} from {one.from_} to {one.to}, by the {one.by.value}"]
        for one in status.scale_records
    ]
    return [["TIME", "WHAT", "HOW"], *sorted(phases + resizes, key=lambda row: row[0])]


def _swell(*words: str) -> None:
    sys.stdout.write(f"\n$ swell {' '.join(_short(word) for word in words)}\n")
    sys.stdout.flush()
    ended = subprocess.run([sys.executable, "-m", "swell.cli.main", *words], check=False)
    if ended.returncode:
        raise SystemExit(f"swell {words[0]} ended with {ended.returncode}")


def _short(word: str) -> str:
    path = Path(word)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else word


def _say(text: str, gap: str = "\n") -> None:
    sys.stdout.write(f"{gap}{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
