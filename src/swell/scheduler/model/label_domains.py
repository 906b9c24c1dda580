"""Domains by the value of one node label, for groups that name a label key of their own.

The value alone is the identity of a domain. A tree is built when a group first asks for its key,
and anew when the nodes, their names or their labels have changed.
"""

from __future__ import annotations

from swell.scheduler.model.domain_tree import DomainTree, TreeEntry, build_tree
from swell.scheduler.model.native_groups import LABEL_TIER
from swell.scheduler.model.nodes import NodeTable


class LabelDomains:
    """The trees of all keys that are asked for, and the jobs that have a key."""

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self._trees: dict[str, DomainTree] = {}
        self._layout = -1  # of the node table, for which the trees are right

    def tree(self, key: str, nodes: NodeTable) -> DomainTree:
        if self._layout != nodes.layout:
            self._trees.clear()
            self._layout = nodes.layout
        found = self._trees.get(key)
        if found is None:
            found = self._trees[key] = _build(key, nodes)
        return found


def _build(key: str, nodes: NodeTable) -> DomainTree:
    places: dict[str, list[int]] = {}
    for place, node in enumerate(nodes.objects):
        value = None if node is None else node.metadata.labels.get(key)
        if value is not None:
            places.setdefault(value, []).append(place)
    entries = [
        TreeEntry(
            name=f"{key}={value}", created="", tier=LABEL_TIER, tier_name="", children=(),
            places=found,
        )
        for value, found in places.items()
    ]  # fmt: skip
    return build_tree(entries, nodes)
