"""The cluster with real nodes as a place for stories: what they share, and how they are played."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from swell.api.kinds import NAMESPACES, NODES, PRIORITY_CLASSES, QUEUES
from swell.api.meta import Body, Key
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.errors import AlreadyExistsError
from swell.runtime.manager import Manager
from tests.e2e.kubernetes import stories
from tests.e2e.kubernetes.machine import RealMachine
from tests.e2e.operator.observation import NamespaceObserver
from tests.e2e.operator.scenario import USUAL, Scenario
from tests.e2e.operator.stage import CLOSE_S, Outcomes
from tests.e2e.scheduler.objects import priority_class, queue
from tests.testbed import cluster as testbed

# Containers of two nodes on one busy machine start one after the other.
WITHIN_S = 120.0


def play(machine: RealMachine, played: Sequence[Scenario]) -> Outcomes:
    """Play stories at the same time, and tell of those that failed."""
    return asyncio.run(_play(machine, played))


async def _play(machine: RealMachine, played: Sequence[Scenario]) -> Outcomes:
    async with on_stage(machine) as (cluster, observation):
        results = await asyncio.gather(
            *(one.run(cluster, observation, machine) for one in played), return_exceptions=True
        )
    await asyncio.sleep(CLOSE_S)
    return {
        one.name: result
        for one, result in zip(played, results, strict=True)
        if isinstance(result, BaseException)
    }


@asynccontextmanager
async def on_stage(machine: RealMachine) -> AsyncIterator[tuple[Cluster, NamespaceObserver]]:
    """A connection to the cluster, and sight of the namespace in which stories are played."""
    clock, manager = SystemClock(), Manager(clock=SystemClock())
    async with connect(read_kubeconfig([machine.cluster.kubeconfig]), clock, Random(1)) as cluster:
        await prepare(cluster)
        observation = NamespaceObserver(cluster, USUAL, clock, Random(2), within_s=WITHIN_S)
        observation.add_to(manager)
        running = asyncio.create_task(manager.run())
        try:
            await observation.wait_synced()
            yield cluster, observation
        finally:
            manager.stop()
            await running


async def prepare(cluster: Cluster) -> None:
    """Make what stories share: a namespace, priorities, queues, and resources of the nodes."""
    namespace: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": USUAL}}
    wanted = [(NAMESPACES.untyped(), namespace)]
    wanted += [
        (PRIORITY_CLASSES.untyped(), priority_class(name, value))
        for name, value in stories.PRIORITIES.items()
    ]
    wanted += [(QUEUES.untyped(), queue(name, **spec)) for name, spec in stories.QUEUES.items()]
    for resource, body in wanted:
        with contextlib.suppress(AlreadyExistsError):
            await cluster.create(resource, body)
    amounts = dict.fromkeys(stories.RESOURCES, str(stories.N_OF_EACH))
    change = merge_patch({"status": {"capacity": amounts, "allocatable": amounts}})
    for node in testbed.NODES:
        await cluster.patch(NODES.status, Key("", node), change)
