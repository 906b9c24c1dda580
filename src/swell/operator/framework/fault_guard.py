"""Whether so many nodes report broken GPUs at once that the reports are doubtful.

When more nodes turn faulty together than hardware does, a detector is broken rather than the GPUs,
and the faults that do not count yet are held back for a while, with those that follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

# Within this time nodes turn faulty together.
_TOGETHER_S: Final = 300.0
# So long are faults held back that came together.
_HELD_S: Final = 600.0


class FaultGuard:
    """Counts nodes with GPUs that turn faulty. `on_held` is given a node and why it is held back.

    Nodes, their resource claims and their device plugins report faults side by side, so each source
    tells the guard which nodes have GPUs, and of each fault when it would count.
    """

    def __init__(
        self, max_share: float, n_max_least: int, on_held: Callable[[str, str], None]
    ) -> None:
        self._max_share = max_share
        self._n_max_least = n_max_least
        self._on_held = on_held
        self._with_gpus: dict[str, set[str]] = {}  # node -> the sources that say so
        self._counts_at: dict[str, dict[str, float]] = {}  # faulty node -> source -> when it counts
        self._turned: deque[tuple[float, str]] = deque()
        self._held: dict[str, float] = {}  # node -> until when its faults do not count
        self._held_until = 0.0

    def note_gpus(self, node: str, source: str, *, has_gpus: bool) -> None:
        sources = self._with_gpus.setdefault(node, set())
        (sources.add if has_gpus else sources.discard)(source)
        if not sources:
            del self._with_gpus[node]

    def turned(self, node: str, source: str, now: float, counts_at: float) -> None:
        """Take the beginning of a fault, which counts at that time unless it passes."""
        sources = self._counts_at.setdefault(node, {})
        sources[source] = min(counts_at, sources.get(source, counts_at))
        self._turned.append((now, node))
        while self._turned[0][0] < now - _TOGETHER_S:
            self._turned.popleft()
        together = {name for _, name in self._turned if name in self._counts_at}
        together &= self._with_gpus.keys()
        if len(together) > self._n_max:
            self._held_until = now + _HELD_S
            # Those that began before the limit was passed are held, unless they count by now.
            for name in together:
                if name == node or min(self._counts_at[name].values()) > now:
                    self._held[name] = self._held_until
            self._on_held(node, self._why(len(together)))
        elif now < self._held_until:
            self._held[node] = self._held_until

    def mended(self, node: str, source: str) -> None:
        """Take the end of a fault."""
        sources = self._counts_at.get(node, {})
        sources.pop(source, None)
        if not sources:
            self._counts_at.pop(node, None)
            self._held.pop(node, None)

    def held_until(self, node: str) -> float:
        """Until when the node's faults do not count, by the monotonic clock."""
        return self._held.get(node, 0.0)

    @property
    def sees_faults(self) -> bool:
        return bool(self._counts_at)

    @property
    def _n_max(self) -> int:
        return max(int(len(self._with_gpus) * self._max_share), self._n_max_least)

    def _why(self, n: int) -> str:
        return (
            f"{n} of {len(self._with_gpus)} nodes with GPUs turned faulty within "
            f"{_TOGETHER_S / 60:.0f} min, more than {self._n_max}: the detector may be broken, so "
            f"no pod is restarted for this for {_HELD_S / 60:.0f} min"
        )
