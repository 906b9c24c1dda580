"""Sources of samples: map-style datasets, index ranges, and iterables that can resume."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from swell.train.amounts import count_of
from swell.train.data.cuts import Indexes, cut, epoch_order
from swell.train.data.loading import SampleLoader
from swell.train.errors import TrainError

Collate = Callable[[list[Any]], Any]


class SampleBatch(NamedTuple):
    """This member's part of one global batch.

    `n_whole` counts the samples of the global batch. A member without any of them still has to take
    part in the collectives: it gets one sample to compute with, whose weight is 0.
    """

    items: list[Any]
    indexes: list[int]
    n_mine: int
    n_whole: int

    @property
    def weight(self) -> float:
        """The weight of this member's mean gradient in that of the global batch."""
        return self.n_mine / self.n_whole


class SampleSource(Protocol):
    """Samples of successive epochs, cut into global batches."""

    def batch(self, position: int, n_batch: int, rank: int, size: int) -> SampleBatch | None:
        """This member's part of the batch at a position; None where the epoch has no more."""
        ...

    def start_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless this is the one that the source is in."""
        ...

    @property
    def n_samples(self) -> int | None:
        """Samples in one epoch, where that is known."""
        ...

    def capture(self, position: int) -> Any:
        """The state by which another member finds this position."""
        ...

    def restore(self, state: Any) -> None: ...

    def close(self) -> None:
        """End the threads that load samples, if there are any."""
        ...


class MapSource:
    """A dataset with a length and an index: lists, ranges, arrays, torch's map-style datasets."""

    def __init__(self, dataset: Any, *, seed: int, shuffle: bool, workers: int = 0) -> None:
        self._dataset = dataset
        self._loader = SampleLoader(dataset, workers)
        self._seed, self._shuffle = seed, shuffle
        self._epoch = -1
        self._order: Indexes = epoch_order(0, seed=0, epoch=0, shuffle=False)

    @property
    def n_samples(self) -> int:
        return len(self._dataset)

    def start_epoch(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._order = epoch_order(
                self.n_samples, seed=self._seed, epoch=epoch, shuffle=self._shuffle
            )
            self._epoch = epoch

    def batch(self, position: int, n_batch: int, rank: int, size: int) -> SampleBatch | None:
        whole = self._order[position : position + n_batch].tolist()
        if not whole:
            return None
        mine = list(cut(whole, rank, size))
        following = self._order[position + n_batch : position + 2 * n_batch].tolist()
        items = self._loader.load(mine or whole[:1], following=cut(following, rank, size))
        return SampleBatch(items, mine, len(mine), len(whole))

    def close(self) -> None:
        self._loader.close()

    def capture(self, position: int) -> Any:  # noqa: ARG002 (the order follows from seed and epoch)
        return None

    def restore(self, state: Any) -> None:
        """Do nothing: the order follows from seed and epoch."""


class StreamSource:
    """An iterable with `state_dict` and `load_state_dict`, which goes on after a loaded state.

    Every member reads the whole stream and takes its part. The batch that was read last is kept
    until it is committed, so that a broken step is redone with the same samples.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._samples: Iterator[Any] | None = None
        self._before: Any = None  # the stream's state before the batch that was read last
        self._read: list[Any] | None = None
        self._at = -1  # the position of that batch, and the size that it was read for
        self._n_batch = 0
        self._epoch = 0

    @property
    def n_samples(self) -> int | None:
        return len(self._stream) if hasattr(self._stream, "__len__") else None

    def start_epoch(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        self._epoch = epoch
        if hasattr(self._stream, "set_epoch"):
            self._stream.set_epoch(epoch)
        self._samples, self._read, self._at = None, None, -1

    def batch(self, position: int, n_batch: int, rank: int, size: int) -> SampleBatch | None:
        if self._read is not None and self._at == position and self._n_batch != n_batch:
            # The group has changed, and with it the batch: newcomers read as many as it has now.
            self._stream.load_state_dict(self._before)
            self._samples, self._read = None, None
        if self._read is None or self._at != position:
            self._before = self._stream.state_dict()
            if self._samples is None:
                self._samples = iter(self._stream)
            self._read, self._at = _take(self._samples, n_batch), position
            self._n_batch = n_batch
        whole = self._read
        if not whole:
            return None
        mine = list(cut(whole, rank, size))
        numbers = list(cut(range(position, position + len(whole)), rank, size))
        return SampleBatch(mine or whole[:1], numbers, len(mine), len(whole))

    def capture(self, position: int) -> Any:
        stream = self._before if self._at == position else self._stream.state_dict()
        return {"epoch": self._epoch, "stream": stream}

    def restore(self, state: Any) -> None:
        if state is not None:
            self._epoch = state["epoch"]
            self._stream.load_state_dict(state["stream"])
        self._samples, self._read, self._at = None, None, -1

    def close(self) -> None:
        """Do nothing: a stream is read by the training thread."""


def source_of(data: Any, *, seed: int, shuffle: bool, workers: int = 0) -> SampleSource:
    """The source for a user's data: an integer n stands for the indexes 0 to n-1."""
    if hasattr(data, "__index__") and not hasattr(data, "__len__"):  # numpy's integers, too
        n_samples = count_of("the number of samples", data, 0)
        return MapSource(range(n_samples), seed=seed, shuffle=shuffle)
    can_resume = hasattr(data, "state_dict") and hasattr(data, "load_state_dict")
    # torch's iterable datasets inherit an index that raises, and may have a length.
    is_indexed = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if is_indexed and not isinstance(data, Mapping | str) and not _is_iterable_dataset(data):
        return MapSource(data, seed=seed, shuffle=shuffle, workers=workers)
    torch = sys.modules.get("torch.utils.data")
    is_loader = torch is not None and isinstance(data, torch.DataLoader)
    if is_loader and data.batch_sampler is not None:
        raise TrainError(
            "a DataLoader has cut its batches already: give its dataset; `batches` has batch_size,"
            " shuffle, collate and workers of its own"
        )
    if can_resume and workers:
        raise TrainError("workers load samples by their index; a stream has to load its own ahead")
    if can_resume:
        return StreamSource(data)
    raise TrainError(
        f"a {type(data).__name__} cannot be trained on exactly once: give a dataset with __len__"
        " and __getitem__, a number of indexes, or an iterable with state_dict and load_state_dict"
    )


def _is_iterable_dataset(data: Any) -> bool:
    torch = sys.modules.get("torch.utils.data")
    return torch is not None and isinstance(data, torch.IterableDataset)


def _take(samples: Iterable[Any], n_batch: int) -> list[Any]:
    taken: list[Any] = []
    for sample in samples:
        taken.append(sample)
        if len(taken) == n_batch:
            break
    return taken


def stack(items: Sequence[Any]) -> Any:
    """Samples put together without a framework: arrays stacked, tuples and dicts part by part."""
    import numpy as np

    first = items[0]
    if isinstance(first, tuple):
        return tuple(stack(part) for part in zip(*items, strict=True))
    if isinstance(first, dict):
        return {key: stack([item[key] for item in items]) for key in first}
    return np.asarray(items)
