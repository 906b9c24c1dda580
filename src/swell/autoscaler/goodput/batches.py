"""The goodput of sizes: useful progress a second with the best batch size. Pure, numpy only.

A larger batch uses devices better, and each of its samples teaches less. With the gradient's noise
(variance by squared norm at the first batch size) a step of `scale` times the first batch is worth
gain = (noise + 1) / (noise / scale + 1) first steps; goodput = gain / T.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.autoscaler.goodput.stepmodel import Floats, Ints, StepModel

# As many batch sizes are tried, evenly spaced by factor. With 50 the best of them is within one
# percent of the best of all on every profile looked at.
_TRIED = 50
_EPSILON = 1e-8


class BatchRange(NamedTuple):
    """The batch sizes a program can use: the first one, the largest, and those of one replica."""

    first: int
    largest: int
    local_min: int
    local_max: int

    def max_size(self) -> int:
        """Returns the largest size with a whole batch for every replica."""
        return max(1, self.largest // max(self.local_min, 1))


class BestBatches(NamedTuple):
    """By size: goodput, samples of a replica in one pass, and passes before each step."""

    goodput: Floats
    local: Ints
    accumulated: Ints


def best_batches(
    model: StepModel, noise: float, batches: BatchRange, sizes: Ints, nodes: Ints
) -> BestBatches:
    """Returns the best batch of each size; a goodput of 0 where no batch is possible."""
    least = np.maximum(batches.first, batches.local_min * sizes).astype(np.float64)
    spread = np.linspace(0.0, 1.0, _TRIED)[:, None]
    ratio = np.maximum(batches.largest / least, 1.0)
    local = least * ratio**spread / sizes
    passes = np.ceil(local / batches.local_max - _EPSILON) - 1
    # One replica learns the noise only from several passes.
    is_larger = (sizes == 1) & (local > batches.first + _EPSILON)
    passes = np.where(is_larger, np.maximum(passes, 1), passes).astype(np.int64)
    atomic = np.ceil(local / (passes + 1) - _EPSILON).astype(np.int64)
    goodput = evaluate(model, noise, batches.first, (sizes, nodes, atomic, passes))
    is_possible = (atomic >= batches.local_min) & (atomic <= batches.local_max)
    is_possible &= batches.local_min * sizes <= batches.largest
    goodput = np.where(is_possible, goodput, 0.0)
    best = np.argmax(goodput, axis=0)
    at = (best, np.arange(len(sizes)))
    return BestBatches(goodput[at], atomic[at], passes[at])


def evaluate(
    model: StepModel, noise: float, first: int, shape: tuple[Ints, Ints, Ints, Ints]
) -> Floats:
    """Returns the goodput of (sizes, nodes, samples of a replica in a pass, passes before)."""
    sizes, nodes, atomic, passes = shape
    local = atomic.astype(np.float64)
    step = model.step_s(sizes, nodes, local) + passes * model.grad_s(local)
    scale = sizes * atomic * (passes + 1) / first
    return gain(noise, scale) / step


def gain(noise: float, scale: Floats) -> Floats:
    """Returns how many first steps a step of `scale` times the first batch is worth."""
    return np.asarray((noise + 1.0) / (noise / np.maximum(scale, _EPSILON) + 1.0))
