"""Turns what pods ask of the labels and taints of nodes into masks over all nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swell.api.core import Taint
from swell.api.matching import node_selector_matches, tolerates_all
from swell.api.pod import TopologySpreadConstraint
from swell.scheduler.model.affinity import CountedNodes
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.resources import Mask
from swell.scheduler.model.tasks import Shape


def affinity_masks(nodes: NodeTable, shape: Shape) -> Iterator[tuple[WaitReason, Mask]]:
    """Yields the nodes that match the node selector, and those of the required node affinity.

    Both must match, as in Kubernetes. What the shape does not have is not yielded.
    """
    spec = shape.spec
    if spec.node_selector:
        selector = spec.node_selector.items()
        yield (
            WaitReason.NODE_SELECTOR,
            nodes.where(lambda node: selector <= node.metadata.labels.items()),
        )
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if required:
        yield (
            WaitReason.NODE_AFFINITY,
            nodes.where(lambda node: node_selector_matches(required, node)),
        )


def tolerated(nodes: NodeTable, shape: Shape) -> Mask:
    """Returns the nodes without a taint that keeps the shape away."""
    tolerations = shape.spec.tolerations
    # Many nodes have the same taints: each set is checked once.
    known: dict[tuple[Taint, ...], bool] = {}
    mask = nodes.present.copy()
    for place, node in nodes.tainted:
        taints = node.spec.taints
        if taints not in known:
            known[taints] = tolerates_all(tolerations, taints)
        mask[place] = known[taints]
    return mask


class SpreadDomains:
    """The nodes whose pods a constraint of topology spread counts, remembered by shape."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._version = -1
        self._known: dict[tuple[Shape, bool, bool], Mask] = {}

    def counted_for(self, shape: Shape) -> CountedNodes:
        """Returns a function for the nodes that a constraint of the shape counts."""

        def counted(constraint: TopologySpreadConstraint) -> Mask:
            if self._version != self._nodes.version:
                self._version = self._nodes.version
                self._known.clear()
            by_affinity = constraint.node_affinity_policy != "Ignore"
            by_taints = constraint.node_taints_policy == "Honor"
            key = (shape, by_affinity, by_taints)
            if key not in self._known:
                self._known[key] = self._mask(shape, by_affinity=by_affinity, by_taints=by_taints)
            return self._known[key]

        return counted

    def _mask(self, shape: Shape, *, by_affinity: bool, by_taints: bool) -> Mask:
        mask = np.ones(len(self._nodes), dtype=np.bool_)
        for _, passing in affinity_masks(self._nodes, shape) if by_affinity else ():
            mask &= passing
        return mask & tolerated(self._nodes, shape) if by_taints else mask
