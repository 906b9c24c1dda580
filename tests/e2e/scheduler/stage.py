"""A cluster with two schedulers, an operator and hollow nodes, on which the stories are played:
the embedded one in virtual time, or a real control plane with a thousand nodes.

On the real one the schedulers and the thousand nodes are processes of their own, so that a
scheduler can be killed as a process is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

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
from swell.scheduler.live.settings import RELOAD_S
from swell.sim.loop import VirtualClock, run
from tests.e2e.scheduler.objects import NAMESPACE, PRIORITIES, priority_class
from tests.e2e.scheduler.observation import Observation
from tests.e2e.scheduler.plays import CAPACITY, UPSETTING, USUAL
from tests.e2e.scheduler.recorder import Recorder
from tests.e2e.scheduler.schedulers import BIND_WINDOW_S, OwnProcesses, Settle, Tasks
from tests.e2e.scheduler.story import Schedulers, Story
from tests.testbed.control_plane import ControlPlane

OPERATOR = AITrainingJobSettings(
    namespace=NAMESPACE, workers=4, node_lost_after_s=1.0, node_fence_after_s=1.0, gc_period_s=3.0
)
N_NODES_EMBEDDED = 50
N_NODES_REAL = 1000
READY_S_MAX = 60.0
RELOADED_S = RELOAD_S + 1.0  # until a changed configuration counts
CLOSE_S = 0.25  # for connections cut off in the middle
# As it is shipped; and with queues in a tree.
PROPORTION = (Path(__file__).parents[3] / "deploy/scheduler/scheduler.conf").read_text()
WITH_HIERARCHY = PROPORTION.replace(
    "- name: proportion", "- {name: capacity, enableHierarchy: true}"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Stories that failed, by name, and what the recorder has to say."""

    failed: dict[str, BaseException]
    faults: list[str]
    n_binds: int


@dataclass(frozen=True, slots=True)
class Environment:
    """A cluster as everybody but the schedulers reaches it, and how those are run."""

    cluster: Cluster
    clock: Clock
    schedulers: Settle
    n_nodes: int  # to be played beside the stories' own
    config: Path


def play_embedded(folder: Path, chosen: Sequence[Story]) -> Outcome:
    """All stories in virtual time."""

    async def main() -> Outcome:
        clock, rng = VirtualClock(), Random(11)
        api = new_api_server(Storage(clock.now), clock, rng)
        manager = Manager(clock=clock)
        add_services(manager, api, rng)
        config = folder / "scheduler.yaml"
        user = InProcessCluster(api, "user")
        schedulers = Tasks(lambda name: InProcessCluster(api, name), clock, config)
        environment = Environment(user, clock, schedulers, N_NODES_EMBEDDED, config)
        async with _running(manager):
            return await _play(environment, chosen)

    return run(main())


def play_real(plane: ControlPlane, folder: Path, chosen: Sequence[Story]) -> Outcome:
    """All stories on a real control plane."""

    async def main() -> Outcome:
        clock, config = SystemClock(), folder / "scheduler.yaml"
        access = read_kubeconfig([plane.kubeconfig])
        async with connect(access, clock, Random(1)) as cluster:
            await install_crds(cluster, clock)
            schedulers = OwnProcesses(plane, cluster, folder, config)
            environment = Environment(cluster, clock, schedulers, 0, config)
            async with schedulers.hollow_nodes(N_NODES_REAL):
                outcome = await _play(environment, chosen)
        await asyncio.sleep(CLOSE_S)
        return outcome

    return asyncio.run(main())


async def _play(environment: Environment, chosen: Sequence[Story]) -> Outcome:
    cluster, clock = environment.cluster, environment.clock
    await _prepare(cluster)
    environment.config.write_text(PROPORTION)
    observation = Observation(cluster, clock, Random(3))
    recorder = Recorder(
        observation.pods,
        observation.groups,
        observation.nodes,
        clock=clock,
        bind_window_s=BIND_WINDOW_S,
    )
    manager = Manager(clock=clock)
    observation.add_to(manager)
    agents = _add_nodes(manager, environment, chosen)
    manager.add("operator", lambda: _operate(environment))
    failed: dict[str, BaseException] = {}
    async with _running(manager), environment.schedulers.running() as schedulers:
        await observation.wait_synced()
        async with asyncio.timeout(READY_S_MAX):
            while not all(agent.is_ready for agent in agents):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

        async def perform(part: Sequence[Story]) -> None:
            failed.update(await _perform(part, cluster, observation, schedulers))

        await perform([story for story in USUAL if story in chosen])
        for story in UPSETTING:
            await perform([story] if story in chosen else [])
        if any(story in chosen for story in CAPACITY):
            environment.config.write_text(WITH_HIERARCHY)
            await asyncio.sleep(RELOADED_S)
            await perform([story for story in CAPACITY if story in chosen])
        recorder.close()
    return Outcome(failed, recorder.faults, recorder.n_binds)


async def _perform(
    part: Sequence[Story], cluster: Cluster, observation: Observation, schedulers: Schedulers
) -> dict[str, BaseException]:
    played = [story.play(cluster, observation, schedulers) for story in part]
    results = await asyncio.gather(*played, return_exceptions=True)
    return {
        story.name: result
        for story, result in zip(part, results, strict=True)
        if isinstance(result, BaseException)
    }


async def _prepare(cluster: Cluster) -> None:
    with contextlib.suppress(AlreadyExistsError):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await cluster.create(NAMESPACES.untyped(), body)
    for name, value in PRIORITIES.items():
        with contextlib.suppress(AlreadyExistsError):
            await cluster.create(PRIORITY_CLASSES.untyped(), priority_class(name, value))


def _add_nodes(
    manager: Manager, environment: Environment, chosen: Sequence[Story]
) -> list[NodeAgent]:
    """The nodes of each story, and nodes for everybody where no other process plays them."""
    shapes = [
        (story.nodes, {"cpu": "4", "memory": "16Gi", "pods": "20", _own(story): str(story.room)})
        for story in chosen
        if story.nodes
    ]
    if environment.n_nodes:
        shapes.append((node_names("common", environment.n_nodes), HOLLOW_CAPACITY))
    return [
        add_hollow_agent(
            manager,
            environment.cluster,
            names,
            NodeShape(capacity, boot_id="e2e"),
            clock=environment.clock,
            random=Random(5),
        )
        for names, capacity in shapes
    ]


def _own(story: Story) -> str:
    return f"e2e.swell/{story.name}"


async def _operate(environment: Environment) -> None:
    kind = ai_training_job_kind(OPERATOR)
    await operate(kind, environment.cluster, clock=environment.clock, random=Random(6))


@asynccontextmanager
async def _running(manager: Manager) -> AsyncIterator[None]:
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        manager.stop()
        await task
