"""`kill -9` of `swell up` under load, again and again: nothing acknowledged is lost, no process is
orphaned or doubled.

    python -m tests.e2e.up.killing [--rounds 20] [--seed 1]

In every round clients create, change and delete ConfigMaps, create, resize and delete jobs with
real processes, and read their logs, until the cluster is killed; some clusters are killed once more
while they start. Then everything acknowledged must be there, and the processes on the machine must
be those of the acknowledged jobs, each once. The last line is one JSON object with the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.kube.policy import ClientLimits
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection, merge_patch
from swell.runtime.errors import OutcomeUnknownError, UnreachableError
from tests.contract.killing import Ledger, Writer, resolve_uncertain, values
from tests.contract.raw import Raw
from tests.e2e.up.machine import FLAGS, Machine

JOBS = AI_TRAINING_JOBS.untyped()
NAMESPACE = "default"
N_WRITERS = 3
N_JOBS_MAX = 4
SIZES = (1, 2, 3)
UPTIME_S = (0.3, 1.5)  # under load, until the kill
STARTING_S_MAX = 1.5
KILLED_STARTING = 0.25  # of the rounds
SETTLE_S = 60.0
JOB, INDEX = "KILLED_JOB", "TRAININGJOB_REPLICA_INDEX"


@dataclass
class Findings:
    """The figures of all rounds."""

    rounds: int = 0
    log_reads: int = 0
    lost: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)


@dataclass
class JobClient:
    """Creates, resizes and deletes jobs, and notes what was acknowledged in the ledger."""

    ledger: Ledger
    rng: random.Random
    mark: str  # in the environment of every process, to tell them from those of other harnesses
    n: int = 0

    async def work(self, cluster: KubeCluster) -> None:
        """Ends when the server is gone."""
        while True:
            live = [name for name, size in self.ledger.promised.items() if size]
            sure = [name for name in live if name not in self.ledger.uncertain]
            try:
                if not sure or (len(live) < N_JOBS_MAX and self.rng.random() < 0.4):
                    await self._create(cluster)
                elif self.rng.random() < 0.7:
                    await self._resize(cluster, self.rng.choice(sure))
                else:
                    await self._delete(cluster, self.rng.choice(sure))
            except (UnreachableError, OutcomeUnknownError):
                return
            await asyncio.sleep(self.rng.uniform(0, 0.2))

    async def _create(self, cluster: KubeCluster) -> None:
        self.n += 1
        name, size = f"job-{self.n}", self.rng.choice(SIZES)
        try:
            await cluster.create(JOBS, job_body(name, size, self.mark))
        except OutcomeUnknownError:
            self.ledger.mark_uncertain(name, str(size))
            raise
        self.ledger.keep(name, str(size))

    async def _resize(self, cluster: KubeCluster, name: str) -> None:
        size = self.rng.choice(SIZES)
        change = merge_patch({"spec": {"replicaSpecs": {"trainer": {"replicas": size}}}})
        try:
            await cluster.patch(JOBS, Key(NAMESPACE, name), change)
        except OutcomeUnknownError:
            self.ledger.mark_uncertain(name, str(size))
            raise
        self.ledger.keep(name, str(size))

    async def _delete(self, cluster: KubeCluster, name: str) -> None:
        try:
            await cluster.delete(JOBS, Key(NAMESPACE, name))
        except OutcomeUnknownError:
            self.ledger.mark_uncertain(name, None)
            raise
        self.ledger.keep(name, None)


def job_body(name: str, size: int, mark: str) -> Body:
    container: Body = {
        "name": "aitj-main",
        "image": "local",
        "command": ["sleep", "86400"],
        "env": [{"name": JOB, "value": f"{mark} {name}"}],
    }
    trainer: Body = {
        "replicas": size,
        "minReplicas": min(SIZES),
        "maxReplicas": max(SIZES),
        "edlPolicy": "Manual",
        "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}},
    }
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicaSpecs": {"trainer": trainer}},
    }


def running_processes(mark: str) -> Counter[tuple[str, int]]:
    """The containers' processes on this machine, by job and index, whatever the cluster thinks."""
    begin = f"{mark} ".encode()
    found: Counter[tuple[str, int]] = Counter()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            is_sleep = (entry / "cmdline").read_bytes().startswith(b"sleep\0")
            raw = (entry / "environ").read_bytes() if is_sleep else b""
        except OSError:
            continue
        variables = dict(part.split(b"=", 1) for part in raw.split(b"\0") if b"=" in part)
        job = variables.get(JOB.encode(), b"")
        if job.startswith(begin):
            index = int(variables.get(INDEX.encode(), b"-1"))
            found[(job.removeprefix(begin).decode(), index)] += 1
    return found


def expected_processes(jobs: Ledger) -> Counter[tuple[str, int]]:
    return Counter(
        (name, index) for name, size in jobs.promised.items() if size for index in range(int(size))
    )


class KillHarness:
    """One machine, killed again and again."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.rng = random.Random(seed)
        self.configs, self.jobs = Ledger(), Ledger()
        self.mark = str(machine.home)
        self.client = JobClient(self.jobs, self.rng, self.mark)
        self.findings = Findings()

    def run(self, n_rounds: int) -> Findings:
        self.machine.start()
        for n in range(n_rounds):
            asyncio.run(self._work_until_killed())
            if self.rng.random() < KILLED_STARTING:
                self._kill_while_starting()
            self.machine.start()
            self.findings.rounds += 1
            asyncio.run(self._check(n))
        return self.findings

    async def _work_until_killed(self) -> None:
        access = read_kubeconfig([self.machine.home / "kubeconfig"])
        limits = ClientLimits(connect_s=2.0, answer_s=5.0)
        async with (
            connect(access, SystemClock(), self.rng, limits) as cluster,
            asyncio.TaskGroup() as group,
        ):
            for n in range(N_WRITERS):
                group.create_task(Writer(n, self.configs, self.rng).work(cluster))
            group.create_task(self.client.work(cluster))
            reading = group.create_task(self._read_logs(cluster))
            await asyncio.sleep(self.rng.uniform(*UPTIME_S))
            await asyncio.to_thread(self.machine.kill)
            reading.cancel()

    async def _read_logs(self, cluster: KubeCluster) -> None:
        """Read the logs of whatever runs; an answer may be a refusal, but never nonsense."""
        kubeconfig = self.machine.home / "kubeconfig"
        while True:
            names = [name for name, size in self.jobs.promised.items() if size]
            for name in names:
                path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}-trainer-0/log"
                status = await asyncio.to_thread(_status_of, kubeconfig, path)
                if status not in {0, 200, 204, 400, 404, 500}:
                    self.findings.lost.append(f"log of {name}: {status}")
                self.findings.log_reads += status == 200
            await asyncio.sleep(0.1)

    def _kill_while_starting(self) -> None:
        with self.machine.begin("up", *FLAGS) as up:
            time.sleep(self.rng.uniform(0, STARTING_S_MAX))
            up.kill()

    async def _check(self, n: int) -> None:
        """Compare the cluster and the machine with what was acknowledged."""
        access = read_kubeconfig([self.machine.home / "kubeconfig"])
        async with connect(access, SystemClock(), self.rng) as cluster:
            lost = self.configs.broken(await values(cluster)) + self.jobs.broken(
                await _sizes(cluster)
            )
            self.findings.lost += [f"round {n}: {line}" for line in lost]
            await resolve_uncertain(cluster, self.configs)
            self.jobs.promised.update(dict.fromkeys(self.jobs.uncertain))
            self.jobs.promised.update(await _sizes(cluster))
            self.jobs.uncertain.clear()
        wanted = expected_processes(self.jobs)
        deadline = time.monotonic() + SETTLE_S
        # What runs on the machine can only be looked at again and again.
        while (found := running_processes(self.mark)) != wanted and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        if found != wanted:
            over, under = found - wanted, wanted - found
            self.findings.strays.append(f"round {n}: too many {dict(over)}, missing {dict(under)}")
        if n % 20 == 19:
            n_wrong = len(self.findings.lost) + len(self.findings.strays)
            sys.stderr.write(f"{n + 1} rounds, {n_wrong} wrong\n")


async def _sizes(cluster: KubeCluster) -> dict[str, str]:
    """The size of every job that is not being deleted."""
    return {
        job["metadata"]["name"]: str(job["spec"]["replicaSpecs"]["trainer"]["replicas"])
        for job in (await cluster.list(JOBS, Selection(NAMESPACE))).items
        if "deletionTimestamp" not in job["metadata"]
    }


def _status_of(kubeconfig: Path, path: str) -> int:
    """The status of an answer; 0 when none came."""
    try:
        with Raw(kubeconfig) as raw:
            return raw.ask("GET", path).code
    except (OSError, http.client.HTTPException):
        return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        harness = KillHarness(machine, chosen.seed)
        try:
            found = harness.run(chosen.rounds)
        finally:
            machine.swell("down")
            left = machine.processes()
    for line in [*found.lost, *found.strays, *left]:
        sys.stderr.write(f"{line}\n")
    figures = {
        "kills": found.rounds,
        "acknowledged writes": harness.configs.n_acknowledged + harness.jobs.n_acknowledged,
        "of unknown outcome": harness.configs.n_unknown + harness.jobs.n_unknown,
        "logs read": found.log_reads,
        "lost": len(found.lost),
        "orphaned or doubled": len(found.strays),
        "left after down": len(left),
    }
    sys.stdout.write(json.dumps(figures) + "\n")
    return int(bool(found.lost or found.strays or left))


if __name__ == "__main__":
    raise SystemExit(main())
