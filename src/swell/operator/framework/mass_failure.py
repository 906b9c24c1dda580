"""The guard against mass failures: when many nodes fall silent at once, nobody restarts in haste.

So many silent nodes are more often a broken network, or a control plane that lost sight of them,
than so many broken machines. Their programs may well go on. For a while no job restarts for what
it seems to have lost; then what is still lost counts. Nodes that vanish from the list count for as
long: one that suddenly lacks many is not to be acted upon.
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
    """How many of how many nodes are silent or gone, and until when (wall time) restarts wait."""

    n_unready: int
    n_nodes: int
    until: float

    @property
    def message(self) -> str:
        are = "is" if self.n_unready == 1 else "are"
        return (
            f"{self.n_unready} of {self.n_nodes} nodes {are} not ready or gone: nothing restarts "
            f"for what seems lost within {HOLD_S:.0f} s"
        )


class MassFailureWatch:
    """Counts nodes that are not ready or just gone, at the same cost however many there are."""

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._unready: set[str] = set()
        # When each node that is gone was first missed, the oldest first.
        self._gone_s: dict[str, float] = {}
        self._since_s: float | None = None
        self._n_most = 0  # the most that were lost since then

    def note(self, name: str, *, is_there: bool, is_ready: bool, now_s: float) -> None:
        """Take what was seen of one node, at a monotonic time."""
        if is_there:
            self._gone_s.pop(name, None)
        elif name in self._nodes:
            self._gone_s[name] = now_s
        self._forget_gone(now_s)
        (self._nodes.add if is_there else self._nodes.discard)(name)
        (self._unready.add if is_there and not is_ready else self._unready.discard)(name)
        n_lost = len(self._unready) + len(self._gone_s)
        if self._is_many():
            self._since_s = now_s if self._since_s is None else self._since_s
            self._n_most = max(self._n_most, n_lost)
        elif self._since_s is not None and self._is_over(self._since_s, now_s):
            self._since_s, self._n_most = None, 0

    def current(self, now_s: float, now: float) -> MassFailure | None:
        """Returns the mass failure for which restarts are held at this moment."""
        if self._since_s is None or now_s >= self._since_s + HOLD_S:
            return None
        until = now + self._since_s + HOLD_S - now_s
        n_gone = len(self._gone_s)
        return MassFailure(len(self._unready) + n_gone, len(self._nodes) + n_gone, until)

    def _is_many(self) -> bool:
        n_lost = len(self._unready) + len(self._gone_s)
        return n_lost >= N_MIN and n_lost > SHARE * (len(self._nodes) + len(self._gone_s))

    def _is_over(self, since_s: float, now_s: float) -> bool:
        """Whether nothing needs to be held any more once the share is not exceeded.

        The first node that is back says that the others may follow: restarts wait for them, too.
        With more nodes, as in a list that is being read, the same number is no mass failure.
        """
        n_lost = len(self._unready) + len(self._gone_s)
        return n_lost in {0, self._n_most} or now_s >= since_s + HOLD_S

    def _forget_gone(self, now_s: float) -> None:
        while self._gone_s and now_s >= next(iter(self._gone_s.values())) + HOLD_S:
            del self._gone_s[next(iter(self._gone_s))]
