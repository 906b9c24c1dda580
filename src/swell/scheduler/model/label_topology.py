"""The tree of domains by node labels, where no HyperNode describes the network.

An administrator lists label keys from the widest to the narrowest. A domain is the path of values
of the keys so far: rack 1 of block 1 is not rack 1 of block 2. A node belongs to the first list,
by name, all of whose keys it has; without one it is in the root only. The narrowest level is
tier 1. `kubernetes.io/hostname`, which can only come last, is tier 0: each node is a domain, for
constraints that name this level and for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from swell.scheduler.model.domain_tree import NO_DOMAIN, ROOT_NAME, DomainTree
from swell.scheduler.model.nodes import NodeTable

HOSTNAME: Final = "kubernetes.io/hostname"
HOST_TIER: Final = 0
# A list and the values of its keys so far.
_Path = tuple[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class LabelList:
    """Label keys from the widest to the narrowest, for the nodes that have all of them."""

    name: str
    keys: tuple[str, ...]

    @property
    def has_hosts(self) -> bool:
        return self.keys[-1] == HOSTNAME

    def tier(self, place: int) -> int:
        """Returns the tier of the level at a place in the list."""
        return len(self.keys) - place - self.has_hosts

    def problems(self) -> Iterator[str]:
        """Yields why the list cannot be used."""
        for place, key in enumerate(self.keys):
            if not key:
                yield f"entry {place + 1} is empty"
            elif key in self.keys[:place]:
                yield f"{key!r} is listed twice"
            elif key == HOSTNAME and place + 1 < len(self.keys):
                yield f"{HOSTNAME!r} can only be the last entry: nothing is below a node"


def tiers_of(lists: Sequence[LabelList]) -> dict[str, int]:
    """Returns the tier of each key. Of one key on several tiers the lowest counts.

    So a gang that names the key never spans more than the key's domain in any list.
    """
    tiers: dict[str, int] = {}
    for one in lists:
        for place, key in enumerate(one.keys):
            tiers[key] = min(one.tier(place), tiers.get(key, one.tier(place)))
    return tiers


class LabelTopology:
    """The tree for the lists in force. It is kept until they, or the nodes' labels, change."""

    def __init__(self) -> None:
        self._tree: DomainTree | None = None
        self._lists: tuple[LabelList, ...] = ()
        self._layout = -1  # of the node table, for which the tree is right

    def tree(self, lists: tuple[LabelList, ...], nodes: NodeTable) -> DomainTree:
        if self._tree is None or self._lists != lists or self._layout != nodes.layout:
            self._tree = build_label_tree(lists, nodes)
            self._lists, self._layout = lists, nodes.layout
        return self._tree


def build_label_tree(lists: Sequence[LabelList], nodes: NodeTable) -> DomainTree:
    """Returns the tree of the nodes' labels. Its root stands above all levels, used or not."""
    members: dict[_Path, list[int]] = {}
    everywhere: list[int] = []
    for place, node in enumerate(nodes.objects):
        if node is None:
            continue
        everywhere.append(place)
        for path in _paths_of(node.metadata.labels, lists):
            members.setdefault(path, []).append(place)
    names = _names(members, lists)
    paths = sorted(members, key=names.__getitem__)
    index_of = {path: index for index, path in enumerate(paths)}
    top = max(one.tier(0) for one in lists)
    return DomainTree(
        names=[*(names[path] for path in paths), ROOT_NAME],
        tiers=[*(lists[at].tier(len(values) - 1) for at, values in paths), top + 1],
        tier_names=tiers_of(lists),
        parents=[
            *(index_of.get((at, values[:-1]), len(paths)) for at, values in paths),
            NO_DOMAIN,
        ],
        members=[np.array(places, dtype=np.intp) for places in map(members.__getitem__, paths)]
        + [np.array(everywhere, dtype=np.intp)],
        n_nodes=len(nodes),
        left_out={},
        host_tier=HOST_TIER if any(one.has_hosts for one in lists) else None,
    )


def _paths_of(labels: dict[str, str], lists: Sequence[LabelList]) -> Iterator[_Path]:
    """Yields the domains of a node with these labels, the widest first."""
    for at, one in enumerate(lists):
        values = tuple(labels.get(key, "") for key in one.keys)
        if all(values):
            for n in range(len(values)):
                yield at, values[: n + 1]
            return


def _names(members: dict[_Path, list[int]], lists: Sequence[LabelList]) -> dict[_Path, str]:
    """Returns the shown name of each domain; one of a later list says so if the name is taken."""
    names: dict[_Path, str] = {}
    taken: set[str] = set()
    for at, values in sorted(members):
        name = "/".join(values)
        name = f"{lists[at].name}:{name}" if name in taken else name
        names[at, values] = name
        taken.add(name)
    return names
