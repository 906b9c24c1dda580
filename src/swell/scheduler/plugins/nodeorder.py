"""The plugin nodeorder scores nodes as kube-scheduler does: load, balance, affinity, taints.

Also spreads parameter servers: those of one job share a node only if no other node takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from swell.api.core import Node
from swell.api.matching import n_disliked, term_matches
from swell.scheduler.config import PluginOption
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
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
# Volcano's weights.
DEFAULTS: Final = {
    LEAST: 1.0, MOST: 0.0, BALANCED: 1.0, NODE_AFFINITY: 2.0, POD_AFFINITY: 2.0, TAINT: 3.0,
}  # fmt: skip
_HARD_SPREAD = "only topology spread constraints with whenUnsatisfiable DoNotSchedule are kept"
KNOWN: Final = KnownPlugin(
    switches=("enableNodeOrder",),
    arguments=dict.fromkeys(DEFAULTS, ArgumentKind.NUMBER),
    idle={
        "imagelocality.weight": "",
        "podtopologyspread.weight": _HARD_SPREAD,
        "selectorspread.weight": _HARD_SPREAD,
    },
)
SPREAD_ROLES: Final = frozenset({"pserver"})
_GPU = "nvidia.com/gpu"
_SCORE_MAX = 100.0  # of one score with weight 1, as in kube-scheduler
_A_PAIR = 2
# As much as the default weights of nodeorder (9) and binpack (1) together.
_SPREAD_WEIGHT = 10


def open_nodeorder(session: Session, option: PluginOption) -> Hooks:
    weight = {name: option.arguments.number(name, value) for name, value in DEFAULTS.items()}
    snapshot = session.snapshot
    nodes = snapshot.nodes
    gpu = snapshot.dimensions.known(_GPU)
    # (1 - load) * LEAST + load * MOST, with fewer operations on all nodes.
    slope = _SCORE_MAX * (weight[MOST] - weight[LEAST])
    highest = _SCORE_MAX * weight[LEAST]

    def node_score(shape: Shape) -> Vector:
        affinity = node_affinity(shape, nodes) * weight[NODE_AFFINITY]
        return affinity + taints(shape, nodes) * weight[TAINT]

    def load_score(shape: Shape, fill: Matrix) -> Vector:
        parts = [np.minimum(fill[CPU], 1.0), np.minimum(fill[MEMORY], 1.0)]
        score: Vector = parts[0] + parts[1]
        score /= 2
        if gpu is not None and shape.request[gpu] > 0:
            parts.append(np.minimum(fill[gpu], 1.0))
        score *= slope
        score += highest
        balanced = balance(parts)
        balanced *= weight[BALANCED]
        score += balanced
        return score

    def task_score(task: Task) -> Vector | None:
        score = _scaled(snapshot.affinity_index.preference(task))
        total = None if score is None else score * weight[POD_AFFINITY]
        if task.role in SPREAD_ROLES and task.job is not None:
            spread = spread_score(task, len(nodes))
            total = spread if total is None else total + spread
        return total

    return Hooks(node_score=node_score, load_score=load_score, task_score=task_score)


def balance(parts: Sequence[Vector]) -> Vector:
    """Returns 100 where all resources are equally full, less by their standard deviation."""
    # In place where possible: on a few hundred nodes an operation costs more than its arithmetic.
    if len(parts) == _A_PAIR:  # the standard deviation of two values, without a square root
        deviation: Vector = np.abs(parts[0] - parts[1])
        deviation /= 2
    else:
        mean = sum(parts[1:], parts[0])
        mean /= len(parts)
        deviation = np.zeros_like(mean)
        for part in parts:
            distance = part - mean
            distance *= distance
            deviation += distance
        deviation /= len(parts)
        np.sqrt(deviation, out=deviation)
    score: Vector = 1.0 - deviation
    score *= _SCORE_MAX
    return score


def node_affinity(shape: Shape, nodes: NodeTable) -> Vector:
    """Returns the weights of the preferred terms that a node matches, scaled to the best node."""
    affinity = shape.spec.affinity and shape.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()

    def points(node: Node | None) -> float:
        matched = (p.weight for p in preferred if node and term_matches(p.preference, node))
        return float(sum(matched))

    if not preferred:
        return np.zeros(len(nodes))
    found = np.array([points(node) for node in nodes.objects])
    highest = found.max(initial=0.0)
    return found * (_SCORE_MAX / highest) if highest > 0 else found


def taints(shape: Shape, nodes: NodeTable) -> Vector:
    """Returns 100 for nodes without a PreferNoSchedule taint, less the more there are."""
    disliked = np.array(
        [
            n_disliked(shape.spec.tolerations, node.spec.taints) if node and node.spec.taints else 0
            for node in nodes.objects
        ],
        dtype=np.float64,
    )
    highest = disliked.max(initial=0.0)
    return (
        _SCORE_MAX - disliked * (_SCORE_MAX / highest)
        if highest > 0
        else np.full(len(nodes), _SCORE_MAX)
    )


def spread_score(task: Task, n_nodes: int) -> Vector:
    """Returns a lower score for nodes with more tasks of the same job and role."""
    score = np.zeros(n_nodes)
    for other in task.job.tasks.values() if task.job else ():
        if other.role == task.role and TAKES_LATER[other.status]:
            score[other.node] -= _SCORE_MAX * len(SPREAD_ROLES) * _SPREAD_WEIGHT
    return score


def _scaled(score: Vector | None) -> Vector | None:
    """Scales scores so that the worst node has 0 and the best 100."""
    if score is None:
        return None
    low, high = score.min(initial=0.0), score.max(initial=0.0)
    return (score - low) * (_SCORE_MAX / (high - low)) if high > low else score * 0.0
