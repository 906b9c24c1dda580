"""The node agent: how soon processes start, and what thousands of hollow pods cost."""

from __future__ import annotations

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from swell.api.kinds import PODS
from swell.api.pod import Pod
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.node.assembly import HOLLOW_CAPACITY, add_hollow_agent, node_names
from swell.node.nodes import NodeShape
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster
from swell.runtime.manager import Manager
from tests.e2e.node.cluster import Site, play, pod_body

N_STARTS = 20
N_PROCESSES = 200
N_NODES = 1_000
N_HOLLOW = 3_000


def run() -> dict[str, object]:
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as home:
        play(Path(home), lambda site: _processes(site, figures))
    figures |= asyncio.run(_hollow())
    return figures


async def _processes(site: Site, figures: dict[str, object]) -> None:
    delays = [await _start(site, number) for number in range(N_STARTS)]
    figures["create to process start, ms (median)"] = statistics.median(delays) * 1e3
    figures["create to process start, ms (worst)"] = max(delays) * 1e3
    began = time.perf_counter()
    for number in range(N_PROCESSES):
        await site.cluster.create(PODS, pod_body(f"many-{number}", "sleep", "1000"))
    await _until(site.cluster, lambda pods: _count(pods, "Running") == N_PROCESSES)
    figures[f"{N_PROCESSES} pods of processes run after, s"] = time.perf_counter() - began
    began = time.perf_counter()
    for pod in (await site.cluster.list(PODS)).items:
        await site.delete(pod.metadata.name)
    await _until(site.cluster, lambda pods: not pods)
    figures[f"{N_PROCESSES} pods of processes gone after, s"] = time.perf_counter() - began


async def _start(site: Site, number: int) -> float:
    """Seconds from the create's answer to the process's first act."""
    stamp = site.home / f"stamp-{number}"
    await site.cluster.create(PODS, pod_body(f"one-{number}", "touch", str(stamp)))
    answered = time.time()
    await site.ended(f"one-{number}")
    return stamp.stat().st_mtime - answered


async def _hollow() -> dict[str, object]:
    clock, rng = SystemClock(), Random(1)
    api = new_api_server(Storage(clock.now), clock, rng)
    manager = Manager(clock=clock)
    names = node_names("hollow", N_NODES)
    cluster = InProcessCluster(api, "node-agent")
    shape = NodeShape(HOLLOW_CAPACITY, boot_id="bench")
    began = time.perf_counter()
    agent = add_hollow_agent(manager, cluster, names, shape, clock=clock, random=rng)
    running = asyncio.create_task(manager.run())
    while not agent.is_ready:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    ready_s = time.perf_counter() - began
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    began = time.perf_counter()
    for number in range(N_HOLLOW):
        body = pod_body(f"p{number}")
        body["spec"]["nodeName"] = names[number % N_NODES]
        await cluster.create(PODS, body)
    await _until(cluster, lambda pods: _count(pods, "Running") == N_HOLLOW)
    took_s = time.perf_counter() - began
    cpu_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    manager.stop()
    await running
    return {
        f"{N_NODES:,} hollow nodes ready after, s": ready_s,
        f"{N_HOLLOW:,} hollow pods run after, s": took_s,
        "CPU a hollow pod, server included, ms": cpu_s / N_HOLLOW * 1e3,
    }


async def _until(cluster: Cluster, holds: Callable[[tuple[Pod, ...]], bool]) -> None:
    while not holds((await cluster.list(PODS)).items):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def _count(pods: tuple[Pod, ...], phase: str) -> int:
    return sum(pod.status.phase.value == phase for pod in pods)
