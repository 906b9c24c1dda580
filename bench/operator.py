"""How fast the operator creates: jobs of four pods on a real kube-apiserver, and on the embedded.

No nodes and no scheduler run. The ceiling is what the same client reaches with bare creates of pods
like the operator's; the operator's figure counts every write request it makes until every pod
exists: creates, dry runs, status, finalizers, events.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from bench.http import embedded_server
from swell.api.kinds import AI_TRAINING_JOBS, NAMESPACES, PODS
from swell.api.meta import Body
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.operator.crds import install_crds
from swell.operator.running import operate
from swell.operator.settings import Settings
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection
from swell.runtime.guard import GuardedCluster
from swell.runtime.metrics import Metrics
from tests.testbed import binaries
from tests.testbed.control_plane import running_control_plane

T = TypeVar("T")
N_JOBS = 500
N_PODS = 4
GROWTH = (100, 1000)
N_BARE = 1000
N_CALLS = 32
WAIT_S_MAX = 600.0


def run() -> dict[str, object]:
    """Figures of the embedded server, and of the real one where it is built."""
    with embedded_server() as kubeconfig:
        found = _labelled("embedded", asyncio.run(_measure(kubeconfig)))
    try:
        binaries.require()
    except binaries.BinariesMissingError as error:
        return {**found, "kube-apiserver": str(error)}
    with running_control_plane() as plane:
        return {**found, **_labelled("kube-apiserver", asyncio.run(_measure(plane.kubeconfig)))}


def _labelled(server: str, figures: dict[str, float]) -> dict[str, object]:
    return {f"{server}: {name}": value for name, value in figures.items()}


async def _measure(kubeconfig: Path) -> dict[str, float]:
    clock = SystemClock()
    async with connect(read_kubeconfig([kubeconfig]), clock, random.Random(1)) as cluster:
        await install_crds(cluster, clock)
        await _jobs(cluster, "bare", 1)
        # Before and after: a server slows down as it fills.
        before_s = await _bare_creates(cluster, "bare", "before")
        rate, _ = await _jobs(cluster, "many", N_JOBS)
        after_s = await _bare_creates(cluster, "bare", "after")
        ceiling = 2 * N_BARE / (before_s + after_s)
        _, few_s = await _jobs(cluster, "few", GROWTH[0])
        _, more_s = await _jobs(cluster, "more", GROWTH[1])
    return {
        "bare_creates_per_s": round(ceiling, 1),
        "operator_writes_per_s": round(rate, 1),
        "operator_share_of_ceiling": round(rate / ceiling, 3),
        "s_per_job_at_100": round(few_s / GROWTH[0], 4),
        "s_per_job_at_1000": round(more_s / GROWTH[1], 4),
    }


async def _bare_creates(cluster: KubeCluster, namespace: str, prefix: str) -> float:
    """Seconds to create pods like the one that the operator made in this namespace."""
    (pattern,) = (await cluster.list(PODS.untyped(), Selection(namespace), limit=1)).items
    kept = ("labels", "annotations", "ownerReferences")
    metadata = {name: pattern["metadata"][name] for name in kept}
    left = iter(range(N_BARE))

    async def work() -> None:
        for n in left:
            own = {"name": f"{prefix}-{n}", "namespace": namespace}
            body = {"metadata": {**metadata, **own}, "spec": pattern["spec"]}
            await cluster.create(PODS, body)

    begun = time.monotonic()
    await asyncio.gather(*(work() for _ in range(N_CALLS)))
    return time.monotonic() - begun


class Tally:
    """Counts the writes that pass it."""

    def __init__(self) -> None:
        self.n_writes = 0

    async def admit(self, write: Callable[[], Awaitable[T]]) -> T:
        self.n_writes += 1
        return await write()


async def _jobs(cluster: KubeCluster, namespace: str, n_jobs: int) -> tuple[float, float]:
    """Writes a second and seconds until every pod of so many jobs exists."""
    await cluster.create(NAMESPACES, {"metadata": {"name": namespace}})
    for n in range(n_jobs):
        await cluster.create(AI_TRAINING_JOBS, _job(namespace, f"job-{n}"))
    metrics, tally = Metrics(), Tally()
    work = operate(
        lambda _: GuardedCluster(cluster, tally),
        clock=SystemClock(),
        random=random.Random(2),
        settings=Settings(namespace=namespace),
        metrics=metrics,
    )
    begun = time.monotonic()
    operator = asyncio.create_task(work)
    try:
        await _until_created(metrics, n_jobs * N_PODS + n_jobs)  # and a dry run for each job
        took_s = time.monotonic() - begun
        n_writes = tally.n_writes
        found = await cluster.list(PODS.untyped(), Selection(namespace), limit=1)
    finally:
        operator.cancel()
        await asyncio.gather(operator, return_exceptions=True)
    n_found = len(found.items) + (found.remaining or 0)
    if n_found != n_jobs * N_PODS:
        raise RuntimeError(f"{n_found} pods of {n_jobs} jobs")
    return n_writes / took_s, took_s


async def _until_created(metrics: Metrics, n_pods: int) -> None:
    """Wait without asking the server, which has enough to do."""
    deadline = time.monotonic() + WAIT_S_MAX
    labels = {"resource": str(PODS), "action": "CreateObject", "result": "done"}
    while (metrics.registry.get_sample_value("swell_writes_total", labels) or 0) < n_pods:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{n_pods} pods were not created within {WAIT_S_MAX} s")
        await asyncio.sleep(0.02)


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
