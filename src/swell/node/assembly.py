"""Assembles an agent from its nodes, their heartbeats, and the loop that runs their pods."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from swell.api.meta import Key
from swell.node.agent import NodeSet, PodAgent, Runtime
from swell.node.heartbeat import Heartbeat
from swell.node.hollow import HollowRuntime, notice_delay_s
from swell.node.nodes import NodeShape
from swell.node.pods import BoundPod
from swell.node.process.folders import Folders
from swell.node.process.isolation import PythonPlaces, python_places
from swell.node.process.keptlogs import KEPT_S
from swell.node.process.launcher import Launcher
from swell.node.process.reports import ReportFiles
from swell.node.process.runtime import ProcessRuntime
from swell.node.process.setup.addresses import AddressBook
from swell.node.process.setup.hosts import HostsFiles
from swell.node.process.setup.informers import ProcessInformers
from swell.node.process.setup.provision import ProcessDependencies
from swell.node.process.setup.resources import PROCESSES_MAX, CgroupRoot, GpuBoard
from swell.node.process.setup.spec import HostSettings
from swell.node.process.setup.users import AgentUser
from swell.node.registration import Registration
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.manager import Manager

HOLLOW_PREFIX = "hollow"
# A hollow node has this unless flags say otherwise: enough not to limit a test.
HOLLOW_CAPACITY = {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "500"}

MakeRuntime = Callable[[Callable[[Key, float], None]], Runtime]


@dataclass(frozen=True, slots=True)
class NodeAgent:
    """The parts of an agent that other programs use."""

    registration: Registration
    pods: PodAgent
    names: tuple[str, ...]

    @property
    def is_ready(self) -> bool:
        return self.registration.n_ready == len(self.names)


def node_names(prefix: str, n_nodes: int) -> tuple[str, ...]:
    return tuple(f"{prefix}-{number}" for number in range(n_nodes))


def new_boot_id(random: Random) -> str:
    return f"{random.getrandbits(64):016x}"


def add_node_agent(
    manager: Manager,
    cluster: Cluster,
    names: Sequence[str],
    shape: NodeShape,
    make_runtime: MakeRuntime,
    *,
    clock: Clock,
    random: Random,
    notice_delay_s: Callable[[BoundPod], float] = lambda _: 0.0,
    workers: int = 32,
) -> NodeAgent:
    """Add the services of an agent to a manager."""
    own = tuple(names)
    registration = Registration(cluster, own, shape, clock=clock, random=random)
    heartbeat = Heartbeat(cluster, registration, clock=clock, random=random)
    pods = PodAgent(
        cluster,
        NodeSet(own, registration.is_lost, notice_delay_s),
        make_runtime,
        clock=clock,
        random=random,
        workers=workers,
    )
    silent: dict[str, bool] = {}

    def on_node(name: str) -> None:
        """Requeue the pods of a node that comes back after a simulated loss."""
        was_silent = silent.get(name, False)
        silent[name] = registration.is_lost(name)
        if was_silent and not silent[name]:
            pods.wake_node(name)

    registration.on_change(on_node)
    manager.add("node cache", registration.informer.run)
    manager.add("node registration", registration.run, registration.stop)
    manager.add("node heartbeat", heartbeat.run, heartbeat.stop)
    manager.add("node pods cache", pods.informer.run)
    manager.add("node pods", pods.run, pods.stop)
    return NodeAgent(registration, pods, own)


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """The folder of a process agent, and the id that separates clusters on one machine."""

    home: Path
    cluster_id: str
    namespace: str  # the answer of `launcher.find_namespace`
    n_gpus: int = 0  # of each node
    processes_max: int = PROCESSES_MAX  # of each container; 0 for no limit
    agent: AgentUser = field(default_factory=lambda: AgentUser(os.geteuid(), os.getegid()))
    keep_logs_s: float = KEPT_S  # how long logs of deleted jobs are kept


def add_process_agent(
    manager: Manager,
    cluster: Cluster,
    names: Sequence[str],
    shape: NodeShape,
    settings: ProcessSettings,
    *,
    clock: Clock,
    random: Random,
) -> tuple[NodeAgent, ProcessRuntime]:
    """Add an agent whose pods are processes of this machine.

    Processes of an earlier agent with the same home are taken over.
    """
    folders, made = Folders(settings.home), []
    informers = ProcessInformers(cluster, clock=clock, random=random)
    is_private = sys.platform.startswith("linux")

    def pods() -> tuple[BoundPod, ...]:
        return agent.pods.informer.all()

    book = AddressBook(settings.cluster_id, is_private)
    hosts = HostsFiles(book, folders, informers.services, pods)
    dependencies = ProcessDependencies(
        folders=folders,
        host=_host_settings(settings),
        informers=informers,
        hosts=hosts,
        boards=_boards(names, settings.n_gpus),
        allocatable=dict(shape.capacity),
        cgroups=CgroupRoot(),
        launcher=Launcher(settings.home),
        clock=clock,
        random=random,
        processes_max=settings.processes_max,
        agent=settings.agent,
        keep_logs_s=settings.keep_logs_s,
    )

    def make(wake: Callable[[Key, float], None]) -> Runtime:
        # The agent makes its runtime, which needs the agent's queue; we need the runtime as well.
        made.append(ProcessRuntime(dependencies, wake))
        return made[0]

    for name, run in informers.services_to_run:
        manager.add(f"node {name} cache", run)
    agent = add_node_agent(manager, cluster, names, shape, make, clock=clock, random=random)
    runtime = made[0]
    found = agent.pods.informer
    found.add_handler(lambda key: hosts.note(key, found.get(key)))
    runtime.recover()
    manager.add("node names and logs", runtime.upkeep.keep_current)
    manager.add("node kept logs", runtime.upkeep.prune_logs)
    manager.add("node volumes", runtime.upkeep.renew, runtime.upkeep.stop)
    manager.add("node usage", runtime.upkeep.watch_usage)
    reports = ReportFiles(cluster, folders, clock=clock, pods=agent.pods.pods)
    manager.add("node reports", reports.run)
    return agent, runtime


def _host_settings(settings: ProcessSettings) -> HostSettings:
    """The agent's environment; root has containers of other users, which need Python as well."""
    places = python_places() if settings.agent.uid == 0 else PythonPlaces()
    return HostSettings(
        os.environ, sys.executable, settings.namespace, places.mounts, places.closed
    )


def add_leaving(manager: Manager, agent: NodeAgent, within_s: float) -> None:
    """Have a manager end all pods when it stops.

    Add it last: services are stopped in reverse order, and the others are needed to end pods.
    """
    stopping = asyncio.Event()

    async def run() -> None:
        await stopping.wait()
        await agent.pods.drain(within_s)

    manager.add("node leaving", run, stopping.set)


def _boards(names: Sequence[str], n_gpus: int) -> dict[str, GpuBoard]:
    """Returns the GPUs of each node: an equal part of the machine's."""
    return {
        name: GpuBoard(range(number * n_gpus, (number + 1) * n_gpus))
        for number, name in enumerate(names)
    }


def add_hollow_agent(
    manager: Manager,
    cluster: Cluster,
    names: Sequence[str],
    shape: NodeShape,
    *,
    clock: Clock,
    random: Random,
) -> NodeAgent:
    """Add an agent whose pods run by the clock, without processes."""

    def make(wake: Callable[[Key, float], None]) -> Runtime:
        return HollowRuntime(clock, wake)

    return add_node_agent(
        manager,
        cluster,
        names,
        shape,
        make,
        clock=clock,
        random=random,
        notice_delay_s=notice_delay_s,
    )
