"""The choice of nodes for equal tasks that gather in parts of the network.

The score of a node is its own, which changes with the tasks on it, and that of its cell (the nodes
that are in exactly the same domains), which changes with the tasks in its domains. Each task takes
the best node after those before it. Only the cell that was chosen last is looked at node by node;
of all others the best score is known.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from math import inf
from typing import Final, NamedTuple

from swell.scheduler.hooks import CellScoresAhead
from swell.scheduler.model.domain_tree import Cells
from swell.scheduler.model.resources import Matrix, Vector
from swell.scheduler.model.tasks import Shape

# Scores are rounded to millionths, so that sums that are equal on paper are equal as floats, too,
# and ties are broken by the order of nodes instead of by rounding errors.
SCORE_STEPS = 1e6
# Of larger cells only as many nodes as there are tasks are looked at, the best ones. As many as
# `placement.CHUNK`, so that a cell that is not large never has more nodes than such a choice.
_CELL_MAX: Final = 32


class NodesAhead(NamedTuple):
    """The scores of nodes without their cells, -inf where a task does not fit.

    `rows` has them laid out by cells: a row for none placed there, for one, and so on. `of_node`
    returns those of one node after 0, 1, ... n - 1 tasks were placed there.
    """

    rows: Matrix
    of_node: Callable[[int], list[float]]


def gathered_nodes(
    shape: Shape, n: int, cells: Cells, nodes: NodesAhead, ahead: CellScoresAhead
) -> list[int]:
    """Returns the nodes that n tasks of a shape take in turn, as many as there is room for."""
    if not cells.members:
        return []  # HyperNodes may exist where no node does
    search = _CellSearch(shape, n, cells, nodes, ahead)
    while len(search.chosen) < n and search.place_in_best_cell():
        pass
    ahead.end(search.chosen)
    return search.chosen


class _CellNodes:
    """The nodes of one cell that tasks may take, with their scores as they are by now."""

    def __init__(self, nodes: list[int], after: list[list[float]]) -> None:
        self.nodes = nodes
        self.scores = after[0].copy()
        # After none, one and more tasks; and how many tasks each node has got.
        self.after = after
        self.taken = [0] * len(nodes)
        # By node that got more than those: the scores after none, one and so on.
        self.rows: dict[int, list[float]] = {}

    def first_best(self) -> int:
        return self.nodes[self.scores.index(max(self.scores))]


class _CellSearch:
    """The scores of nodes and cells as they are after the tasks placed so far."""

    def __init__(
        self, shape: Shape, n: int, cells: Cells, nodes: NodesAhead, ahead: CellScoresAhead
    ) -> None:
        self.chosen: list[int] = []
        self._n = n
        self._cells = cells
        self._rows, self._of_node = nodes
        self._ahead = ahead
        # By cell: its best node without the cell, and with it.
        self._best = cells.maxima(self._rows[0])
        self._total: Vector = ahead.begin(shape)
        self._total += self._best
        self._nodes_of: dict[int, _CellNodes] = {}

    def place_in_best_cell(self) -> bool:
        """Places tasks in the best cell, as long as no other cell has a better node.

        Returns False if no node takes any.
        """
        cell, highest, bound = self._best_cell()
        if highest == -inf:
            return False
        there = self._nodes_of.get(cell) or self._open(cell)
        scores, own = there.scores, highest - self._best.item(cell)
        nodes, taken, after, n_after = there.nodes, there.taken, there.after, len(there.after)
        chosen, n_before = self.chosen, len(self.chosen)
        rival = -1  # the first of the nodes elsewhere that are as good as the bound, once asked for
        best = max(scores)
        while best > -inf:
            at = scores.index(best)
            if own + best <= bound and len(chosen) > n_before:
                if own + best == bound and rival < 0:
                    rival = self._first_node(bound)
                if own + best < bound or nodes[at] > rival:
                    break
            chosen.append(nodes[at])
            n = taken[at] = taken[at] + 1
            scores[at] = after[n][at] if n < n_after else self._of_more(there, at, n)
            if len(chosen) == self._n:
                break
            best = max(scores)
        self._ahead.place(cell, len(chosen) - n_before)
        if len(chosen) < self._n:
            # The best node left is among these: all others of the cell are worse than each that was
            # looked at, and as many as there are tasks were.
            self._best[cell] = best
            self._update(cell, own + best)
        return True

    def _best_cell(self) -> tuple[int, float, float]:
        """Returns the cell with the best node, its score, and that of the best of all others.

        Of equal nodes the first decides. The cell is taken out of the scores.
        """
        total = self._total
        cell = int(total.argmax())
        highest = total.item(cell)
        total[cell] = -inf
        bound = total.item(total.argmax())
        if bound == highest > -inf:
            total[cell] = highest
            cell = int(self._cells.of_node[self._first_node(highest)])
            total[cell] = -inf
        return cell, highest, bound

    def _update(self, cell: int, score: float) -> None:
        """Counts the scores of cells anew that tasks in one cell have changed."""
        near = self._ahead.near(cell)
        if near is None:
            self._total[cell] = score
            return
        cells, of_cells = near
        of_cells += self._best[cells]
        self._total[cells] = of_cells

    def _first_node(self, highest: float) -> int:
        """Returns the first of all nodes with the highest score."""
        cells, found = self._cells, len(self._cells.of_node)
        # By the first of all their nodes: hardly ever more than one or two have to be looked at.
        for cell in cells.in_order((self._total == highest).nonzero()[0]):
            if cells.firsts[cell] >= found:
                break
            there = self._nodes_of.get(cell)
            best = cells.first_best(self._rows[0], cell) if there is None else there.first_best()
            found = min(found, best)
        return found

    def _open(self, cell: int) -> _CellNodes:
        nodes, slots = self._cells.nodes_in(cell)
        if len(nodes) > _CELL_MAX:
            # In order of their places, as the first of equal ones is taken.
            scores: list[float] = self._rows[0].take(slots).tolist()
            best = sorted(nlargest(self._n, range(len(nodes)), key=scores.__getitem__))
            nodes, slots = [nodes[at] for at in best], slots[best]
        found = self._nodes_of[cell] = _CellNodes(nodes, self._rows.take(slots, axis=1).tolist())
        return found

    def _of_more(self, there: _CellNodes, at: int, n: int) -> float:
        """Returns the score of a node for the next task after more than are known ahead."""
        if n >= self._n:
            return -inf  # nobody asks after the last task of all
        row = there.rows.get(at)
        if row is None:
            row = there.rows[at] = self._of_node(there.nodes[at])
        return row[n]
