"""The page with 5,000 nodes and 20,000 pods: its first view, and what 20 open pages cost.

The embedded server and the page are processes of their own, as users run them; CPU time is that of
the page's process alone. Events are writes to pods, jobs and nodes, 100 a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from bench.budgets import Budget, at_most
from bench.http import embedded_server
from swell.api.kinds import AI_TRAINING_JOBS, NODES, PODS
from swell.api.meta import Body, Key
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.page.security import OWN_HEADER
from swell.page.server import STATIC_FILES
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import merge_patch

N_NODES, N_PODS, N_JOBS = 5000, 20_000, 1000
N_PAGES = 20
EVENTS_PER_S, MEASURED_S = 100, 15.0
N_CALLS = 32
WAIT_S = 300.0
OWN = {OWN_HEADER: "1"}
ASKED: dict[str, Budget] = {
    "page_first_view_s": at_most(1.5),
    "page_cpu_percent": at_most(10),
    "page_delay_s": at_most(1),
}
_TICKS = os.sysconf("SC_CLK_TCK")


def run() -> dict[str, object]:
    with embedded_server() as kubeconfig:
        command = [sys.executable, "-m", "swell", "dashboard", "--no-browser"]
        command += ["--kubeconfig", str(kubeconfig)]
        asyncio.run(_fill(kubeconfig))
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as page:
            try:
                if page.stdout is None or page.stderr is None:
                    raise RuntimeError("the page has no output")
                address, code = page.stdout.readline().strip(), ""
                while not code:
                    line = page.stderr.readline()
                    if not line:
                        raise RuntimeError("the page did not start")
                    code = line.split()[-1] if "with the code" in line else ""
                return asyncio.run(_measure(kubeconfig, address, code, page.pid))
            finally:
                page.terminate()


async def _fill(kubeconfig: Path) -> None:
    async with connect(read_kubeconfig([kubeconfig]), SystemClock(), random.Random(1)) as cluster:
        await _all(N_NODES, lambda n: cluster.create(NODES, _node(n)))
        await _all(N_JOBS, lambda n: cluster.create(AI_TRAINING_JOBS, _job(n)))
        await _all(N_PODS, lambda n: cluster.create(PODS, _pod(n)))


async def _all(n_all: int, call: Callable[[int], Awaitable[object]]) -> None:
    numbers = iter(range(n_all))

    async def work() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(work() for _ in range(N_CALLS)))


async def _measure(kubeconfig: Path, address: str, code: str, pid: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        jar = aiohttp.CookieJar(unsafe=True)
        client = await stack.enter_async_context(
            aiohttp.ClientSession(cookie_jar=jar, read_bufsize=1 << 24)
        )
        began = time.monotonic()
        async with client.post(f"{address}api/login", json={"token": code}, headers=OWN) as answer:
            answer.raise_for_status()
        cold_rows = await _first_view(client, address)
        cold_s = time.monotonic() - began
        await _packed(client, address)
        warm_s = [await _timed(client, address) for _ in range(5)]
        pages = [_OpenPage() for _ in range(N_PAGES)]
        reading = [asyncio.create_task(page.read(client, address)) for page in pages]
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(page.is_open.wait() for page in pages))
        cluster = await stack.enter_async_context(
            connect(read_kubeconfig([kubeconfig]), SystemClock(), random.Random(2))
        )
        cpu_before, began = _cpu_s(pid), time.monotonic()
        n_events = await _events(cluster)
        took_s = time.monotonic() - began
        await asyncio.sleep(1.0)  # what is on its way is counted, too
        cpu_s = _cpu_s(pid) - cpu_before
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        n_rows = [page.n_rows for page in pages]
        return {
            "page_first_view_cold_s": cold_s,  # from the login, with nothing followed before
            "page_first_view_s": median(warm_s),
            "page_rows": sum(len(rows) for rows in cold_rows.values()),
            "page_events_per_s": n_events / took_s,
            "page_rows_sent_to_each": median(n_rows),
            "page_cpu_percent": 100 * cpu_s / took_s,
            "page_delay_s": median(one for page in pages for one in page.delays_s),
            "page_memory_mib": _memory_mib(pid),
        }


class _OpenPage:
    """One open page: how many rows it was sent, and how late."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.n_rows = 0
        self.delays_s: list[float] = []

    async def read(self, client: aiohttp.ClientSession, address: str) -> None:
        async with client.get(f"{address}api/stream") as stream:
            async for line in stream.content:
                if not line.startswith(b"data: "):
                    continue
                if not self.is_open.is_set():
                    self.is_open.set()
                    continue
                self.n_rows += line.count(b'"kind":"')
                found = line.rfind(b'"reason":"at ')
                if found >= 0:
                    written = float(line[found + 13 : line.index(b'"', found + 13)])
                    self.delays_s.append(time.time() - written)


async def _timed(client: aiohttp.ClientSession, address: str) -> float:
    began = time.monotonic()
    await _first_view(client, address)
    return time.monotonic() - began


async def _first_view(client: aiohttp.ClientSession, address: str) -> dict[str, list[Any]]:
    """Everything that a browser asks for before it shows the overview."""
    for name in ("", *STATIC_FILES, "api/me"):
        async with client.get(f"{address}{name}") as answer:
            await answer.read()
    async with client.get(f"{address}api/stream") as stream:
        async for line in stream.content:
            if line.startswith(b"data: "):
                rows: dict[str, list[Any]] = json.loads(line[6:])
                return rows
    raise RuntimeError("the stream ended")


async def _packed(client: aiohttp.ClientSession, address: str) -> None:
    """Wait until the page knows all pods."""
    async with asyncio.timeout(WAIT_S):
        while True:
            rows = await _first_view(client, address)
            if sum(one["used"]["pods"] for one in rows["nodes"] if one["used"]) == N_PODS:
                return
            await asyncio.sleep(0.5)


async def _events(cluster: KubeCluster) -> int:
    """Write at an even pace; returns how many writes there were."""
    began, n_done = time.monotonic(), 0
    pending: set[asyncio.Task[object]] = set()
    while time.monotonic() - began < MEASURED_S:
        due = int((time.monotonic() - began) * EVENTS_PER_S) + 1
        for number in range(n_done, due):
            task: asyncio.Task[object] = asyncio.ensure_future(_write(cluster, number))
            pending.add(task)
            task.add_done_callback(pending.discard)
        n_done = max(n_done, due)
        await asyncio.sleep(0.01)
    await asyncio.gather(*pending)
    return n_done


async def _write(cluster: KubeCluster, number: int) -> object:
    """Of ten writes, six end a pod, two are to jobs and two to nodes."""
    kind = number % 10
    if kind < 6:
        change: Body = {"status": {"phase": "Failed" if number % 2 else "Succeeded"}}
        key = Key("default", f"pod-{number % N_PODS}")
        return await cluster.patch(PODS.status, key, merge_patch(change))
    if kind < 8:
        change = {"status": {"phase": "Pending", "reason": f"at {time.time()}"}}
        key = Key("default", f"job-{number % N_JOBS}")
        return await cluster.patch(AI_TRAINING_JOBS.status, key, merge_patch(change))
    change = {"metadata": {"labels": {"turn": str(number)}}}
    return await cluster.patch(NODES, Key("", f"node-{number % N_NODES}"), merge_patch(change))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(one.split()[1]) / 1024 for one in status if one.startswith("VmRSS"))


def _node(number: int) -> Body:
    zone = {"topology.kubernetes.io/zone": f"zone-{number % 20}"}
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "metadata": {"name": f"node-{number}", "labels": zone},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def _pod(number: int) -> Body:
    requests = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    resources = {"requests": requests, "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "aitj-trainer", "image": "local", "resources": resources}
    return {
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {"nodeName": f"node-{number % N_NODES}", "containers": [container]},
    }


def _job(number: int) -> Body:
    container = {"name": "aitj-trainer", "image": "local"}
    role = {"replicas": 20, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": f"job-{number}", "namespace": "default"},
        "spec": {"replicaSpecs": {"trainer": role}},
    }
