"""The choice of nodes for equal tasks that gather in parts of the network.

The score of a node is its own, which changes with the tasks on it, and that of its cell (the nodes
that are in exactly the same domains), which changes with the tasks in its domains. Each task takes
the best node after those before it. Only the cell that was chosen last is looked at node by node;
of all others the best score is known.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heapreplace

import numpy as np

from swell.scheduler.hooks import GatheringScores
from swell.scheduler.model.resources import Matrix, Places, Vector

# Scores are rounded to millionths, so that sums that are equal on paper are equal as floats, too,
# and ties are broken by the order of nodes instead of by rounding errors.
SCORE_STEPS = 1e6
# Up to so many cells are looked at one by one; more of them cost less all at once.
_FEW_CELLS = 8
# In larger cells only as many nodes as there are tasks are looked at, the best ones. As many as
# `placement.CHUNK`, so that a cell that is not large never has more nodes than such a choice.
_CELL_MAX = 32

# Returns the scores of a node after 0, 1, ... n - 1 tasks were placed there.
ScoresAfter = Callable[[int], list[float]]


def gathered_nodes(
    after: Matrix, gathering: GatheringScores, n: int, scores_after: ScoresAfter
) -> list[int]:
    """Returns the nodes that n equal tasks take one after the other, as many as there is room for.

    `after` has the scores of the nodes without their cells, -inf where a task does not fit: a row
    for none placed there, for one, and so on. `scores_after` tells more of one node.
    """
    if gathering.ahead is None:
        return []
    search = _CellSearch(after, gathering, n, scores_after)
    of_cells, placed = np.rint(gathering.of_cells * SCORE_STEPS), gathering.ahead()
    chosen: list[int] = []
    while len(chosen) < n:
        found = search.in_best_cell(of_cells, n - len(chosen))
        if not found:
            break
        chosen += found
        if len(chosen) < n:
            cells, scores = placed(found[0], len(found))
            of_cells[cells] = np.rint(scores * SCORE_STEPS)
    return chosen


class _CellSearch:
    """The scores of nodes and cells as they are after the tasks placed so far."""

    def __init__(
        self, after: Matrix, gathering: GatheringScores, n: int, scores_after: ScoresAfter
    ) -> None:
        self._after = after
        self._scores: Vector = after[0].copy()
        self._cells = gathering.cells
        self._best = gathering.cells.maxima(self._scores)
        self._n = n
        self._scores_after = scores_after
        self._rows: dict[int, list[float]] = {}
        self._taken: dict[int, int] = {}

    def in_best_cell(self, extra: Vector, n: int) -> list[int]:
        """Places up to n tasks in the best cell, as long as no other cell has a better node."""
        total = self._best + extra
        cell, bound = self._best_and_next(total, extra)
        if bound is None:
            return []
        own, other = float(extra[cell]), -1
        heads = [(-own - score, node) for node, score in self._top(cell, n)]
        heapify(heads)
        found: list[int] = []
        while heads and len(found) < n:
            head, node = heads[0]
            if found and head >= bound:
                if head == bound and other < 0:
                    other = self._first_node(total, extra)
                if (head, node) > (bound, other):
                    break
            found.append(node)
            score = self._place(node)
            if score == -np.inf:
                heappop(heads)
            else:
                heapreplace(heads, (-own - score, node))
        # Fewer than n were placed, or nobody asks any more: the best node left is among these.
        self._best[cell] = -own - heads[0][0] if heads else -np.inf
        return found

    def _best_and_next(self, total: Vector, extra: Vector) -> tuple[int, float | None]:
        """Returns the cell with the best node, and the negated score of the best of all others.

        Of equal nodes the first decides. The cell is taken out of `total`.
        """
        best = int(total.argmax())
        highest = float(total[best])
        if highest == -np.inf:
            return best, None
        total[best] = -np.inf
        bound = float(total.max())
        if bound == highest:
            total[best] = highest
            best = int(self._cells.of_node[self._first_node(total, extra)])
            total[best] = -np.inf
        return best, -bound

    def _first_node(self, total: Vector, extra: Vector) -> int:
        """Returns the first of all nodes whose score is the highest of these cells."""
        is_best = total == total.max()
        tied = np.flatnonzero(is_best).tolist()
        if len(tied) <= _FEW_CELLS:
            members = (self._cells.members[cell] for cell in tied)
            return min(int(nodes[self._scores[nodes].argmax()]) for nodes in members)
        at = self._cells.of_node
        return int(np.where(is_best[at], self._scores + extra[at], -np.inf).argmax())

    def _top(self, cell: int, n: int) -> list[tuple[int, float]]:
        """Returns the nodes of a cell that n tasks may take, with their scores."""
        members = self._cells.members[cell]
        scores = self._scores[members]
        if len(members) > _CELL_MAX:
            best = best_places(scores, n)
            members, scores = members[best], scores[best]
        pairs = zip(members.tolist(), scores.tolist(), strict=True)
        return [pair for pair in pairs if pair[1] > -np.inf]

    def _place(self, node: int) -> float:
        """Places one task on a node; returns the node's score for the next."""
        taken = self._taken[node] = self._taken.get(node, 0) + 1
        row = self._rows.get(node)
        if row is None:
            row = self._rows[node] = self._after[:, node].tolist()
        if taken == len(row) < self._n:
            row = self._rows[node] = self._scores_after(node)
        # After the last task of all nobody asks any more.
        score = row[taken] if taken < len(row) else -np.inf
        self._scores[node] = score
        return score


def best_places(scores: Vector, n: int) -> Places:
    """Returns the n best places, the first of equal ones; none where the score is -inf."""
    # n is small and ties are many: repeated argmax is faster than sorting all nodes.
    scores = scores.copy()
    found: list[int] = []
    while len(found) < min(n, len(scores)):
        best = int(scores.argmax())
        if scores[best] == -np.inf:
            break
        found.append(best)
        scores[best] = -np.inf
    return np.array(found, dtype=np.intp)
