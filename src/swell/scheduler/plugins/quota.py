"""Arithmetic that proportion and capacity share: how much fits below a limit."""

from __future__ import annotations

import numpy as np

from swell.scheduler.amounts import text
from swell.scheduler.reasons import Limit, Reason, Refusal
from swell.scheduler.resources import Dimensions, Vector, quota_places
from swell.scheduler.tasks import Shape


def copies_below(held: Vector, shape: Shape, limit: Vector, n: int) -> int:
    """How many of n tasks of a shape can be added before a limit on what they ask for."""
    places = shape.quota_places
    if not len(places):
        return n
    have, each, bound = held[places], shape.request[places], limit[places]
    # One too many is tried first: a division may be off by a hair, the comparison is not.
    fitting = np.minimum((bound - have) / each, n).min()
    count = int(max(min(np.floor(fitting) + 1, n), 0))
    while count > 0 and (have + count * each > bound).any():
        count -= 1
    return count


def limits_exceeded(
    dimensions: Dimensions, queue: str, asked: Vector, held: Vector, limit: Vector
) -> tuple[Limit, ...]:
    """Of what is asked for, all that does not fit beside what is held, with the numbers."""
    places = quota_places(asked)
    short = places[asked[places] + held[places] > limit[places]]
    return tuple(
        Limit(queue, name, *(text(name, float(v[place])) for v in (held, asked, limit)))
        for place in short
        for name in [dimensions.names[place]]
    )


def quota_refusal(deed: str, limits: tuple[Limit, ...]) -> Refusal | None:
    """In words, what the queue does to the limits; nothing when there are none."""
    if not limits:
        return None
    numbers = "; ".join(map(str, limits))
    return Refusal(Reason.QUEUE_QUOTA, f"queue {limits[0].queue} {deed}: {numbers}", limits)
