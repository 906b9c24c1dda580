"""Since when each node reports a broken GPU, and whether so many do that the reports are doubtful.

Time is counted by this process's monotonic clock, from when it first saw the fault: one that comes
and goes never lasts. When more nodes turn faulty at once than hardware does, a detector is broken
rather than the GPUs, and the faults are held back for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from swell.api.core import Node
from swell.api.gpu_faults import GpuFaultRules
from swell.runtime.clock import Clock

# Within this time nodes turn faulty together.
_TOGETHER_S: Final = 300.0
# So long are faults held back that came together.
_HELD_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class GpuFaultLimits:
    """How long a fault must last to count, and how many nodes may turn faulty together."""

    after_s: float = 15.0
    # A monitor that is away for a moment says Unknown, too.
    after_unknown_s: float = 60.0
    nodes_max_share: float = 0.2
    nodes_max_least: int = 2


class GpuFaultWatch:
    """Follows the faults of nodes. `on_held` is given a node and why its fault is held back."""

    def __init__(
        self,
        rules: GpuFaultRules,
        limits: GpuFaultLimits,
        gpu_resources: tuple[str, ...],
        clock: Clock,
        on_held: Callable[[Node, str], None],
    ) -> None:
        self._rules = rules
        self._limits = limits
        self._gpu_resources = gpu_resources
        self._clock = clock
        self._on_held = on_held
        self._with_gpus: set[str] = set()
        self._since: dict[str, float] = {}
        self._unsure: set[str] = set()  # of those: nodes that only do not know
        self._turned: deque[tuple[float, str]] = deque()
        self._held: dict[str, float] = {}  # node -> until when its fault does not count

    def note(self, name: str, node: Node | None) -> None:
        """Take a node as it is now; None for one that is gone."""
        has_gpus = node is not None and any(
            str(node.status.capacity.get(one, "0")) != "0" for one in self._gpu_resources
        )
        if has_gpus:
            self._with_gpus.add(name)
        else:
            self._with_gpus.discard(name)
        if node is None or not self._rules.fault_of(node):
            self._since.pop(name, None)
            self._held.pop(name, None)
            self._unsure.discard(name)
            return
        if self._rules.is_unsure(node):
            self._unsure.add(name)
        else:
            self._unsure.discard(name)
        if name not in self._since:
            now = self._since[name] = self._clock.monotonic()
            self._turned.append((now, name))
            self._hold_if_many(node, now)

    def _hold_if_many(self, node: Node, now: float) -> None:
        while self._turned and self._turned[0][0] < now - _TOGETHER_S:
            self._turned.popleft()
        turned = {name for _, name in self._turned if name in self._since}
        together = turned & self._with_gpus
        limit = self._n_max
        if len(together) <= limit:
            return
        # Those that began before the limit was passed are held as well, unless they count by now.
        fresh = [n for n in together if self._stands_at(n) > now]
        for name in fresh:
            self._held[name] = now + _HELD_S
        why = (
            f"{len(together)} of {len(self._with_gpus)} nodes with GPUs turned faulty within "
            f"{_TOGETHER_S / 60:.0f} min, more than {limit}: the detector may be broken, so no "
            f"pod is restarted for this for {_HELD_S / 60:.0f} min"
        )
        self._on_held(node, why)

    @property
    def _n_max(self) -> int:
        share = int(len(self._with_gpus) * self._limits.nodes_max_share)
        return max(share, self._limits.nodes_max_least)

    def counts_at(self, name: str) -> float | None:
        """When the node's fault counts, by the monotonic clock; None while it reports none."""
        since = self._since.get(name)
        if since is None:
            return None
        return max(self._stands_at(name), self._held.get(name, 0.0))

    def _stands_at(self, name: str) -> float:
        """When a node has reported its fault for long enough."""
        limits = self._limits
        least_s = limits.after_unknown_s if name in self._unsure else 0.0
        return self._since[name] + max(limits.after_s, least_s)
