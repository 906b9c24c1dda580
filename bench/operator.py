"""How fast the operator creates: jobs of four pods on a real kube-apiserver, and on the embedded.

No nodes and no scheduler run. The ceiling is what the same client reaches with bare creates of the
same kinds of pods; the operator's figure counts every write request it makes until every pod
exists: creates, dry runs, status, finalizers.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from bench.http import embedded_server
from swell.api.kinds import AI_TRAINING_JOBS, NAMESPACES, PODS
from swell.api.meta import Body, Key
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.operator.crds import install_crds
from swell.operator.running import operate
from swell.operator.settings import Settings
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection
from swell.runtime.metrics import Metrics
from tests.testbed import binaries
from tests.testbed.control_plane import running_control_plane

N_JOBS = 500
N_PODS = 4
GROWTH = (100, 1000)
N_BARE = 2000
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
        ceiling = await _bare_creates(cluster, "bare")
        rate, _ = await _jobs(cluster, "many", N_JOBS)
        _, few_s = await _jobs(cluster, "few", GROWTH[0])
        _, more_s = await _jobs(cluster, "more", GROWTH[1])
    return {
        "bare_creates_per_s": round(ceiling, 1),
        "operator_writes_per_s": round(rate, 1),
        "operator_share_of_ceiling": round(rate / ceiling, 3),
        "s_per_job_at_100": round(few_s / GROWTH[0], 4),
        "s_per_job_at_1000": round(more_s / GROWTH[1], 4),
    }


async def _bare_creates(cluster: KubeCluster, namespace: str) -> float:
    await _add_namespace(cluster, namespace)
    left = iter(range(N_BARE))

    async def work() -> None:
        for n in left:
            await cluster.create(PODS, _pod(namespace, f"pod-{n}"))

    begun = time.monotonic()
    await asyncio.gather(*(work() for _ in range(N_CALLS)))
    return N_BARE / (time.monotonic() - begun)


async def _jobs(cluster: KubeCluster, namespace: str, n_jobs: int) -> tuple[float, float]:
    """Writes a second and seconds until every pod of so many jobs exists."""
    await _add_namespace(cluster, namespace)
    for n in range(n_jobs):
        await cluster.create(AI_TRAINING_JOBS, _job(namespace, f"job-{n}"))
    metrics = Metrics()
    work = operate(
        lambda _: cluster,
        clock=SystemClock(),
        random=random.Random(2),
        settings=Settings(namespace=namespace),
        metrics=metrics,
    )
    begun = time.monotonic()
    operator = asyncio.create_task(work)
    try:
        await _until_pods(cluster, namespace, n_jobs * N_PODS)
        took_s = time.monotonic() - begun
        return _writes(metrics) / took_s, took_s
    finally:
        operator.cancel()
        await asyncio.gather(operator, return_exceptions=True)


async def _until_pods(cluster: KubeCluster, namespace: str, n_pods: int) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline:
        page = await cluster.list(PODS.untyped(), Selection(namespace), limit=1)
        n_found = len(page.items) + (page.remaining or 0)
        if n_found >= n_pods:
            return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"{n_pods} pods did not appear within {WAIT_S_MAX} s")


def _writes(metrics: Metrics) -> float:
    return sum(
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "swell_writes_total"
    )


async def _add_namespace(cluster: KubeCluster, name: str) -> None:
    await cluster.create(NAMESPACES, {"metadata": {"name": name}})
    await cluster.get(NAMESPACES, Key("", name))


def _container() -> Body:
    return {
        "name": "aitj-main",
        "image": "local",
        "ports": [{"name": "aitj-2222", "containerPort": 2222}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }


def _pod(namespace: str, name: str) -> Body:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [_container()]},
    }


def _job(namespace: str, name: str) -> Body:
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicaSpecs": {
                "trainer": {
                    "replicas": N_PODS,
                    "template": {"spec": {"containers": [_container()]}},
                }
            }
        },
    }
