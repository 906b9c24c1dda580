"""Shards and their copies: which state is whole after losses, and who gives which part of it."""

from __future__ import annotations

import itertools

import pytest

from swell.train.state.shards import Holding, ShardKey, newest_whole, rows_of

SIZE = 5


def held(key: ShardKey, n_copies: int, size: int = SIZE) -> list[Holding]:
    """What each member of a group holds: its own shard, and those of the members before it."""
    copies = range(n_copies + 1)
    return [
        Holding(key, size, sorted((rank - distance) % size for distance in copies))
        for rank in range(size)
    ]


@pytest.mark.parametrize("n_copies", [1, 2, 3])
def test_as_many_members_may_be_lost_as_there_are_copies(n_copies: int) -> None:
    """Whichever they are; every shard comes from a member that holds it."""
    key = ShardKey(3, 40)
    for lost in itertools.combinations(range(SIZE), n_copies):
        members = [[one] for rank, one in enumerate(held(key, n_copies)) if rank not in lost]

        found = newest_whole(members)

        assert found is not None
        assert found[0] == key
        assert all(shard in members[rank][0].shards for shard, rank in enumerate(found[1]))


@pytest.mark.parametrize("n_copies", [0, 1, 2])
def test_one_more_loss_in_a_row_leaves_no_whole_state(n_copies: int) -> None:
    """A member and all that hold copies of its shard: only a checkpoint has it."""
    key = ShardKey(3, 40)
    members = [[one] for rank, one in enumerate(held(key, n_copies)) if rank > n_copies]

    assert newest_whole(members) is None


def test_the_newest_state_that_is_whole_is_taken() -> None:
    """Some have made a newer copy before the group broke up, and not all."""
    older, newer = ShardKey(3, 40), ShardKey(3, 60)
    members = [[one] for one in held(older, 1)]
    for rank in (0, 2):
        members[rank].append(held(newer, 1)[rank])

    found = newest_whole(members[:4])

    assert found is not None
    assert found[0] == older
    members[4].append(held(newer, 1)[4])
    members[3].append(held(newer, 1)[3])
    assert newest_whole(members) == (newer, [0, 2, 2, 3, 0])


def test_state_of_a_later_generation_is_newer_than_one_of_more_steps() -> None:
    """After a loss all go back, and do again fewer steps than there were."""
    members = [[Holding(ShardKey(3, 90), 1, [0]), Holding(ShardKey(4, 50), 1, [0])]]

    assert newest_whole(members) == (ShardKey(4, 50), [0])


@pytest.mark.parametrize(("n_rows", "n_shards"), [(10, 3), (3, 5), (0, 2), (7, 1), (8, 4)])
def test_rows_are_cut_as_torch_cuts_them(n_rows: int, n_shards: int) -> None:
    """In order, without gaps; the last shards may be empty."""
    cuts = [rows_of(n_rows, shard, n_shards) for shard in range(n_shards)]

    assert [row for first, last in cuts for row in range(first, last)] == list(range(n_rows))
