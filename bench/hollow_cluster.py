"""A large embedded cluster: 1,000 hollow nodes and 20,000 running pods, reached over HTTPS.

`swell up` runs as a user starts it, with all its parts in one process. First pods are created that
no scheduler serves, which shows what the server alone takes in; they go, and pods come that name
their nodes and run there. The clients are one process, beside the server on the same machine.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path

from bench.budgets import Budget, at_least, at_most
from swell.api.kinds import PODS
from swell.api.meta import ApiStruct, Body, Key, ObjectMeta
from swell.api.resource import Resource
from swell.cluster.home import lock_holder
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.kube.policy import LIMITS
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection, merge_patch
from tests.e2e.up.machine import SWELL, Machine

N_NODES = 1_000
N_PODS = 20_000
N_CALLS = 32
N_GETS = 5
N_CLIENTS = 50
N_CHANGES = 200
PAGE = 500  # as kubectl and client-go ask
NAMESPACE = "default"
GROUP = ("--hollow", "--nodes", str(N_NODES), "--name", "hollow", "--cpu", "64", "--memory", "64Gi")

CREATES = "creates a second"
GET_S = "swell get pods, s"
MEMORY = "memory with all pods running, MiB"
MEMORY_AFTER = "memory after all lists and watches, MiB"
ASKED: dict[str, Budget] = {
    CREATES: at_least(1_500),
    GET_S: at_most(1.5),
    MEMORY: at_most(600),
    MEMORY_AFTER: at_most(600),
}


class Named(ApiStruct, frozen=True):
    """What clients of this measurement decode of a pod: little, so that they cost little."""

    metadata: ObjectMeta = ObjectMeta()


NAMED_PODS: Resource[Named] = PODS.sub("", Named)


def run() -> dict[str, object]:
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as folder:
        machine = Machine(Path(folder))
        began = time.monotonic()
        with machine.up(*GROUP):
            figures[f"{N_NODES:,} nodes ready after, s"] = time.monotonic() - began
            asyncio.run(_measure(machine, figures))
    return figures


async def _measure(machine: Machine, figures: dict[str, object]) -> None:
    access = read_kubeconfig([machine.home / "kubeconfig"])
    limits = replace(LIMITS, n_calls=N_CLIENTS + N_CALLS)
    async with connect(access, SystemClock(), random.Random(1), limits) as cluster:
        figures[CREATES] = await _create(cluster, "waits", lambda _: {})
        await _each(range(N_PODS), lambda n: cluster.delete(PODS, Key(NAMESPACE, f"waits-{n}")))
        began = time.monotonic()
        rate = await _create(cluster, "runs", lambda n: {"nodeName": f"hollow-{n % N_NODES}"})
        figures["creates a second of pods that run at once"] = rate
        running = Selection(NAMESPACE, fields="status.phase=Running")
        while len((await cluster.list(NAMED_PODS, running)).items) < N_PODS:  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        figures[f"{N_PODS:,} pods run after, s"] = time.monotonic() - began
        figures[MEMORY] = _memory_mib(machine)
        figures[GET_S] = statistics.median([_get_s(machine) for _ in range(N_GETS)])
        await _listen(cluster, figures)
        figures[MEMORY_AFTER] = _memory_mib(machine)


async def _create(cluster: KubeCluster, prefix: str, more: Callable[[int], Body]) -> float:
    """Create all pods; return how many a second."""

    def pod(n: int) -> Body:
        request = {"cpu": "1", "memory": "1Gi"}
        container = {"name": "main", "image": "local", "resources": {"requests": request}}
        meta = {"name": f"{prefix}-{n}", "namespace": NAMESPACE, "labels": {"app": "bench"}}
        spec = {"schedulerName": "nobody", "containers": [container], **more(n)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    began = time.monotonic()
    await _each(range(N_PODS), lambda n: cluster.create(NAMED_PODS.untyped(), pod(n)))
    return N_PODS / (time.monotonic() - began)


async def _each(numbers: Iterable[int], act: Callable[[int], Awaitable[object]]) -> None:
    left = iter(numbers)

    async def work() -> None:
        for n in left:
            await act(n)

    async with asyncio.TaskGroup() as group:
        for _ in range(N_CALLS):
            group.create_task(work())


async def _listen(cluster: KubeCluster, figures: dict[str, object]) -> None:
    """Many clients list all pods at once, then watch; changes are made, and all see them."""
    began = time.monotonic()
    versions = await asyncio.gather(*(_list_all(cluster) for _ in range(N_CLIENTS)))
    took_s = time.monotonic() - began
    figures[f"{N_CLIENTS} clients list all pods, s"] = took_s
    figures["pods listed a second"] = round(N_CLIENTS * N_PODS / took_s)
    seen = [asyncio.Event() for _ in range(N_CLIENTS)]

    async def follow(version: str, done: asyncio.Event) -> None:
        n_seen = 0
        watch = cluster.watch(NAMED_PODS, Selection(NAMESPACE), resource_version=version)
        async with watch as events:
            async for _ in events:
                n_seen += 1
                if n_seen == N_CHANGES:
                    done.set()
                    return

    async with asyncio.TaskGroup() as group:
        for version, done in zip(versions, seen, strict=True):
            group.create_task(follow(version, done))
        began = time.monotonic()
        await _each(range(N_CHANGES), lambda n: _change(cluster, n))
        changed_s = time.monotonic() - began
        await asyncio.gather(*(done.wait() for done in seen))
        figures[f"{N_CHANGES} changes while {N_CLIENTS} watch, s"] = changed_s
        figures["the last client has seen them later by, s"] = time.monotonic() - began - changed_s


async def _list_all(cluster: KubeCluster) -> str:
    """List all pods as informers do, page by page; return the version of the list."""
    n_found, token = 0, ""
    while True:
        page = await cluster.list(
            NAMED_PODS, Selection(NAMESPACE), limit=PAGE, continue_token=token
        )
        n_found, token = n_found + len(page.items), page.continue_token
        if not token:
            break
    if n_found != N_PODS:
        raise RuntimeError(f"{n_found} pods listed, {N_PODS} created")
    return page.resource_version


async def _change(cluster: KubeCluster, n: int) -> None:
    note = merge_patch({"metadata": {"annotations": {"turn": str(n)}}})
    await cluster.patch(NAMED_PODS, Key(NAMESPACE, f"runs-{n}"), note)


def _get_s(machine: Machine) -> float:
    began = time.monotonic()
    done = subprocess.run(
        [*SWELL, "get", "pods"], env=machine.environment, capture_output=True, check=True
    )
    took_s = time.monotonic() - began
    n_lines = done.stdout.count(b"\n")
    if n_lines != N_PODS + 1:
        raise RuntimeError(f"{n_lines} lines for {N_PODS} pods")
    return took_s


def _memory_mib(machine: Machine) -> float:
    """Resident memory of the cluster's process."""
    holder = lock_holder(machine.home)
    if holder is None:
        raise RuntimeError("the cluster has ended")
    lines = Path(f"/proc/{holder.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
