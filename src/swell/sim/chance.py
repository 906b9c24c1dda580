"""Randomness keyed by what it decides, not by the order of asking.

A number depends on the seed and on a key such as (site, n-th call) alone. Changing one part of a
program therefore leaves every other draw as it was, and a seed keeps telling the same story.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Draws for one seed. Stateless: the same key always gives the same number."""

    __slots__ = ("_prefix",)

    def __init__(self, seed: int) -> None:
        self._prefix = f"{seed}\0"

    def uniform(self, *key: object) -> float:
        """A number in [0, 1)."""
        text = self._prefix + "\0".join(map(str, key))
        return (int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 11) / (1 << 53)

    def between(self, low: float, high: float, *key: object) -> float:
        return low + (high - low) * self.uniform(*key)

    def integer(self, low: int, high: int, *key: object) -> int:
        """A whole number from low to high, both included."""
        return low + int((high - low + 1) * self.uniform(*key))

    def pick(self, options: Sequence[T], *key: object) -> T:
        return options[int(len(options) * self.uniform(*key))]

    def generator(self, *key: object) -> random.Random:
        """A generator of its own, for a component that wants to be given one."""
        return random.Random(self._prefix + "\0".join(map(str, key)))  # noqa: S311
