"""Delta debugging: the least list of decisions that still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(
    items: Sequence[T], fails: Callable[[Sequence[T]], bool], *, tries_max: int = 2000
) -> list[T]:
    """A sub-list, in order, that still fails and of which no single item can be left out.

    `fails` must hold for `items`. The search is ddmin (Zeller): drop ever smaller chunks, start
    over with larger ones after each success. Past `tries_max` the best so far is returned.
    """
    best = list(items)
    chunk = max(1, len(best) // 2)
    tries = 0
    if best and fails([]):
        return []
    while best and tries < tries_max:
        dropped = False
        start = 0
        while start < len(best) and tries < tries_max:
            candidate = best[:start] + best[start + chunk :]
            tries += 1
            if fails(candidate):
                best = candidate
                dropped = True
            else:
                start += chunk
        if not dropped and chunk == 1:
            break
        if not dropped:
            chunk //= 2
        chunk = max(1, min(chunk, len(best) // 2 or 1))
    return best
