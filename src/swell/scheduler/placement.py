"""The choice of nodes: the best node for each of n equal tasks.

The `Placer` asks `node_scores` for what the nodes are worth to a shape, and adds what other pods,
the network and the queue of a task change about it.
Whether a whole gang fits is decided in `gang_fit`, quotas of queues in the plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from swell.scheduler.gathering import SCORE_STEPS, NodesAhead, gathered_nodes
from swell.scheduler.hooks import GatheringScores, Tiers, flat
from swell.scheduler.model.nodes import slots
from swell.scheduler.model.reasons import NodeCount, WaitReason, histogram
from swell.scheduler.model.resources import PODS, TOLERANCE, Mask, Places, Vector
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Shape, Task
from swell.scheduler.node_scores import Bound, NodeScores
from swell.scheduler.scores_ahead import ScoresAhead

# How many equal tasks are placed at once: what one pass looks ahead is bounded by this.
CHUNK = 32


class NodeChoice(NamedTuple):
    """A node for a task, and whether the task can start there now or must be pipelined."""

    node: int
    now: bool


class NodeChoices(NamedTuple):
    """The nodes of some equal tasks, and whether these can start there now.

    `are_all`: no node takes another task like these, now or later.
    """

    nodes: list[int]
    now: bool
    are_all: bool = False


class Placer:
    """Chooses nodes for tasks in one session, by the filters and scores of its plugins."""

    def __init__(self, snapshot: SchedulerSnapshot, tiers: Tiers) -> None:
        self._nodes = snapshot.nodes
        self._dimensions = snapshot.dimensions
        self._scores = NodeScores(snapshot.nodes, tiers)
        self._ahead = ScoresAhead(snapshot.nodes, self._scores, snapshot.dimensions)
        self._task_filters = flat(tiers, lambda h: h.task_filter, "enablePredicate")
        self._diagnoses = flat(tiers, lambda h: h.diagnose, "enablePredicate")
        self._task_scores = flat(tiers, lambda h: h.task_score, "enableNodeOrder")
        self._gathering_scores = flat(tiers, lambda h: h.gathering_score, "enableNodeOrder")
        self._relative_scores = flat(tiers, lambda h: h.relative_score, "enableNodeOrder")
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
        if _has_nominees(tasks) or self._depends_on_others(task):
            choice = self.node_for(task)
            return None if choice is None else NodeChoices([choice.node], choice.now)
        gathering = self._gathering(task)
        if gathering is not None or self.scope is not None or self._is_bound_to_queue(task):
            return self._gathered(task, n, gathering)
        for now in (True, False):
            found = self._scores.in_turn(
                task.shape, n, self._scores.current(task.shape, now=now), now=now
            )
            if found:
                return self._choices(found, n, now=now)
            if self._nodes.idle_is_future:
                break  # nothing is leaving for which to wait
        return None

    def _choices(self, nodes: list[int], n: int, *, now: bool) -> NodeChoices:
        """Returns the choices of a search for n nodes that went on until there was no other."""
        waits = now and not self._nodes.idle_is_future
        return NodeChoices(nodes, now, are_all=len(nodes) < n and not waits)

    def _gathering(self, task: Task) -> GatheringScores | None:
        """Returns the scores by which tasks gather in one part of the network, if any plugin has.

        At most one plugin does.
        """
        for score in self._gathering_scores:
            found = score(task)
            if found is not None:
                return found
        return None

    def _gathered(
        self, task: Task, n: int, gathering: GatheringScores | None
    ) -> NodeChoices | None:
        """Returns nodes for the first of n equal tasks, one after the other, each the best.

        The scores of gathering change with every task. As long as the next best node is in the
        cell of the first, the change would only confirm it; then the caller asks again.
        """
        shape, of_queue = task.shape, self._queue_score(task)
        scope = self._scope_of(task)
        if scope is None and of_queue is None and gathering is not None and n > 1:
            found = self._foreseen(shape, n, gathering)
            if found is not None and (found or self._nodes.idle_is_future):
                # Where nothing is leaving there is nothing to wait for.
                return self._choices(found, n, now=True) if found else None
        extra = of_queue
        if gathering is not None:
            near = gathering.of_nodes
            extra = near if extra is None else extra + near
        for now in (True, False):
            scores = self._scores.current(shape, now=now)
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
            found = self._scores.in_turn(shape, n, scores, now=now, extra=extra, bound=bound)
            return NodeChoices(found, now)
        return None

    def _foreseen(self, shape: Shape, n: int, gathering: GatheringScores) -> list[int] | None:
        """Returns where n tasks of a shape can start, each after those before it.

        None if how the scores change with each of them cannot be foreseen.
        """
        cells, ahead = gathering.cells, self._ahead
        if gathering.ahead is None:
            return None
        nodes = NodesAhead(ahead.of_nodes(shape, cells), lambda node: ahead.of_node(shape, node, n))
        return gathered_nodes(shape, n, cells, nodes, gathering.ahead)

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
        scores = self._scores.current(task.shape, now=now)
        scope = self._scope_of(task)
        if scope is not None:
            scores = np.where(scope, scores, -np.inf)
        for mask in self._masks(task, now=now):
            scores = np.where(mask, scores, -np.inf)
        return self._with_task_scores(task, scores)

    def _with_task_scores(self, task: Task, scores: Vector) -> Vector:
        gathering = self._gathering(task) if self._gathering_scores else None
        if gathering is not None:
            scores = scores + gathering.of_nodes
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
        allowed = self._scores.allowed(shape)
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
        total = self._scores.of_all(task.shape)
        if task.job is None or not task.job.is_constrained:
            of_queue = self._queue_score(task)
            return total if of_queue is None else total + of_queue
        # Where other pods of its gang are matters to it also when room is made for it.
        return self._with_task_scores(task, total)

    def fits_later(self, task: Task, node: int) -> bool:
        """Whether the task can go to the node once everything leaving has left."""
        shape = task.shape
        if not self._scores.allowed(shape)[node]:
            return False
        scope = self._scope_of(task)
        if scope is not None and not scope[node]:
            return False
        # One node only: scalars are faster than `fits` with its arrays.
        future, request = self._nodes.future[:, node], shape.request
        if self._scores.keeps_room:
            future = self._scores.usable(shape, future[:, None])[:, 0]
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
        present = self._nodes.present
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
                counts.append(NodeCount(WaitReason.INSUFFICIENT, int(short.sum()), name))
        return int(fitting.sum()), int(present.sum()), counts

    def is_refused_for(self, task: Task, reason: WaitReason) -> bool:
        """Whether there is a node whose first reason to refuse the task is this one."""
        _, _, counts = self.refusals(task)
        return any(count.n_nodes and count.reason is reason for count in counts)

    def n_slots(self, task: Task) -> int:
        """How many tasks like this one could start now, if no other task took room."""
        room = self._scores.usable(task.shape, self._nodes.idle)
        return int(slots(task.shape, room)[self.allowed_to(task)].sum())

    # --- inside

    def _masks(self, task: Task, *, now: bool) -> Iterator[Mask]:
        for filter_ in self._task_filters:
            mask = filter_(task, now)
            if mask is not None:
                yield mask

    def _depends_on_others(self, task: Task) -> bool:
        """Whether the task's nodes change with each task placed, so that they go one by one."""
        # Loops and not `any`: this is asked for every gang, and a generator costs more than it.
        for filter_ in self._task_filters:
            if filter_(task, True) is not None:
                return True
        for score in self._task_scores:
            if score(task) is not None:
                return True
        for relative in self._relative_scores:
            if relative(task, self._nodes.ready) is not None:
                return True
        return False


def _has_nominees(tasks: Sequence[Task]) -> bool:
    for task in tasks:  # noqa: SIM110 - as above
        if task.nominated:
            return True
    return False


def _inside_and_best_outside(scores: Vector, members: Places) -> tuple[Vector, Bound | None]:
    """Returns the scores of some nodes alone, and the best of all others."""
    outside = scores.copy()
    outside[members] = -np.inf
    best = int(outside.argmax())
    inside = np.full(len(scores), -np.inf)
    inside[members] = scores[members]
    return inside, Bound(-float(outside[best]), best) if outside[best] > -np.inf else None
