"""Puts an agent together: its nodes, their heartbeats, and the loop that runs their pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from swell.api.meta import Key
from swell.node.agent import NodeSet, PodAgent, Runtime
from swell.node.heartbeat import Heartbeat
from swell.node.hollow import HollowRuntime
from swell.node.nodes import NodeShape
from swell.node.registration import Registration
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.manager import Manager

HOLLOW_PREFIX = "hollow"
# What a hollow node has when nobody says otherwise: enough not to be in the way.
HOLLOW_CAPACITY = {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "500"}

MakeRuntime = Callable[[Callable[[Key, float], None]], Runtime]


@dataclass(frozen=True, slots=True)
class NodeAgent:
    """The parts of a running agent that others ask about."""

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
    workers: int = 32,
) -> NodeAgent:
    """Have a manager run an agent."""
    own = tuple(names)
    registration = Registration(cluster, own, shape, clock=clock, random=random)
    heartbeat = Heartbeat(cluster, registration, clock=clock, random=random)
    pods = PodAgent(
        cluster,
        NodeSet(own, registration.is_silent),
        make_runtime,
        clock=clock,
        random=random,
        workers=workers,
    )
    silent: dict[str, bool] = {}

    def on_node(name: str) -> None:
        """Pods of a node that was dead are looked at when it comes back."""
        was_silent = silent.get(name, False)
        silent[name] = registration.is_silent(name)
        if was_silent and not silent[name]:
            pods.wake_node(name)

    registration.on_change(on_node)
    manager.add("node cache", registration.informer.run)
    manager.add("node registration", registration.run, registration.stop)
    manager.add("node heartbeat", heartbeat.run, heartbeat.stop)
    manager.add("node pods cache", pods.informer.run)
    manager.add("node pods", pods.run, pods.stop)
    return NodeAgent(registration, pods, own)


def add_hollow_agent(
    manager: Manager,
    cluster: Cluster,
    names: Sequence[str],
    shape: NodeShape,
    *,
    clock: Clock,
    random: Random,
) -> NodeAgent:
    """Have a manager run an agent whose pods only pretend to run."""

    def make(wake: Callable[[Key, float], None]) -> Runtime:
        return HollowRuntime(clock, wake)

    return add_node_agent(manager, cluster, names, shape, make, clock=clock, random=random)
