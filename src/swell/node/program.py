"""The command `swell node` as a program: connects, runs an agent until stopped, cleans up."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from swell import __version__
from swell.api.core import PRIVATE_PORTS, Taint
from swell.api.quantity import parse
from swell.cluster.home import NODE_LOCK, hold_lock
from swell.cluster.kube.access import Access
from swell.cluster.kube.client import connect
from swell.node.assembly import (
    HOLLOW_CAPACITY,
    HOLLOW_PREFIX,
    NodeAgent,
    ProcessSettings,
    add_hollow_agent,
    add_leaving,
    add_process_agent,
    new_boot_id,
    node_names,
)
from swell.node.machine import GPU, CapacityRequest, HostMachine, canonical, capacity
from swell.node.nodes import NodeShape
from swell.node.process.folders import Folders
from swell.node.process.isolation import isolated_agent
from swell.node.process.keptlogs import KEPT_S
from swell.node.process.launcher import find_namespace
from swell.node.process.logserver import (
    ContainerLogs,
    LogServer,
    listening_socket,
    log_tls,
    serving,
)
from swell.node.process.setup.resources import PROCESSES_MAX
from swell.node.process.setup.users import AgentUser
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.manager import Manager
from swell.runtime.watchdog import watch_loop

POLL_S = 0.05
# Longer than Kubernetes' default grace period of a pod, 30 s.
LEAVE_S = 40.0


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of `swell node`."""

    home: Path
    n_nodes: int = 1
    prefix: str = ""
    hollow: bool = False
    wanted: CapacityRequest = field(default_factory=CapacityRequest)
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    processes_max: int = PROCESSES_MAX  # of each container; 0 for no limit
    isolate: bool = False  # pods cannot read the state folder
    keep_logs_s: float = KEPT_S  # how long logs of deleted jobs are kept


def hollow_shape(machine: HostMachine, options: AgentOptions, boot_id: str) -> NodeShape:
    """Returns the shape of hollow nodes: what was asked for, else a large default."""
    wanted = options.wanted
    asked = {"cpu": wanted.cpu, "memory": wanted.memory, "nvidia.com/gpu": wanted.gpu}
    amounts = HOLLOW_CAPACITY | {name: text for name, text in asked.items() if text}
    return NodeShape(
        canonical(amounts | {"pods": str(wanted.pods)}),
        boot_id,
        labels=options.labels,
        taints=options.taints,
        architecture=machine.architecture,
        system=machine.system,
        version=__version__,
    )


def process_shape(
    machine: HostMachine, options: AgentOptions, boot_id: str, log_port: int = 0
) -> NodeShape:
    return NodeShape(
        capacity(machine, options.wanted, options.n_nodes),
        boot_id,
        annotations={PRIVATE_PORTS: "true"},
        log_port=log_port,
        labels=options.labels,
        taints=options.taints,
        architecture=machine.architecture,
        system=machine.system,
        version=__version__,
    )


def run_agent(
    access: Access, machine: HostMachine, options: AgentOptions, on_ready: Callable[[], None]
) -> None:
    """Run an agent until SIGTERM or SIGINT. Pods that are processes then end with it."""
    if options.hollow:
        asyncio.run(_run_hollow(access, machine, options, on_ready))
        return
    with hold_lock(options.home, NODE_LOCK, "swell node"):
        asyncio.run(_run_processes(access, machine, options, on_ready))


async def _run_processes(
    access: Access, machine: HostMachine, options: AgentOptions, on_ready: Callable[[], None]
) -> None:
    clock, rng = SystemClock(), random.SystemRandom()
    names = node_names(options.prefix or machine.name, options.n_nodes)
    listener = listening_socket()
    shape = process_shape(machine, options, new_boot_id(rng), int(listener.getsockname()[1]))
    settings = process_settings(options, access.server, shape)
    async with connect(access, clock, rng) as cluster:
        manager = Manager(clock=clock, drain_s=LEAVE_S + 5)
        agent, runtime = add_process_agent(
            manager, cluster, names, shape, settings, clock=clock, random=rng
        )
        manager.add("announcement", lambda: _announce(agent, clock, on_ready))
        add_leaving(manager, agent, LEAVE_S)
        logs = ContainerLogs(Folders(options.home).logs, runtime.is_live, clock)
        server = LogServer(cluster, agent.pods, logs, runtime, names[0])
        tls = await log_tls(cluster, options.home / "node")
        async with serving(server, listener, tls):
            try:
                with watch_loop():
                    await manager.run(handle_signals=True)
            finally:
                await runtime.close()


def process_settings(options: AgentOptions, cluster_id: str, shape: NodeShape) -> ProcessSettings:
    n_gpus = parse(shape.capacity.get(GPU, "0")).value()
    namespace = find_namespace()
    agent = AgentUser(os.geteuid(), os.getegid())
    if options.isolate:
        agent = isolated_agent(options.home, namespace)
    return ProcessSettings(
        options.home,
        cluster_id,
        namespace,
        n_gpus,
        options.processes_max,
        agent,
        options.keep_logs_s,
    )


async def _run_hollow(
    access: Access, machine: HostMachine, options: AgentOptions, on_ready: Callable[[], None]
) -> None:
    clock, rng = SystemClock(), random.SystemRandom()
    names = node_names(options.prefix or HOLLOW_PREFIX, options.n_nodes)
    shape = hollow_shape(machine, options, new_boot_id(rng))
    async with connect(access, clock, rng) as cluster:
        manager = Manager(clock=clock)
        agent = add_hollow_agent(manager, cluster, names, shape, clock=clock, random=rng)
        manager.add("announcement", lambda: _announce(agent, clock, on_ready))
        with watch_loop():
            await manager.run(handle_signals=True)


async def _announce(agent: NodeAgent, clock: Clock, on_ready: Callable[[], None]) -> None:
    """Call `on_ready` once all nodes are ready, and then stay: a service must not end."""
    while not agent.is_ready:
        await clock.sleep(POLL_S)
    on_ready()
    await asyncio.get_running_loop().create_future()
