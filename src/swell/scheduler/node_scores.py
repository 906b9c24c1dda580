"""The scores of all nodes for each shape, kept up to date with what sessions place.

For every shape there are two scores per node: for starting now, and for starting once room has been
freed. Only those of nodes that changed are looked up again. The part of a score that follows from
the load depends on the state of the node alone (`model.node_states`), and is computed once for each
state, for all states at once that are new since the shape was last asked about.
Which nodes tasks take by these scores is decided in `placement`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    of_states: Vector  # by number of the state, for the first so many states; without base
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
        turns = _Turns(self, self._nodes, shape, now=now)
        base = self._of(shape).base
        chosen: list[int] = []
        is_copy = False
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
                    score = turns.load_after_one_more(place, tied, n - len(chosen))
                    score += base.item(place)
                    if extra is not None:
                        score += extra.item(place)
                after[place] = score
            if not is_copy:
                scores, is_copy = scores.copy(), True
            scores[list(after)] = list(after.values())
        return chosen

    def row_of_states(self, shape: Shape, *, now: bool) -> Vector:
        """Returns the scores of all states there are, by number, without what depends on nodes."""
        of_shape = self._of(shape)
        row = of_shape.now if now else of_shape.later
        self._score_new_states(shape, row, now=now)
        return row.of_states

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
        rows = [_Row(np.empty(len(nodes)), np.empty(0)) for _ in range(2)]
        return _ShapeScores(nodes.version, allowed, base, np.where(allowed, base, -np.inf), *rows)

    def _score_new_states(self, shape: Shape, row: _Row, *, now: bool) -> None:
        """Computes what a node scores in each state that is not known yet, without its base."""
        states = self._nodes.states
        n_states = len(states)
        if row.n_states == n_states:
            return
        if n_states > len(row.of_states):
            # Doubled, so that a new state rarely costs a copy.
            more = 2 * n_states - len(row.of_states)
            row.of_states = np.concatenate([row.of_states, np.empty(more)])
        columns = states.since(row.n_states)
        fitting = fits(shape, self.usable(shape, columns.future))
        if now and not states.idle_is_future:
            fitting &= fits(shape, self.usable(shape, columns.idle))
        score = self.of_load(shape, columns)
        score[~fitting] = -inf
        row.of_states[row.n_states : n_states] = score
        row.n_states = n_states

    def of_load(self, shape: Shape, columns: NodeColumns) -> Vector:
        """Returns the part of the score that depends on the load with one more task."""
        if not self._load_scores:
            return np.zeros(columns.idle.shape[1])
        fill = columns.allocatable - columns.idle
        fill += shape.request[:, None]
        fill /= columns.divisor
        first, *others = self._load_scores
        total = first(shape, fill)
        for score in others:
            total += score(shape, fill)
        total *= SCORE_STEPS
        return np.rint(total, out=total)


class _Turns:
    """Tasks of one shape that are placed one after the other, in thought only."""

    __slots__ = ("_following", "_n_states", "_now", "_of_states", "_scores", "_shape", "_state_of",
                 "_states", "_thought")  # fmt: skip

    def __init__(self, scores: NodeScores, nodes: NodeTable, shape: Shape, *, now: bool) -> None:
        self._scores, self._shape, self._now = scores, shape, now
        self._states, self._state_of = nodes.states, nodes.state_of()
        self._following = self._states.following(shape, now=now)
        self._thought: dict[int, int] = {}  # the states of places that got tasks
        self._catch_up()

    def load_after_one_more(self, place: int, tied: Sequence[int], n_left: int) -> float:
        """Places one task more, and returns what the load of that node scores for the next one.

        It is told which nodes are as good, and how many tasks are left.
        """
        state = self._thought.get(place)
        is_first = state is None
        if state is None:
            state = self._state_of.item(place)
        after = self._following.get(state)
        if after is None or after >= self._n_states:
            self._look_ahead(state, tied if is_first else (), 1 if is_first else n_left)
            after = self._following[state]
        self._thought[place] = after
        return self._of_states.item(after)

    def _look_ahead(self, state: int, tied: Sequence[int], n_tasks: int) -> None:
        """Finds the scores of states that are likely to be asked for, all at once.

        One large array costs less than many small ones: other nodes that are as good come next,
        and a node that got two tasks in a row may get all others, too.
        """
        after = self._states.after
        for _ in range(n_tasks):
            state = after(state, self._shape, now=self._now)
        for other in {self._state_of.item(place) for place in tied}:
            after(other, self._shape, now=self._now)
        self._catch_up()

    def _catch_up(self) -> None:
        self._of_states = self._scores.row_of_states(self._shape, now=self._now)
        self._n_states = len(self._states)
