"""Vectors of resources as people and the API write them: `4` processors, `8Gi`, `500m`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from swell.api.quantity import NANO, Quantity, QuantityFormat
from swell.api.requests import EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, PODS
from swell.scheduler.model.resources import Dimensions, Vector

_NANO_OF_MILLI = NANO // 1000


@lru_cache(maxsize=4096)
def text(name: str, amount: float) -> str:
    """One amount in the unit its resource is counted in; an unlimited one has no number."""
    if np.isinf(amount):
        return "unlimited"
    whole = round(amount)
    if name in {MEMORY, EPHEMERAL_STORAGE} or name.startswith(HUGE_PAGES_PREFIX):
        return str(Quantity(whole * NANO, QuantityFormat.BINARY_SI))
    return str(Quantity(whole * (NANO if name == PODS else _NANO_OF_MILLI)))


def texts(dimensions: Dimensions, vector: Vector) -> dict[str, str]:
    """Everything in a vector that is not nothing, by name."""
    return {
        name: text(name, float(vector[place]))
        for name, place in sorted(_places(dimensions, np.flatnonzero(vector)))
    }


def line(dimensions: Dimensions, vector: Vector) -> str:
    """The same on one line, processors first: `cpu 4, memory 8Gi`."""
    shown = texts(dimensions, vector)
    return ", ".join(f"{name} {amount}" for name, amount in shown.items()) or "nothing"


def _places(dimensions: Dimensions, places: Iterable[int]) -> list[tuple[str, int]]:
    return [(dimensions.names[place], int(place)) for place in places]
