"""Samples of a dataset by their indexes: loaded at once, or by threads, one batch ahead."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class SampleLoader:
    """Loads this batch, and has threads begin with the next one.

    A change of the group cuts the next batch anew: what was loaded for nothing is dropped, and what
    is needed all the same is there.
    """

    def __init__(self, dataset: Any, workers: int = 0) -> None:
        self._dataset = dataset
        self._pool = ThreadPoolExecutor(workers, "swell-data") if workers else None
        self._futures: dict[int, Future[Any]] = {}

    def load(self, indexes: Sequence[int], *, following: Sequence[int] = ()) -> list[Any]:
        """The samples with these indexes. Raises what the dataset raises."""
        pool = self._pool
        if pool is None:
            return [self._dataset[index] for index in indexes]
        needed = dict.fromkeys([*indexes, *following])
        for index in [one for one in self._futures if one not in needed]:
            self._futures.pop(index).cancel()
        for index in needed:
            if index not in self._futures:
                self._futures[index] = pool.submit(self._dataset.__getitem__, index)
        # A step that is redone asks for the same samples again, so they are kept until the next.
        return [self._futures[index].result() for index in indexes]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
