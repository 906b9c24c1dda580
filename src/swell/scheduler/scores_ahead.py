"""Scores of nodes now and after more tasks like the one asked for, where tasks gather.

There nodes fill up one after the other and rarely get a state that another had, so these scores are
kept by node, and for a few tasks each: one call of the scoring plugins serves a whole gang.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from swell.scheduler.model.nodes import NodeTable, fits
from swell.scheduler.model.resources import Matrix, Places, Vector
from swell.scheduler.model.tasks import Shape
from swell.scheduler.node_scores import NodeScores

# After 0, 1 and 2 tasks on each node its score is known at once: few get more of one gang.
_N_ROWS: Final = 3
# When a larger part of the nodes changed, all are looked at, and equal ones once.
_STALE_PART_MAX: Final = 1 / 4


class ScoresAhead:
    """The scores of all nodes by shape, those of nodes that changed computed again."""

    def __init__(self, nodes: NodeTable, scores: NodeScores) -> None:
        self._nodes = nodes
        self._scores = scores
        # By shape: the scores, the part of them that does not depend on the load, and the position
        # in the log of changes as of which they are.
        self._rows: dict[Shape, tuple[Matrix, Vector, int]] = {}

    def of_nodes(self, shape: Shape) -> Matrix:
        """Returns the scores after 0, 1 and 2 tasks started on each node: a row for each number.

        Where no further task can start the score is -inf. Not to be written to.
        """
        nodes, position = self._nodes, len(self._nodes.changes)
        base = self._scores.of_allowed(shape)
        rows, known_base, known = self._rows.get(shape, (None, base, 0))
        if rows is None or known_base is not base:
            rows, stale = np.empty((_N_ROWS, len(nodes))), None
        elif known == position:
            return rows
        else:
            stale = list({*nodes.changes[known:]})
        if stale is None or len(stale) > _STALE_PART_MAX * len(nodes):
            states, at = np.unique(nodes.state_of(), return_inverse=True)
            rows[:] = self._after(shape, states, _N_ROWS)[:, at] + base
        else:
            places = np.array(stale, dtype=np.intp)
            scores = self._after(shape, nodes.state_of(places), _N_ROWS)
            scores += base[places]
            rows[:, places] = scores
        self._rows[shape] = (rows, base, position)
        return rows

    def of_node(self, shape: Shape, node: int, n: int) -> list[float]:
        """Returns the scores of one node after 0, 1, ... n - 1 tasks started there."""
        scores = self._after(shape, self._nodes.state_of(np.array([node])), n)
        found: list[float] = (scores[:, 0] + self._scores.of_allowed(shape)[node]).tolist()
        return found

    def _after(self, shape: Shape, states: Places, n: int) -> Matrix:
        """Computes the scores in some states (columns) after 0, 1, ... n - 1 tasks."""
        nodes, scores = self._nodes, self._scores
        # All after none, all after one, and so on.
        columns = nodes.states.columns(np.concatenate([states] * n))
        taken = np.multiply.outer(shape.request, _counting(n, len(states)))
        idle = columns.idle - taken
        found = scores.of_load(shape, columns._replace(idle=idle))
        fitting = fits(shape, scores.usable(shape, idle))
        if not nodes.idle_is_future:
            fitting &= fits(shape, scores.usable(shape, columns.future - taken))
        found[~fitting] = -np.inf
        return found.reshape(n, -1)


@lru_cache(maxsize=512)
def _counting(n: int, n_times: int) -> Vector:
    """Returns 0, 1, ... n - 1, each so many times."""
    return np.arange(float(n)).repeat(n_times)
