"""How full the domains of a network are, and what that is worth to pods that are packed by domain.

`DomainSums` follows what is used of every domain. `FadingTiers` turns it into scores of cells, and
`PackingAhead` foresees these scores while the pods of a gang are given nodes one after the other.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from operator import mul
from typing import Final

import numpy as np

from swell.scheduler.gathering import SCORE_STEPS
from swell.scheduler.model.domain_tree import DomainTree, Indexes
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.resources import Matrix, Vector
from swell.scheduler.model.tasks import Shape

# Shares are compared for equality; sums of the same amounts in another order must be equal, too.
DIGITS: Final = 9
_FULL: Final = 1.0 + 0.5 * 10.0**-DIGITS
# The divisor where a domain has nothing of a resource; amounts are whole numbers, or 0.
_NOTHING: Final = 1e-9
# The parts of a score step that are counted: a power of two, so that sums of them are exact.
_PARTS: Final = 2.0**16
# Of so many changed nodes all domains are counted anew, which then costs less.
_FEW_NODES: Final = 64


class DomainSums:
    """Sums up what is used of some resources in every domain, when it is asked for."""

    def __init__(self, nodes: NodeTable, tree: DomainTree, resources: Indexes) -> None:
        self._nodes = nodes
        self._resources = resources
        self.tree = tree
        ready = nodes.ready
        allocatable = nodes.allocatable[resources] * ready
        in_domains = tree.sums(allocatable)
        # Nothing of nothing is no share, and anything of nothing is far too much.
        self.divisor: Matrix = np.where(in_domains > 0, in_domains, _NOTHING)
        self._position = len(nodes.changes)
        self._are_ready = bool(ready.all())
        self._used_at = nodes.states.used(nodes.state_of(), resources)
        self._used_at[:, ~ready] = 0.0
        self._used = tree.sums(self._used_at)
        # A session places tasks only where there is room, so it stays as it is.
        self.is_overcommitted = bool((self._used_at > allocatable).any())

    def request_of(self, shape: Shape) -> Vector:
        """Returns what a task of the shape asks for of these resources."""
        return shape.request.take(self._resources)

    def used(self) -> Matrix:
        """Returns what is used of each domain. Not to be written to."""
        nodes = self._nodes
        position = len(nodes.changes)
        if position != self._position:
            # Each once, in whatever order: amounts are whole numbers, so their sums are exact.
            changed = np.unique(nodes.changed_since(self._position))
            self._position = position
            # By their states: to read the matrices would bring them up to date for every gang.
            now = nodes.states.used(nodes.state_of(changed), self._resources)
            if not self._are_ready:
                now[:, ~nodes.ready[changed]] = 0.0
            difference = now - self._used_at.take(changed, axis=1)
            self._used_at[:, changed] = now
            self.tree.add(self._used, changed, difference)
        return self._used

    def packing(self, request: Vector, weights: Vector) -> Vector:
        """Returns how full each domain would be with a request, 0 where it would be too full."""
        shares = self.used() + request[:, None]
        shares /= self.divisor
        total: Vector = weights.dot(shares)
        for of_resource in shares:
            total *= of_resource <= _FULL
        return total


class FadingTiers:
    """Combines the packing of a node's domains to the score of its cell, higher tiers faded."""

    def __init__(self, tree: DomainTree, fading: float, highest: float) -> None:
        self._tree = tree
        tiers = range(tree.lowest_tier, tree.root_tier + 1)
        weights = {tier: _fade(fading, tier, tree.lowest_tier) for tier in tiers}
        total = sum(weights.values())
        # The domain of each cell, by tier that counts. The root makes no difference between nodes.
        layers = {
            tier: layer[tree.cells.firsts]
            for tier in tiers
            if tier != tree.root_tier
            and weights[tier]
            and (layer := tree.at_tier(tier)) is not None
        }
        # By domain, and after these by tier, for nodes in no domain of it: the score of a full one.
        n = len(tree.names)
        self.scale: Vector = np.zeros(n + len(layers))
        self._domains: list[Indexes] = []
        for place, (tier, layer) in enumerate(layers.items()):
            of_tier = highest * SCORE_STEPS * weights[tier] / total
            self.scale[:n][tree.tiers == tier] = self.scale[n + place] = of_tier
            self._domains.append(np.where(layer == n, n + place, layer))
        self._domains_of: dict[int, list[tuple[int, slice | Indexes]]] = {}
        self._near: dict[int, slice | Indexes | None] = {}

    def of_cells(self, packing: Vector, of_none: float) -> Vector:
        """Returns the score of every cell in score steps, from the packing of every domain.

        `of_none` is that of a node in no domain of a tier.
        """
        padded = np.append(packing, np.full(len(self._domains), of_none))
        return self.sums(np.rint(padded * self.scale * _PARTS) / _PARTS)

    def sums(self, points: Vector) -> Vector:
        """Returns the sum of the points of each cell's domains, those of none after all others."""
        total = np.zeros(len(self._tree.cells.firsts))
        for domains in self._domains:
            total += points.take(domains)
        return total

    def domains_of(self, cell: int) -> list[tuple[int, slice | Indexes]]:
        """Returns the domains that a cell is in, each with all its cells."""
        found = self._domains_of.get(cell)
        if found is None:
            domains = [layer.item(cell) for layer in self._domains]
            found = [(one, self._tree.cells_of(one)) for one in domains if one < self._tree.root]
            self._domains_of[cell] = found
        return found

    def near(self, cell: int) -> slice | Indexes | None:
        """Returns the cells of all domains that a cell is in; None if it is in none."""
        if cell not in self._near:
            domains = [domain for domain, _ in self.domains_of(cell)]
            self._near[cell] = self._tree.cells_of(*domains) if domains else None
        return self._near[cell]


_Around = tuple[int, list[float], list[float], int | None, Vector | None]


class PackingAhead:
    """The scores of cells as they are, and as they will be when more tasks are placed.

    Adding a task adds to the packing of its domains what does not depend on what is there, so the
    scores of cells for a shape are the sum of two: of all that is used, kept up to date by the few
    domains that change; and of one more task of the shape. A domain that is too full for a task has
    no node for it, and so needs no score: this is for clusters without overcommitted nodes.
    """

    def __init__(
        self, nodes: NodeTable, sums: DomainSums, tiers: FadingTiers, weights: Vector
    ) -> None:
        self._nodes = nodes
        self._sums = sums
        self._tree = sums.tree
        self._tiers = tiers
        self._per_amount = weights[:, None] / sums.divisor
        factors = self._per_amount * tiers.scale[: self._per_amount.shape[1]] * _PARTS
        self._factors: list[list[float]] = factors.T.tolist()
        # By domain what is used and the points of that; by cell the sum of the points. They are as
        # of this position in the log of changes, with the tasks that were foreseen since.
        self._used: list[list[float]] = []
        self._points: list[float] = []
        self._of_cells: Vector = np.empty(0)
        self._position = 0
        self._foreseen = array("q")
        # By cell: its domains, what is used of them, factors, and the scores of all their cells if
        # these follow one another. Of a domain with one cell that: one number costs less.
        self._around_of: dict[int, list[_Around]] = {}
        # The shape of those tasks, with its request and its part of the scores; and of all shapes.
        self._shape: Shape | None = None
        self._request: list[float] = []
        self._of_shape: Vector = np.empty(0)
        self._of_shapes: dict[Shape, tuple[list[float], Vector]] = {}
        self._count_all()

    def begin(self, shape: Shape) -> Vector:
        """Returns the score of every cell for a task of a shape, rounded.

        Such tasks are those that `place` is about, until the next shape.
        """
        self._follow()
        found = self._of_shapes.get(shape)
        if found is None:
            request = self._sums.request_of(shape)
            packing = request.dot(self._per_amount)
            found = self._of_shapes[shape] = request.tolist(), self._tiers.of_cells(packing, 1.0)
        self._shape = shape
        self._request, self._of_shape = found
        total = self._of_cells + self._of_shape
        return np.rint(total, out=total)

    def place(self, cell: int, n: int) -> None:
        """Places n tasks on nodes of a cell, in thought."""
        request, all_points = self._request, self._points
        for domain, used, factors, only, part in self._around_of.get(cell) or self._around(cell):
            total = 0.0
            for place, asked in enumerate(request):
                amount = used[place] = used[place] + n * asked
                total += amount * factors[place]
            points = round(total) / _PARTS
            more = points - all_points[domain]
            if only is not None:
                self._of_cells[only] += more
            elif part is not None:
                np.add(part, more, part)
            else:
                self._of_cells[self._tree.cells_of(domain)] += more
            all_points[domain] = points

    def end(self, nodes: Sequence[int]) -> None:
        """Remembers the nodes of all tasks that were placed in thought, one each."""
        self._foreseen = array("q", nodes)

    def near(self, cell: int) -> tuple[slice | Indexes, Vector] | None:
        """Returns the cells of all domains that a cell is in, with their scores, rounded."""
        near = self._tiers.near(cell)
        if near is None:
            return None
        scores = self._of_cells[near] + self._of_shape[near]
        return near, np.rint(scores, out=scores)

    def _around(self, cell: int) -> list[_Around]:
        found = self._around_of.get(cell)
        if found is None:
            found = self._around_of[cell] = [
                (
                    domain,
                    self._used[domain],
                    self._factors[domain],
                    _only(cells),
                    self._of_cells[cells] if isinstance(cells, slice) else None,
                )
                for domain, cells in self._tiers.domains_of(cell)
            ]
        return found

    def _follow(self) -> None:
        """Brings all up to date. Mostly what was foreseen is what has come, and nothing is left."""
        nodes, foreseen = self._nodes, self._foreseen
        begin, end = self._position, len(nodes.changes)
        if begin == end and not foreseen:
            return
        added = nodes.added
        came_true = (
            added is not None
            and (added.begin, added.end, added.now) == (begin, end, True)
            and added.shape is self._shape
            and nodes.changes[begin:] == foreseen
        )
        if came_true:
            pass
        elif begin == end or _came_and_left(nodes, begin):
            # The gang did not fit. Amounts are whole numbers, so taking it back leaves no trace.
            n_in = Counter(map(self._tree.cells.of_node.item, foreseen))
            for cell, n in n_in.items():
                self.place(cell, -n)
        else:
            changed = {*nodes.changes[begin:], *foreseen}
            if len(changed) > _FEW_NODES:
                self._count_all()
            else:
                self._count({self._tree.cells.of_node.item(place) for place in changed})
        self._position, self._foreseen = end, array("q")

    def _count_all(self) -> None:
        self._used = self._sums.used().T.tolist()
        self._points = list(map(_points, self._used, self._factors))
        n_none = len(self._tiers.scale) - len(self._points)
        self._of_cells = self._tiers.sums(np.array([*self._points, *[0.0] * n_none]))
        self._around_of.clear()
        self._position = len(self._nodes.changes)

    def _count(self, cells: set[int]) -> None:
        """Counts the domains of some cells anew."""
        used = self._sums.used()
        domains = dict(found for cell in cells for found in self._tiers.domains_of(cell))
        for domain, its_cells in domains.items():
            self._used[domain][:] = used[:, domain].tolist()
            points = _points(self._used[domain], self._factors[domain])
            self._of_cells[its_cells] += points - self._points[domain]
            self._points[domain] = points


def _came_and_left(nodes: NodeTable, position: int) -> bool:
    """Whether all that has changed since a position are tasks that came and left again."""
    came, left, changes = nodes.added, nodes.left, nodes.changes
    return (
        came is not None
        and left is not None
        and (came.begin, came.end, left.end) == (position, left.begin, len(changes))
        and (came.shape, came.now) == (left.shape, left.now)
        and changes[came.begin : came.end] == changes[left.begin : left.end]
    )


def _only(cells: slice | Indexes) -> int | None:
    """Returns the only cell of a domain; None if it has several."""
    is_one = isinstance(cells, slice) and cells.stop - cells.start == 1
    return int(cells.start) if is_one else None  # type: ignore[union-attr]


def _points(used: list[float], factors: list[float]) -> float:
    total: float = sum(map(mul, used, factors))
    return round(total) / _PARTS


def _fade(fading: float, tier: int, lowest: int) -> float:
    if fading == 0:
        return float(tier == lowest)  # the lowest tier only, whatever its number
    return math.pow(fading, tier - 1)
