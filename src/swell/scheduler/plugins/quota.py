"""Arithmetic that proportion and capacity share: how much fits below a limit."""

from __future__ import annotations

import math

from swell.scheduler.model.amounts import text
from swell.scheduler.model.reasons import Limit, Reason, Refusal
from swell.scheduler.model.resources import Dimensions, Vector, quota_places
from swell.scheduler.model.tasks import Shape


def copies_below(held: Vector, shape: Shape, limit: Vector, n: int) -> int:
    """How many of n tasks of a shape can be added before a limit on what they ask for."""
    places = shape.quota_places
    if not len(places):
        return n
    amounts = (held[places], shape.request[places], limit[places])
    rows: list[tuple[float, float, float]] = list(
        zip(*(amount.tolist() for amount in amounts), strict=True)
    )
    # One too many is tried first: a division may be off by a hair, the comparison is not.
    fitting = min(n, *((bound - have) / each for have, each, bound in rows))
    count = max(min(math.floor(fitting) + 1, n), 0)
    while count > 0 and any(have + count * each > bound for have, each, bound in rows):
        count -= 1
    return count


class Limits:
    """The limits that are in somebody's way, with the numbers."""

    def __init__(self, dimensions: Dimensions, total: Vector) -> None:
        self._dimensions = dimensions
        self._total = total

    def exceeded(self, queue: str, asked: Vector, held: Vector, limit: Vector) -> tuple[Limit, ...]:
        """Of what is asked for, all that does not fit beside what is held."""
        places = quota_places(asked)
        short = places[asked[places] + held[places] > limit[places]]
        return tuple(
            self._limit(queue, int(p), float(held[p]), float(asked[p]), float(limit[p]))
            for p in short
        )

    def _limit(self, queue: str, place: int, held: float, asked: float, limit: float) -> Limit:
        name = self._dimensions.names[place]
        return Limit(
            queue=queue,
            resource=name,
            held=text(name, held),
            asked=text(name, asked),
            allowed=text(name, limit),
            is_whole=limit >= float(self._total[place]),
        )


def quota_refusal(deed: str, limits: tuple[Limit, ...]) -> Refusal | None:
    """In words, what the queue does to the limits; nothing when there are none."""
    if not limits:
        return None
    numbers = "; ".join(map(str, limits))
    return Refusal(Reason.QUEUE_QUOTA, f"queue {limits[0].queue} {deed}: {numbers}", limits)
