"""Amounts of resources as vectors, and the comparisons the whole scheduler is built on.

A vector has one place per resource name: cpu in milli, memory in bytes, pods in units, then scalars
(extended resources in milli, byte-like ones in bytes). Every amount is a whole number far below
2^53, so sums and differences are exact. The flavours of "less or equal" differ on purpose; which
one is used where decides half of the behaviour.
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
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]  # indexes into a vector, or into the node table

CPU: Final = 0
MEMORY: Final = 1
PODS: Final = 2
TOLERANCE: Final = 0.1
_FIXED = ("cpu", "memory", "pods")
_SPARE = 8
_NANO_OF_MILLI = NANO // 1000
_COUNTED_IN_BYTES = frozenset({requests.MEMORY, requests.EPHEMERAL_STORAGE})


class Dimensions:
    """Which place of a vector belongs to which resource. Grows as new names are seen."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = list(_FIXED)
        self._places = {name: place for place, name in enumerate(_FIXED)}
        self.width = _SPARE
        for name in sorted(set(names)):
            self.place(name)

    def place(self, name: str) -> int:
        """The place of a resource; a new name takes the next one, and may widen every vector."""
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
        """Amounts as a manifest has them."""
        places = [(self.place(name), amount_of(name, text)) for name, text in amounts.items()]
        vector = self.zero()
        for place, amount in places:
            vector[place] = amount
        return vector

    def given(self, amounts: Mapping[str, QuantityText]) -> Mask:
        """Which resources a manifest names at all."""
        places = [self.place(name) for name in amounts]
        mask = np.zeros(self.width, dtype=np.bool_)
        mask[places] = True
        return mask

    def ceiling(self, amounts: Mapping[str, QuantityText]) -> Vector:
        """A limit: what it does not name is unlimited, and so are cpu and memory of zero."""
        vector = np.where(self.given(amounts), self.vector(amounts), np.inf)
        for place in (CPU, MEMORY):
            if vector[place] <= 0:
                vector[place] = np.inf
        return vector


def amount_of(name: str, text: QuantityText) -> int:
    """A quantity in the unit its resource is counted in."""
    return requests.scheduling_amount(name, quantity.parse(text))


def widened(vector: Vector, width: int) -> Vector:
    """The same amounts in a longer vector."""
    return np.concatenate([vector, np.zeros(width - len(vector))])


def fit_places(request: Vector) -> tuple[int, ...]:
    """What a node is compared on: cpu and memory always, scalars when asked for."""
    return (CPU, MEMORY, *(int(p) for p in np.flatnonzero(request) if p > MEMORY))


def quota_places(request: Vector) -> Places:
    """What a queue is compared on: resources asked for, but never the number of pods."""
    asked = request > 0
    asked[PODS] = False
    return np.flatnonzero(asked)


def less_equal(a: Vector, b: Vector) -> bool:
    """Every dimension of a is below b, or within the tolerance; scalars a lacks are ignored."""
    # Number by number: for a handful of them that takes a fifth of what array operations take.
    for place, (mine, theirs) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if mine >= theirs + TOLERANCE and (place < PODS or mine > 0):
            return False
    return True


def less_equal_on(a: Vector, b: Vector, places: Places) -> bool:
    """Exact, on the requested dimensions only: the comparison of every quota."""
    return not (a[places] > b[places]).any()


def less_equal_on_some(a: Vector, b: Vector, places: Places) -> bool:
    """At least one requested dimension fits; what is nothing on both sides does not count."""
    mine, theirs = a[places], b[places]
    counts = (mine > TOLERANCE) | (theirs > TOLERANCE)
    return bool(((mine <= theirs) & counts).any())


def exceeds_on_relevant(a: Vector, b: Vector, given: Mask, places: Places) -> bool:
    """Some requested dimension exceeds b, of those b says anything about."""
    said = given[places] & ((places > MEMORY) | (b[places] > 0))
    return bool(((a[places] > b[places]) & said).any())


def excess(a: Vector, b: Vector) -> Vector:
    """How far a exceeds b, dimension by dimension."""
    return np.maximum(a - b, 0.0)


class Shares:
    """Shares of one whole, which is looked at only once."""

    def __init__(self, whole: Vector) -> None:
        self._is_nothing = whole == 0
        self._parts = np.where(self._is_nothing, 1.0, whole)

    def dominant(self, amount: Vector) -> float:
        """The largest share over all dimensions; something of nothing is 1, nothing of it 0."""
        shares = amount / self._parts
        largest: float = max(shares.tolist())
        if largest >= 1:  # amounts are whole: only now can there be something of nothing
            largest = float(np.where(self._is_nothing, amount > 0, shares).max())
        return largest


def dominant_share(amount: Vector, whole: Vector) -> float:
    return Shares(whole).dominant(amount)


@lru_cache(maxsize=4096)
def amount_text(name: str, amount: float) -> str:
    """One amount in the unit its resource is counted in; an unlimited one has no number."""
    if np.isinf(amount):
        return "unlimited"
    whole = round(amount)
    if name in _COUNTED_IN_BYTES or name.startswith(requests.HUGE_PAGES_PREFIX):
        return str(Quantity(whole * NANO, QuantityFormat.BINARY_SI))
    return str(Quantity(whole * (NANO if name == requests.PODS else _NANO_OF_MILLI)))


def amount_texts(dimensions: Dimensions, vector: Vector) -> dict[str, str]:
    """Everything in a vector that is not nothing, by name."""
    return {
        name: amount_text(name, float(vector[place]))
        for name, place in sorted(_places(dimensions, np.flatnonzero(vector)))
    }


def amount_line(dimensions: Dimensions, vector: Vector) -> str:
    """The same on one line, processors first: `cpu 4, memory 8Gi`."""
    shown = amount_texts(dimensions, vector)
    return ", ".join(f"{name} {amount}" for name, amount in shown.items()) or "nothing"


def _places(dimensions: Dimensions, places: Iterable[int]) -> list[tuple[str, int]]:
    return [(dimensions.names[place], int(place)) for place in places]
