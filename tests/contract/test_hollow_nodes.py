"""Hollow nodes on each cluster there is: pods live and end as their annotations say."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from swell.api.kinds import NODES, PODS
from swell.api.meta import Body, Key
from swell.node.assembly import HOLLOW_CAPACITY, NodeAgent, add_hollow_agent, node_names
from swell.node.hollow import PREFIX
from swell.node.nodes import NodeShape
from swell.node.pods import BOUND_PODS, BoundPod
from swell.runtime.clock import SystemClock
from swell.runtime.errors import NotFoundError
from swell.runtime.manager import Manager
from tests.contract.targets import ContractTarget
from tests.contract.world import Act, Behaviour, World

WITHIN_S = 20.0
_numbers = itertools.count()


def play(target: ContractTarget, act: Act) -> None:
    target.play(Behaviour("hollow nodes", act))


@asynccontextmanager
async def hollow_nodes(world: World, n_nodes: int) -> AsyncIterator[NodeAgent]:
    manager = Manager(clock=SystemClock())
    names = node_names(f"{world.ns}-{next(_numbers)}", n_nodes)
    shape = NodeShape(HOLLOW_CAPACITY, boot_id=names[0])
    agent = add_hollow_agent(
        manager, world.cluster, names, shape, clock=SystemClock(), random=Random(1)
    )
    running = asyncio.create_task(manager.run())
    try:
        await until(lambda: agent.is_ready)
        yield agent
    finally:
        manager.stop()
        await running
        for name in names:
            await world.cluster.delete(NODES, Key("", name))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110 (another process brings it about)
            await asyncio.sleep(0.02)


def pod_on(world: World, node: str, name: str, **script: str) -> Body:
    body = world.body(PODS, name)
    script_of = {PREFIX + key.replace("_", "-"): value for key, value in script.items()}
    body["metadata"]["annotations"] = script_of
    body["spec"] = {
        "nodeName": node,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "local"}],
        "initContainers": [{"name": "before", "image": "local"}] if "duration" in script else [],
        "tolerations": [{"operator": "Exists"}],
    }
    return body


async def pod_that(world: World, name: str, holds: Callable[[BoundPod], bool]) -> BoundPod:
    async with asyncio.timeout(WITHIN_S):
        while True:
            pod = await world.cluster.get(BOUND_PODS, world.key(name))
            if holds(pod):
                return pod
            await asyncio.sleep(0.05)


def test_hollow_pod_runs_and_is_deleted(target: ContractTarget) -> None:
    """The server takes every status, and the pod goes when it is deleted."""

    async def act(world: World) -> None:
        async with hollow_nodes(world, 1) as agent:
            await world.cluster.create(PODS, pod_on(world, agent.names[0], "p"))
            pod = await pod_that(world, "p", lambda p: p.status.phase.value == "Running")
            conditions = {c.type: c.status for c in pod.status.conditions}
            await world.cluster.delete(PODS, world.key("p"))
            gone = False
            async with asyncio.timeout(WITHIN_S):
                while not gone:
                    try:
                        await world.cluster.get(PODS, world.key("p"))
                    except NotFoundError:
                        gone = True
                    await asyncio.sleep(0.02)

            assert conditions["Ready"] == "True"
            assert pod.status.pod_ip

    play(target, act)


def test_hollow_pod_with_init_container_fails_as_annotated(target: ContractTarget) -> None:
    """Init containers come first; the exit code is that of the annotations."""

    async def act(world: World) -> None:
        async with hollow_nodes(world, 2) as agent:
            annotations = {"duration": "300ms", "exit_code": "0,3", "start_delay": "100ms"}
            body = pod_on(world, agent.names[1], "p", **annotations)
            body["metadata"]["labels"] = {"RestartCount": "0"}
            body["spec"]["restartPolicy"] = "OnFailure"
            await world.cluster.create(PODS, body)
            pod = await pod_that(world, "p", lambda p: p.status.phase.value == "Succeeded")

            before = pod.status.init_container_statuses[0].state.terminated
            assert before is not None
            assert before.exit_code == 0

    play(target, act)


def test_node_becomes_free_of_its_taint(target: ContractTarget) -> None:
    """With a controller or without one, pods may soon be placed on a ready node."""

    async def act(world: World) -> None:
        async with hollow_nodes(world, 1) as agent, asyncio.timeout(WITHIN_S):
            while True:
                node = await world.cluster.get(NODES, Key("", agent.names[0]))
                if not node.spec.taints:
                    break
                await asyncio.sleep(0.1)

    play(target, act)
