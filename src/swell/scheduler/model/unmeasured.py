"""Queues of which is not known what they hold, since a pod that counts against them is unreadable.

What such a pod asks for is not known, so nobody can say whether a limit leaves room for more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.tasks import HELD, Task


def unmeasured_queues(
    unreadable: Iterable[Task], queues: Mapping[str, QueueInfo]
) -> dict[str, str]:
    """Returns the limited queues that hold an unknown amount, each with the reason."""
    found: dict[str, str] = {}
    for task in unreadable:
        queue = task.job.queue if task.job is not None else None
        # A pod of another scheduler is not charged to a queue.
        if queue is None or task.is_foreign or not HELD[task.status]:
            continue
        for level in queue.lineage:
            if _is_limited(level, queues):
                why = f"what pod {task.key} takes of queue {level.name}: {task.unreadable}"
                found.setdefault(level.name, why)
    return found


def _is_limited(queue: QueueInfo, queues: Mapping[str, QueueInfo]) -> bool:
    """Whether the queue may not have all: by its own limit, or by what others are guaranteed."""
    if np.isfinite(queue.capability).any():
        return True
    return any(other.guarantee.any() for other in queues.values() if queue not in other.lineage)
