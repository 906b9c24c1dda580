"""Writes and reads a second through HTTPS: the embedded server and a real kube-apiserver.

The same asyncio client, the same machine, one server after the other; 32 calls at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from swell.api.kinds import NODES, PODS
from swell.api.meta import Body, Key
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Deletion, Selection
from tests.testbed import binaries
from tests.testbed.control_plane import running_control_plane

N_PODS = 3000
N_NODES = 100
N_CALLS = 32
N_LISTS = 20
READY_S_MAX = 30.0
BINDINGS = PODS.sub("binding", dict)


def run() -> dict[str, object]:
    """Figures of the embedded server, and of the real one where it is built."""
    with embedded_server() as kubeconfig:
        found = _labelled("embedded", measure(kubeconfig))
    try:
        binaries.require()
    except binaries.BinariesMissingError as error:
        return {**found, "kube-apiserver": str(error)}
    with running_control_plane() as plane:
        return {**found, **_labelled("kube-apiserver", measure(plane.kubeconfig))}


def _labelled(server: str, figures: dict[str, float]) -> dict[str, object]:
    return {f"{server}: {name}": value for name, value in figures.items()}


@contextlib.contextmanager
def embedded_server() -> Iterator[Path]:
    """A durable server in a process of its own; its kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as folder:
        command = [sys.executable, "-m", "swell.cluster.embedded.http", "--home", folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the embedded server did not start")
            yield Path(folder) / "kubeconfig"
        finally:
            process.terminate()
            process.wait(READY_S_MAX)
            if process.stdout is not None:
                process.stdout.close()


def measure(kubeconfig: Path) -> dict[str, float]:
    return asyncio.run(_measure(kubeconfig))


async def _measure(kubeconfig: Path) -> dict[str, float]:
    rng = random.Random(1)
    async with connect(read_kubeconfig([kubeconfig]), SystemClock(), rng) as cluster:
        await _prepare(cluster)
        names = [f"p-{n}" for n in range(N_PODS)]
        cpu_before, begun = _cpu_s(), time.monotonic()
        creates = await _rate(names, lambda name: cluster.create(PODS, _pod(name)))
        binds = await _rate(names, lambda name: cluster.create(BINDINGS, _binding(name)))
        cpu_s = _cpu_s() - cpu_before
        wrote_s = time.monotonic() - begun
        lists = await _rate(range(N_LISTS), lambda _: _list_pods(cluster), n_at_once=1)
        await _rate(names, lambda name: _remove(cluster, name))
    return {
        "creates_per_s": round(creates, 1),
        "binds_per_s": round(binds, 1),
        "pods_listed_per_s": round(lists * N_PODS),
        "list_of_3000_ms": round(1000 / lists, 1),
        "client_cpu_ms_per_write": round(1000 * cpu_s / (2 * N_PODS), 3),
        "writing_s": round(wrote_s, 2),
    }


async def _prepare(cluster: KubeCluster) -> None:
    for n in range(N_NODES):
        await cluster.create(NODES, {"metadata": {"name": f"n-{n}"}})


async def _list_pods(cluster: KubeCluster) -> None:
    listed = await cluster.list(PODS, Selection("default"))
    if len(listed.items) != N_PODS:
        raise RuntimeError(f"{len(listed.items)} pods listed, {N_PODS} created")


async def _remove(cluster: KubeCluster, name: str) -> None:
    await cluster.delete(PODS, Key("default", name), Deletion(grace_s=0))


async def _rate(
    items: Sequence[object],
    act: Callable[..., Awaitable[object]],
    n_at_once: int = N_CALLS,
) -> float:
    """Calls a second, as many at a time as are allowed."""
    waiting = iter(items)

    async def work() -> None:
        for item in waiting:
            await act(item)

    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(n_at_once):
            group.create_task(work())
    return len(items) / (time.monotonic() - begun)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _pod(name: str) -> Body:
    request = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "local", "resources": {"requests": request}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "bench"}},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


def _binding(name: str) -> Body:
    node = f"n-{int(name[2:]) % N_NODES}"
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default"},
        "target": {"kind": "Node", "name": node},
    }


if __name__ == "__main__":
    for label, value in run().items():
        print(label, value)
