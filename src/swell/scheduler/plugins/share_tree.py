"""Hierarchical dominant resource fairness: queues compared along a weighted tree.

The tree is given by annotations of the queues: `volcano.sh/hierarchy: root/eng/dev` and
`volcano.sh/hierarchy-weights: 1/3/2`. Its leaves are jobs, below the tree node of their queue. As
in Volcano, a node's allocation is that of its children, each scaled down to the smallest dominant
share among those that can still grow: departments compete as if their parts were balanced. A
saturated child, which cannot grow, is not scaled and does not hold its siblings back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.hooks import SortKey
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.resources import PODS, Mask, Shares, Vector
from swell.scheduler.model.tasks import Task
from swell.scheduler.session import Session

PATH: Final = "volcano.sh/hierarchy"
WEIGHTS: Final = "volcano.sh/hierarchy-weights"
_UNKNOWN = -1


@dataclass(slots=True)
class _ShareNode:
    """A node of the tree; the last three fields are those of the last update."""

    weight: float = 1.0
    queues: list[QueueInfo] = field(default_factory=list)
    children: dict[str, _ShareNode] = field(default_factory=dict)
    held: Vector = field(default_factory=lambda: np.zeros(0))
    share: float = 0.0
    is_saturated: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """The contribution of a child to its parent: its allocation, share, and whether it can grow."""

    held: Vector
    share: float
    is_saturated: bool


class ShareTree:
    """The tree of one session. Shares follow the allocations of the queues' jobs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._total = session.total
        self._whole = Shares(session.total)
        self._root = _ShareNode()
        self._paths: dict[str, list[_ShareNode]] = {}
        # By queue: its sums when its jobs were last looked at, and what they gave.
        self._known: dict[str, tuple[object, _Part]] = {}
        self._updated_at = _UNKNOWN
        for _, queue in sorted(session.snapshot.queues.items()):
            self._paths[queue.name] = self._insert(queue)

    def key(self, queue: QueueInfo) -> SortKey:
        """Returns the sort key, level by level: unsaturated first, then the smaller share."""
        self._refresh()
        key: list[float | str] = []
        for node in self._paths[queue.name]:
            key += [float(node.is_saturated), node.share / node.weight]
        return tuple(key)

    def reclaimable(self, preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        """Returns the units whose queue would still come after the preemptor's without them.

        Cumulative: each unit is judged as if those granted before it were gone.
        """
        job = preemptor.job
        if job is None or job.queue is None:
            return []
        granted: list[EvictionUnit] = []
        # Tried in place and undone: the tree reads the amounts of jobs and queues.
        self._shift(job, preemptor.request)
        try:
            for unit in victims:
                queue = unit.job.queue
                if queue is None:
                    continue
                self._shift(unit.job, -unit.request)
                if self.key(job.queue) < self.key(queue):  # type: ignore[operator]
                    granted.append(unit)
                else:
                    self._shift(unit.job, unit.request)
        finally:
            for unit in granted:
                self._shift(unit.job, unit.request)
            self._shift(job, -preemptor.request)
        return granted

    def _shift(self, job: JobInfo, amount: Vector) -> None:
        """Counts an amount as held by a job instead of asked for."""
        for one in (job, job.queue):
            if one is not None:
                one.allocated += amount
                one.pending -= amount
        # The queue's sums may be as after a trial with another job of it.
        self._known.pop(job.queue.name if job.queue else "", None)
        self._updated_at = _UNKNOWN

    def _insert(self, queue: QueueInfo) -> list[_ShareNode]:
        notes = queue.object.metadata.annotations
        # The path begins with "root"; a queue without a path is a child of the root.
        names = [part for part in notes.get(PATH, "").split("/") if part][1:] or [queue.name]
        weights = notes.get(WEIGHTS, "").split("/")[1:]
        path, node = [self._root], self._root
        for level, name in enumerate(names):
            if name not in node.children:
                weight = _weight(weights[level] if level < len(weights) else "")
                node.children[name] = _ShareNode(weight)
            node = node.children[name]
            path.append(node)
        node.queues.append(queue)
        return path

    def _refresh(self) -> None:
        """Computes all shares anew if any task has moved since the last time."""
        now = len(self._session.snapshot.nodes.changes)
        if now == self._updated_at:
            return
        self._updated_at = now
        queues = self._session.snapshot.queues.values()
        held = sum((queue.allocated for queue in queues), np.zeros_like(self._total))
        # Of the others the cluster has nothing left, so jobs that ask for them cannot grow.
        self._update(self._root, held < self._total)

    def _update(self, node: _ShareNode, left: Mask) -> None:
        parts = [self._part_of_queue(queue, left) for queue in node.queues if queue.jobs]
        for child in node.children.values():
            self._update(child, left)
            parts.append(_Part(child.held, child.share, child.is_saturated))
        growing = [part.share for part in parts if part.share and not part.is_saturated]
        level = min(growing, default=1.0)
        held = np.zeros_like(self._total)
        for part in parts:
            if part.share:
                held = held + part.held * (1.0 if part.is_saturated else level / part.share)
        node.held = held
        node.share = self._whole.dominant(held)
        # A node without jobs wants nothing.
        node.is_saturated = all(part.is_saturated for part in parts)

    def _part_of_queue(self, queue: QueueInfo, left: Mask) -> _Part:
        """Returns what the jobs of a queue give to its node, scaled like children of a node."""
        # Placements change the sums. Only evictions can move amounts between jobs of one queue and
        # leave the sums alone, hence their number.
        sums = (
            queue.allocated.tobytes(),
            queue.pending.tobytes(),
            left.tobytes(),
            len(self._session.evictions),
        )
        known = self._known.get(queue.name)
        if known is not None and known[0] == sums:
            return known[1]
        held = np.array([job.allocated for job in queue.jobs.values()])
        asked = held + np.array([job.pending for job in queue.jobs.values()])
        saturated = _saturated(held, asked, left)
        shares = self._whole.dominant_of_rows(held)
        is_growing = (shares > 0) & ~saturated
        level = float(shares[is_growing].min(initial=1.0))
        factors = np.where(is_growing, level / np.where(is_growing, shares, 1.0), 1.0)
        scaled: Vector = (held * factors[:, None]).sum(axis=0)
        part = _Part(scaled, self._whole.dominant(scaled), bool(saturated.all()))
        self._known[queue.name] = (sums, part)
        return part


def _saturated(held: Vector, asked: Vector, left: Mask) -> Mask:
    """Whether jobs cannot grow: one has all it asked of a resource, or asks for one that is gone.

    One row for each job.
    """
    counts = np.arange(len(left)) != PODS
    satisfied = (held > 0) & (held >= asked)
    found: Mask = (counts & (asked > 0) & (satisfied | ~left)).any(axis=1)
    return found


def _weight(text: str) -> float:
    """Returns a weight of the annotation; 1 for a malformed one, and at least 1."""
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 1.0
