"""The guard against mass failures: when many nodes fall silent at once, nobody restarts in haste.

So many silent nodes are more often a broken network, or a control plane that lost sight of them,
than so many broken machines. Their programs may well go on. For a while no job restarts for what
it seems to have lost; then what is still lost counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The share of nodes above which it is a mass failure. One or two nodes are none in a small cluster:
# they break by themselves, and their jobs should not wait.
SHARE: Final = 0.2
N_MIN: Final = 3
# How long restarts are held back from the moment at which the share was exceeded.
HOLD_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class MassFailure:
    """How many of how many nodes are not ready, and until when (wall time) restarts are held."""

    n_unready: int
    n_nodes: int
    until: float

    @property
    def message(self) -> str:
        return (
            f"{self.n_unready} of {self.n_nodes} nodes are not ready: nothing restarts for what "
            f"seems lost within {HOLD_S:.0f} s"
        )


class MassFailureWatch:
    """Counts nodes that are there and not ready, at the same cost however many there are."""

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._unready: set[str] = set()
        self._since_s: float | None = None

    def note(self, name: str, *, is_there: bool, is_ready: bool, now_s: float) -> None:
        """Take what was seen of one node, at a monotonic time."""
        (self._nodes.add if is_there else self._nodes.discard)(name)
        (self._unready.add if is_there and not is_ready else self._unready.discard)(name)
        if not self._is_many():
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s

    def current(self, now_s: float, now: float) -> MassFailure | None:
        """Returns the mass failure for which restarts are held at this moment."""
        if self._since_s is None or now_s >= self._since_s + HOLD_S:
            return None
        until = now + self._since_s + HOLD_S - now_s
        return MassFailure(len(self._unready), len(self._nodes), until)

    def _is_many(self) -> bool:
        n_unready = len(self._unready)
        return n_unready >= N_MIN and n_unready > SHARE * len(self._nodes)
