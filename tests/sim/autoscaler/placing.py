"""First-fit placement for simulations of the autoscaler: a pod goes to the first node with room.

Knows requests, taints, selectors and required node affinity; gangs are put around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from swell.api.matching import node_selector_matches, tolerates_all
from swell.api.node import Node
from swell.api.pod import Pod, PodPhase
from swell.api.quantity import parse
from swell.api.requests import PODS as POD_SLOTS
from swell.api.requests import pod_requests, scheduling_amount, scheduling_amounts

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
