"""The plugin nodeorder scores nodes as kube-scheduler does: load, balance, affinity, taints.

Also spreads parameter servers: those of one job share a node only if no other node takes them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from swell.api.core import Node
from swell.api.matching import n_disliked, term_matches
from swell.scheduler.config import PluginOption
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.resources import CPU, MEMORY, Mask, Matrix, Vector
from swell.scheduler.model.tasks import TAKES_LATER, Shape, Task
from swell.scheduler.plugins.node_terms import SpreadDomains
from swell.scheduler.plugins.spreading import soft_spread
from swell.scheduler.session import Session

LEAST: Final = "leastrequested.weight"
MOST: Final = "mostrequested.weight"
BALANCED: Final = "balancedresource.weight"
NODE_AFFINITY: Final = "nodeaffinity.weight"
POD_AFFINITY: Final = "podaffinity.weight"
TAINT: Final = "tainttoleration.weight"
IMAGES: Final = "imagelocality.weight"
SPREAD: Final = "podtopologyspread.weight"
# Volcano's weights.
DEFAULTS: Final = {
    LEAST: 1.0, MOST: 0.0, BALANCED: 1.0, NODE_AFFINITY: 2.0, POD_AFFINITY: 2.0, TAINT: 3.0,
    IMAGES: 1.0, SPREAD: 2.0,
}  # fmt: skip
KNOWN: Final = KnownPlugin(
    switches=("enableNodeOrder",),
    arguments=dict.fromkeys(DEFAULTS, ArgumentKind.NUMBER),
    idle={
        "selectorspread.weight": f"use topology spread constraints and {SPREAD}",
    },
)
SPREAD_ROLES: Final = frozenset({"pserver"})
_GPU = "nvidia.com/gpu"
_SCORE_MAX = 100.0  # of one score with weight 1, as in kube-scheduler
# kube-scheduler's: less is pulled too fast to matter, and more per container does not count.
_IMAGE_BYTES_MIN = 23 * 1024 * 1024
_IMAGE_BYTES_MAX = 1000 * 1024 * 1024
# As much as the default weights of nodeorder (9) and binpack (1) together.
_SPREAD_WEIGHT = 10


def open_nodeorder(session: Session, option: PluginOption) -> Hooks:
    weight = {name: option.arguments.number(name, value) for name, value in DEFAULTS.items()}
    snapshot = session.snapshot
    nodes = snapshot.nodes
    domains = SpreadDomains(nodes)
    gpu = snapshot.dimensions.known(_GPU)
    # (1 - load) * LEAST + load * MOST, where load is the mean of two, and then
    # (1 - deviation) * BALANCED: written as one sum, with fewer operations on all nodes.
    slope = _SCORE_MAX * (weight[MOST] - weight[LEAST]) / 2
    highest = _SCORE_MAX * (weight[LEAST] + weight[BALANCED])
    of_deviation = _SCORE_MAX * weight[BALANCED]

    def node_score(shape: Shape) -> Vector:
        affinity = node_affinity(shape, nodes) * weight[NODE_AFFINITY]
        score = affinity + taints(shape, nodes) * weight[TAINT]
        local = image_locality(shape, nodes) if weight[IMAGES] else None
        return score if local is None else score + local * weight[IMAGES]

    def load_score(shape: Shape, fill: Matrix) -> Vector:
        cpu, memory = np.minimum(fill[CPU], 1.0), np.minimum(fill[MEMORY], 1.0)
        score: Vector = cpu + memory
        score *= slope
        score += highest
        if gpu is not None and shape.request.item(gpu) > 0:
            score -= of_deviation * deviation_of_three(cpu, memory, np.minimum(fill[gpu], 1.0))
        else:
            deviation = cpu - memory
            np.abs(deviation, out=deviation)
            deviation *= of_deviation / 2  # that of two values is half their distance
            score -= deviation
        return score

    def task_score(task: Task) -> Vector | None:
        score = _scaled(snapshot.affinity_index.preference(task))
        total = None if score is None else score * weight[POD_AFFINITY]
        if task.role in SPREAD_ROLES and task.job is not None:
            spread = spread_score(task, len(nodes))
            total = spread if total is None else total + spread
        return total

    def relative_score(task: Task, scored: Mask) -> Vector | None:
        if not task.shape.spec.topology_spread_constraints or not weight[SPREAD]:
            return None
        counted = domains.counted_for(task.shape)
        score = soft_spread(snapshot.affinity_index, task, scored, counted)
        return None if score is None else score * weight[SPREAD]

    return Hooks(
        node_score=node_score,
        load_score=load_score,
        task_score=task_score,
        relative_score=relative_score,
    )


def deviation_of_three(first: Vector, second: Vector, third: Vector) -> Vector:
    """Returns the standard deviation of three values, exactly 0 where they are equal."""
    total = np.zeros_like(first)
    for one, other in ((first, second), (second, third), (third, first)):
        distance = one - other
        distance *= distance
        total += distance
    np.sqrt(total, out=total)
    total /= 3
    return total


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
    disliked = np.zeros(len(nodes))
    for place, node in nodes.tainted:
        disliked[place] = n_disliked(shape.spec.tolerations, node.spec.taints)
    highest = disliked.max(initial=0.0)
    return (
        _SCORE_MAX - disliked * (_SCORE_MAX / highest)
        if highest > 0
        else np.full(len(nodes), _SCORE_MAX)
    )


def image_locality(shape: Shape, nodes: NodeTable) -> Vector | None:
    """Returns 0 to 100 for each node: more where more of the shape's images are, by size.

    None where no node has any. An image counts by the part of the nodes that have it, or all pods
    would go to the first node that has pulled it.
    """
    n_nodes = 0
    found: Vector | None = None
    for image in shape.images:
        holders = nodes.images.holders(image, nodes.layout, nodes.find)
        if holders is None:
            continue
        if found is None:
            found = np.zeros(len(nodes))
            n_nodes = int(nodes.present.sum())
        places, sizes = holders
        found[places] += np.floor(sizes * (len(places) / n_nodes))
    if found is None:
        return None
    n_containers = len(shape.spec.init_containers) + len(shape.spec.containers)
    most = _IMAGE_BYTES_MAX * max(n_containers, 1)
    found = np.clip(found, _IMAGE_BYTES_MIN, most) - _IMAGE_BYTES_MIN
    points: Vector = np.floor(_SCORE_MAX * found / (most - _IMAGE_BYTES_MIN))
    return points


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
