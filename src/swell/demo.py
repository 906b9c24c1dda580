"""The command `make demo`: the life of an elastic job on this machine, in well under a minute.

It runs the commands that a user would type, on an embedded cluster in a folder of its own, and
needs no input. The folder is kept for its logs; every process is ended.
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
    """Run the demo; the first command that fails ends it."""
    started = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="swell-demo-"))
    os.environ["SWELL_HOME"] = str(home)
    os.environ.pop("KUBECONFIG", None)
    try:
        status = _run_job()
    finally:
        _swell("down")
    _print("What happened:")
    sys.stdout.write(aligned(_table(status)) + "\n")
    _print(f"Logs: {home / 'logs' / 'default' / JOB}")
    _print(f"Done in {time.monotonic() - started:.1f} s. Nothing is left running.")
    return 0


def _run_job() -> AITrainingJobStatus:
    _print("A cluster on this machine: API server, operator, scheduler, autoscaler, node.")
    _swell("up", "--detach", "--cpu", "4", "--memory", "4Gi")

    _print("An elastic job of two trainers.")
    _swell("run", "--detach", str(JOB_FILE))
    _wait("2 trainers run", lambda state: state.has(2))
    _swell("get")

    _print("It grows.")
    _swell("scale", JOB, f"{ROLE}=4")
    _wait("4 trainers run", lambda state: state.has(4))

    _print("A pod is killed, and comes back.")
    victim = f"{JOB}-{ROLE}-3"
    _swell("chaos", "kill-pod", victim)
    _wait("it runs again", lambda state: state.has(4) and state.pods.get(victim) == "1")
    _swell("get", "pods")

    _print("It shrinks.")
    _swell("scale", JOB, f"{ROLE}=1")
    _wait("1 trainer is left", lambda state: state.has(1))

    _print("It ends, and what it has printed is still there.")
    ended = _wait("the job has ended", lambda state: state.has_ended)
    _swell("logs", JOB, "--role", ROLE, "--index", "0")
    _swell("get")
    return ended.job.status


@dataclass(frozen=True, slots=True)
class DemoJobState:
    """The job, and the restart count of each of its running pods."""

    job: AITrainingJob
    pods: dict[str, str]

    @property
    def has_ended(self) -> bool:
        return self.job.status.phase in FINAL_PHASES

    def has(self, size: int) -> bool:
        return len(self.pods) == size and self.job.status.phase is AITrainingJobPhase.RUNNING


def _read_state() -> DemoJobState:
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
    """Read the job again and again until something holds."""
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        state = _read_state()
        if holds(state):
            _print(f"  ... {what}", gap="")
            return state
        if state.has_ended:
            raise SystemExit(f"the job has ended before {what}: {state.job.status.message}")
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {WAIT_S_MAX:.0f} s: {what}; {state}")
        time.sleep(POLL_S)


def _table(status: AITrainingJobStatus) -> list[list[str]]:
    """Return the phases and resizes of the job in the order of time."""
    phases = [[one.time, one.phase.value, one.message] for one in status.phase_history]
    resizes = [
        [one.time, "Resized", f"{one.role} from {one.from_} to {one.to}, by the {one.by.value}"]
        for one in status.scale_records
    ]
    return [["TIME", "WHAT", "HOW"], *sorted(phases + resizes, key=lambda row: row[0])]


def _swell(*arguments: str) -> None:
    sys.stdout.write(f"\n$ swell {' '.join(_short(argument) for argument in arguments)}\n")
    sys.stdout.flush()
    ended = subprocess.run([sys.executable, "-m", "swell.cli.main", *arguments], check=False)
    if ended.returncode:
        raise SystemExit(f"swell {arguments[0]} ended with {ended.returncode}")


def _short(argument: str) -> str:
    path = Path(argument)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else argument


def _print(text: str, gap: str = "\n") -> None:
    sys.stdout.write(f"{gap}{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
