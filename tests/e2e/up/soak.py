"""Jobs at a steady rate on one `swell up`: memory, descriptors and database stay bounded.

    python -m tests.e2e.up.soak [--seconds 60] [--rate 20] [--processes] [--leak]

Jobs are created at the rate, end by themselves, and are deleted when they are over. Nodes are
hollow unless `--processes` asks for real ones. The first part of the time is warm-up: tables of
bounded size fill, the last of them (events that recorders remember) after some four minutes. From
then on nothing may grow: in a run that is long enough the slope of a fitted line counts, in a
shorter one what has been added since. Every minute one line is printed. The last line is one JSON
object with the figures; the exit code is 1 when a figure is out of bounds. `--leak` starts a
cluster that never forgets a commit, which has to be noticed.
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
DELETED_AT_ONCE = 16  # one by one, a busy disk would set the pace
WARM_UP = 0.5  # of the time
MIB = 1 << 20
WARM_S = 300.0  # after so long every table of bounded size is full
# Bounds after the warm-up of a long run. A leak of 1.5 KiB per job is 100
# MiB an hour at 20 jobs a second; what the allocator gives back or not makes up to 20.
MEMORY_BYTES_PER_H_MAX = 30 * MIB
DESCRIPTORS_PER_H_MAX = 60.0
DATABASE_BYTES_PER_H_MAX = 20 * MIB
# Bounds of a short run, whose tables are still filling: from the middle to the end, and of all.
GROWTH_BYTES_MAX = 32 * MIB
DESCRIPTORS_MAX = 40
DATABASE_BYTES_MAX = 64 * MIB
LEAKING = {
    "PYTHONPATH": str(Path(__file__).parent / "planted"),
    "SWELL_PLANTED_LEAK": "commits",
}
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

    @property
    def last(self) -> str:
        memory, database = _mib(self.resident[-1]), _mib(self.database[-1])
        return f"{self.at[-1]:6.0f} s: {memory} MiB, {self.descriptors[-1]} fds, db {database} MiB,"

    @property
    def n_warming(self) -> int:
        """The samples of the warm-up: the first half, but no more than all tables need to fill."""
        half = int(len(self.at) * WARM_UP)
        return min(half, sum(at < WARM_S for at in self.at))

    @property
    def is_long(self) -> bool:
        """Whether so much was measured after all tables were full that a slope says something."""
        return bool(self.at) and self.at[-1] >= 2 * WARM_S

    def slope_per_hour(self, values: list[int]) -> float:
        """The slope of a fitted line through everything after the warm-up."""
        first = self.n_warming
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
            for first in range(0, len(over), DELETED_AT_ONCE):
                if time.monotonic() > until:
                    return
                some = over[first : first + DELETED_AT_ONCE]
                await asyncio.gather(*(self._delete(cluster, job) for job in some))
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
            if len(samples.at) % int(60 / SAMPLE_S) == 1:
                sys.stdout.write(f"{samples.last} {load.n_created - load.n_deleted} jobs\n")
                sys.stdout.flush()
            await asyncio.sleep(SAMPLE_S)

    async with (
        connect(access, SystemClock(), random.Random(1)) as cluster,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(sample())
        group.create_task(load.create(cluster, rate, until, job_body(hollow=hollow)))
        group.create_task(load.sweep(cluster, until))
    return figures(samples, load, rate)


def problems(samples: Samples, load: SoakLoad, rate: float) -> list[str]:
    """What is out of bounds, in words and numbers."""
    hourly, backlog_s = samples.slope_per_hour, (load.n_created - load.n_deleted) / rate
    grown = max(samples.resident[samples.n_warming :]) - samples.resident[samples.n_warming]
    found: list[str] = []
    if samples.is_long:
        slope = hourly(samples.resident)
        if slope > MEMORY_BYTES_PER_H_MAX:
            found.append(f"memory grows by {_mib(slope)} MiB/h")
        if (slope := hourly(samples.descriptors)) > DESCRIPTORS_PER_H_MAX:
            found.append(f"descriptors grow by {slope:.0f}/h")
        if (slope := hourly(samples.database)) > DATABASE_BYTES_PER_H_MAX:
            found.append(f"the database grows by {_mib(slope)} MiB/h")
    elif grown > GROWTH_BYTES_MAX:
        found.append(f"memory grew by {_mib(grown)} MiB")
    if max(samples.descriptors) > samples.descriptors[0] + DESCRIPTORS_MAX:
        found.append(f"{max(samples.descriptors)} descriptors")
    if max(samples.database) > DATABASE_BYTES_MAX:
        found.append(f"the database has {_mib(max(samples.database))} MiB")
    if set(load.by_phase) - {"Succeed"}:
        found.append(f"jobs ended as {load.by_phase}")
    if backlog_s > BACKLOG_S_MAX:
        found.append(f"{backlog_s:.0f} s of jobs are not over")
    return found


def figures(samples: Samples, load: SoakLoad, rate: float) -> dict[str, object]:
    wrong = problems(samples, load, rate)
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
    parser.add_argument("--leak", action="store_true", help="a cluster that forgets no commit")
    chosen = parser.parse_args()
    hollow = not chosen.processes
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), dict(LEAKING) if chosen.leak else {})
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
