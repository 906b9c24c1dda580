"""The cluster's resources at one moment: totals, requests, and the idle amounts of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from swell.api.meta import Key
from swell.autoscaler.job_state import JobState
from swell.autoscaler.mirror import SchedulerMirror
from swell.autoscaler.views import AutoscalerNode

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of one resource there is and is asked for; cpu in milli, others in whole units."""

    total: int = 0
    requested: int = 0
    limited: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ClusterResource:
    """The counted nodes sorted by name, usage by resource, and idle amounts by resource and node.

    `gpu` is the sum over all GPU resources. `pod_slots` has how many more pods each node takes.
    Both `idle` and `pod_slots` are shared with later snapshots: a planner copies them before it
    changes anything. `mirror` is the same cluster as the scheduler sees it, for trials.
    """

    nodes: tuple[AutoscalerNode, ...]
    usage: Mapping[str, Usage]
    gpu: Usage
    mirror: SchedulerMirror
    idle: Mapping[str, IntArray] = field(default_factory=dict)
    pod_slots: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    gpu_resources: tuple[str, ...] = ()  # the resources that are GPUs

    @property
    def node_count(self) -> int:
        return len(self.nodes)

    def of(self, resource: str) -> Usage:
        return self.usage.get(resource, Usage())


@dataclass(frozen=True, slots=True)
class AutoscalerSnapshot:
    """The input of one decision: the cluster, its live jobs by id, and the groups that wait.

    `stopped` has the jobs that have given their devices to others, without pods.
    """

    cluster: ClusterResource
    jobs: tuple[JobState, ...]
    waiting_groups: frozenset[Key] = frozenset()
    stopped: tuple[JobState, ...] = ()
