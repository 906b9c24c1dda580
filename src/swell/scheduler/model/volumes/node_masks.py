"""Which nodes match labels: masks over all nodes, remembered while the nodes stay the same.

A volume is matched against the labels of a node only, as in kube-scheduler: what a term says about
fields is legal, and has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from swell.api import codec
from swell.api.matching import labels_match, selector_matches
from swell.api.pod import LabelSelector, NodeSelector
from swell.api.storage import PersistentVolume, TopologySelectorTerm
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.resources import Mask

# Zone and region of a volume, by its labels. Old names stand for the new ones on a node.
_GA_OF = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONE_LABELS = (*_GA_OF.values(), *_GA_OF)
_Matches = Callable[[Mapping[str, str]], bool]
# Masks that are remembered; it only bounds memory.
_KEPT = 65536


class NodeMasks:
    """Answers which nodes match, in the order of their places."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._layout = -1
        self._known: dict[bytes, Mask] = {}
        self._by_label: dict[str, dict[str, list[int]]] = {}

    def none(self) -> Mask:
        return np.zeros(len(self._nodes), dtype=np.bool_)

    def every(self) -> Mask:
        return np.ones(len(self._nodes), dtype=np.bool_)

    def only(self, name: str) -> Mask:
        """Returns the mask of one node, of none if it is unknown."""
        mask, place = self.none(), self._nodes.find(name)
        if place >= 0 and self._nodes.objects[place] is not None:
            mask[place] = True
        return mask

    def reaching(self, volume: PersistentVolume) -> Mask:
        """Returns the nodes from which a volume can be reached."""
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity is not None else None
        return self.every() if required is None else self.selected(required)

    def selected(self, selector: NodeSelector) -> Mask:
        """Returns the nodes whose labels match one of the terms."""
        if (simple := _one_label(selector)) is not None:
            # Most volumes name a host or a zone: an index spares a look at every node.
            key, values = simple
            return self._having(key, values)
        return self._remember(
            b"n" + codec.encode(selector), lambda labels: labels_match(selector, labels)
        )

    def labelled(self, selector: LabelSelector | None) -> Mask:
        """Returns the nodes that a label selector selects: none without one."""
        if selector is None:
            return self.none()
        return self._remember(
            b"l" + codec.encode(selector), lambda labels: selector_matches(selector, labels)
        )

    def allowed(self, terms: Sequence[TopologySelectorTerm]) -> Mask:
        """Returns the nodes of the topologies that a class allows; all if it names none."""
        if not terms:
            return self.every()

        def matches(labels: Mapping[str, str]) -> bool:
            return any(
                term.match_label_expressions
                and all(labels.get(one.key) in one.values for one in term.match_label_expressions)
                for term in terms
            )

        return self._remember(b"t" + codec.encode(tuple(terms)), matches)

    def in_zones_of(self, volume: PersistentVolume) -> Mask | None:
        """Returns the nodes in the zone and region that the labels of a volume name, if they do."""
        wanted = {
            key: {part.strip() for part in value.split("__")}
            for key in ZONE_LABELS
            if (value := volume.metadata.labels.get(key)) is not None
        }
        if not wanted:
            return None

        def matches(labels: Mapping[str, str]) -> bool:
            # A node that says nothing of zones is in all of them.
            if not any(key in labels for key in ZONE_LABELS):
                return True
            return all(
                labels.get(key, labels.get(_GA_OF.get(key, key))) in values
                for key, values in wanted.items()
            )

        stable = tuple((key, sorted(values)) for key, values in wanted.items())
        return self._remember(b"z" + codec.encode(stable), matches)

    def _remember(self, key: bytes, matches: _Matches) -> Mask:
        self._follow_layout()
        mask = self._known.get(key)
        if mask is None:
            mask = self._nodes.where(lambda node: matches(node.metadata.labels))
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = mask
        return mask

    def _having(self, key: str, values: Sequence[str]) -> Mask:
        self._follow_layout()
        index = self._by_label.get(key)
        if index is None:
            index = self._by_label[key] = {}
            for place, node in enumerate(self._nodes.objects):
                value = node.metadata.labels.get(key) if node is not None else None
                if value is not None:
                    index.setdefault(value, []).append(place)
        mask = self.none()
        for value in values:
            mask[index.get(value, [])] = True
        return mask

    def _follow_layout(self) -> None:
        if self._layout != self._nodes.layout:
            self._layout = self._nodes.layout
            self._known.clear()
            self._by_label.clear()


def host_of(volume: PersistentVolume) -> str:
    """Returns the one host whose volume this is, or an empty name."""
    affinity = volume.spec.node_affinity
    simple = _one_label(affinity.required) if affinity and affinity.required else None
    if simple is None or simple[0] != "kubernetes.io/hostname" or len(simple[1]) != 1:
        return ""
    return simple[1][0]


def _one_label(selector: NodeSelector) -> tuple[str, tuple[str, ...]] | None:
    """Returns the label and its values if the selector asks for nothing else."""
    if len(selector.node_selector_terms) != 1:
        return None
    (term,) = selector.node_selector_terms
    if term.match_fields or len(term.match_expressions) != 1:
        return None
    (requirement,) = term.match_expressions
    return (requirement.key, requirement.values) if requirement.operator == "In" else None
