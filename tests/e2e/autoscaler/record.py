"""Looks at an embedded cluster while something happens there, and keeps what it has seen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from swell.api.aitrainingjob import AITrainingJob
from swell.api.kinds import AI_TRAINING_JOBS, NODES, PODS
from swell.api.pod import PodPhase
from swell.api.quantity import parse
from swell.api.requests import CPU, pod_requests
from swell.cluster.kube import calls
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.kube.oneshot import OneShot

PERIOD_S = 0.25
WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Look:
    """One moment: jobs by name, how many pods of each run, how much of the cpu is requested."""

    at: float
    jobs: dict[str, AITrainingJob]
    running: dict[str, int]
    load: float

    def size(self, job: str) -> int:
        return self.running.get(job, 0)

    def phase(self, job: str) -> str:
        return self.jobs[job].status.phase.value if job in self.jobs else ""


@dataclass
class Record:
    """All looks so far."""

    kubeconfig: Path
    looks: list[Look] = field(default_factory=list)

    def look(self) -> Look:
        access = read_kubeconfig([self.kubeconfig])
        assert access is not None
        client = OneShot(access, Random(1))
        jobs = client.send(calls.list_page(AI_TRAINING_JOBS)).items
        pods = client.send(calls.list_page(PODS)).items
        nodes = client.send(calls.list_page(NODES)).items
        alive = [pod for pod in pods if pod.status.phase in {PodPhase.PENDING, PodPhase.RUNNING}]
        requested = sum(
            pod_requests(pod.spec)[CPU].milli_value() for pod in alive if pod.spec.node_name
        )
        total = sum(parse(node.status.allocatable[CPU]).milli_value() for node in nodes)
        running = Counter(
            pod.metadata.labels["TrainingJobName"]
            for pod in alive
            if pod.status.phase is PodPhase.RUNNING and not pod.metadata.deletion_timestamp
        )
        found = {job.metadata.name: job for job in jobs}
        self.looks.append(Look(time.time(), found, dict(running), requested / total))
        return self.looks[-1]

    def until(self, what: str, holds: Callable[[Look], bool], within_s: float = WITHIN_S) -> Look:
        deadline = time.monotonic() + within_s
        while not holds(seen := self.look()):
            reported = {name: (seen.phase(name), seen.size(name)) for name in seen.jobs}
            assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}; {reported}"
            time.sleep(PERIOD_S)
        return seen

    def go_on(self, for_s: float) -> None:
        """Only look, for some time."""
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            self.look()
            time.sleep(PERIOD_S)
