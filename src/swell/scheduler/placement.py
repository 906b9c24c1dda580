"""Finds nodes for tasks: the best place for each of n equal tasks, one class at a time.

For every shape it keeps two scores per node, for starting now and for starting once room has been
freed, and brings only those nodes up to date that changed. n equal tasks are placed in one go:
only the n best nodes can receive any, so how their score develops with each further task is
computed for those alone. Decides nothing about queues or gangs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from swell.scheduler.model.nodes import Matrix
from swell.scheduler.model.reasons import NodeCount, Reason, histogram
from swell.scheduler.model.resources import PODS, TOLERANCE, Mask, Places, Vector
from swell.scheduler.model.snapshot import Snapshot
from swell.scheduler.model.tasks import NOWHERE, Shape, Task
from swell.scheduler.votes import Tiers, flat

CHUNK = 32  # how many equal tasks at once: the work grows with its square
# Scores are rounded, so that sums that are equal on paper are equal here too.
SCORE_STEPS = 1e6
_EVERY_NODE = slice(None)


@dataclass(frozen=True, slots=True)
class Place:
    """A node, and whether the task can start there now."""

    node: int
    now: bool


@dataclass(slots=True)
class _Field:
    """What one shape finds on all nodes: -inf where it does not fit."""

    version: int
    position: int
    allowed: Mask
    base: Vector
    now: Vector
    later: Vector
    outlook: _Outlook


@dataclass(slots=True)
class _Outlook:
    """Where the next single tasks of a shape go, as long as nothing but them changes any node."""

    nodes: deque[int]
    position: int = 0  # in the log of changes, before the last of them was placed
    last: int = NOWHERE

    def holds(self, changes: Sequence[int]) -> bool:
        return len(changes) == self.position + 1 and changes[-1] == self.last

    def placed(self, node: int, changes: Sequence[int]) -> None:
        self.position, self.last = len(changes), node


class Placer:
    """Answers where tasks can go, for one session."""

    def __init__(self, snapshot: Snapshot, tiers: Tiers) -> None:
        self._nodes = snapshot.nodes
        self._dimensions = snapshot.dimensions
        self._fields: dict[Shape, _Field] = {}
        self._node_filters = flat(tiers, lambda h: h.node_filter, "enablePredicate")
        self._task_filters = flat(tiers, lambda h: h.task_filter, "enablePredicate")
        self._diagnoses = flat(tiers, lambda h: h.diagnose, "enablePredicate")
        self._node_scores = flat(tiers, lambda h: h.node_score, "enableNodeOrder")
        self._load_scores = flat(tiers, lambda h: h.load_score, "enableNodeOrder")
        self._task_scores = flat(tiers, lambda h: h.task_score, "enableNodeOrder")
        self._explained: dict[Shape, tuple[int, str]] = {}

    # --- placing

    def places(self, tasks: Sequence[Task]) -> list[Place]:
        """Places for the first of these equal tasks, as many as are known without placing one.

        Ask again for the rest. Nothing means that no node takes the next of them.
        """
        task = tasks[0]
        n = min(len(tasks), CHUNK)
        if any(t.nominated for t in tasks) or self._depends_on_others(task):
            place = self.place(task)
            return [] if place is None else [place]
        if n == 1:
            place = self._place_single(task)
            return [] if place is None else [place]
        field = self._field(task.shape)
        for now in (True, False):
            found = self._spread(task.shape, field, n, now=now)
            if found:
                return [Place(node, now) for node in found]
        return []

    def place(self, task: Task) -> Place | None:
        """The best node for one task: where it can start now, or else later.

        Of two equally soon, the one an earlier decision named: what is promised stays promised.
        """
        nominee = self._nodes.find(task.nominated) if task.nominated else NOWHERE
        for now in (True, False):
            scores = self.scores(task, now=now)
            if nominee != NOWHERE and scores[nominee] > -np.inf:
                return Place(nominee, now)
            if len(scores):
                best = int(scores.argmax())
                if scores[best] > -np.inf:
                    return Place(best, now)
        return None

    def _place_single(self, task: Task) -> Place | None:
        """As `place`; singles of one shape that follow each other are foreseen, many at once."""
        shape, changes = task.shape, self._nodes.changes
        known = self._fields.get(shape)
        outlook = known.outlook if known and known.version == self._nodes.version else None
        if outlook is None or not outlook.holds(changes):
            place = self.place(task)
            outlook = self._fields[shape].outlook
            outlook.nodes.clear()
        else:
            if not outlook.nodes:
                outlook.nodes.extend(self._spread(shape, self._field(shape), CHUNK, now=True))
            place = Place(outlook.nodes.popleft(), True) if outlook.nodes else self.place(task)
        if place is not None and place.now:
            outlook.placed(place.node, changes)
        return place

    def scores(self, task: Task, *, now: bool) -> Vector:
        """Every node's score for a task; -inf where it cannot go."""
        field = self._field(task.shape)
        scores = field.now if now else field.later
        for mask in self._masks(task, now=now):
            scores = np.where(mask, scores, -np.inf)
        for score in self._task_scores:
            extra = score(task)
            if extra is not None:
                scores = scores + np.rint(extra * SCORE_STEPS)
        return scores

    # --- for evictions

    def allowed(self, shape: Shape) -> Mask:
        """Nodes that would take the shape if they had the room: no eviction changes this."""
        return self._field(shape).allowed

    def ranking(self, shape: Shape) -> Vector:
        """Scores of all nodes, whether there is room or not."""
        field = self._field(shape)
        used = self._nodes.allocatable - self._nodes.idle
        return self._score(shape, field.base, used, self._nodes.divisor)

    def fits_later(self, task: Task, node: int) -> bool:
        """Whether the task can go to the node once everything leaving has left."""
        shape = task.shape
        if not self._field(shape).allowed[node]:
            return False
        future, request = self._nodes.future[:, node], shape.request
        if any(future[p] <= request[p] - TOLERANCE for p in shape.fit_places):
            return False
        return all(mask[node] for mask in self._masks(task, now=False))

    # --- explaining

    def why_not(self, task: Task) -> str:
        """How many nodes refuse the task for which reason, in one line."""
        known = self._explained.get(task.shape)
        position = len(self._nodes.changes)
        if known is not None and known[0] == position:
            return known[1]
        n_fitting, n_nodes, counts = self.refusals(task)
        text = histogram(n_fitting, n_nodes, counts)
        if n_fitting:
            text = f"room for {self.n_slots(task.shape)} like it; {text}"
        if not self._depends_on_others(task):
            self._explained[task.shape] = (position, text)
        return text

    def refusals(self, task: Task) -> tuple[int, int, list[NodeCount]]:
        """On how many nodes it could start now, of how many, and what is in the way elsewhere."""
        present = np.array([node is not None for node in self._nodes.objects], dtype=np.bool_)
        left = present & self._nodes.ready
        counts = [NodeCount(Reason.NODE_NOT_READY, int((present & ~left).sum()))]
        for diagnose in self._diagnoses:
            for reason, passing in diagnose(task):
                counts.append(NodeCount(reason, int((left & ~passing).sum())))
                left = left & passing
        idle, request = self._nodes.idle, task.shape.request
        fitting = left.copy()
        for place in task.shape.fit_places:
            short = left & (idle[place] <= request[place] - TOLERANCE)
            fitting &= ~short
            if place == PODS:
                counts.append(NodeCount(Reason.TOO_MANY_PODS, int(short.sum())))
            else:
                name = self._dimensions.names[place]
                counts.append(NodeCount(Reason.INSUFFICIENT, int(short.sum()), name))
        return int(fitting.sum()), int(present.sum()), counts

    def n_slots(self, shape: Shape) -> int:
        """How many tasks of the shape could start now, if nobody else wanted anything."""
        allowed = self.allowed(shape)
        asked = [place for place in shape.fit_places if shape.request[place] > 0]
        room = self._nodes.idle[asked][:, allowed] + TOLERANCE
        per_node = np.floor((room / shape.request[asked][:, None]).min(axis=0))
        return int(np.maximum(per_node, 0.0).sum())

    # --- inside

    def _masks(self, task: Task, *, now: bool) -> Iterator[Mask]:
        for filter_ in self._task_filters:
            mask = filter_(task, now)
            if mask is not None:
                yield mask

    def _depends_on_others(self, task: Task) -> bool:
        return any(True for _ in self._masks(task, now=True)) or any(
            score(task) is not None for score in self._task_scores
        )

    def _field(self, shape: Shape) -> _Field:
        field = self._fields.get(shape)
        nodes = self._nodes
        position = len(nodes.changes)
        if field is None or field.version != nodes.version:
            field = self._fields[shape] = self._new_field(shape)
            self._update(shape, field, _EVERY_NODE)
        elif field.position != position:
            stale = nodes.changed_since(field.position)
            self._update(shape, field, stale if 4 * len(stale) < len(nodes) else _EVERY_NODE)
        field.position = position
        return field

    def _new_field(self, shape: Shape) -> _Field:
        nodes = self._nodes
        allowed = nodes.ready.copy()
        for filter_ in self._node_filters:
            allowed &= filter_(shape)
        base = np.zeros(len(nodes))
        for score in self._node_scores:
            base = base + score(shape)
        empty = np.empty(len(nodes))
        return _Field(nodes.version, 0, allowed, base, empty, empty.copy(), _Outlook(deque()))

    def _update(self, shape: Shape, field: _Field, rows: Places | slice) -> None:
        nodes = self._nodes
        idle = nodes.idle[:, rows]
        later = field.allowed[rows] & _fits(shape, nodes.future[:, rows])
        now = later & _fits(shape, idle)
        used = nodes.allocatable[:, rows] - idle
        score = self._score(shape, field.base[rows], used, nodes.divisor[:, rows])
        field.now[rows] = np.where(now, score, -np.inf)
        field.later[rows] = np.where(later, score, -np.inf)

    def _score(self, shape: Shape, base: Vector, used: Matrix, divisor: Matrix) -> Vector:
        total = base
        if self._load_scores:
            fill = (used + shape.request[:, None]) / divisor
            for score in self._load_scores:
                total = total + score(shape, fill)
        return np.rint(total * SCORE_STEPS)

    def _spread(self, shape: Shape, field: _Field, n: int, *, now: bool) -> list[int]:
        """The nodes that n equal tasks take one after the other, each the best at its turn."""
        top = _best(field.now if now else field.later, n)
        if not len(top):
            return []
        scores, fits = self._development(shape, field, top, n, now=now)
        heads = [
            (-row[0], int(node), 0, at)
            for at, (node, row) in enumerate(zip(top, scores, strict=True))
        ]
        heapify(heads)
        chosen: list[int] = []
        while heads and len(chosen) < n:
            _, node, taken, at = heads[0]
            chosen.append(node)
            taken += 1
            if taken < n and fits[at][taken]:
                heapreplace(heads, (-scores[at][taken], node, taken, at))
            else:
                heappop(heads)
        return chosen

    def _development(
        self, shape: Shape, field: _Field, top: Places, n: int, *, now: bool
    ) -> tuple[list[list[float]], list[list[bool]]]:
        """For some nodes, score and fit after 0, 1, ... n-1 tasks of the shape have gone there."""
        nodes = self._nodes
        rows = np.repeat(top, n)
        taken = shape.request[:, None] * np.tile(np.arange(n), len(top))
        idle = nodes.idle[:, rows]
        fits = _fits(shape, nodes.future[:, rows] - taken)
        used = nodes.allocatable[:, rows] - idle
        if now:  # a promise takes no room yet, so it changes no score
            fits &= _fits(shape, idle - taken)
            used += taken
        score = self._score(shape, field.base[rows], used, nodes.divisor[:, rows])
        each = (len(top), n)
        return score.reshape(each).tolist(), fits.reshape(each).tolist()


def _fits(shape: Shape, room: Matrix) -> Mask:
    """Where the request is below the room, or within the tolerance."""
    first, *others = shape.fit_places
    fits: Mask = room[first] > shape.request[first] - TOLERANCE
    for place in others:
        fits &= room[place] > shape.request[place] - TOLERANCE
    return fits


def _best(scores: Vector, n: int) -> Places:
    """The n best nodes; of equal ones the first. Few are wanted, and ties are many: no sorting."""
    scores = scores.copy()
    found: list[int] = []
    while len(found) < min(n, len(scores)):
        best = int(scores.argmax())
        if scores[best] == -np.inf:
            break
        found.append(best)
        scores[best] = -np.inf
    return np.array(found, dtype=np.intp)
