"""The plugin drf (dominant resource fairness): the smallest dominant share comes first.

The dominant share of a job is its largest share of any resource of the cluster. With hierarchy,
queues are the leaves of a weighted tree given by annotations, and are compared along it: a tree
node's allocation is that of its children, each scaled down to the smallest dominant share among
those that can still grow, so that departments compete as if their parts were balanced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.hooks import Hooks, SortKey
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.resources import PODS, Mask, Shares, Vector
from swell.scheduler.model.tasks import Task
from swell.scheduler.session import Session

PATH: Final = "volcano.sh/hierarchy"
WEIGHTS: Final = "volcano.sh/hierarchy-weights"
_SAME = 1e-6  # shares that differ by less count as equal, as in Volcano


def open_drf(session: Session, option: PluginOption) -> Hooks:
    total = session.total
    whole = Shares(total)

    def share(job: JobInfo) -> float:
        return whole.dominant(job.allocated)

    def preemptable(preemptor: Task, units: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        if preemptor.job is None:
            return []
        mine = whole.dominant(preemptor.job.allocated + preemptor.request)
        left: dict[str, Vector] = {}
        granted: list[EvictionUnit] = []
        for unit in units:
            # Cumulative: each unit is judged as if all before it were gone, granted or not.
            after = left.get(unit.job.key, unit.job.allocated) - unit.request
            left[unit.job.key] = after
            if mine - whole.dominant(after) <= _SAME:
                granted.append(unit)
        return granted

    if not option.is_on("enableHierarchy"):
        return Hooks(job_key=share, preemptable=preemptable)
    tree = ShareTree(session.snapshot.queues.values(), total)
    return Hooks(
        job_key=share,
        preemptable=preemptable,
        queue_key=tree.key,
        queue_keys_interact=True,
        reclaimable=tree.reclaimable,
    )


@dataclass(slots=True)
class _ShareNode:
    """A node of the tree; `share` and `is_saturated` are those of the last update."""

    name: str
    weight: float = 1.0
    queues: list[QueueInfo] = field(default_factory=list)
    children: dict[str, _ShareNode] = field(default_factory=dict)
    share: float = 0.0
    is_saturated: bool = False


class ShareTree:
    """The weighted tree of queues. Shares are computed anew for every comparison."""

    def __init__(self, queues: Iterable[QueueInfo], total: Vector) -> None:
        self._total = total
        self._whole = Shares(total)
        self._root = _ShareNode("root")
        self._paths: dict[str, list[_ShareNode]] = {}
        for queue in sorted(queues, key=lambda q: q.name):
            self._paths[queue.name] = self._insert(queue)

    def key(self, queue: QueueInfo) -> SortKey:
        """Returns the sort key, level by level: unsaturated first, then the smaller share."""
        self._update(self._root, self._demanding())
        key: list[float | str] = []
        for node in self._paths[queue.name]:
            key += [float(node.is_saturated), node.share / node.weight]
        return tuple(key)

    def reclaimable(self, preemptor: Task, units: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        """Returns the units whose queue would still come after the preemptor's without them."""
        own = preemptor.job.queue if preemptor.job else None
        if own is None:
            return []
        return [
            unit
            for unit in units
            if unit.job.queue is not None and self._comes_after(own, preemptor, unit)
        ]

    def _comes_after(self, own: QueueInfo, preemptor: Task, unit: EvictionUnit) -> bool:
        other = unit.job.queue
        assert other is not None  # noqa: S101 - the caller looked
        # Tried in place and undone: the tree reads the queues' allocations.
        own.allocated += preemptor.request
        other.allocated -= unit.request
        try:
            return self.key(own) < self.key(other)  # type: ignore[operator]
        finally:
            own.allocated -= preemptor.request
            other.allocated += unit.request

    def _insert(self, queue: QueueInfo) -> list[_ShareNode]:
        notes = queue.object.metadata.annotations
        # The path begins with "root"; a queue without a path is a child of the root.
        names = [part for part in notes.get(PATH, "").split("/") if part][1:] or [queue.name]
        weights = notes.get(WEIGHTS, "").split("/")[1:]
        path, node = [self._root], self._root
        for level, name in enumerate(names):
            node = node.children.setdefault(name, _ShareNode(name))
            node.weight = _weight(weights[level] if level < len(weights) else "")
            path.append(node)
        node.queues.append(queue)
        return path

    def _demanding(self) -> Mask:
        """Returns the resources of which the cluster has something left."""
        held = sum(
            (queue.allocated for path in self._paths.values() for queue in path[-1].queues),
            np.zeros_like(self._total),
        )
        return held < self._total

    def _update(self, node: _ShareNode, demanding: Mask) -> Vector:
        """Computes share and saturation of a node and all below; returns its scaled allocation."""
        if not node.children:
            held: Vector = np.sum([queue.allocated for queue in node.queues], axis=0)
            asked = held + np.sum([queue.pending for queue in node.queues], axis=0)
            node.is_saturated = _is_saturated(held, asked, demanding)
            node.share = self._whole.dominant(held)
            return held
        parts = [(child, self._update(child, demanding)) for child in node.children.values()]
        growing = [child.share for child, _ in parts if child.share and not child.is_saturated]
        level = min(growing, default=1.0)
        held = np.zeros_like(self._total)
        for child, amount in parts:
            if child.share:
                held = held + amount * (1.0 if child.is_saturated else level / child.share)
        node.share = self._whole.dominant(held)
        node.is_saturated = all(child.is_saturated for child, _ in parts)
        return held


def _is_saturated(held: Vector, asked: Vector, demanding: Mask) -> bool:
    """Whether a leaf cannot grow: it has all it asked of a resource, or the cluster has no more."""
    counts = np.arange(len(asked)) != PODS
    satisfied = (held > 0) & (held >= asked)
    return bool((counts & (asked > 0) & (satisfied | ~demanding)).any())


def _weight(text: str) -> float:
    """Returns a weight of the annotation; 1 for a malformed one, and at least 1."""
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 1.0
