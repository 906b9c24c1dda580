"""A queue in the snapshot: the sums of what its jobs hold, and its ancestors.

- `QueueInfo` is a queue with what its jobs hold; `read_queue` makes one of any queue, and
  `link_queues` finds the ancestors of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from swell.api.quantity import QuantityError
from swell.api.scheduling import Guarantee, Queue, QueueState
from swell.scheduler.model.queue_rules import parent_name
from swell.scheduler.model.resources import Dimensions, Vector, widened

if TYPE_CHECKING:
    from swell.scheduler.model.jobs import JobInfo


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A queue as the plugin in charge of quotas describes it, for metrics."""

    held: Vector  # what counts against the queue; in a tree also what queues below it hold
    deserved: Vector
    limit: Vector  # the most it may have ("real capacity" in Volcano)
    share: float  # of what it deserves
    is_overused: bool


class QueueInfo:
    """One Queue with what its jobs hold. `subtree` also counts what its descendants hold."""

    __slots__ = (
        "allocated",
        "capability",
        "created",
        "deserved",
        "deserved_given",
        "elastic",
        "guarantee",
        "jobs",
        "lineage",
        "name",
        "object",
        "parent",
        "pending",
        "priority",
        "reclaimable",
        "reserved",
        "subtree",
        "unreadable",
        "weight",
    )

    def __init__(self, queue: Queue, dimensions: Dimensions) -> None:
        spec = queue.spec
        self.object = queue
        self.name = queue.metadata.name
        self.created = queue.metadata.creation_timestamp or ""
        self.parent = spec.parent
        self.weight = max(spec.weight, 1)  # a weight of 0 would deserve nothing for ever
        self.priority = spec.priority
        self.reclaimable = spec.reclaimable is not False  # unset means yes
        self.capability = dimensions.ceiling(spec.capability)
        self.deserved = dimensions.vector(spec.deserved)
        self.deserved_given = dimensions.given(spec.deserved)
        self.guarantee = dimensions.vector(spec.guarantee.resource)
        self.unreadable = ""  # why its limits are not known
        self.jobs: dict[str, JobInfo] = {}
        self.allocated = dimensions.zero()
        self.pending = dimensions.zero()
        self.reserved = dimensions.zero()
        self.elastic = dimensions.zero()
        self.subtree = dimensions.zero()
        self.lineage: tuple[QueueInfo, ...] = (self,)  # the queue, its parent, ..., the root

    @property
    def is_open(self) -> bool:
        # A queue whose status was never written is open. Asked for every gang, hence no set.
        state = self.object.status.state
        return state is QueueState.OPEN or state is QueueState.EMPTY

    def charge(self, amount: Vector) -> None:
        """Adds an amount to what the queue holds, and to the subtree of each ancestor."""
        self.allocated += amount
        for queue in self.lineage:
            queue.subtree += amount

    def widen(self, width: int) -> None:
        self.deserved_given = np.concatenate(
            [self.deserved_given, np.zeros(width - len(self.deserved_given), dtype=np.bool_)]
        )
        self.capability = np.concatenate(
            [self.capability, np.full(width - len(self.capability), np.inf)]
        )
        self.deserved, self.guarantee, self.allocated, self.pending = (
            widened(v, width) for v in (self.deserved, self.guarantee, self.allocated, self.pending)
        )
        self.reserved, self.elastic, self.subtree = (
            widened(v, width) for v in (self.reserved, self.elastic, self.subtree)
        )

    def __repr__(self) -> str:
        return f"<queue {self.name}>"


def read_queue(queue: Queue, dimensions: Dimensions, unreadable: str = "") -> QueueInfo:
    """Returns the entry of a queue. One with an amount that is no number is unreadable."""
    try:
        entry = QueueInfo(queue, dimensions)
    except QuantityError as error:
        unreadable = unreadable or f"queue {queue.metadata.name}: {error}"
        spec = replace(queue.spec, capability={}, deserved={}, guarantee=Guarantee())
        entry = QueueInfo(replace(queue, spec=spec), dimensions)
        entry.object = queue
    entry.unreadable = unreadable
    return entry


def link_queues(queues: Iterable[QueueInfo]) -> None:
    """Sets every queue's `lineage` and `subtree` anew."""
    by_name = {queue.name: queue for queue in queues}
    for queue in by_name.values():
        queue.lineage = _lineage(queue, by_name)
        queue.subtree = np.zeros_like(queue.allocated)
    for queue in by_name.values():
        for ancestor in queue.lineage:
            ancestor.subtree += queue.allocated


def _lineage(queue: QueueInfo, by_name: dict[str, QueueInfo]) -> tuple[QueueInfo, ...]:
    line = [queue]
    while True:
        last = line[-1]
        parent = by_name.get(parent_name(last.object))
        if parent is None or parent in line:  # the top, or a cycle in the specs
            return tuple(line)
        line.append(parent)
