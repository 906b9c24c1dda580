"""Scores of nodes now and after more tasks like the one asked for, where tasks gather.

There nodes fill up one after the other and rarely get a state that another had, so these scores are
kept by node, and for a few tasks each: one call of the scoring plugins serves a whole gang.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from swell.scheduler.model.domain_tree import Cells
from swell.scheduler.model.nodes import NodeTable, fits
from swell.scheduler.model.resources import Dimensions, Matrix, Places, Vector
from swell.scheduler.model.tasks import Shape
from swell.scheduler.node_scores import NodeScores

# After 0 to 3 tasks on each node its score is known at once: few get more of one gang, and to
# look up a single node costs as much as to have another row for all that changed.
_N_ROWS: Final = 4
_NEVER: Final = -1  # before any position in the log of changes
# When a larger part of the nodes changed, all are looked at, and equal ones once.
_STALE_PART_MAX: Final = 1 / 4


_Amounts = NDArray[np.float64]  # resources x numbers of tasks x 1


@dataclass(slots=True)
class _Rows:
    """The scores for one shape."""

    amounts: Matrix
    base: Vector  # the part that does not depend on the load
    cells: Cells  # by which they are laid out
    position: int  # in the log of changes, as of which they are


class ScoresAhead:
    """The scores of all nodes by shape, those of nodes that changed computed again."""

    def __init__(self, nodes: NodeTable, scores: NodeScores, dimensions: Dimensions) -> None:
        self._nodes = nodes
        self._scores = scores
        self._dimensions = dimensions
        self._rows: dict[Shape, _Rows] = {}
        self._taken_by: dict[tuple[Shape, int], tuple[_Amounts, _Amounts]] = {}

    def of_nodes(self, shape: Shape, cells: Cells) -> Matrix:
        """Returns the scores after 0, 1, 2 and 3 tasks started on each node: a row for each number.

        They are laid out by cells. Where no further task can start the score is -inf. Not to be
        written to.
        """
        nodes, position = self._nodes, len(self._nodes.changes)
        base = self._scores.of_allowed(shape)
        known = self._rows.get(shape)
        if known is None or known.base is not base or known.cells is not cells:
            amounts = np.full((_N_ROWS, cells.n_rows * cells.n_columns), -np.inf)
            known = self._rows[shape] = _Rows(amounts, base, cells, _NEVER)
        if known.position == position:
            return known.amounts
        stale = None if known.position == _NEVER else nodes.changed_since(known.position)
        known.position = position
        if stale is None or len(stale) > _STALE_PART_MAX * len(nodes):
            states, at = np.unique(nodes.state_of(), return_inverse=True)
            known.amounts[:, cells.slots] = self._after(shape, states, _N_ROWS)[:, at] + base
        else:
            # Each once: many change with more than one gang.
            is_stale = np.zeros(len(nodes), dtype=np.bool_)
            is_stale[stale] = True
            places = is_stale.nonzero()[0]
            scores = self._after(shape, nodes.state_of(places), _N_ROWS)
            scores += base.take(places)
            known.amounts[:, cells.slots.take(places)] = scores
        return known.amounts

    def of_node(self, shape: Shape, node: int, n: int) -> list[float]:
        """Returns the scores of one node after 0, 1, ... n - 1 tasks started there."""
        scores = self._after(shape, self._nodes.state_of(np.array([node])), n)
        found: list[float] = (scores[:, 0] + self._scores.of_allowed(shape)[node]).tolist()
        return found

    def _after(self, shape: Shape, states: Places, n: int) -> Matrix:
        """Computes the scores in some states (columns) after 0, 1, ... n - 1 tasks."""
        nodes, scores = self._nodes, self._scores
        # Without the rows that are kept for names to come, half of them: this runs for every gang.
        width = len(self._dimensions.names)
        columns = nodes.states.columns(states)
        idle, allocatable = columns.idle[:width], columns.allocatable[:width]
        # All after none, all after one, and so on: one array for all, as its arithmetic costs
        # less than the calls. Amounts are whole numbers, so the order of sums does not matter.
        size = (width, n * len(states))
        taken, asked = self._taken(shape, n)
        fill = (allocatable - idle)[:, None, :] + asked
        fill /= columns.divisor[:width, None, :]
        found = scores.of_fill(shape, fill.reshape(size))
        room = idle[:, None, :] - taken
        fitting = fits(shape, scores.usable(shape, room.reshape(size)))
        if not nodes.idle_is_future:
            room = columns.future[:width, None, :] - taken
            fitting &= fits(shape, scores.usable(shape, room.reshape(size)))
        np.copyto(found, -np.inf, where=~fitting)
        return found.reshape(n, -1)

    def _taken(self, shape: Shape, n: int) -> tuple[_Amounts, _Amounts]:
        """Returns what 0, 1, ... n - 1 tasks take of each resource that has a name.

        And after it what they and one more take.
        """
        width = len(self._dimensions.names)
        found = self._taken_by.get((shape, n))
        if found is None or len(found[0]) != width:
            taken, asked = (
                np.multiply.outer(shape.request[:width], np.arange(first, first + n))[:, :, None]
                for first in (0.0, 1.0)
            )
            found = self._taken_by[shape, n] = taken, asked
        return found
