"""The shares that queues deserve by weight."""

from __future__ import annotations

import numpy as np

from swell.api.meta import ObjectMeta
from swell.api.scheduling import Queue, QueueSpec
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.resources import Dimensions
from swell.scheduler.plugins.proportion import deserved_shares


def test_shares_are_whole_where_rounds_only_come_close() -> None:
    """Two of eight stay exactly two: queues that ask for none of it take no fraction."""
    dimensions = Dimensions()
    total = dimensions.vector({"cpu": "1000", "memory": "1Ti", "nvidia.com/gpu": "8"})
    wants = {"light": (1, "8"), "heavy": (3, "8"), "other": (1, "0"), "another": (1, "0")}
    cpus = {"light": "4", "heavy": "4", "other": "4000", "another": "4000"}
    queues = []
    for name, (weight, gpus) in wants.items():
        spec = QueueSpec(weight=weight)
        queue = QueueInfo(Queue(metadata=ObjectMeta(name=name), spec=spec), dimensions)
        queue.pending = dimensions.vector({"cpu": cpus[name], "nvidia.com/gpu": gpus})
        queues.append(queue)
    limits = {queue.name: np.full_like(total, np.inf) for queue in queues}

    deserved = deserved_shares(total, queues, limits)

    gpu = int(np.flatnonzero(dimensions.vector({"nvidia.com/gpu": "1"}))[0])
    assert [deserved[name][gpu] for name in wants] == [2000, 6000, 0, 0]
