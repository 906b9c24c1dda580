"""The cluster's resources at one moment: totals, what is asked of them, what each node has left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from swell.api.meta import Key
from swell.autoscaler.job_state import RoleState
from swell.autoscaler.views import AutoscalerJob, AutoscalerNode

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one resource: cpu in thousandths, everything else in whole units."""

    total: int = 0
    requested: int = 0
    limited: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ClusterResource:
    """Nodes that count, by name; usage by resource; per resource what is idle on each node.

    `gpu` is the sum over all GPU resources. Whoever plans copies `idle` before changing it.
    """

    nodes: tuple[AutoscalerNode, ...]
    usage: Mapping[str, Usage]
    gpu: Usage
    idle: Mapping[str, IntArray] = field(default_factory=dict)

    @property
    def node_count(self) -> int:
        return len(self.nodes)

    def of(self, resource: str) -> Usage:
        return self.usage.get(resource, Usage())

    def idle_on(self, node: str) -> dict[str, int]:
        """What one node has left, by resource."""
        at = next(n for n, one in enumerate(self.nodes) if one.name == node)
        return {name: int(amounts[at]) for name, amounts in self.idle.items()}


@dataclass(frozen=True, slots=True)
class JobState:
    """A live job as it stands: a hopeless one can never start here and presses on nobody."""

    view: AutoscalerJob
    roles: tuple[RoleState, ...]
    is_pending: bool
    is_hopeless: bool


@dataclass(frozen=True, slots=True)
class AutoscalerSnapshot:
    """What a decision is made from: the cluster, its live jobs by id, and which groups wait."""

    cluster: ClusterResource
    jobs: tuple[JobState, ...]
    waiting_groups: frozenset[Key] = frozenset()
