"""nodeorder: the scores of kube-scheduler: load, balance, affinity, taints, neighbours.

Also spreads parameter servers: a job's pservers share a node only when there is no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from swell.api.core import Node
from swell.api.matching import n_disliked, term_matches
from swell.scheduler.config import PluginOption
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.nodes import Matrix, NodeTable
from swell.scheduler.model.resources import CPU, MEMORY, Vector
from swell.scheduler.model.tasks import TAKES_LATER, Shape, Task
from swell.scheduler.session import Session

LEAST: Final = "leastrequested.weight"
MOST: Final = "mostrequested.weight"
BALANCED: Final = "balancedresource.weight"
NODE_AFFINITY: Final = "nodeaffinity.weight"
POD_AFFINITY: Final = "podaffinity.weight"
TAINT: Final = "tainttoleration.weight"
DEFAULTS: Final = {
    LEAST: 1.0, MOST: 0.0, BALANCED: 1.0, NODE_AFFINITY: 2.0, POD_AFFINITY: 2.0, TAINT: 3.0,
}  # fmt: skip
# Known to users' files; image locality and soft spread are not scored here.
_ACCEPTED = ("imagelocality.weight", "podtopologyspread.weight", "selectorspread.weight")
ARGUMENTS: tuple[str, ...] = (*DEFAULTS, *_ACCEPTED)
SPREAD_ROLES: Final = frozenset({"pserver"})
_GPU = "nvidia.com/gpu"
_FULL = 100.0
_A_PAIR = 2


def open_nodeorder(session: Session, option: PluginOption) -> Hooks:
    weight = {name: option.arguments.number(name, value) for name, value in DEFAULTS.items()}
    snapshot = session.snapshot
    nodes = snapshot.nodes
    gpu = snapshot.dimensions.known(_GPU)

    def node_score(shape: Shape) -> Vector:
        affinity = node_affinity(shape, nodes) * weight[NODE_AFFINITY]
        return affinity + taints(shape, nodes) * weight[TAINT]

    def load_score(shape: Shape, fill: Matrix) -> Vector:
        parts = [np.minimum(fill[CPU], 1.0), np.minimum(fill[MEMORY], 1.0)]
        load = (parts[0] + parts[1]) / 2
        if gpu is not None and shape.request[gpu] > 0:
            parts.append(np.minimum(fill[gpu], 1.0))
        # Free room times one weight plus full room times the other, with fewer operations.
        score: Vector = load * (_FULL * (weight[MOST] - weight[LEAST])) + _FULL * weight[LEAST]
        return score + balance(parts) * weight[BALANCED]

    def task_score(task: Task) -> Vector | None:
        score = _scaled(snapshot.neighbours.preference(task))
        total = None if score is None else score * weight[POD_AFFINITY]
        if task.role in SPREAD_ROLES and task.job is not None:
            spread = spread_score(task, len(nodes))
            total = spread if total is None else total + spread
        return total

    return Hooks(node_score=node_score, load_score=load_score, task_score=task_score)


def balance(parts: Sequence[Vector]) -> Vector:
    """100 when all resources are equally full, less by their standard deviation."""
    if len(parts) == _A_PAIR:
        return (1.0 - np.abs(parts[0] - parts[1]) / 2) * _FULL
    mean = parts[0]
    for part in parts[1:]:
        mean = mean + part
    mean = mean / len(parts)
    variance = (parts[0] - mean) * (parts[0] - mean)
    for part in parts[1:]:
        variance = variance + (part - mean) * (part - mean)
    return (1.0 - np.sqrt(variance / len(parts))) * _FULL


def node_affinity(shape: Shape, nodes: NodeTable) -> Vector:
    """Sum of the weights of preferred terms a node matches, relative to the best node."""
    affinity = shape.spec.affinity and shape.spec.affinity.node_affinity
    wishes = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()

    def points(node: Node | None) -> float:
        matched = (w.weight for w in wishes if node and term_matches(w.preference, node))
        return float(sum(matched))

    if not wishes:
        return np.zeros(len(nodes))
    found = np.array([points(node) for node in nodes.objects])
    highest = found.max(initial=0.0)
    return found * (_FULL / highest) if highest > 0 else found


def taints(shape: Shape, nodes: NodeTable) -> Vector:
    """100 for nodes without a taint to avoid, less the more there are."""
    disliked = np.array(
        [
            n_disliked(shape.spec.tolerations, node.spec.taints) if node and node.spec.taints else 0
            for node in nodes.objects
        ],
        dtype=np.float64,
    )
    highest = disliked.max(initial=0.0)
    return _FULL - disliked * (_FULL / highest) if highest > 0 else np.full(len(nodes), _FULL)


def spread_score(task: Task, n_nodes: int) -> Vector:
    """Fewer tasks of the same job and role on a node are better."""
    score = np.zeros(n_nodes)
    for other in task.job.tasks.values() if task.job else ():
        if other.role == task.role and TAKES_LATER[other.status]:
            score[other.node] -= _FULL * len(SPREAD_ROLES) * 10
    return score


def _scaled(score: Vector | None) -> Vector | None:
    """From the worst node at 0 to the best at 100."""
    if score is None:
        return None
    low, high = score.min(initial=0.0), score.max(initial=0.0)
    return (score - low) * (_FULL / (high - low)) if high > low else score * 0.0
