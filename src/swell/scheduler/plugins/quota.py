"""Arithmetic that proportion and capacity share: how much fits below a limit."""

from __future__ import annotations

import numpy as np

from swell.scheduler.reasons import Reason, Refusal
from swell.scheduler.resources import Vector, less_equal_on, quota_places
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


def admission_refusal(queue: str, asked: Vector, held: Vector, limit: Vector) -> Refusal | None:
    """Whether a job's minimum fits beside what its queue holds and has promised."""
    if less_equal_on(asked + held, limit, quota_places(asked)):
        return None
    return Refusal(
        Reason.QUEUE_QUOTA, f"its minimum does not fit beside what queue {queue} holds or reserves"
    )
