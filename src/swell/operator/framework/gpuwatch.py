"""Since when each node reports a broken GPU.

Time is counted by this process's monotonic clock, from when it first saw the fault: one that comes
and goes never lasts. When too many nodes turn faulty at once, `fault_guard` holds them back.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.core import Node
from swell.api.gpu_faults import GpuFaultRules
from swell.operator.framework.fault_guard import FaultGuard
from swell.runtime.clock import Clock

_SOURCE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFaultLimits:
    """How long a fault must last to count, and how many nodes may turn faulty together."""

    after_s: float = 15.0
    # A monitor that is away for a moment says Unknown, and a device plugin that restarts withdraws
    # all of its devices.
    after_unsure_s: float = 60.0
    nodes_max_share: float = 0.2
    nodes_max_least: int = 2


class GpuFaultWatch:
    """Follows the faults of nodes."""

    def __init__(
        self,
        rules: GpuFaultRules,
        limits: GpuFaultLimits,
        gpu_resources: tuple[str, ...],
        clock: Clock,
        guard: FaultGuard,
    ) -> None:
        self._rules = rules
        self._limits = limits
        self._gpu_resources = gpu_resources
        self._clock = clock
        self._guard = guard
        self._since: dict[str, float] = {}
        self._unsure: set[str] = set()  # of those: nodes that only do not know

    def note(self, name: str, node: Node | None) -> None:
        """Take a node as it is now; None for one that is gone."""
        has_gpus = node is not None and any(
            str(node.status.capacity.get(one, "0")) != "0" for one in self._gpu_resources
        )
        self._guard.note_gpus(name, _SOURCE, has_gpus=has_gpus)
        if node is None or not self._rules.fault_of(node):
            self._since.pop(name, None)
            self._unsure.discard(name)
            self._guard.mended(name, _SOURCE)
            return
        if self._rules.is_unsure(node):
            self._unsure.add(name)
        else:
            self._unsure.discard(name)
        if name not in self._since:
            now = self._since[name] = self._clock.monotonic()
            self._guard.turned(name, _SOURCE, now, self._stands_at(name))

    def counts_at(self, name: str) -> float | None:
        """When the node's fault counts, by the monotonic clock; None while it reports none."""
        if name not in self._since:
            return None
        return max(self._stands_at(name), self._guard.held_until(name))

    def _stands_at(self, name: str) -> float:
        """When a node has reported its fault for long enough."""
        limits = self._limits
        least_s = limits.after_unsure_s if name in self._unsure else 0.0
        return self._since[name] + max(limits.after_s, least_s)
