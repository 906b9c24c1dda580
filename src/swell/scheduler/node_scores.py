"""The scores of all nodes for each shape, kept up to date with what sessions place.

For every shape there are two scores per node: for starting now, and for starting once room has been
freed. Only those of nodes that changed are looked up again. The part of a score that follows from
the load depends on the state of the node alone (`model.node_states`), and is computed once for each
state, for all states at once that are new since the shape was last asked about.
Which nodes tasks take by these scores is decided in `placement`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from swell.scheduler.gathering import SCORE_STEPS
from swell.scheduler.hooks import Tiers, flat
from swell.scheduler.model.node_states import NodeColumns
from swell.scheduler.model.nodes import NodeTable, fits
from swell.scheduler.model.resources import Mask, Matrix, Vector
from swell.scheduler.model.tasks import Shape

# When a larger part of the nodes changed, all rows are computed instead of a selection.
_STALE_PART_MAX = 1 / 4
_NEVER = -1  # before any position in the log of changes


@dataclass(slots=True)
class _Row:
    """Scores for one shape, all now or all later. -inf marks where it does not fit."""

    of_nodes: Vector  # right as of this position in the log of changes
    # By number of the state, for the first so many states: the score without base, and what it is
    # once one such task more has been placed.
    of_states: Vector
    of_next: Vector
    position: int = _NEVER
    n_states: int = 0


@dataclass(slots=True)
class _ShapeScores:
    """The scores of all nodes for one shape."""

    version: int  # of the node table, for which `allowed` and `base` are right
    allowed: Mask
    base: Vector  # the part of the score that does not depend on the load
    of_allowed: Vector  # the same, -inf on nodes that are not allowed
    now: _Row
    later: _Row


class Bound(NamedTuple):
    """The best node elsewhere, after which no node is taken."""

    head: float  # its negated score
    place: int


class NodeScores:
    """Every shape's scores in one session, by the filters and scores of its plugins."""

    def __init__(self, nodes: NodeTable, tiers: Tiers) -> None:
        self._nodes = nodes
        self._of_shapes: dict[Shape, _ShapeScores] = {}
        self._filters = flat(tiers, lambda h: h.node_filter, "enablePredicate")
        self._base_scores = flat(tiers, lambda h: h.node_score, "enableNodeOrder")
        self._load_scores = flat(tiers, lambda h: h.load_score, "enableNodeOrder")
        self._reserves = flat(tiers, lambda h: h.usable_room, "enablePredicate")

    def allowed(self, shape: Shape) -> Mask:
        """Returns the nodes that take the shape if they have room. Not to be written to."""
        return self._of(shape).allowed

    def of_allowed(self, shape: Shape) -> Vector:
        """Returns the part that does not depend on the load, -inf where the shape is not allowed.

        It is another array once nodes came, went or changed.
        """
        return self._of(shape).of_allowed

    def of_all(self, shape: Shape) -> Vector:
        """Returns the scores of all nodes, whether there is room or not."""
        return self._of(shape).base + self.of_load(shape, self._nodes.columns())

    @property
    def keeps_room(self) -> bool:
        """Whether a plugin may keep some room from some shapes: see `usable`."""
        return bool(self._reserves)

    def usable(self, shape: Shape, room: Matrix) -> Matrix:
        """Returns what tasks of the shape may use of some room: all, unless a plugin keeps some."""
        for reserve in self._reserves:
            room = reserve(shape, room)
        return room

    def current(self, shape: Shape, *, now: bool) -> Vector:
        """Returns the scores of all nodes as they are. Not to be written to."""
        of_shape, nodes = self._of(shape), self._nodes
        is_now = now or nodes.idle_is_future
        row = of_shape.now if is_now else of_shape.later
        position = len(nodes.changes)
        if row.position == position:
            return row.of_nodes
        stale = None if row.position == _NEVER else nodes.changed_since(row.position)
        if stale is None or len(stale) > _STALE_PART_MAX * len(nodes):
            states = nodes.state_of()
            self._score_new_states(shape, row, now=is_now)
            row.of_nodes = of_shape.of_allowed + row.of_states[states]
        else:
            states = nodes.state_of(stale)
            self._score_new_states(shape, row, now=is_now)
            row.of_nodes[stale] = of_shape.of_allowed[stale] + row.of_states[states]
        row.position = position
        return row.of_nodes

    def in_turn(
        self,
        shape: Shape,
        n: int,
        scores: Vector,
        *,
        now: bool,
        extra: Vector | None = None,
        bound: Bound | None = None,
    ) -> list[int]:
        """Returns the nodes that n equal tasks take one after the other, each the best in turn.

        `scores` may have something added to those of the shape, which is `extra`.
        """
        of_shape, state_of = self._of(shape), self._nodes.state_of()
        row, base = of_shape.now if now else of_shape.later, of_shape.base
        self._score_new_states(shape, row, now=now)
        chosen: list[int] = []
        n_on: dict[int, int] = {}  # how many of the tasks a node has in thought
        is_copy = False
        state_at, base_at, next_at = state_of.item, base.item, row.of_next.item
        while len(scores):
            best = scores.item(scores.argmax())
            if best == -inf:
                break
            # Usually many nodes have the best score. They take their turns in order of their
            # places: each keeps getting tasks until its score falls below that of the others.
            tied = (scores == best).nonzero()[0][: n - len(chosen)].tolist()
            after: dict[int, float] = {}
            for place in tied:
                score = best
                while score >= best:
                    if bound is not None and chosen and (-score, place) > bound:
                        return chosen
                    chosen.append(place)
                    if len(chosen) == n:
                        return chosen
                    n_there = n_on[place] = n_on.get(place, 0) + 1
                    state = state_at(place)
                    if n_there > 1:
                        n_ahead = n - len(chosen)
                        state = self._state_after(shape, row, state, n_there - 1, n_ahead, now=now)
                        next_at = row.of_next.item  # it may be another array now
                    score = next_at(state) + base_at(place)
                    if extra is not None:
                        score += extra.item(place)
                after[place] = score
            if not is_copy:
                scores, is_copy = scores.copy(), True
            scores[list(after)] = list(after.values())
        return chosen

    def _state_after(
        self, shape: Shape, row: _Row, state: int, n: int, n_ahead: int, *, now: bool
    ) -> int:
        """Returns the state after n tasks of a shape; its score is known then.

        A node that got two tasks in a row may get all others, too: their scores are computed at
        once, because one large array costs less than many small ones.
        """
        states = self._nodes.states
        for _ in range(n):
            state = states.after(state, shape, now=now)
        if state >= row.n_states:
            last = state
            for _ in range(n_ahead):
                last = states.after(last, shape, now=now)
            self._score_new_states(shape, row, now=now)
        return state

    def _of(self, shape: Shape) -> _ShapeScores:
        """Returns what is known of a shape, made anew when nodes came, went or changed."""
        scores = self._of_shapes.get(shape)
        if scores is None or scores.version != self._nodes.version:
            scores = self._of_shapes[shape] = self._new_scores(shape)
        return scores

    def _new_scores(self, shape: Shape) -> _ShapeScores:
        nodes = self._nodes
        allowed = nodes.ready & nodes.open
        for filter_ in self._filters:
            allowed &= filter_(shape)
        base = np.zeros(len(nodes))
        for score in self._base_scores:
            base = base + score(shape)
        base = np.rint(base * SCORE_STEPS)
        rows = [_Row(np.empty(len(nodes)), np.empty(0), np.empty(0)) for _ in range(2)]
        return _ShapeScores(nodes.version, allowed, base, np.where(allowed, base, -np.inf), *rows)

    def _score_new_states(self, shape: Shape, row: _Row, *, now: bool) -> None:
        """Computes what a node scores in each state that is not known yet, without its base."""
        states = self._nodes.states
        n_states, n_known = states.n, row.n_states
        if n_known == n_states:
            return
        if n_states > len(row.of_states):
            # Doubled, so that a new state rarely costs a copy.
            room = np.empty(2 * n_states - len(row.of_states))
            row.of_states = np.concatenate([row.of_states, room])
            row.of_next = np.concatenate([row.of_next, room])
        columns = states.since(n_known, shape, now=now)
        fitting = fits(shape, self.usable(shape, columns.future))
        if now and not states.idle_is_future:
            fitting &= fits(shape, self.usable(shape, columns.idle))
        score = self.of_load(shape, columns)
        score[~fitting] = -inf
        n_new = n_states - n_known
        row.of_states[n_known:n_states] = score[:n_new]
        row.of_next[n_known:n_states] = score[n_new:]
        row.n_states = n_states

    def of_load(self, shape: Shape, columns: NodeColumns) -> Vector:
        """Returns the part of the score that depends on the load with one more task."""
        fill = columns.allocatable - columns.idle
        fill += shape.request[:, None]
        fill /= columns.divisor
        return self.of_fill(shape, fill)

    def of_fill(self, shape: Shape, fill: Matrix) -> Vector:
        """Returns the same from the shares of the resources that are used, the task included."""
        if not self._load_scores:
            return np.zeros(fill.shape[1])
        first, *others = self._load_scores
        total = first(shape, fill)
        for score in others:
            total += score(shape, fill)
        total *= SCORE_STEPS
        return np.rint(total, out=total)
