"""Which GPU is whose. One belongs to at most one pod; what was given stays until it is removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from swell.api.meta import Uid

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(slots=True)
class GpuBoard:
    """The GPUs of one node, by index."""

    indexes: Sequence[int]
    _given: dict[int, tuple[Uid, str]] = field(default_factory=dict)

    def give(self, uid: Uid, container: str, n_wanted: int) -> tuple[int, ...] | None:
        """GPUs for a container, the same as before if it has some; None when too few are free."""
        holder = (uid, container)
        held = [index for index in self.indexes if self._given.get(index) == holder]
        free = [index for index in self.indexes if index not in self._given]
        if len(held) + len(free) < n_wanted:
            return None
        chosen = (*held, *free)[:n_wanted]
        for index in chosen:
            self._given[index] = holder
        return chosen

    def restore(self, uid: Uid, container: str, indexes: Sequence[int]) -> None:
        """What a container was given before this agent started."""
        self._given |= dict.fromkeys(indexes, (uid, container))

    def take_back(self, uid: Uid) -> None:
        """A pod has nothing any more."""
        self._given = {i: holder for i, holder in self._given.items() if holder[0] != uid}
