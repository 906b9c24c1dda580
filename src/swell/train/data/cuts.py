"""The order of an epoch, its global batches, and a member's share of one: pure arithmetic.

The position in an epoch counts samples that all members together have finished. A change of the
group moves no position: it only cuts the batches after it for another number of members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

Indexes = np.ndarray[Any, np.dtype[np.int64]]
Item = TypeVar("Item")


def epoch_order(n_samples: int, *, seed: int, epoch: int, shuffle: bool) -> Indexes:
    """The samples of one epoch in their order, the same at every member."""
    if not shuffle:
        return np.arange(n_samples, dtype=np.int64)
    return np.random.default_rng((seed, epoch)).permutation(n_samples).astype(np.int64)


def share(n_samples: int, rank: int, size: int) -> range:
    """A member's part of a batch: parts are contiguous, and differ by one sample at most."""
    return range(n_samples * rank // size, n_samples * (rank + 1) // size)


def cut(whole: Sequence[Item], rank: int, size: int) -> Sequence[Item]:
    """A member's part of a global batch."""
    part = share(len(whole), rank, size)
    return whole[part.start : part.stop]
