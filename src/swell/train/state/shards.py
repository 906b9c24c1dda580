"""Shards of a state: which rows a member has, who holds which shard, and the newest whole state.

A state is cut along the first dimension into as many shards as the group had members. A copy of a
whole state is one shard of one. Pure arithmetic.
"""

from __future__ import annotations

import math

import msgspec

from swell.train.state.tree import TensorSpec


class ShardKey(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The generation and step of a state; the greater one is newer."""

    generation: int
    step: int


class Holding(msgspec.Struct, frozen=True, array_like=True):
    """The shards of one state that a member holds, of so many."""

    key: ShardKey
    n_shards: int
    shards: list[int]


class ShardEntry(msgspec.Struct, frozen=True, array_like=True):
    """One tensor of the state: a parameter, or (with a key) a part of the optimizer's state."""

    name: str
    key: str | None
    spec: TensorSpec
    item_bytes: int
    is_sharded: bool

    def rows(self, shard: int, n_shards: int) -> tuple[int, int]:
        """The rows of a shard; of a tensor that is not cut, all of them are in each."""
        if not self.is_sharded:
            return 0, self.spec.shape[0] if self.spec.shape else 1
        return rows_of(self.spec.shape[0], shard, n_shards)

    @property
    def row_bytes(self) -> int:
        return math.prod(self.spec.shape[1:]) * self.item_bytes

    def n_bytes(self, shard: int, n_shards: int) -> int:
        first, last = self.rows(shard, n_shards)
        return (last - first) * self.row_bytes


def rows_of(n_rows: int, shard: int, n_shards: int) -> tuple[int, int]:
    """First row and end of a shard, cut as torch.chunk does: the last ones may be empty."""
    height = -(-n_rows // n_shards)
    first = min(shard * height, n_rows)
    return first, min(first + height, n_rows)


def newest_whole(holdings: list[list[Holding]]) -> tuple[ShardKey, list[int]] | None:
    """The newest state that all members together hold, and the rank that gives each shard."""
    keys = sorted({one.key for member in holdings for one in member}, reverse=True)
    for key in keys:
        holders: dict[int, int] = {}
        n_shards = 0
        for rank, member in enumerate(holdings):
            for one in member:
                if one.key == key:
                    n_shards = one.n_shards
                    for shard in one.shards:
                        holders.setdefault(shard, rank)
        if set(holders) == set(range(n_shards)):
            return key, [holders[shard] for shard in range(n_shards)]
    return None
