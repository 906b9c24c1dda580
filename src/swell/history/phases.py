"""How the whole of a list is kept that an API object cuts off at its front. Pure.

A job's status holds the last twenty phases and resizes. A record that has seen an earlier status is
continued with what the new one adds; what both have is found by the longest overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Dated(Protocol):
    """An entry with a time."""

    @property
    def at(self) -> float: ...


D = TypeVar("D", bound=Dated)


def continued(known: Sequence[D], listed: Sequence[D]) -> tuple[D, ...]:
    """Returns the entries known before, followed by those of the list that are new."""
    if not known or not listed:
        return tuple(known) or tuple(listed)
    for n_common in range(min(len(known), len(listed)), 0, -1):
        if list(known[-n_common:]) == list(listed[:n_common]):
            return (*known, *listed[n_common:])
    if _contains(known, listed):
        return tuple(known)  # an earlier status, from a cache that lags behind the record
    # The list was lost, or has moved on by more than it holds: what is later comes after.
    return (*known, *(one for one in listed if one.at > known[-1].at))


def bounded(entries: Sequence[D], n_max: int) -> tuple[D, ...]:
    """Returns at most so many entries: the first quarter of them, and the last ones."""
    if len(entries) <= n_max:
        return tuple(entries)
    n_first = n_max // 4
    return (*entries[:n_first], *entries[len(entries) - (n_max - n_first) :])


def thinned(entries: Sequence[D], n_max: int) -> tuple[D, ...]:
    """Returns at most so many entries: every other one, and always the last."""
    if len(entries) <= n_max:
        return tuple(entries)
    return (*entries[:-1:2], entries[-1])


def _contains(known: Sequence[D], listed: Sequence[D]) -> bool:
    wanted = list(listed)
    n_listed = len(wanted)
    return any(list(known[at : at + n_listed]) == wanted for at in range(len(known) - n_listed + 1))
