"""A cluster with operators, hollow nodes and the scheduler, on which all stories are played
at the same time: the embedded one in virtual time, or a real control plane.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from swell.api.core import Taint
from swell.api.kinds import NAMESPACES, PRIORITY_CLASSES
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.assembly import HOLLOW_CAPACITY, NodeAgent, add_hollow_agent, node_names
from swell.node.nodes import NodeShape
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import install_crds, operate
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import AlreadyExistsError
from swell.runtime.manager import Manager
from swell.scheduler.live.controller import Scheduler
from swell.sim.loop import VirtualClock, run
from tests.e2e.operator.jobs import OWN_NODES, PRIORITY, PRIORITY_CLASS
from tests.e2e.operator.sight import Sight
from tests.e2e.operator.story import STRICT, USUAL, Story

# Short, so that stories of patience are short as well; the same in virtual time.
SETTINGS = AITrainingJobSettings(
    workers=8,
    gc_period_s=3.0,
    node_lost_after_s=2.0,
    node_fence_after_s=1.0,
    creating_duration_period_s=3.0,
    creating_restart_period_s=12.0,
)
OPERATORS = (
    replace(SETTINGS, namespace=USUAL),
    replace(SETTINGS, namespace=STRICT, enable_creating_failed=True, gang=False),
)
N_COMMON_NODES = 4
# Room for one pod of a story on each of its own nodes.
OWN_CAPACITY = {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "2", "pods": "10"}
READY_S_MAX = 60.0
CLOSE_S = 0.25  # for connections cut off in the middle

# A story that failed, by name; the others went well.
Outcomes = dict[str, BaseException]


@dataclass(frozen=True, slots=True)
class Ground:
    """A cluster as each component reaches it, and its time."""

    connect: Callable[[str], Cluster]
    clock: Clock


def play_embedded(stories: Sequence[Story]) -> Outcomes:
    """All stories in virtual time."""

    async def main() -> Outcomes:
        clock, rng = VirtualClock(), Random(11)
        api = new_api_server(Storage(clock.now), clock, rng)
        manager = Manager(clock=clock)
        add_services(manager, api, rng)
        async with _running(manager):
            return await _play(Ground(lambda actor: InProcessCluster(api, actor), clock), stories)

    return run(main())


def play_real(kubeconfig: Path, stories: Sequence[Story]) -> Outcomes:
    """All stories on a server that a kubeconfig leads to."""

    async def main() -> Outcomes:
        clock = SystemClock()
        async with contextlib.AsyncExitStack() as stack:
            access = read_kubeconfig([kubeconfig])
            ours = await stack.enter_async_context(connect(access, clock, Random(1)))
            theirs = await stack.enter_async_context(connect(access, clock, Random(2)))
            await install_crds(theirs, clock)
            ground = Ground(lambda actor: ours if actor == "operator" else theirs, clock)
            outcomes = await _play(ground, stories)
        await asyncio.sleep(CLOSE_S)
        return outcomes

    return asyncio.run(main())


async def _play(ground: Ground, stories: Sequence[Story]) -> Outcomes:
    user = ground.connect("user")
    for namespace in (USUAL, STRICT):
        with contextlib.suppress(AlreadyExistsError):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await user.create(NAMESPACES.untyped(), body)
    with contextlib.suppress(AlreadyExistsError):
        known = {"metadata": {"name": PRIORITY_CLASS}, "value": PRIORITY}
        await user.create(PRIORITY_CLASSES.untyped(), known)
    sights = {name: Sight(user, name, ground.clock, Random(3)) for name in (USUAL, STRICT)}
    manager = Manager(clock=ground.clock)
    for sight in sights.values():
        sight.add_to(manager)
    agents = _add_nodes(manager, ground, [node for one in stories for node in one.nodes])
    scheduler = Scheduler(ground.connect("scheduler"), clock=ground.clock, random=Random(4))
    manager.add("scheduler", scheduler.run)
    for settings in OPERATORS:
        manager.add(f"operator of {settings.namespace}", _operator(ground, settings))
    async with _running(manager):
        for sight in sights.values():
            await sight.wait_synced()
        async with asyncio.timeout(READY_S_MAX):
            while not all(agent.is_ready for agent in agents):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        played = [one.play(user, sights[one.namespace]) for one in stories]
        results = await asyncio.gather(*played, return_exceptions=True)
    return {
        one.name: result
        for one, result in zip(stories, results, strict=True)
        if isinstance(result, BaseException)
    }


def _add_nodes(manager: Manager, ground: Ground, own: Sequence[str]) -> list[NodeAgent]:
    """Nodes for everybody, and the nodes that belong to single stories."""
    cluster, clock = ground.connect("nodes"), ground.clock
    common = NodeShape({**HOLLOW_CAPACITY, "cpu": "500"}, boot_id="common")
    private = NodeShape(
        OWN_CAPACITY, boot_id="own", taints=(Taint(key=OWN_NODES, effect="NoSchedule"),)
    )
    shapes = [(node_names("common", N_COMMON_NODES), common), (tuple(own), private)]
    return [
        add_hollow_agent(manager, cluster, names, shape, clock=clock, random=Random(5))
        for names, shape in shapes
        if names
    ]


def _operator(ground: Ground, settings: AITrainingJobSettings) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        await operate(
            ai_training_job_kind(settings),
            ground.connect("operator"),
            clock=ground.clock,
            random=Random(6),
        )

    return work


@asynccontextmanager
async def _running(manager: Manager) -> AsyncIterator[None]:
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        manager.stop()
        await task
