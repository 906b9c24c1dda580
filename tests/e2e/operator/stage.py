"""A cluster with operators, hollow nodes and the scheduler, on which all scenarios run at once.

The cluster is the embedded one in virtual time, or a real control plane.
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
from tests.e2e.operator.observation import NamespaceObserver
from tests.e2e.operator.scenario import STRICT, USUAL, Scenario

# Short, so that scenarios of patience are short as well; the same in virtual time.
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
# So many that the nodes which single scenarios lose together are no mass failure of them all.
N_COMMON_NODES = 100
# Room for one pod of a scenario on each of its own nodes.
OWN_CAPACITY = {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "2", "pods": "10"}
READY_S_MAX = 60.0
CLOSE_S = 0.25  # for connections cut off in the middle

# A scenario that failed, by name; the others went well.
Outcomes = dict[str, BaseException]


@dataclass(frozen=True, slots=True)
class ClusterUnderTest:
    """A cluster as each component reaches it, and its time."""

    connect: Callable[[str], Cluster]
    clock: Clock


def run_embedded(scenarios: Sequence[Scenario]) -> Outcomes:
    """All scenarios in virtual time."""

    async def main() -> Outcomes:
        clock, rng = VirtualClock(), Random(11)
        api = new_api_server(Storage(clock.now), clock, rng)
        manager = Manager(clock=clock)
        add_services(manager, api, rng)
        async with _running(manager):
            return await _run_all(
                ClusterUnderTest(lambda actor: InProcessCluster(api, actor), clock), scenarios
            )

    return run(main())


def run_real(kubeconfig: Path, scenarios: Sequence[Scenario]) -> Outcomes:
    """All scenarios on a server that a kubeconfig leads to."""

    async def main() -> Outcomes:
        clock = SystemClock()
        async with contextlib.AsyncExitStack() as stack:
            access = read_kubeconfig([kubeconfig])
            ours = await stack.enter_async_context(connect(access, clock, Random(1)))
            theirs = await stack.enter_async_context(connect(access, clock, Random(2)))
            await install_crds(theirs, clock)
            under_test = ClusterUnderTest(
                lambda actor: ours if actor == "operator" else theirs, clock
            )
            outcomes = await _run_all(under_test, scenarios)
        await asyncio.sleep(CLOSE_S)
        return outcomes

    return asyncio.run(main())


async def _run_all(under_test: ClusterUnderTest, scenarios: Sequence[Scenario]) -> Outcomes:
    user = under_test.connect("user")
    for namespace in (USUAL, STRICT):
        with contextlib.suppress(AlreadyExistsError):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await user.create(NAMESPACES.untyped(), body)
    with contextlib.suppress(AlreadyExistsError):
        known = {"metadata": {"name": PRIORITY_CLASS}, "value": PRIORITY}
        await user.create(PRIORITY_CLASSES.untyped(), known)
    observers = {
        name: NamespaceObserver(user, name, under_test.clock, Random(3)) for name in (USUAL, STRICT)
    }
    manager = Manager(clock=under_test.clock)
    for observer in observers.values():
        observer.add_to(manager)
    agents = _add_nodes(manager, under_test, [node for one in scenarios for node in one.nodes])
    scheduler = Scheduler(under_test.connect("scheduler"), clock=under_test.clock, random=Random(4))
    manager.add("scheduler", scheduler.run)
    for settings in OPERATORS:
        manager.add(f"operator of {settings.namespace}", _operator(under_test, settings))
    async with _running(manager):
        for observer in observers.values():
            await observer.wait_synced()
        async with asyncio.timeout(READY_S_MAX):
            while not all(agent.is_ready for agent in agents):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        runs = [one.run(user, observers[one.namespace]) for one in scenarios]
        results = await asyncio.gather(*runs, return_exceptions=True)
    return {
        one.name: result
        for one, result in zip(scenarios, results, strict=True)
        if isinstance(result, BaseException)
    }


def _add_nodes(
    manager: Manager, under_test: ClusterUnderTest, own: Sequence[str]
) -> list[NodeAgent]:
    """Nodes for everybody, and the nodes that belong to single scenarios."""
    cluster, clock = under_test.connect("nodes"), under_test.clock
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


def _operator(
    under_test: ClusterUnderTest, settings: AITrainingJobSettings
) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        await operate(
            ai_training_job_kind(settings),
            under_test.connect("operator"),
            clock=under_test.clock,
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
