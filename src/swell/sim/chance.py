"""Randomness keyed by what it decides, not by the order of the draws.

A number depends only on the seed and on a key such as (site, n-th call). A change in one part of a
program therefore leaves all other draws as they were, and a seed keeps producing the same run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """The draws of one seed. It has no state: the same key always gives the same number."""

    __slots__ = ("_prefix",)

    def __init__(self, seed: int) -> None:
        self._prefix = f"{seed}\0"

    def uniform(self, *key: object) -> float:
        """Returns a number in [0, 1)."""
        text = self._prefix + "\0".join(map(str, key))
        return (int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 11) / (1 << 53)

    def between(self, low: float, high: float, *key: object) -> float:
        return low + (high - low) * self.uniform(*key)

    def integer(self, low: int, high: int, *key: object) -> int:
        """Returns a whole number from low to high, both included."""
        return low + int((high - low + 1) * self.uniform(*key))

    def pick(self, options: Sequence[T], *key: object) -> T:
        return options[int(len(options) * self.uniform(*key))]

    def generator(self, *key: object) -> random.Random:
        """Returns a generator for a component that takes one."""
        return random.Random(self._prefix + "\0".join(map(str, key)))  # noqa: S311
