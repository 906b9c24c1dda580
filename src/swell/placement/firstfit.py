"""First-fit placement: a pending pod goes to the first node, by name, that has room for it.

Knows requests, taints, selectors and required node affinity; no gangs, queues or priorities.
`place` is pure; `FirstFit` reads caches and binds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from random import Random

from swell.api.kinds import NODES, PODS
from swell.api.matching import node_selector_matches, tolerates_all
from swell.api.meta import Body, Key
from swell.api.node import Node
from swell.api.pod import Pod, PodPhase
from swell.api.quantity import parse
from swell.api.requests import PODS as POD_SLOTS
from swell.api.requests import pod_requests, scheduling_amount, scheduling_amounts
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import ClusterError, OutcomeUnknownError, UnreachableError
from swell.runtime.informer import Informer
from swell.runtime.logs import get_logger
from swell.runtime.manager import Manager

log = get_logger(__name__)

SCHEDULER_NAME = "swell"
BINDINGS = PODS.sub("binding", dict)
SETTLE_S = 0.02
RETRY_S = 1.0
CONCURRENCY = 16

Free = dict[str, dict[str, int]]


def place(nodes: Sequence[Node], pods: Iterable[Pod], scheduler: str) -> list[tuple[Pod, str]]:
    """Pods and the nodes they go to, the oldest pod first."""
    by_name = sorted(nodes, key=lambda node: node.metadata.name)
    free: Free = {node.metadata.name: _allocatable(node) for node in by_name}
    pending: list[Pod] = []
    for pod in pods:
        if pod.status.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}:
            continue
        if pod.spec.node_name:
            _take(free.get(pod.spec.node_name), _needs(pod))
        elif is_ours(pod, scheduler):
            pending.append(pod)
    pending.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.key))
    placed: list[tuple[Pod, str]] = []
    for pod in pending:
        needs = _needs(pod)
        for node in by_name:
            room = free[node.metadata.name]
            if _fits(room, needs) and admits(node, pod):
                _take(room, needs)
                placed.append((pod, node.metadata.name))
                break
    return placed


def is_ours(pod: Pod, scheduler: str) -> bool:
    return (
        pod.spec.scheduler_name == scheduler
        and not pod.spec.scheduling_gates
        and pod.metadata.deletion_timestamp is None
    )


def admits(node: Node, pod: Pod) -> bool:
    """Whether a node takes a pod, room aside."""
    spec, labels = pod.spec, node.metadata.labels
    if node.spec.unschedulable or node.metadata.deletion_timestamp is not None:
        return False
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is not None and not node_selector_matches(required, node):
        return False
    return tolerates_all(spec.tolerations, node.spec.taints)


def add_first_fit(manager: Manager, cluster: Cluster, *, clock: Clock, random: Random) -> FirstFit:
    """Have a manager run the placement."""
    placement = FirstFit(cluster, clock=clock, random=random)
    manager.add("placement nodes", placement.nodes.run)
    manager.add("placement pods", placement.pods.run)
    manager.add("placement", placement.run)
    return placement


class FirstFit:
    """Binds what `place` says. Services: `pods.run`, `nodes.run` and `run`."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        random: Random,
        scheduler: str = SCHEDULER_NAME,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._scheduler = scheduler
        self._news = asyncio.Event()
        self.pods: Informer[Pod] = Informer(cluster, PODS, clock=clock, random=random)
        self.nodes: Informer[Node] = Informer(cluster, NODES, clock=clock, random=random)
        self.pods.add_handler(lambda _: self._news.set())
        self.nodes.add_handler(lambda _: self._news.set())

    async def run(self) -> None:
        await self.pods.wait_synced()
        await self.nodes.wait_synced()
        while True:
            await self._news.wait()
            # What comes together is looked at together.
            await self._clock.sleep(SETTLE_S)
            self._news.clear()
            placed = place(self.nodes.all(), self.pods.all(), self._scheduler)
            for start in range(0, len(placed), CONCURRENCY):
                batch = placed[start : start + CONCURRENCY]
                results = await asyncio.gather(*(self._bind(pod, node) for pod, node in batch))
                if not all(results):
                    await self._clock.sleep(RETRY_S)
                    self._news.set()

    async def _bind(self, pod: Pod, node: str) -> bool:
        metadata = pod.metadata
        body: Body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._cluster.create(BINDINGS, body)
            # A binding is answered without the pod: read it, or it would be placed again.
            await self.pods.refresh(Key(metadata.namespace, metadata.name))
        except (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError) as error:
            log.info("not bound", pod=str(metadata.key), node=node, why=str(error))
            return False
        return True


def _allocatable(node: Node) -> dict[str, int]:
    amounts = node.status.allocatable
    return {name: scheduling_amount(name, parse(raw)) for name, raw in amounts.items()}


def _needs(pod: Pod) -> dict[str, int]:
    return {**scheduling_amounts(pod_requests(pod.spec)), POD_SLOTS: 1}


def _fits(room: dict[str, int], needs: dict[str, int]) -> bool:
    return all(room.get(name, 0) >= amount for name, amount in needs.items())


def _take(room: dict[str, int] | None, needs: dict[str, int]) -> None:
    if room is not None:
        for name, amount in needs.items():
            room[name] = room.get(name, 0) - amount
