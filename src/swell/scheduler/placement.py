"""The choice of nodes: the best node for each of n equal tasks.

For every shape the `Placer` keeps two scores per node, for starting now and for starting once room
has been freed, and updates only the nodes that changed. The score of a node depends on its state
(`model.node_states`), and is computed once for each state that a node gets.
Whether a whole gang fits is decided in `gang_fit`, quotas of queues in the plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

import numpy as np

from swell.scheduler.gathering import SCORE_STEPS, gathered_nodes
from swell.scheduler.hooks import GatheringScores, Tiers, flat
from swell.scheduler.model.node_states import NodeColumns
from swell.scheduler.model.nodes import fits, slots
from swell.scheduler.model.reasons import NodeCount, WaitReason, histogram
from swell.scheduler.model.resources import PODS, TOLERANCE, Mask, Matrix, Places, Vector
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Shape, Task

# How many equal tasks are placed at once: what one pass looks ahead is bounded by this.
CHUNK = 32
# When a larger part of the nodes changed, all rows are computed instead of a selection.
_STALE_PART_MAX = 1 / 4
_NEVER = -1  # before any position in the log of changes


class NodeChoice(NamedTuple):
    """A node for a task, and whether the task can start there now or must be pipelined."""

    node: int
    now: bool


class NodeChoices(NamedTuple):
    """The nodes of some equal tasks, and whether these can start there now."""

    nodes: list[int]
    now: bool


@dataclass(slots=True)
class _Row:
    """Scores for one shape, all now or all later. -inf marks where it does not fit."""

    of_nodes: Vector  # right as of this position in the log of changes
    of_states: Vector  # by number of the state; NaN where it is not known yet
    position: int = _NEVER


@dataclass(slots=True)
class _ShapeScores:
    """The scores of all nodes for one shape."""

    version: int  # of the node table, for which `allowed` and `base` are right
    allowed: Mask
    base: Vector  # the part of the score that does not depend on the load
    of_allowed: Vector  # the same, -inf on nodes that are not allowed
    now: _Row
    later: _Row


class _Bound(NamedTuple):
    """The best node elsewhere, after which no node is taken."""

    head: float  # its negated score
    place: int


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

    def nodes_for(self, tasks: Sequence[Task]) -> NodeChoices | None:
        """Returns nodes for the first of these equal tasks, as many as are known at once.

        The caller places those and asks again for the rest. None means that no node takes the next
        task.
        """
        task = tasks[0]
        n = min(len(tasks), CHUNK)
        # One by one where each task has a node of its own to prefer, or where a placed task changes
        # what the next one may use.
        if any(t.nominated for t in tasks) or self._depends_on_others(task):
            choice = self.node_for(task)
            return None if choice is None else NodeChoices([choice.node], choice.now)
        gathering = self._gathering(task)
        if gathering is not None or self.scope is not None or self._is_bound_to_queue(task):
            return self._gathered(task, n, gathering)
        for now in (True, False):
            found = self._choose(task.shape, n, self._updated(task.shape, now=now), now=now)
            if found:
                return NodeChoices(found, now)
            if self._nodes.idle_is_future:
                break  # nothing is leaving for which to wait
        return None

    def _gathering(self, task: Task) -> GatheringScores | None:
        """Returns the scores by which tasks gather in one part of the network, if any plugin has.

        At most one plugin does.
        """
        return next((found for score in self._gathering_scores if (found := score(task))), None)

    def _gathered(
        self, task: Task, n: int, gathering: GatheringScores | None
    ) -> NodeChoices | None:
        """Returns nodes for the first of n equal tasks, one after the other, each the best.

        The scores of gathering change with every task. As long as the next best node is in the
        cell of the first, the change would only confirm it; then the caller asks again.
        """
        shape, of_queue = task.shape, self._queue_score(task)
        scope = self._scope_of(task)
        is_free = scope is None and of_queue is None
        if gathering is not None and gathering.ahead is not None and is_free and n > 1:
            found = gathered_nodes(
                self._updated(shape, now=True),
                gathering,
                n,
                lambda top, n: self._scores_after(shape, top, n),
            )
            if found:
                return NodeChoices(found, True)
        extra = of_queue
        if gathering is not None:
            near = np.rint(gathering.of_nodes * SCORE_STEPS)
            extra = near if extra is None else extra + near
        for now in (True, False):
            scores = self._updated(shape, now=now)
            if extra is not None:
                scores = scores + extra
            if scope is not None:
                scores = np.where(scope, scores, -np.inf)
            first = int(scores.argmax()) if len(scores) else NOWHERE
            if first == NOWHERE or scores[first] == -np.inf:
                continue
            settled = gathering.settled if gathering is not None else None
            if n == 1 or (settled is not None and not settled[first]):
                return NodeChoices([first], now)
            bound = None
            if gathering is not None:
                members = gathering.cells.members_of(first)
                scores, bound = _inside_and_best_outside(scores, members)
            found = self._choose(shape, n, scores, now=now, extra=extra, bound=bound)
            return NodeChoices(found, now)
        return None

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

    def scores(self, task: Task, *, now: bool) -> Vector:
        """Returns every node's score for a task; -inf where it cannot go. Not to be written to."""
        scores = self._updated(task.shape, now=now)
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
        allowed = self._of(shape).allowed
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
        base = self._of(task.shape).base
        total = base + self._load_score(task.shape, self._nodes.columns())
        if task.job is None or not task.job.is_constrained:
            of_queue = self._queue_score(task)
            return total if of_queue is None else total + of_queue
        # Where other pods of its gang are matters to it also when room is made for it.
        return self._with_task_scores(task, total)

    def fits_later(self, task: Task, node: int) -> bool:
        """Whether the task can go to the node once everything leaving has left."""
        shape = task.shape
        if not self._of(shape).allowed[node]:
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

    def _of(self, shape: Shape) -> _ShapeScores:
        """Returns what is known of a shape, made anew when nodes came, went or changed."""
        scores = self._scores_of.get(shape)
        if scores is None or scores.version != self._nodes.version:
            scores = self._scores_of[shape] = self._new_scores(shape)
        return scores

    def _new_scores(self, shape: Shape) -> _ShapeScores:
        nodes = self._nodes
        allowed = nodes.ready & nodes.open
        for filter_ in self._node_filters:
            allowed &= filter_(shape)
        base = np.zeros(len(nodes))
        for score in self._node_scores:
            base = base + score(shape)
        base = np.rint(base * SCORE_STEPS)
        rows = [_Row(np.empty(len(nodes)), np.empty(0)) for _ in range(2)]
        return _ShapeScores(nodes.version, allowed, base, np.where(allowed, base, -np.inf), *rows)

    def _updated(self, shape: Shape, *, now: bool) -> Vector:
        """Returns the scores of all nodes for a shape, those that changed computed again."""
        of_shape, nodes = self._of(shape), self._nodes
        is_now = now or nodes.idle_is_future
        row = of_shape.now if is_now else of_shape.later
        position = len(nodes.changes)
        if row.position == position:
            return row.of_nodes
        stale = None if row.position == _NEVER else nodes.changed_since(row.position)
        if stale is None or len(stale) > _STALE_PART_MAX * len(nodes):
            states = nodes.state_of()
            row.of_nodes = of_shape.of_allowed + self._of_states(shape, row, states, now=is_now)
        else:
            scores = self._of_states(shape, row, nodes.state_of(stale), now=is_now)
            row.of_nodes[stale] = of_shape.of_allowed[stale] + scores
        row.position = position
        return row.of_nodes

    def _of_states(self, shape: Shape, row: _Row, states: Places, *, now: bool) -> Vector:
        """Returns the scores of some states, and computes those that are not known yet."""
        if len(self._nodes.states) > len(row.of_states):
            # Doubled, so that a new state rarely costs a copy.
            more = 2 * len(self._nodes.states) - len(row.of_states)
            row.of_states = np.concatenate([row.of_states, np.full(more, np.nan)])
        scores: Vector = row.of_states[states]
        # The first NaN counts as the highest: this finds one at the cost of one look.
        if len(scores) and np.isnan(scores[scores.argmax()]):
            missing = np.zeros(len(self._nodes.states), dtype=np.bool_)
            missing[states[np.isnan(scores)]] = True
            places = np.flatnonzero(missing)
            row.of_states[places] = self._scores_in(shape, places, now=now)
            scores = row.of_states[states]
        return scores

    def _scores_in(self, shape: Shape, states: Places, *, now: bool) -> Vector:
        """Computes what a node in each of these states scores, without its base."""
        columns = self._nodes.states.columns(states)
        fitting = fits(shape, self._usable(shape, columns.future))
        if now and not self._nodes.idle_is_future:
            fitting &= fits(shape, self._usable(shape, columns.idle))
        scores: Vector = np.where(fitting, self._load_score(shape, columns), -np.inf)
        return scores

    def _load_score(self, shape: Shape, columns: NodeColumns) -> Vector:
        """Returns the part of the score that depends on the load with one more task."""
        total = np.zeros(columns.idle.shape[1])
        if self._load_scores:
            fill = columns.allocatable - columns.idle
            fill += shape.request[:, None]
            fill /= columns.divisor
            for score in self._load_scores:
                total = total + score(shape, fill)
        return np.rint(total * SCORE_STEPS)

    def _choose(
        self,
        shape: Shape,
        n: int,
        scores: Vector,
        *,
        now: bool,
        extra: Vector | None = None,
        bound: _Bound | None = None,
    ) -> list[int]:
        """Returns the nodes that n equal tasks take one after the other, each the best in turn.

        `scores` may have something added to those of the shape, which is `extra`.
        """
        after_one_more = self._scores_ahead(shape, now=now)
        chosen: list[int] = []
        is_copy = False
        while len(scores):
            best = scores.item(scores.argmax())
            if best == -np.inf:
                break
            # Usually many nodes have the best score. They take their turns in order of their
            # places: each keeps getting tasks until its score falls below that of the others.
            tied = np.flatnonzero(scores == best)[: n - len(chosen)].tolist()
            after: dict[int, float] = {}
            for place in tied:
                score = best
                while score >= best:
                    if bound is not None and chosen and (-score, place) > bound:
                        return chosen
                    chosen.append(place)
                    if len(chosen) == n:
                        return chosen
                    score = after_one_more(place, tied, n - len(chosen))
                    if extra is not None:
                        score += extra.item(place)
                after[place] = score
            if not is_copy:
                scores, is_copy = scores.copy(), True
            scores[list(after)] = list(after.values())
        return chosen

    def _scores_ahead(
        self, shape: Shape, *, now: bool
    ) -> Callable[[int, Sequence[int], int], float]:
        """Begins to place tasks of a shape in thought only.

        Returns a function that is told where one more is placed, which nodes are as good, and how
        many tasks are left; it returns the score of that node for the next task.
        """
        of_shape, states = self._of(shape), self._nodes.states
        row = of_shape.now if now else of_shape.later
        state_of, following = self._nodes.state_of(), states.following(shape, now=now)
        state_now: dict[int, int] = {}

        def compute(state: int, is_first: bool, tied: Sequence[int], n_left: int) -> None:
            # At once what else is likely to be asked for: one large array costs less than many
            # small ones. A node that got two tasks in a row may get all others, too.
            wanted = states.chain(state, shape, 1 if is_first else n_left, now=now)
            if is_first:
                others = {state_of.item(place) for place in tied}
                wanted += [states.after(other, shape, now=now) for other in others]
            self._of_states(shape, row, np.array(wanted), now=now)

        def after_one_more(place: int, tied: Sequence[int], n_left: int) -> float:
            before = state_now.get(place)
            state = state_of.item(place) if before is None else before
            after = following.get(state)
            if after is None or after >= len(row.of_states) or isnan(row.of_states.item(after)):
                compute(state, before is None, tied, n_left)
                after = following[state]
            state_now[place] = after
            return row.of_states.item(after) + of_shape.base.item(place)

        return after_one_more

    def _scores_after(
        self, shape: Shape, top: Places, n: int
    ) -> tuple[list[list[float]], list[list[bool]]]:
        """Returns score and fit of some nodes after 0, 1, ... n-1 tasks started there now."""
        columns = self._nodes.columns(np.repeat(top, n))
        # Per node 0, 1, ... n - 1 tasks, one node after the other.
        taken = np.multiply.outer(shape.request, np.arange(n * len(top)) % n)
        fitting = fits(shape, self._usable(shape, columns.future - taken))
        if columns.future is not columns.idle:
            fitting &= fits(shape, self._usable(shape, columns.idle - taken))
        after = columns._replace(idle=columns.idle - taken)
        score = self._load_score(shape, after) + np.repeat(self._of(shape).base[top], n)
        each = (len(top), n)
        return score.reshape(each).tolist(), fitting.reshape(each).tolist()


def _inside_and_best_outside(scores: Vector, members: Places) -> tuple[Vector, _Bound | None]:
    """Returns the scores of some nodes alone, and the best of all others."""
    outside = scores.copy()
    outside[members] = -np.inf
    best = int(outside.argmax())
    inside = np.full(len(scores), -np.inf)
    inside[members] = scores[members]
    return inside, _Bound(-float(outside[best]), best) if outside[best] > -np.inf else None
