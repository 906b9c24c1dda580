"""Samples a second by the group's size, smoothed: pure arithmetic over steps."""

from __future__ import annotations

# The weight of one step in the smoothed time: the last ~20 steps count.
STEP_WEIGHT = 0.1
# A report holds this many sizes; the ones that were measured last are kept.
SIZES_MAX = 8


class Rates:
    """Smoothed step times and samples, one pair for each size of the group."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._samples: dict[int, float] = {}
        self._compute_s: float | None = None
        self._sync_s: float | None = None

    def add(self, size: int, samples: int, seconds: float, sync_s: float | None) -> None:
        """Count one step that all members of a group of this size have finished."""
        old_s, old_n = self._seconds.pop(size, None), self._samples.pop(size, None)
        self._seconds[size] = _smooth(old_s, seconds)
        self._samples[size] = _smooth(old_n, samples)
        for known in (self._seconds, self._samples):
            while len(known) > SIZES_MAX:
                known.pop(next(iter(known)))
        if sync_s is not None:
            self._sync_s = _smooth(self._sync_s, sync_s)
            self._compute_s = _smooth(self._compute_s, max(0.0, seconds - sync_s))

    def by_size(self) -> dict[str, float]:
        return {
            str(size): round(self._samples[size] / seconds, 3)
            for size, seconds in sorted(self._seconds.items())
            if seconds > 0
        }

    @property
    def compute_s(self) -> float | None:
        return None if self._compute_s is None else round(self._compute_s, 6)

    @property
    def sync_s(self) -> float | None:
        return None if self._sync_s is None else round(self._sync_s, 6)


def _smooth(old: float | None, new: float) -> float:
    return new if old is None else old + STEP_WEIGHT * (new - old)
