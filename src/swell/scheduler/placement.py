"""The choice of nodes: the best node for each of n equal tasks.

For every shape the `Placer` keeps two scores per node, for starting now and for starting once room
has been freed, and updates only the nodes that changed. n equal tasks are placed in one go: only
the n best nodes can receive any, so the scores after each further task are computed for those
alone.
Whether a whole gang fits is decided in `gang_fit`, quotas of queues in the plugins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import numpy as np

from swell.scheduler.gathering import SCORE_STEPS, best_places, gathered_nodes
from swell.scheduler.hooks import GatheringScores, Tiers, flat
from swell.scheduler.model.nodes import Matrix, fits, slots
from swell.scheduler.model.reasons import NodeCount, WaitReason, histogram
from swell.scheduler.model.resources import PODS, TOLERANCE, Mask, Places, Vector
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Shape, Task

# How many equal tasks are placed at once. The work grows with the square: up to CHUNK nodes are
# scored for 0 to CHUNK - 1 tasks each.
CHUNK = 32
# When a larger part of the nodes changed, all rows are computed instead of a selection.
_STALE_PART_MAX = 1 / 4


class NodeChoice(NamedTuple):
    """A node for a task, and whether the task can start there now or must be pipelined."""

    node: int
    now: bool


@dataclass(slots=True)
class _ShapeScores:
    """The scores of all nodes for one shape. -inf marks a node where it does not fit."""

    version: int  # of the node table, for which `allowed` and `base` are right
    position: int  # in the log of changes, for which `now` and `later` are right
    allowed: Mask
    base: Vector  # the part of the score that does not depend on the load
    now: Vector
    later: Vector
    lookahead: _SingleTasks


@dataclass(slots=True)
class _SingleTasks:
    """The nodes for the next single tasks of a shape, right while only those change any node."""

    nodes: deque[int]
    position: int = 0  # in the log of changes, before the last of them was placed
    last: int = NOWHERE

    def is_valid(self, changes: Sequence[int]) -> bool:
        """Whether the only change since is that the last task was placed as predicted."""
        return len(changes) == self.position + 1 and changes[-1] == self.last

    def placed(self, node: int, changes: Sequence[int]) -> None:
        self.position, self.last = len(changes), node


@dataclass(frozen=True, slots=True)
class _ChoiceBounds:
    """Scores to choose by, the part of them that is added to those of the shape, and a bound.

    The bound is (negated score, place) of the best node elsewhere: none that comes after is taken.
    """

    scores: Vector
    extra: Vector | None
    bound: tuple[float, int] | None


class Placer:
    """Chooses nodes for tasks in one session, by the filters and scores of its plugins."""

    def __init__(self, snapshot: SchedulerSnapshot, tiers: Tiers) -> None:
        self._nodes = snapshot.nodes
        self._dimensions = snapshot.dimensions
        self._devices = snapshot.devices
        self._scores_of: dict[Shape, _ShapeScores] = {}
        self._node_filters = flat(tiers, lambda h: h.node_filter, "enablePredicate")
        self._task_filters = flat(tiers, lambda h: h.task_filter, "enablePredicate")
        self._diagnoses = flat(tiers, lambda h: h.diagnose, "enablePredicate")
        self._node_scores = flat(tiers, lambda h: h.node_score, "enableNodeOrder")
        self._load_scores = flat(tiers, lambda h: h.load_score, "enableNodeOrder")
        self._task_scores = flat(tiers, lambda h: h.task_score, "enableNodeOrder")
        self._gathering_scores = flat(tiers, lambda h: h.gathering_score, "enableNodeOrder")
        self._relative_scores = flat(tiers, lambda h: h.relative_score, "enableNodeOrder")
        self._reserves = flat(tiers, lambda h: h.usable_room, "enablePredicate")
        self._queue_filters = flat(tiers, lambda h: h.queue_filter, "enablePredicate")
        self._queue_scores = flat(tiers, lambda h: h.queue_score, "enableNodeOrder")
        self._explained: dict[tuple[Shape, str], tuple[int, str]] = {}
        # The nodes that may be used at all, while a gang is placed in one part of the network.
        self.scope: Mask | None = None

    # --- placing

    @contextmanager
    def within(self, scope: Mask | None) -> Iterator[None]:
        """Uses only these nodes meanwhile; None stands for all."""
        self.scope = scope
        try:
            yield
        finally:
            self.scope = None

    def nodes_for(self, tasks: Sequence[Task]) -> list[NodeChoice]:
        """Returns nodes for the first of these equal tasks, as many as are known at once.

        The caller places those and asks again for the rest. An empty list means that no node takes
        the next task.
        """
        task = tasks[0]
        n = min(len(tasks), CHUNK)
        # One by one where each task has a node of its own to prefer, or where a placed task changes
        # what the next one may use.
        if any(t.nominated for t in tasks) or self._depends_on_others(task):
            choice = self.node_for(task)
            return [] if choice is None else [choice]
        gathering = self._gathering(task)
        if gathering is not None or self.scope is not None or self._is_bound_to_queue(task):
            return self._gathered(task, n, gathering)
        if n == 1:
            choice = self._node_for_single(task)
            return [] if choice is None else [choice]
        scores = self._updated(task.shape)
        for now in (True, False):
            found = self._choose(task.shape, scores, n, now=now)
            if found:
                return [NodeChoice(node, now) for node in found]
        return []

    def _gathering(self, task: Task) -> GatheringScores | None:
        """Returns the scores by which tasks gather in one part of the network, if any plugin has.

        At most one plugin does.
        """
        return next((found for score in self._gathering_scores if (found := score(task))), None)

    def _gathered(self, task: Task, n: int, gathering: GatheringScores | None) -> list[NodeChoice]:
        """Returns nodes for the first of n equal tasks, one after the other, each the best.

        The scores of gathering change with every task. As long as the next best node is in the
        cell of the first, the change would only confirm it; then the caller asks again.
        """
        of_shape = self._updated(task.shape)
        scope, of_queue = self._scope_of(task), self._queue_score(task)
        is_free = scope is None and of_queue is None
        if gathering is not None and gathering.ahead is not None and is_free and n > 1:
            found = gathered_nodes(
                of_shape.now,
                gathering,
                n,
                lambda top, n: self._scores_after(task.shape, of_shape.base, top, n, now=True),
            )
            if found:
                return [NodeChoice(node, True) for node in found]
        extra = of_queue
        if gathering is not None:
            near = np.rint(gathering.of_nodes * SCORE_STEPS)
            extra = near if extra is None else extra + near
        for now in (True, False):
            scores = of_shape.now if now else of_shape.later
            if extra is not None:
                scores = scores + extra
            if scope is not None:
                scores = np.where(scope, scores, -np.inf)
            first = int(scores.argmax()) if len(scores) else NOWHERE
            if first == NOWHERE or scores[first] == -np.inf:
                continue
            settled = gathering.settled if gathering is not None else None
            if n == 1 or (settled is not None and not settled[first]):
                return [NodeChoice(first, now)]
            bound = None
            if gathering is not None:
                members = gathering.cells.members_of(first)
                scores, bound = _inside_and_best_outside(scores, members)
            ahead = _ChoiceBounds(scores, extra, bound)
            found = self._choose(task.shape, of_shape, n, now=now, ahead=ahead)
            return [NodeChoice(node, now) for node in found]
        return []

    def node_for(self, task: Task) -> NodeChoice | None:
        """Returns the best node for one task, one where it can start now before one for later.

        The nominated node of an earlier session wins over better ones of the same kind, so that a
        nomination lasts.
        """
        nominee = self._nodes.find(task.nominated) if task.nominated else NOWHERE
        for now in (True, False):
            scores = self.scores(task, now=now)
            if nominee != NOWHERE and scores[nominee] > -np.inf:
                return NodeChoice(nominee, now)
            if len(scores):
                best = int(scores.argmax())
                if scores[best] > -np.inf:
                    return NodeChoice(best, now)
        return None

    def _node_for_single(self, task: Task) -> NodeChoice | None:
        """Returns the same as `node_for`, computed ahead for single tasks of one shape in a row.

        Measured: 0.12 instead of 0.18 ms a pod (docs/scheduler-performance.md).
        """
        shape, changes = task.shape, self._nodes.changes
        known = self._scores_of.get(shape)
        ahead = known.lookahead if known and known.version == self._nodes.version else None
        if ahead is None or not ahead.is_valid(changes):
            choice = self.node_for(task)
            ahead = self._scores_of[shape].lookahead
            ahead.nodes.clear()
        else:
            if not ahead.nodes:
                ahead.nodes.extend(self._choose(shape, self._updated(shape), CHUNK, now=True))
            choice = NodeChoice(ahead.nodes.popleft(), True) if ahead.nodes else self.node_for(task)
        if choice is not None and choice.now:
            ahead.placed(choice.node, changes)
        return choice

    def scores(self, task: Task, *, now: bool) -> Vector:
        """Returns every node's score for a task; -inf where it cannot go."""
        of_shape = self._updated(task.shape)
        scores = of_shape.now if now else of_shape.later
        scope = self._scope_of(task)
        if scope is not None:
            scores = np.where(scope, scores, -np.inf)
        for mask in self._masks(task, now=now):
            scores = np.where(mask, scores, -np.inf)
        return self._with_task_scores(task, scores)

    def _with_task_scores(self, task: Task, scores: Vector) -> Vector:
        gathering = self._gathering(task) if self._gathering_scores else None
        if gathering is not None:
            scores = scores + np.rint(gathering.of_nodes * SCORE_STEPS)
        for score in self._task_scores:
            extra = score(task)
            if extra is not None:
                scores = scores + np.rint(extra * SCORE_STEPS)
        of_queue = self._queue_score(task)
        if of_queue is not None:
            scores = scores + of_queue
        for relative in self._relative_scores:
            extra = relative(task, scores > -np.inf)
            if extra is not None:
                scores = scores + np.rint(extra * SCORE_STEPS)
        return scores

    # --- the queue of a task

    def _is_bound_to_queue(self, task: Task) -> bool:
        """Whether its queue prefers some nodes to others, or may not use all of them."""
        if not self._queue_filters and not self._queue_scores:
            return False
        return self._queue_mask(task) is not None or self._queue_score(task) is not None

    def _queue_mask(self, task: Task) -> Mask | None:
        queue = task.job.queue if task.job else None
        if not self._queue_filters or queue is None:
            return None
        masks = [mask for filter_ in self._queue_filters if (mask := filter_(queue)) is not None]
        return np.logical_and.reduce(masks) if masks else None

    def _queue_score(self, task: Task) -> Vector | None:
        queue = task.job.queue if task.job else None
        if not self._queue_scores or queue is None:
            return None
        scores = [score for hook in self._queue_scores if (score := hook(queue)) is not None]
        return np.rint(sum(scores[1:], scores[0]) * SCORE_STEPS) if scores else None

    def _scope_of(self, task: Task) -> Mask | None:
        """Returns the nodes that the scope and the task's queue leave; None stands for all."""
        mask = self._queue_mask(task)
        if mask is None or self.scope is None:
            return self.scope if mask is None else mask
        return mask & self.scope

    # --- for evictions

    def allowed(self, shape: Shape) -> Mask:
        """Returns the nodes that take the shape if they have room. No eviction changes this."""
        allowed = self._updated(shape).allowed
        return allowed if self.scope is None else allowed & self.scope

    def allowed_to(self, task: Task) -> Mask:
        """Returns the same, without the nodes that the task's queue may not use."""
        mask = self._queue_mask(task)
        allowed = self.allowed(task.shape)
        return allowed if mask is None else allowed & mask

    def passing(self, task: Task) -> Mask:
        """Returns the nodes that take the task now if they have the resources."""
        passing = self.allowed_to(task)
        for mask in self._masks(task, now=True):
            passing = passing & mask
        return passing

    def ranking(self, task: Task) -> Vector:
        """Returns the scores of all nodes, whether there is room or not."""
        base = self._updated(task.shape).base
        used = self._nodes.allocatable - self._nodes.idle
        total = self._score(task.shape, base, used, self._nodes.divisor)
        if task.job is None or not task.job.is_constrained:
            of_queue = self._queue_score(task)
            return total if of_queue is None else total + of_queue
        # Where other pods of its gang are matters to it also when room is made for it.
        return self._with_task_scores(task, total)

    def fits_later(self, task: Task, node: int) -> bool:
        """Whether the task can go to the node once everything leaving has left."""
        shape = task.shape
        if not self._updated(shape).allowed[node]:
            return False
        scope = self._scope_of(task)
        if scope is not None and not scope[node]:
            return False
        # One node only: scalars are faster than `fits` with its arrays.
        future, request = self._nodes.future[:, node], shape.request
        if self._reserves:
            future = self._usable(shape, future[:, None])[:, 0]
        if any(future[p] <= request[p] - TOLERANCE for p in shape.fit_places):
            return False
        return all(mask[node] for mask in self._masks(task, now=False))

    # --- explaining

    def why_not(self, task: Task) -> str:
        """Returns one line that counts the nodes by the reason why they refuse the task."""
        queue = task.job.queue.name if task.job and task.job.queue else ""
        known = self._explained.get((task.shape, queue))
        position = len(self._nodes.changes)
        if known is not None and known[0] == position:
            return known[1]
        n_fitting, n_nodes, counts = self.refusals(task)
        text = histogram(n_fitting, n_nodes, counts)
        if n_fitting and not task.shape.has_claims:
            text = f"room for {self.n_slots(task)} like it; {text}"
        # Tasks of one shape get the same line, unless other pods' labels matter to them.
        if not self._depends_on_others(task):
            self._explained[task.shape, queue] = (position, text)
        return text

    def refusals(self, task: Task) -> tuple[int, int, list[NodeCount]]:
        """Returns on how many nodes the task could start now, of how many, and the refusals.

        A node counts for the first reason that excludes it, but for each resource it lacks.
        """
        present = np.array([node is not None for node in self._nodes.objects], dtype=np.bool_)
        # `left` are the nodes that no check has excluded so far.
        left = present & self._nodes.ready
        counts = [NodeCount(WaitReason.NODE_NOT_READY, int((present & ~left).sum()))]
        closed = left & ~self._nodes.open
        counts.append(NodeCount(WaitReason.NODE_UNREADABLE, int(closed.sum())))
        left &= ~closed
        for diagnose in self._diagnoses:
            for reason, passing, detail in diagnose(task):
                counts.append(NodeCount(reason, int((left & ~passing).sum()), detail=detail))
                left = left & passing
        idle, request = self._nodes.idle, task.shape.request
        fitting = left.copy()
        for place in task.shape.fit_places:
            short = left & (idle[place] <= request[place] - TOLERANCE)
            fitting &= ~short
            if place == PODS:
                counts.append(NodeCount(WaitReason.TOO_MANY_PODS, int(short.sum())))
            else:
                name = self._dimensions.names[place]
                note = self._devices.providers_of(name) if self._devices.objects.classes else ""
                counts.append(NodeCount(WaitReason.INSUFFICIENT, int(short.sum()), name, note))
        return int(fitting.sum()), int(present.sum()), counts

    def is_refused_for(self, task: Task, reason: WaitReason) -> bool:
        """Whether there is a node whose first reason to refuse the task is this one."""
        _, _, counts = self.refusals(task)
        return any(count.n_nodes and count.reason is reason for count in counts)

    def n_slots(self, task: Task) -> int:
        """How many tasks like this one could start now, if no other task took room."""
        room = self._usable(task.shape, self._nodes.idle)
        return int(slots(task.shape, room)[self.allowed_to(task)].sum())

    # --- inside

    def _masks(self, task: Task, *, now: bool) -> Iterator[Mask]:
        for filter_ in self._task_filters:
            mask = filter_(task, now)
            if mask is not None:
                yield mask

    def _depends_on_others(self, task: Task) -> bool:
        """Whether the task's nodes change with each task placed, so that they go one by one."""
        if any(filter_(task, True) is not None for filter_ in self._task_filters):
            return True
        if any(score(task) is not None for score in self._task_scores):
            return True
        ready = self._nodes.ready
        return any(score(task, ready) is not None for score in self._relative_scores)

    def _usable(self, shape: Shape, room: Matrix) -> Matrix:
        """Returns what tasks of the shape may use of some room: all, unless a plugin keeps some."""
        for reserve in self._reserves:
            room = reserve(shape, room)
        return room

    def _updated(self, shape: Shape) -> _ShapeScores:
        """Returns the scores of a shape, computed again for the nodes that changed since."""
        scores = self._scores_of.get(shape)
        nodes = self._nodes
        position = len(nodes.changes)
        if scores is None or scores.version != nodes.version:
            scores = self._scores_of[shape] = self._new_scores(shape)
            self._update(shape, scores, None)
        elif scores.position != position:
            stale = nodes.changed_since(scores.position)
            few = len(stale) < _STALE_PART_MAX * len(nodes)
            self._update(shape, scores, stale if few else None)
        scores.position = position
        return scores

    def _new_scores(self, shape: Shape) -> _ShapeScores:
        nodes = self._nodes
        allowed = nodes.ready & nodes.open
        for filter_ in self._node_filters:
            allowed &= filter_(shape)
        base = np.zeros(len(nodes))
        for score in self._node_scores:
            base = base + score(shape)
        empty = np.empty(len(nodes))
        return _ShapeScores(
            nodes.version, 0, allowed, base, empty, empty.copy(), _SingleTasks(deque())
        )

    def _update(self, shape: Shape, scores: _ShapeScores, rows: Places | None) -> None:
        """Computes the scores of some nodes, or of all, from what they have now."""
        columns = self._nodes.columns(rows)
        at = slice(None) if rows is None else rows
        used = columns.allocatable - columns.idle
        score = self._score(shape, scores.base[at], used, columns.divisor)
        later = fits(shape, self._usable(shape, columns.future))
        later &= scores.allowed[at]
        scores.later[at] = now_score = np.where(later, score, -np.inf)
        if columns.future is not columns.idle:
            idle = self._usable(shape, columns.idle)
            now_score = np.where(fits(shape, idle), now_score, -np.inf)
        scores.now[at] = now_score

    def _score(self, shape: Shape, base: Vector, used: Matrix, divisor: Matrix) -> Vector:
        total = base
        if self._load_scores:
            fill = (used + shape.request[:, None]) / divisor
            for score in self._load_scores:
                total = total + score(shape, fill)
        return np.rint(total * SCORE_STEPS)

    def _choose(
        self,
        shape: Shape,
        of_shape: _ShapeScores,
        n: int,
        *,
        now: bool,
        ahead: _ChoiceBounds | None = None,
    ) -> list[int]:
        """Returns the nodes that n equal tasks take one after the other, each the best in turn.

        `ahead` has other scores than those of the shape, and where to stop.
        """
        whole = of_shape.now if now else of_shape.later
        top = best_places(whole if ahead is None else ahead.scores, n)
        if not len(top):
            return []
        extra = None if ahead is None or ahead.extra is None else ahead.extra[top]
        bound = None if ahead is None else ahead.bound
        scores, fitting = self._scores_after(shape, of_shape.base, top, n, now=now, extra=extra)
        # Per node: its negated score for the next task, its place (the tie-break), how many of
        # these tasks it has, and its row. The heap gives the best node for each task in turn.
        heads = [
            (-row[0], int(node), 0, at)
            for at, (node, row) in enumerate(zip(top, scores, strict=True))
        ]
        heapify(heads)
        chosen: list[int] = []
        while heads and len(chosen) < n:
            head, node, taken, at = heads[0]
            if bound is not None and chosen and (head, node) > bound:
                break
            chosen.append(node)
            taken += 1
            if taken < n and fitting[at][taken]:
                heapreplace(heads, (-scores[at][taken], node, taken, at))
            else:
                heappop(heads)
        return chosen

    def _scores_after(
        self,
        shape: Shape,
        base: Vector,
        top: Places,
        n: int,
        *,
        now: bool,
        extra: Vector | None = None,
    ) -> tuple[list[list[float]], list[list[bool]]]:
        """Returns score and fit of some nodes after 0, 1, ... n-1 tasks were placed there."""
        columns = self._nodes.columns(np.repeat(top, n))
        # Per node 0, 1, ... n - 1 tasks, one node after the other.
        taken = np.multiply.outer(shape.request, np.arange(n * len(top)) % n)
        fitting = fits(shape, self._usable(shape, columns.future - taken))
        used = columns.allocatable - columns.idle
        if now:  # a pipelined task takes no room yet, so it changes no score
            if columns.future is not columns.idle:
                fitting &= fits(shape, self._usable(shape, columns.idle - taken))
            used += taken
        score = self._score(shape, np.repeat(base[top], n), used, columns.divisor)
        if extra is not None:
            score = score + np.repeat(extra, n)
        each = (len(top), n)
        return score.reshape(each).tolist(), fitting.reshape(each).tolist()


def _inside_and_best_outside(
    scores: Vector, members: Places
) -> tuple[Vector, tuple[float, int] | None]:
    """Returns the scores of some nodes alone, and the best of all others."""
    outside = scores.copy()
    outside[members] = -np.inf
    best = int(outside.argmax())
    inside = np.full(len(scores), -np.inf)
    inside[members] = scores[members]
    return inside, (-float(outside[best]), best) if outside[best] > -np.inf else None
