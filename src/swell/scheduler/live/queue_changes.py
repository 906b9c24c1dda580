"""Finds the queues of which something has changed that their statuses say.

It compares, rather than follow the changes: a job may be gone before a cycle sees its last one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swell.scheduler.model.resources import Vector
from swell.scheduler.model.snapshot import SchedulerSnapshot


class QueueChanges:
    """The amounts of all queues, as they were when they were last looked at."""

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        self._snapshot = snapshot
        self._seen: dict[str, Vector] = {}

    def take(self) -> Iterator[str]:
        """Yields the queues that hold other amounts than at the last call, or lost a native group.

        The first time that is every queue: an earlier process may have written what has changed.
        """
        left = self._snapshot.take_queues_left()
        queues, seen = self._snapshot.queues, self._seen
        for name in [name for name in seen if name not in queues]:
            del seen[name]
        for name, queue in queues.items():
            old = seen.get(name)
            if old is None or not np.array_equal(old, queue.subtree):
                seen[name] = queue.subtree.copy()
                yield name
            elif name in left:
                yield name
