"""The arithmetic of a whole plan in numpy alone: the floor that `bench.scheduler` compares with.

Gangs of equal tasks are placed one after the other by the same fits and scores (least requested,
balanced, binpack), kept per shape and computed again only for nodes that changed. Of all else that
a plan does there is nothing: no objects, queues, quotas, priorities, statements or reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_TOLERANCE = 0.1
_SCORE_MAX = 100.0
_GPU = 3  # the row of GPUs, after cpu, memory and pods


@dataclass(slots=True)
class _Shape:
    request: Matrix
    scores: Matrix
    stale: list[int] = field(default_factory=list)


def place_all(room: Matrix, requests: Sequence[Matrix], gangs: Sequence[int], size: int) -> int:
    """Places gangs, each of one of the requests, on nodes with this room; returns how many tasks.

    `room` is resources by nodes.
    """
    idle, divisor = room.copy(), np.where(room == 0, np.inf, room)
    shapes = [_Shape(request, _scores(room, idle, divisor, request)) for request in requests]
    n_placed = 0
    for number in gangs:
        shape = shapes[number]
        if shape.stale:
            at = np.array(shape.stale)
            columns = (room.take(at, axis=1), idle.take(at, axis=1), divisor.take(at, axis=1))
            shape.scores[at] = _scores(*columns, shape.request)
            shape.stale.clear()
        chosen = _choice(room, idle, divisor, shape, size)
        if len(chosen) < size:
            continue
        np.subtract.at(idle.T, np.array(chosen), shape.request)
        n_placed += size
        for other in shapes:
            other.stale += chosen
    return n_placed


def _choice(room: Matrix, idle: Matrix, divisor: Matrix, shape: _Shape, size: int) -> list[int]:
    """Returns the nodes that the tasks of a gang take one after the other, each the best."""
    left = shape.scores.copy()
    top: list[int] = []
    while len(top) < size:
        best = int(left.argmax())
        if left[best] == -np.inf:
            break
        top.append(best)
        left[best] = -np.inf
    if not top:
        return []
    at = np.repeat(np.array(top), size)
    taken = np.multiply.outer(shape.request, np.arange(len(at)) % size)
    after = _scores(
        room.take(at, axis=1),
        idle.take(at, axis=1) - taken,
        divisor.take(at, axis=1),
        shape.request,
    ).reshape(len(top), size)
    heads: list[float] = after[:, 0].tolist()
    counts = [0] * len(top)
    chosen: list[int] = []
    while len(chosen) < size:
        best = max(range(len(top)), key=lambda row: (heads[row], -top[row]))
        if heads[best] == -np.inf:
            break
        chosen.append(top[best])
        counts[best] += 1
        heads[best] = float(after[best, counts[best]]) if counts[best] < size else -np.inf
    return chosen


def _scores(room: Matrix, idle: Matrix, divisor: Matrix, request: Matrix) -> Matrix:
    """Returns the score of every column with one task more; -inf where it does not fit."""
    fill = np.minimum((room - idle + request[:, None]) / divisor, 1.0)
    pair = (fill[0] + fill[1]) / 2
    if request[_GPU]:
        parts = fill[[0, 1, _GPU]]
        balance = 1.0 - parts.std(axis=0)
    else:
        balance = 1.0 - np.abs(fill[0] - fill[1]) / 2
    score = np.rint(((1.0 - pair) + balance + pair) * _SCORE_MAX * 1e6)
    fits = (idle > request[:, None] - _TOLERANCE).all(axis=0)
    return np.where(fits, score, -np.inf)
