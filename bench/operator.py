"""How fast the operator creates: jobs of four pods on a real kube-apiserver, and on the embedded.

No nodes and no scheduler run. The ceiling is what the same client, with as many calls at a time,
reaches with bare creates of pods like the operator's; the operator's figure counts every write
request it makes until every pod exists: creates, dry runs, status, finalizers, events. A machine is
never equally fast for long, and a server slows down as it fills: every round has a new server, and
the ceiling is the mean of what is reached before the operator's turn and after it.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TypeVar

from bench.budgets import Budget, at_least
from bench.http import embedded_server
from swell.api.kinds import AI_TRAINING_JOBS, NAMESPACES, PODS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.cli.command_line import collect_seldom
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.kube.policy import LIMITS
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import install_crds, operate
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection
from swell.runtime.guard import GuardedCluster
from swell.runtime.metrics import Metrics
from tests.testbed import binaries
from tests.testbed.control_plane import running_control_plane

T = TypeVar("T")
N_JOBS = 500
N_PODS = 4
N_ROUNDS = 7
GROWTH = (100, 1000)
N_GROWTH = 1
N_FIRST = 20
N_CALLS = LIMITS.n_calls  # the operator has more to do at a time than its client sends
WAIT_S_MAX = 600.0
SHARE = "operator_share_of_ceiling"
ASKED: dict[str, Budget] = {f"kube-apiserver: {SHARE}": at_least(0.9)}


@dataclass(frozen=True, slots=True)
class Round:
    """What so many writes took: time, and processor time of the client and of the servers."""

    n_writes: int
    took_s: float
    client_s: float
    server_s: float

    @property
    def per_s(self) -> float:
        return self.n_writes / self.took_s


class Stopwatch:
    """Measures a round from when it is made."""

    def __init__(self) -> None:
        self._begun = self._now()

    def stop(self, n_writes: int) -> Round:
        spans = (now - begun for now, begun in zip(self._now(), self._begun, strict=True))
        return Round(n_writes, *spans)

    def _now(self) -> tuple[float, float, float]:
        return time.monotonic(), time.process_time(), _children_s()


Server = Callable[[], AbstractContextManager[Path]]


def run() -> dict[str, object]:
    """Figures of the embedded server, and of the real one where it is built."""
    collect_seldom()  # as the operator's process does
    found = _labelled("embedded", _measure(embedded_server, 1))
    try:
        binaries.require()
    except binaries.BinariesMissingError as error:
        return {**found, "kube-apiserver": str(error)}
    return {**found, **_labelled("kube-apiserver", _measure(_kube_apiserver, N_ROUNDS))}


@contextmanager
def _kube_apiserver() -> Iterator[Path]:
    with running_control_plane(controllers=()) as plane:
        yield plane.kubeconfig


def _labelled(server: str, figures: dict[str, object]) -> dict[str, object]:
    return {f"{server}: {name}": value for name, value in figures.items()}


def _measure(server: Server, n_rounds: int) -> dict[str, object]:
    bare: list[Round] = []
    ours: list[Round] = []
    shares: list[float] = []
    kinds: dict[str, float] = {}
    for _ in range(n_rounds):
        before, made, kinds, after = _on(server, _share)
        bare += [before, after]
        ours.append(made)
        shares.append(made.per_s / mean((before.per_s, after.per_s)))
    few, more = zip(*(_on(server, _growth) for _ in range(N_GROWTH)), strict=True)
    return {
        "bare_creates_per_s": _median(bare, lambda r: r.per_s),
        "operator_writes_per_s": _median(ours, lambda r: r.per_s),
        SHARE: round(median(shares), 3),
        "operator_share_of_each_round": " ".join(f"{share:.2f}" for share in shares),
        **{f"writes_per_job: {kind}": n for kind, n in kinds.items()},
        "bare_client_cpu_ms_per_write": _median(bare, lambda r: 1000 * r.client_s / r.n_writes),
        "bare_server_cpu_ms_per_write": _median(bare, lambda r: 1000 * r.server_s / r.n_writes),
        "operator_cpu_ms_per_write": _median(ours, lambda r: 1000 * r.client_s / r.n_writes),
        "operator_server_cpu_ms_per_write": _median(ours, lambda r: 1000 * r.server_s / r.n_writes),
        "s_per_job_at_100": round(median(r.took_s for r in few) / GROWTH[0], 4),
        "s_per_job_at_1000": round(median(r.took_s for r in more) / GROWTH[1], 4),
        "operator_cpu_ms_per_job_at_100": _median(few, lambda r: 1000 * r.client_s / GROWTH[0]),
        "operator_cpu_ms_per_job_at_1000": _median(more, lambda r: 1000 * r.client_s / GROWTH[1]),
    }


def _on(server: Server, act: Callable[[KubeCluster], Awaitable[T]]) -> T:
    """Do something on a new server, which has served once what is measured."""

    async def main(kubeconfig: Path) -> T:
        clock = SystemClock()
        async with connect(read_kubeconfig([kubeconfig]), clock, random.Random(1)) as cluster:
            await install_crds(cluster, clock)
            await _jobs(cluster, "bare", N_FIRST)
            return await act(cluster)

    with server() as kubeconfig:
        return asyncio.run(main(kubeconfig))


async def _share(cluster: KubeCluster) -> tuple[Round, Round, dict[str, float], Round]:
    """Bare creates, the operator's writes, and bare creates again."""
    before = await _bare_creates(cluster, "bare", "before")
    made, kinds = await _jobs(cluster, "many", N_JOBS)
    return before, made, kinds, await _bare_creates(cluster, "bare", "after")


async def _growth(cluster: KubeCluster) -> tuple[Round, Round]:
    """Few jobs, and many."""
    few, _ = await _jobs(cluster, "few", GROWTH[0])
    more, _ = await _jobs(cluster, "more", GROWTH[1])
    return few, more


def _median(rounds: Iterable[Round], figure: Callable[[Round], float]) -> float:
    return round(median(map(figure, rounds)), 3)


async def _bare_creates(cluster: KubeCluster, namespace: str, prefix: str) -> Round:
    """Create as many pods like the one that the operator made in this namespace, and count them as
    its writes are counted."""
    (pattern,) = (await cluster.list(PODS.untyped(), Selection(namespace), limit=1)).items
    tally = Tally(N_JOBS * N_PODS)
    counted = GuardedCluster(cluster, tally)
    kept = ("labels", "annotations", "ownerReferences")
    metadata = {name: pattern["metadata"][name] for name in kept}

    async def create(n: int) -> None:
        own = {"name": f"{prefix}-{n}", "namespace": namespace}
        body = {"metadata": {**metadata, **own}, "spec": pattern["spec"]}
        await counted.create(PODS, body)

    watch = Stopwatch()
    await _each(N_JOBS * N_PODS, create)
    return watch.stop(tally.n_writes)


async def _each(n_times: int, act: Callable[[int], Awaitable[None]]) -> None:
    left = iter(range(n_times))

    async def work() -> None:
        for n in left:
            await act(n)

    await asyncio.gather(*(work() for _ in range(N_CALLS)))


class Tally:
    """Counts the writes that pass it, and tells when so many pods have been created."""

    def __init__(self, n_pods: int) -> None:
        self.n_writes = 0
        self._n_missing = n_pods
        self.has_all = asyncio.Event()

    async def admit(self, write: Callable[[], Awaitable[T]]) -> T:
        self.n_writes += 1
        answer = await write()
        # What was only tried has no version.
        if isinstance(answer, Pod) and answer.metadata.resource_version:
            self._n_missing -= 1
            if not self._n_missing:
                self.has_all.set()
        return answer


async def _jobs(
    cluster: KubeCluster, namespace: str, n_jobs: int
) -> tuple[Round, dict[str, float]]:
    """From the operator's start until every pod of so many jobs exists; writes a job by kind."""
    await cluster.create(NAMESPACES, {"metadata": {"name": namespace}})

    async def submit(n: int) -> None:
        await cluster.create(AI_TRAINING_JOBS, _job(namespace, f"job-{n}"))

    await _each(n_jobs, submit)
    metrics, tally = Metrics(), Tally(n_jobs * N_PODS)
    work = operate(
        ai_training_job_kind(AITrainingJobSettings(namespace=namespace)),
        GuardedCluster(cluster, tally),
        clock=SystemClock(),
        random=random.Random(2),
        metrics=metrics,
    )
    watch = Stopwatch()
    operator = asyncio.create_task(work)
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            await tally.has_all.wait()
        measured = watch.stop(tally.n_writes)
        kinds = _kinds(metrics, tally.n_writes)
        found = await cluster.list(PODS.untyped(), Selection(namespace), limit=1)
    finally:
        operator.cancel()
        await asyncio.gather(operator, return_exceptions=True)
    n_found = len(found.items) + (found.remaining or 0)
    if n_found != n_jobs * N_PODS:
        raise RuntimeError(f"{n_found} pods of {n_jobs} jobs")
    return measured, {kind: round(n / n_jobs, 2) for kind, n in kinds.items()}


def _kinds(metrics: Metrics, n_writes: int) -> dict[str, float]:
    """Writes by action and resource; events are written by nobody who counts them by kind."""
    samples = (s for family in metrics.registry.collect() for s in family.samples)
    counts: dict[str, float] = {}
    for sample in samples:
        if sample.name == "swell_writes_total":
            resource = sample.labels["resource"].partition(".")[0]
            kind = f"{sample.labels['action']} {resource}"
            counts[kind] = counts.get(kind, 0) + sample.value
    return {
        **dict(sorted(counts.items())),
        "events and writes under way": n_writes - sum(counts.values()),
    }


def _children_s() -> float:
    """Processor time of the programs that this one has started and not yet ended."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[1]) == os.getpid():
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _job(namespace: str, name: str) -> Body:
    container = {
        "name": "aitj-main",
        "image": "local",
        "ports": [{"name": "aitj-2222", "containerPort": 2222}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    role = {"replicas": N_PODS, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicaSpecs": {"trainer": role}},
    }
