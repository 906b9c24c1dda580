"""Amounts of resources as vectors, and the comparisons that all decisions are built on.

A vector has one place (index) per resource name: cpu in milli, memory in bytes, pods in units, then
scalars (extended resources in milli, byte-like ones in bytes). Every amount is a whole number far
below 2^53, so sums and differences of floats are exact. The kinds of "less or equal" differ on
purpose, as they do in Volcano: nodes are compared with a tolerance, quotas exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from swell.api import quantity, requests
from swell.api.pod import QuantityText
from swell.api.quantity import NANO, Quantity, QuantityFormat

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]  # indexes into a vector, or into the node table

CPU: Final = 0
MEMORY: Final = 1
PODS: Final = 2
TOLERANCE: Final = 0.1  # Volcano's; below the smallest difference of two whole amounts
_FIXED = ("cpu", "memory", "pods")
_SPARE = 8  # vectors grow by this many places, so that a new name rarely widens all of them
_NANO_OF_MILLI = NANO // 1000
_COUNTED_IN_BYTES = frozenset({requests.MEMORY, requests.EPHEMERAL_STORAGE})


class Dimensions:
    """Assigns each resource its place in all vectors. Grows as new names are seen."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = list(_FIXED)
        self._places = {name: place for place, name in enumerate(_FIXED)}
        self.width = _SPARE
        for name in sorted(set(names)):
            self.place(name)

    def place(self, name: str) -> int:
        """Returns the place of a resource. A new name gets the next, and may widen all vectors."""
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = len(self.names)
            self.names.append(name)
            if place >= self.width:
                self.width += _SPARE
        return place

    def known(self, name: str) -> int | None:
        return self._places.get(name)

    def zero(self) -> Vector:
        return np.zeros(self.width)

    def vector(self, amounts: Mapping[str, QuantityText]) -> Vector:
        """Returns the vector of amounts as a manifest has them."""
        # All places first: a new name may widen the vector.
        places = [(self.place(name), amount_of(name, text)) for name, text in amounts.items()]
        vector = self.zero()
        for place, amount in places:
            vector[place] = amount
        return vector

    def given(self, amounts: Mapping[str, QuantityText]) -> Mask:
        """Returns which resources a manifest names at all."""
        places = [self.place(name) for name in amounts]
        mask = np.zeros(self.width, dtype=np.bool_)
        mask[places] = True
        return mask

    def ceiling(self, amounts: Mapping[str, QuantityText]) -> Vector:
        """Returns a limit: unlimited is what it does not name, and cpu or memory of 0."""
        vector = np.where(self.given(amounts), self.vector(amounts), np.inf)
        for place in (CPU, MEMORY):
            if vector[place] <= 0:
                vector[place] = np.inf
        return vector


def amount_of(name: str, text: QuantityText) -> int:
    """Returns a quantity in the unit that vectors use for its resource."""
    return requests.scheduling_amount(name, quantity.parse(text))


def widened(vector: Vector, width: int) -> Vector:
    """Returns the same amounts in a longer vector."""
    return np.concatenate([vector, np.zeros(width - len(vector))])


def fit_places(request: Vector) -> tuple[int, ...]:
    """Returns the places that a node is compared on: cpu, memory, and scalars asked for."""
    return (CPU, MEMORY, *(int(p) for p in np.flatnonzero(request) if p > MEMORY))


def quota_places(request: Vector) -> Places:
    """Returns the places that a quota is compared on: all that is asked for, except pods.

    A job that asks only for cpu is thus not blocked by an exhausted quota of GPUs.
    """
    asked = request > 0
    asked[PODS] = False
    return np.flatnonzero(asked)


def less_equal(a: Vector, b: Vector) -> bool:
    """Whether every amount of a is below b or within the tolerance; scalars of 0 are ignored."""
    # Number by number: for a handful of them this takes a fifth of the time of array operations.
    for place, (mine, theirs) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if mine >= theirs + TOLERANCE and (place < PODS or mine > 0):
            return False
    return True


def less_equal_on(a: Vector, b: Vector, places: Places) -> bool:
    """Whether a is at most b on the given places, exactly: the comparison of every quota."""
    return not (a[places] > b[places]).any()


def less_equal_on_some(a: Vector, b: Vector, places: Places) -> bool:
    """Whether a is at most b on some given place where at least one of them has anything."""
    mine, theirs = a[places], b[places]
    counts = (mine > TOLERANCE) | (theirs > TOLERANCE)
    return bool(((mine <= theirs) & counts).any())


def exceeds_on_relevant(a: Vector, b: Vector, given: Mask, places: Places) -> bool:
    """Whether a exceeds b on some given place that b names; cpu or memory of 0 is unnamed."""
    named = given[places] & ((places > MEMORY) | (b[places] > 0))
    return bool(((a[places] > b[places]) & named).any())


def excess(a: Vector, b: Vector) -> Vector:
    """Returns how far a exceeds b, place by place; 0 where it does not."""
    return np.maximum(a - b, 0.0)


class Shares:
    """Computes shares of one total, which is prepared once for many amounts."""

    def __init__(self, whole: Vector) -> None:
        self._is_nothing = whole == 0
        self._parts = np.where(self._is_nothing, 1.0, whole)

    def dominant(self, amount: Vector) -> float:
        """Returns the largest share of any resource; x/0 is 1 and 0/0 is 0, as in Volcano."""
        shares = amount / self._parts
        largest: float = max(shares.tolist())
        # Where the total is 0 the divisor is 1 and amounts are whole, so only a share of at least 1
        # can come from such a place.
        if largest >= 1:
            largest = float(np.where(self._is_nothing, amount > 0, shares).max())
        return largest

    def dominant_of_rows(self, amounts: NDArray[np.float64]) -> Vector:
        """Returns the same for every row of a matrix."""
        shares = np.where(self._is_nothing, amounts > 0, amounts / self._parts)
        found: Vector = shares.max(axis=1, initial=0.0)
        return found


@lru_cache(maxsize=4096)
def amount_text(name: str, amount: float) -> str:
    """Returns an amount as people write it: `4` cpu, `8Gi`, `500m`, `unlimited`."""
    if np.isinf(amount):
        return "unlimited"
    whole = round(amount)
    if name in _COUNTED_IN_BYTES or name.startswith(requests.HUGE_PAGES_PREFIX):
        return str(Quantity(whole * NANO, QuantityFormat.BINARY_SI))
    return str(Quantity(whole * (NANO if name == requests.PODS else _NANO_OF_MILLI)))


def amount_texts(dimensions: Dimensions, vector: Vector) -> dict[str, str]:
    """Returns all amounts of a vector that are not 0, by name."""
    named = sorted((dimensions.names[place], int(place)) for place in np.flatnonzero(vector))
    return {name: amount_text(name, float(vector[place])) for name, place in named}


def amount_line(dimensions: Dimensions, vector: Vector) -> str:
    """Returns the same on one line: `cpu 4, memory 8Gi`."""
    shown = amount_texts(dimensions, vector)
    return ", ".join(f"{name} {amount}" for name, amount in shown.items()) or "nothing"
