"""Every sample is used exactly once in an epoch, whatever changes in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swell.train.data.cuts import cut, epoch_order, share
from swell.train.data.loading import SampleLoader
from swell.train.data.sources import MapSource, SampleSource, StreamSource, source_of, stack
from swell.train.errors import TrainError


class Numbers:
    """A stream of numbers that can resume."""

    def __init__(self, n: int) -> None:
        self.n, self.at = n, 0

    def __iter__(self) -> Any:
        while self.at < self.n:
            self.at += 1
            yield self.at - 1
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(1, 17))
def test_shares_are_a_partition_of_almost_equal_parts(n_samples: int, size: int) -> None:
    """Parts follow each other without gap or overlap, and differ by one at most."""
    parts = [share(n_samples, rank, size) for rank in range(size)]

    assert [i for part in parts for i in part] == list(range(n_samples))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    """All members shuffle alike, and every epoch differently."""
    first = epoch_order(50, seed=1, epoch=0, shuffle=True)

    assert first.tolist() == epoch_order(50, seed=1, epoch=0, shuffle=True).tolist()
    assert first.tolist() != epoch_order(50, seed=1, epoch=1, shuffle=True).tolist()
    assert first.tolist() != epoch_order(50, seed=2, epoch=0, shuffle=True).tolist()
    assert sorted(first.tolist()) == list(range(50))
    assert cut(epoch_order(4, seed=0, epoch=0, shuffle=False).tolist(), 1, 2) == [2, 3]


@settings(deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 13),
    st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=40),
    st.booleans(),
    st.booleans(),
)
def test_each_sample_once_through_random_changes(
    n_samples: int,
    batch_size: int,
    changes: list[tuple[int, bool]],
    streamed: bool,
    is_of_each: bool,
) -> None:
    """Steps in groups of any size, broken ones redone, use every sample exactly once.

    Also where the size of the group decides how large a batch is.
    """

    def source() -> SampleSource:
        if streamed:
            return StreamSource(Numbers(n_samples))
        return MapSource(range(n_samples), seed=5, shuffle=True)

    members = [source() for _ in range(6)]
    used: list[int] = []
    position, turn = 0, 0
    while True:
        size, breaks = changes[turn % len(changes)] if turn < 200 else (1, False)
        n_batch = batch_size * size if is_of_each else batch_size
        turn += 1
        # Every other turn the group is made of newcomers, which take the position over.
        if turn % 2:
            state = members[0].capture(position)
            members = [members[0], *(source() for _ in range(5))]
            for member in members[1:]:
                member.restore(state)
        for member in members:
            member.start_epoch(0)
        parts = [members[rank].batch(position, n_batch, rank, size) for rank in range(size)]
        for other in members[size:]:  # kept up to date as those that train
            other.batch(position, n_batch, 0, 1)
        if parts[0] is None:
            break
        if breaks:
            continue
        whole = [part for part in parts if part is not None]
        assert len({part.n_whole for part in whole}) == 1
        assert sum(part.weight for part in whole) == pytest.approx(1.0)
        assert all(part.items for part in whole), "a member without samples computes all the same"
        used += [item for part in whole for item in part.items[: part.n_mine]]
        position += whole[0].n_whole

    assert sorted(used) == list(range(n_samples))


def test_threads_load_the_next_batch_while_this_one_is_used() -> None:
    """Each sample once, also those that a change of the group and a redone step need again."""
    loaded: list[int] = []

    class Squares:
        def __len__(self) -> int:
            return 12

        def __getitem__(self, index: int) -> int:
            loaded.append(index)
            return index * index

    source = source_of(Squares(), seed=0, shuffle=False, workers=2)
    source.start_epoch(0)
    parts = [
        source.batch(position, 4, 0, size) for position, size in [(0, 1), (0, 1), (4, 2), (8, 1)]
    ]
    source.close()

    assert [part.items if part else None for part in parts] == [
        *([0, 1, 4, 9], [0, 1, 4, 9]),
        *([16, 25], [64, 81, 100, 121]),
    ]
    assert sorted(loaded) == sorted(set(loaded))


def test_an_error_of_the_dataset_comes_from_its_thread() -> None:
    """It reaches the loop as it is."""
    loader = SampleLoader([1, 2], workers=1)
    try:
        with pytest.raises(IndexError):
            loader.load([0, 5])
    finally:
        loader.close()


def test_streams_have_no_workers() -> None:
    """They are refused in a sentence."""
    with pytest.raises(TrainError, match="a stream has to load its own ahead"):
        source_of(Numbers(3), seed=0, shuffle=False, workers=2)


def test_data_that_cannot_resume_is_refused_in_a_sentence() -> None:
    """A bare generator has no place to go back to."""
    with pytest.raises(TrainError, match=r"a generator cannot be trained on exactly once"):
        source_of((i for i in range(3)), seed=0, shuffle=True)
    for unordered in ({"a": [1, 2]}, "abc"):
        with pytest.raises(TrainError, match=r"cannot be trained on exactly once"):
            source_of(unordered, seed=0, shuffle=True)
    with pytest.raises(TrainError, match=r"the number of samples is -1"):
        source_of(-1, seed=0, shuffle=True)


def test_samples_are_stacked_part_by_part() -> None:
    """Tuples and dicts keep their form; numbers and arrays get a dimension."""
    x, y = stack([(np.zeros(3), 1), (np.ones(3), 2)])

    assert x.shape == (2, 3)
    assert y.tolist() == [1, 2]
    assert stack([{"a": 1}, {"a": 2}])["a"].tolist() == [1, 2]
    assert source_of(5, seed=0, shuffle=False).n_samples == 5
    assert source_of(np.int64(5), seed=0, shuffle=False).n_samples == 5
