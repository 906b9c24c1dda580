"""The tree of domains: HyperNodes above the nodes of a cluster, with a virtual root above all.

A HyperNode that contradicts others breaks only itself. They are taken in the order of their age,
then of their names, and each that has a second claim to a child, closes a cycle, does not stand
below its parent's tier, or has a node that another domain of its tier has, is left out with the
reason. Everything here is a function of the HyperNodes and the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.resources import Mask, Matrix, Places, Vector

# Volcano's name for the domain that has every node.
ROOT_NAME: Final = "<cluster-top-hypernode>"
NO_DOMAIN: Final = -1
Indexes = NDArray[np.intp]


class Cells:
    """Classes of nodes that are in exactly the same domains.

    They are numbered so that those of a domain follow one another, as far as domains are nested.
    """

    def __init__(self, of_node: Indexes) -> None:
        self.of_node = of_node
        order = np.argsort(of_node, kind="stable")
        n = int(of_node.max()) + 1 if len(of_node) else 0
        bounds = np.searchsorted(of_node[order], np.arange(n + 1))
        self.members = [order[bounds[k] : bounds[k + 1]] for k in range(n)]
        # One node of each: what holds of it by its domains holds of all.
        self.firsts: Indexes = np.array([one[0] for one in self.members], dtype=np.intp)
        self._are_in_order = bool((np.diff(self.firsts) > 0).all())
        # Amounts of nodes are laid out as a matrix whose columns have nodes of one cell each, so
        # that one maximum over its few rows is that of all columns. Cells of more nodes than others
        # have several columns; places that are left over belong to no node.
        sizes = np.diff(bounds)
        self.n_rows = max(-(-len(order) // n), 1) if n else 1
        n_columns = -(-sizes // self.n_rows)
        self._starts = np.cumsum(n_columns) - n_columns
        self.n_columns = int(n_columns.sum())
        self._has_one_column_each = self.n_columns == n
        within = np.arange(len(order)) - bounds[of_node[order]]
        column = self._starts[of_node[order]] + within // self.n_rows
        self.slots: Indexes = np.empty(len(order), dtype=np.intp)
        self.slots[order] = within % self.n_rows * self.n_columns + column
        self._nodes_in: dict[int, tuple[list[int], Indexes]] = {}

    def members_of(self, place: int) -> Places:
        """Returns the nodes of the cell that a node is in."""
        found: Places = self.members[self.of_node[place]]
        return found

    def nodes_in(self, cell: int) -> tuple[list[int], Indexes]:
        """Returns the nodes of a cell, and where their amounts are in a row laid out by cells."""
        found = self._nodes_in.get(cell)
        if found is None:
            members = self.members[cell]
            found = self._nodes_in[cell] = (members.tolist(), self.slots[members])
        return found

    def in_order(self, cells: Indexes) -> Indexes:
        """Returns some cells in the order of their first nodes; they come in that of numbers."""
        return cells if self._are_in_order else cells[self.firsts[cells].argsort()]

    def first_best(self, row: Vector, cell: int) -> int:
        """Returns the first of the best nodes of a cell."""
        nodes, slots = self.nodes_in(cell)
        return nodes[int(row.take(slots).argmax())]

    def maxima(self, row: Vector) -> Vector:
        """Returns the highest amount in each cell, of a row that is laid out by cells."""
        found: Vector = np.maximum.reduce(row.reshape(self.n_rows, self.n_columns))
        return found if self._has_one_column_each else np.maximum.reduceat(found, self._starts)


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One domain as it is described: its own nodes by place, in order, and its children by name."""

    name: str
    created: str
    tier: int
    tier_name: str
    children: tuple[str, ...]
    places: Sequence[int]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a HyperNode is not in the tree, and the nodes that it would have."""

    reason: str
    message: str
    tier: int
    places: Places


class DomainTree:
    """The domains, sorted by name with the root last, and which nodes each of them has.

    Scores, cells and leaves leave hosts out: there would be as many domains as nodes.
    """

    def __init__(
        self,
        *,
        names: Sequence[str],
        tiers: Sequence[int],
        tier_names: dict[str, int],
        parents: Sequence[int],
        members: Sequence[Places],
        n_nodes: int,
        left_out: dict[str, LeftOut],
        host_tier: int | None = None,
    ) -> None:
        self.names = tuple(names)
        # The tier whose domains are single nodes: only constraints that name it look at these.
        self.host_tier = host_tier
        self.tiers = np.array(tiers, dtype=np.intp)
        self.tier_names = tier_names
        self.parents = tuple(parents)
        self.members = tuple(members)
        self.left_out = left_out
        self.root = len(names) - 1
        self.places_of_name = {name: index for index, name in enumerate(self.names)}
        self.lineages = tuple(tuple(self._upwards(index)) for index in range(len(names)))
        children: list[list[int]] = [[] for _ in names]
        for index, parent in enumerate(self.parents):
            if parent != NO_DOMAIN:
                children[parent].append(index)
        self._children = tuple(map(tuple, children))
        self._begins, self._ends = self._intervals()
        self.root_tier = int(self.tiers[self.root])
        self.lowest_tier = min(tier for tier in tiers if tier != host_tier)
        # All memberships as pairs (domain, place), sorted by domain.
        sizes = np.array([len(places) for places in members], dtype=np.intp)
        self.owners: Indexes = np.repeat(np.arange(len(names)), sizes)
        self.places: Places = np.concatenate(members) if len(members) else np.empty(0, np.intp)
        self._filled = np.flatnonzero(sizes)
        self._starts = (np.cumsum(sizes) - sizes)[self._filled]
        self.leaf = self._leaves(n_nodes)
        # By tier: the domain of each node. No node is in two domains of one tier.
        self._layers: dict[int, Indexes] = {}
        for tier in set(tiers):
            layer = self._layers[tier] = np.full(n_nodes, len(names), dtype=np.intp)
            of_tier = self.tiers[self.owners] == tier
            layer[self.places[of_tier]] = self.owners[of_tier]
        self._stacked = np.stack(list(self._layers.values()))
        cell = np.zeros(n_nodes, dtype=np.intp)
        for tier in reversed(self._tiers_upwards()):
            # A number for each pair of the cell so far and the domain of this tier, by the cell.
            pairs = cell * (len(names) + 1) + self._layers[tier]
            cell = np.unique(pairs, return_inverse=True)[1].reshape(-1)
        self.cells = Cells(cell)
        self._cells_of: dict[tuple[int, ...], slice | Indexes] = {}

    def sums(self, amounts: Matrix) -> Matrix:
        """Returns the sum over each domain's nodes of amounts (rows x nodes): rows x domains."""
        found = np.zeros((amounts.shape[0], len(self.names)))
        if len(self._starts):
            picked = amounts[:, self.places]
            found[:, self._filled] = np.add.reduceat(picked, self._starts, axis=1)
        return found

    def add(self, totals: Matrix, places: Places, amounts: Matrix) -> None:
        """Adds amounts of some nodes (rows x places) to the sums over their domains."""
        at = self._stacked[:, places].reshape(-1)
        n, n_layers = len(self.names), len(self._stacked)
        for row in range(len(totals)):
            in_layers = np.concatenate((amounts[row],) * n_layers)
            totals[row] += np.bincount(at, in_layers, n + 1)[:n]

    def cells_of(self, *domains: int) -> slice | Indexes:
        """Returns the cells of some domains' nodes, as a slice if they follow one another."""
        found = self._cells_of.get(domains)
        if found is None:
            nodes = np.concatenate([self.members[domain] for domain in domains])
            cells = np.unique(self.cells.of_node[nodes])
            first, end = int(cells[0]), int(cells[-1]) + 1
            found = slice(first, end) if end - first == len(cells) else cells
            self._cells_of[domains] = found
        return found

    def at_tier(self, tier: int) -> Indexes | None:
        """Returns each node's domain of a tier; one beyond the last where it is in none.

        None if there is no domain of the tier.
        """
        return self._layers.get(tier)

    def contains(self, wide: int, narrow: int) -> bool:
        """Whether the second domain is the first or below it."""
        return wide in self.lineages[narrow]

    def common_tiers(self, index: int) -> Indexes:
        """Returns for every domain the tier of the lowest one above it and the given one."""
        found = np.full(len(self.names), self.root_tier, dtype=np.intp)
        for above in reversed(self.lineages[index]):
            found[self.is_below(above)] = self.tiers[above]
        return found

    def is_below(self, index: int) -> Mask:
        """Returns which domains are the given one or below it."""
        begin, end = self._begins[index], self._ends[index]
        found: Mask = (self._begins >= begin) & (self._begins < end)
        return found

    def children(self, index: int) -> tuple[int, ...]:
        """Returns the domains right below one, by name."""
        return self._children[index]

    def holding(self, places: Iterable[int], *, hosts: bool = False) -> int:
        """Returns the lowest domain that has all these nodes: the root if nothing smaller has.

        A single node counts as a domain with `hosts` only.
        """
        wanted = list(places)
        for tier in self._tiers_upwards(hosts=hosts):
            at = self._layers[tier][wanted]
            if len(at) and at[0] < len(self.names) and (at == at[0]).all():
                return int(at[0])
        return self.root  # also of a node that is only named by a pod

    def _tiers_upwards(self, *, hosts: bool = False) -> list[int]:
        return sorted(tier for tier in self._layers if hosts or tier != self.host_tier)

    def _intervals(self) -> tuple[Indexes, Indexes]:
        """Numbers the domains so that those below one are an interval of numbers."""
        begins = np.zeros(len(self.names), dtype=np.intp)
        ends = np.zeros(len(self.names), dtype=np.intp)
        n, stack = 0, [(self.root, False)]
        while stack:
            index, is_done = stack.pop()
            if is_done:
                ends[index] = n
                continue
            begins[index], n = n, n + 1
            stack.append((index, True))
            stack.extend((child, False) for child in self._children[index])
        return begins, ends

    def _upwards(self, index: int) -> Iterator[int]:
        while index != NO_DOMAIN:
            yield index
            index = self.parents[index]

    def _leaves(self, n_nodes: int) -> Indexes:
        """Returns the narrowest domain of each node; the root of those that are in no other."""
        leaf = np.full(n_nodes, self.root, dtype=np.intp)
        # From the widest tier to the narrowest, and names backwards, so that the last write wins.
        order = np.lexsort((-self.owners, -self.tiers[self.owners]))
        if self.host_tier is not None:
            order = order[self.tiers[self.owners[order]] != self.host_tier]
        leaf[self.places[order]] = self.owners[order]
        return leaf


def build_tree(entries: Sequence[TreeEntry], nodes: NodeTable) -> DomainTree:
    """Returns the tree of all entries that contradict no older one."""
    acceptance = _Acceptance(len(nodes))
    for entry in sorted(entries, key=lambda one: (one.created, one.name)):
        acceptance.take(entry)
    described = {entry.name: entry for entry in entries}
    kept = sorted(acceptance.kept)
    index_of = {name: index for index, name in enumerate(kept)}
    root = len(kept)
    tiers = [acceptance.kept[name].tier for name in kept]
    everywhere = np.flatnonzero(nodes.present)
    return DomainTree(
        names=[*kept, ROOT_NAME],
        tiers=[*tiers, max(tiers, default=0) + 1],
        # Of one name on several tiers the last HyperNode by name counts, whether valid or not.
        tier_names={
            one.tier_name: one.tier for one in sorted(entries, key=_name_of) if one.tier_name
        },
        parents=[*(index_of.get(acceptance.parent_of(n), root) for n in kept), NO_DOMAIN],
        members=[*(acceptance.nodes_below(name) for name in kept), everywhere],
        n_nodes=len(nodes),
        left_out={
            name: LeftOut(*why, described[name].tier, _places_below(name, described))
            for name, why in acceptance.left_out.items()
        },
    )


def _places_below(name: str, described: Mapping[str, TreeEntry]) -> Places:
    """Returns the nodes that an entry and all below it describe, valid or not."""
    found: list[int] = []
    names = [name]
    for one in names:
        if one in described:
            found.extend(described[one].places)
            names.extend(child for child in described[one].children if child not in names)
    return np.unique(np.array(found, dtype=np.intp))


def _name_of(entry: TreeEntry) -> str:
    return entry.name


@dataclass(slots=True)
class _Acceptance:
    """The entries taken so far, and what they have claimed."""

    n_nodes: int
    kept: dict[str, TreeEntry] = field(default_factory=dict)
    left_out: dict[str, tuple[str, str]] = field(default_factory=dict)  # reason, message
    # By entry: its nodes, in as many parts as have been taken in below it.
    _parts: dict[str, list[Places]] = field(default_factory=dict)
    # The parent that claims a name, whether a HyperNode of that name exists or not.
    _claimed: dict[str, str] = field(default_factory=dict)
    # By tier: which entry has each node, by its number among those taken; -1 for none.
    _holders: dict[int, Indexes] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def parent_of(self, name: str) -> str:
        return self._claimed.get(name, "")

    def nodes_below(self, name: str) -> Places:
        """Returns the nodes of an entry and of all below it."""
        parts = self._parts[name]
        if len(parts) > 1:
            parts[:] = [np.unique(np.concatenate(parts))]
        return parts[0]

    def take(self, entry: TreeEntry) -> None:
        """Takes an entry in, or leaves it out with the reason."""
        places: Places = np.array(entry.places, dtype=np.intp)
        below = [self.nodes_below(child) for child in entry.children if child in self._parts]
        if below:
            places = np.unique(np.concatenate([places, *below]))
        lineage = self._lineage(entry.name)
        wrong = (
            self._claim_problem(entry)
            or self._cycle_problem(entry, lineage)
            or self._tier_problem(entry)
            or self._node_problem(entry, lineage, places)
        )
        if wrong is not None:
            self.left_out[entry.name] = wrong
            return
        self.kept[entry.name] = entry
        self._claimed.update((child, entry.name) for child in entry.children)
        self._numbers[entry.name] = len(self._numbers)
        self._parts[entry.name] = [places]
        self._hold(entry.name, entry.tier, places)
        for above in lineage:
            self._parts[above].append(places)
            self._hold(above, self.kept[above].tier, places)

    def _lineage(self, name: str) -> list[str]:
        """Returns the entries above a name, as far as they have been taken."""
        found: list[str] = []
        while (name := self._claimed.get(name, "")) and name not in found:
            found.append(name)
        return found

    def _claim_problem(self, entry: TreeEntry) -> tuple[str, str] | None:
        for child in entry.children:
            other = self._claimed.get(child)
            if other is not None:
                return "SecondParent", f"its member {child} belongs to {other} already"
        return None

    def _cycle_problem(self, entry: TreeEntry, lineage: Sequence[str]) -> tuple[str, str] | None:
        above = {entry.name, *lineage}
        closing = next((child for child in entry.children if child in above), None)
        if closing is None:
            return None
        return "Cycle", f"its member {closing} is itself, or above it"

    def _tier_problem(self, entry: TreeEntry) -> tuple[str, str] | None:
        parent = self.kept.get(self.parent_of(entry.name))
        if parent is not None and entry.tier >= parent.tier:
            text = f"its tier {entry.tier} is not below {parent.tier}, that of {parent.name} above"
            return "TierOrder", text
        for name in entry.children:
            child = self.kept.get(name)
            if child is not None and child.tier >= entry.tier:
                text = f"its tier {entry.tier} is not above {child.tier}, that of its member {name}"
                return "TierOrder", text
        return None

    def _node_problem(
        self, entry: TreeEntry, lineage: Sequence[str], places: Places
    ) -> tuple[str, str] | None:
        """Returns a node that this entry, or one above it, would share with one of its tier."""
        chain = [(entry.name, entry.tier), *((name, self.kept[name].tier) for name in lineage)]
        for name, tier in chain:
            holders = self._holders.get(tier)
            if holders is None:
                continue
            at = holders[places]
            others = at[(at >= 0) & (at != self._numbers.get(name, -1))]
            if len(others):
                other, n = list(self._numbers)[others[0]], len(others)
                return "NodeShared", f"{n} of its nodes belong to {other}, also of tier {tier}"
        return None

    def _hold(self, name: str, tier: int, places: Places) -> None:
        holders = self._holders.get(tier)
        if holders is None:
            holders = self._holders[tier] = np.full(self.n_nodes, -1, dtype=np.intp)
        holders[places] = self._numbers[name]
