"""How long a gang takes to run in real containers, and whose time that is.

What is asked for: ours is mostly less than a tenth. It needs the whole cluster of `make testbed`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.budgets import Budget, at_most
from swell.api.pod import PodPhase
from tests.e2e.kubernetes.containers import pods
from tests.e2e.kubernetes.installed import install
from tests.e2e.kubernetes.machine import RealMachine
from tests.e2e.kubernetes.stage import on_stage
from tests.e2e.operator.actions import deletes_job
from tests.e2e.operator.checks import nothing_is_left
from tests.e2e.operator.jobs import job
from tests.e2e.operator.scenario import Trial
from tests.e2e.operator.stage import CLOSE_S
from tests.testbed import binaries
from tests.testbed.cluster import ClusterNotStartedError, running_cluster
from tests.testbed.kubectl import Kubectl

GANG = 8
N_RUNS = 9
NODE_PROGRAMS = ("containerd", "kubelet", "runc")
OURS = "ratio: operator and scheduler to all of it"
ASKED: dict[str, Budget] = {OURS: at_most(0.1)}


@dataclass
class Moments:
    """When each pod of a gang was first seen to be there, to have a node, to run."""

    submitted: float
    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)

    def look(self, play: Trial) -> bool:
        """Note what is new; whether all run."""
        now = time.perf_counter()
        for name, pod in play.pods().items():
            self.created.setdefault(name, now)
            if pod.spec.node_name:
                self.bound.setdefault(name, now)
            if pod.status.phase is PodPhase.RUNNING:
                self.running.setdefault(name, now)
        return len(self.running) == GANG

    @property
    def parts(self) -> tuple[float, float, float]:
        """Seconds until the last pod was created, then had a node, then ran."""
        ends = [self.submitted, *(max(one.values()) for one in (self.created, self.bound))]
        ends.append(max(self.running.values()))
        operator, scheduler, nodes = (b - a for a, b in pairwise(ends))
        return operator, scheduler, nodes


def run() -> dict[str, object]:
    """Returns how long a gang takes until it runs, and which part is ours; or why it cannot run."""
    try:
        binaries.require((*binaries.CONTROL_PLANE, *NODE_PROGRAMS))
        return _figures()
    except binaries.BinariesMissingError as error:
        return {"cluster": str(error)}
    except ClusterNotStartedError as error:
        return {"cluster": str(error).strip().splitlines()[-1]}


def _figures() -> dict[str, object]:
    """Returns medians of several gangs."""
    with (
        tempfile.TemporaryDirectory(prefix="swell-bench-") as folder,
        running_cluster(Path(folder) / "cluster") as cluster,
    ):
        home = Path(folder) / "kubectl"
        home.mkdir()
        machine = RealMachine(cluster, Kubectl(cluster.kubeconfig, home))
        install(machine)
        parts = [asyncio.run(measured(machine, number)) for number in range(N_RUNS)]
    shares = [1 - one[-1] / sum(one) for one in parts]  # all but the nodes
    operator, scheduler, nodes = (median(one) for one in zip(*parts, strict=True))
    return {
        f"gang of {GANG}: operator (s)": operator,
        f"gang of {GANG}: scheduler (s)": scheduler,
        f"gang of {GANG}: nodes (s)": nodes,
        OURS: median(shares),
    }


async def measured(machine: RealMachine, number: int) -> tuple[float, float, float]:
    async with on_stage(machine) as (cluster, observation):
        play = Trial(f"speed-{number}", cluster, observation, (), machine=machine)
        moments = Moments(time.perf_counter())
        await play.submit(job({"a": pods(GANG)}))
        await play.until(lambda: moments.look(play), "all run")
        await deletes_job().act(play)
        await nothing_is_left().act(play)
    await asyncio.sleep(CLOSE_S)
    return moments.parts
