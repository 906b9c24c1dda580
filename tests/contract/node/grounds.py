"""The two nodes that behaviours are played on: processes of this machine, and real containers."""

from __future__ import annotations

import asyncio
import itertools
import random
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from swell.api.kinds import NAMESPACES
from swell.api.meta import Body, Key
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.http.serving import listening
from swell.cluster.embedded.storage import Storage
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.assembly import ProcessSettings, add_process_agent
from swell.node.nodes import NodeShape
from swell.node.process.folders import Folders
from swell.node.process.launcher import find_namespace
from swell.node.process.logserver import ContainerLogs
from swell.runtime.clock import SystemClock
from swell.runtime.manager import Manager
from tests.contract.node.bench import Behaviour, Bench
from tests.testbed.cluster import NODES, RealCluster

OURS = "here-0"
CAPACITY = {"cpu": "64", "memory": "64Gi", "pods": "500"}
AT_ONCE = 12  # behaviours mostly wait; more of them would wait for the machine
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Node:
    """A node and the way to its API server."""

    cluster: KubeCluster
    name: str


@asynccontextmanager
async def processes(home: Path) -> AsyncIterator[Node]:
    """An embedded API server and an agent of processes, in this event loop."""
    clock, rng = SystemClock(), random.Random(5)
    api = new_api_server(Storage(clock.now), clock, rng)
    manager = Manager(clock=clock, drain_s=30)
    add_services(manager, api, rng)
    shape = NodeShape(CAPACITY, boot_id="boot")
    settings = ProcessSettings(home, str(home), find_namespace())
    agent, runtime = add_process_agent(
        manager, InProcessCluster(api, "node"), [OURS], shape, settings, clock=clock, random=rng
    )
    logs = ContainerLogs(Folders(home).logs, runtime.is_live, clock)
    running = asyncio.create_task(manager.run())
    try:
        async with (
            listening(api, home, clock=clock, rng=rng, logs=logs),
            connect(read_kubeconfig([home / "kubeconfig"]), clock, rng) as cluster,
        ):
            while not agent.is_ready:  # noqa: ASYNC110 (processes bring it about)
                await asyncio.sleep(0.01)
            yield Node(cluster, OURS)
    finally:
        manager.stop()
        await running
        await runtime.keep_only(())
        await runtime.close()


@asynccontextmanager
async def containers(real: RealCluster) -> AsyncIterator[Node]:
    """One of the real nodes."""
    access = read_kubeconfig([real.kubeconfig])
    async with connect(access, SystemClock(), random.Random(5)) as cluster:
        yield Node(cluster, NODES[0])


def play(
    opened: AbstractAsyncContextManager[Node], behaviours: Sequence[Behaviour], shared: Path
) -> dict[Behaviour, str]:
    """Play all, many at once; what went wrong with each, if anything did."""

    async def go() -> dict[Behaviour, str]:
        turns = asyncio.Semaphore(AT_ONCE)
        async with opened as node:
            reported = await asyncio.gather(
                *(_play(node, one, shared, turns) for one in behaviours)
            )
        return dict(zip(behaviours, reported, strict=True))

    return asyncio.run(go())


async def _play(node: Node, behaviour: Behaviour, shared: Path, turns: asyncio.Semaphore) -> str:
    async with turns:
        name = f"node-{next(_numbers)}"
        body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await node.cluster.create(NAMESPACES, body)
        try:
            await behaviour.act(Bench(node.cluster, node.name, name, shared))
        except Exception:
            return traceback.format_exc()
        finally:
            await node.cluster.delete(NAMESPACES, Key("", name))
    return ""
