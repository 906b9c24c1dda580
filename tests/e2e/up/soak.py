"""Jobs at a steady rate on one `swell up`: memory, descriptors and database stay bounded.

    python -m tests.e2e.up.soak [--seconds 60] [--rate 20] [--processes]

Jobs are created at the rate, end by themselves, and are deleted when they are over. Nodes are
hollow unless `--processes` asks for real ones. The first part of the time is warm-up: caches fill,
and the log of the store reaches its bound. From then on the growth per hour is a fitted line. The
last line is one JSON object with the figures; the exit code is 1 when a figure is out of bounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.cluster.home import lock_holder
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection
from swell.runtime.errors import NotFoundError
from tests.e2e.up.machine import Machine

JOBS = AI_TRAINING_JOBS.untyped()
NAMESPACE = "default"
OVER = frozenset({"Succeed", "Failed", "Timeout", "Preempted", "NodeFail"})
SAMPLE_S = 2.0
SWEEP_S = 1.0  # between two deletions of what is over
WARM_UP = 0.5  # of the time
MIB = 1 << 20
# Bounds. The log of the store holds up to 64 MiB (`storage.KEPT_BYTES_MAX`), which a short run is
# still filling; a leak of one object per job would be some 100 MiB an hour at 20 jobs a second.
GROWTH_BYTES_MAX = 48 * MIB
DESCRIPTORS_MAX = 40
DATABASE_BYTES_MAX = 64 * MIB
BACKLOG_S_MAX = 30.0  # jobs that are not over yet, in seconds of the rate


@dataclass
class Samples:
    """The measured life of one cluster process, second by second."""

    at: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    database: list[int] = field(default_factory=list)

    def take(self, now: float, pid: int, home: Path) -> None:
        self.at.append(now)
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        self.resident.append(pages * os.sysconf("SC_PAGE_SIZE"))
        self.descriptors.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
        self.database.append(sum(file.stat().st_size for file in home.glob("store.db*")))

    def slope_per_hour(self, values: list[int]) -> float:
        """The slope of a fitted line through everything after the warm-up."""
        first = int(len(self.at) * WARM_UP)
        xs, ys = self.at[first:], values[first:]
        if len(xs) < 2:
            return 0.0
        x0, y0 = sum(xs) / len(xs), sum(ys) / len(ys)
        spread = sum((x - x0) ** 2 for x in xs)
        return 3600 * sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True)) / spread


@dataclass
class SoakLoad:
    """The jobs that were created and deleted."""

    n_created: int = 0
    n_deleted: int = 0
    by_phase: dict[str, int] = field(default_factory=dict)

    async def create(self, cluster: KubeCluster, rate: float, until: float, body: Body) -> None:
        begun = time.monotonic()
        while (now := time.monotonic()) < until:
            due = int((now - begun) * rate) - self.n_created
            names = [f"soak-{self.n_created + n}" for n in range(due)]
            self.n_created += due
            await asyncio.gather(
                *(
                    cluster.create(JOBS, {**body, "metadata": {"name": n, "namespace": NAMESPACE}})
                    for n in names
                )
            )
            await asyncio.sleep(1 / rate)

    async def sweep(self, cluster: KubeCluster, until: float) -> None:
        """Delete what is over, and count how it ended."""
        while time.monotonic() < until:
            over = [
                job
                for job in (await cluster.list(JOBS, Selection(NAMESPACE))).items
                if job.get("status", {}).get("phase", "") in OVER
                and "deletionTimestamp" not in job["metadata"]
            ]
            for job in over:
                if time.monotonic() > until:
                    return
                await self._delete(cluster, job)
            await asyncio.sleep(SWEEP_S)

    async def _delete(self, cluster: KubeCluster, job: Body) -> None:
        with contextlib.suppress(NotFoundError):
            await cluster.delete(JOBS, Key(NAMESPACE, job["metadata"]["name"]))
        phase = job["status"]["phase"]
        self.n_deleted += 1
        self.by_phase[phase] = self.by_phase.get(phase, 0) + 1


def job_body(*, hollow: bool) -> Body:
    template: Body = {
        "spec": {"containers": [{"name": "aitj-main", "image": "local", "command": ["true"]}]}
    }
    if hollow:
        template["metadata"] = {"annotations": {"elasticdeeplearning.ai/hollow-duration": "1s"}}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "spec": {"replicaSpecs": {"trainer": {"replicas": 1, "template": template}}},
    }


async def soak(machine: Machine, seconds: float, rate: float, *, hollow: bool) -> dict[str, object]:
    """Run the load against a cluster that is up; the figures."""
    running = lock_holder(machine.home)
    assert running is not None
    samples, load, begun = Samples(), SoakLoad(), time.monotonic()
    until = begun + seconds
    access = read_kubeconfig([machine.home / "kubeconfig"])

    async def sample() -> None:
        while (now := time.monotonic()) < until:
            samples.take(now - begun, running.pid, machine.home)
            await asyncio.sleep(SAMPLE_S)

    async with (
        connect(access, SystemClock(), random.Random(1)) as cluster,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(sample())
        group.create_task(load.create(cluster, rate, until, job_body(hollow=hollow)))
        group.create_task(load.sweep(cluster, until))
    return figures(samples, load, rate)


def figures(samples: Samples, load: SoakLoad, rate: float) -> dict[str, object]:
    warm = int(len(samples.at) * WARM_UP)
    growth = max(samples.resident[warm:]) - samples.resident[warm]
    backlog_s = (load.n_created - load.n_deleted) / rate
    wrong = [
        text
        for is_wrong, text in (
            (growth > GROWTH_BYTES_MAX, "memory grows"),
            (max(samples.descriptors) > samples.descriptors[0] + DESCRIPTORS_MAX, "descriptors"),
            (max(samples.database) > DATABASE_BYTES_MAX, "the database is not bounded"),
            (set(load.by_phase) - {"Succeed"}, f"jobs ended as {load.by_phase}"),
            (backlog_s > BACKLOG_S_MAX, f"{backlog_s:.0f} s of jobs are not over"),
        )
        if is_wrong
    ]
    hourly = samples.slope_per_hour
    return {
        "seconds": round(samples.at[-1]),
        "jobs created": load.n_created,
        "jobs deleted": load.n_deleted,
        "memory MiB": [_mib(samples.resident[0]), _mib(max(samples.resident))],
        "memory MiB/h after warm-up": _mib(hourly(samples.resident)),
        "descriptors": [samples.descriptors[0], max(samples.descriptors), samples.descriptors[-1]],
        "descriptors/h after warm-up": round(hourly(samples.descriptors), 1),
        "database MiB": [_mib(samples.database[0]), _mib(max(samples.database))],
        "database MiB/h after warm-up": _mib(hourly(samples.database)),
        "wrong": wrong,
    }


def _mib(n_bytes: float) -> float:
    return round(n_bytes / MIB, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=20.0, help="jobs a second")
    parser.add_argument("--processes", action="store_true", help="real processes, not hollow ones")
    chosen = parser.parse_args()
    hollow = not chosen.processes
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        flags = ("--hollow", "--nodes", "4") if hollow else ()
        machine.swell("up", "--detach", "--cpu", "64", "--memory", "64Gi", *flags)
        try:
            found = asyncio.run(soak(machine, chosen.seconds, chosen.rate, hollow=hollow))
        finally:
            machine.swell("down")
    sys.stdout.write(json.dumps(found) + "\n")
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
