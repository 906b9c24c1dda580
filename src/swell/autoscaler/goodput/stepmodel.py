"""The time of one training step by size, fitted to what was measured. Pure, numpy only.

T_grad = a_c + b_c * batch is the time of the gradient of one replica's batch; T_sync, the time of
the synchronisation, is 0 for one replica, a_r + b_r (K - 2) for K replicas on one node, and
a_n + b_n (K - 2) on several. Both overlap in part: T = (T_grad^g + T_sync^g)^(1/g), 1 <= g <= 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# A constant, and a slope.
Line = tuple[float, float]
# The same for each overlap: columns of constants and of slopes.
_Lines = tuple[Floats, Floats]

# A step cannot take less; it keeps logarithms and quotients finite.
_TIME_MIN_S = 1e-9
# The overlaps that are tried. More of them change the error of a fit by less than its noise.
_OVERLAPS: Floats = np.array([1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 10.0])[:, None]
# A weak preference for no overlap, which matters only while there is little to tell it by.
_OVERLAP_PENALTY = 1e-3
# Errors below this share of the squares are those of the arithmetic.
_ROUNDING = 1e-9
# While only one node was tried, several are assumed to be somewhat slower than that.
_ACROSS_NODES = 1.1


class SpeedSample(NamedTuple):
    """A mean over steps: replicas, nodes, samples of one replica in a step, and seconds."""

    size: int
    nodes: int
    batch: float
    step_s: float
    sync_s: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class StepModel:
    """The parameters of the model, all of them non-negative."""

    compute_s: float
    compute_s_per_sample: float
    across_s: float
    across_s_per_replica: float
    within_s: float
    within_s_per_replica: float
    overlap: float

    def grad_s(self, batch: Floats) -> Floats:
        """Returns the time of the gradient of one replica's batch."""
        return self.compute_s + self.compute_s_per_sample * batch

    def sync_s(self, sizes: Ints, nodes: Ints) -> Floats:
        """Returns the time of the synchronisation by itself."""
        more = np.maximum(sizes - 2, 0)
        within = self.within_s + self.within_s_per_replica * more
        across = self.across_s + self.across_s_per_replica * more
        return np.where(sizes <= 1, 0.0, np.where(nodes > 1, across, within))

    def step_s(self, sizes: Ints, nodes: Ints, batch: Floats) -> Floats:
        """Returns the time of one step with synchronisation."""
        return _joined(self.grad_s(batch), self.sync_s(sizes, nodes), self.overlap)


def fit(samples: Sequence[SpeedSample]) -> StepModel:
    """Returns the model with the least error in the logarithm of times, in bounded time."""
    table = np.array(samples, np.float64)
    sizes, nodes, batch, step, sync, counts = table.T
    step = np.maximum(step, _TIME_MIN_S)
    grad = np.maximum(step - np.clip(sync, 0.0, step), _TIME_MIN_S)
    weight = np.sqrt(np.maximum(counts, 1e-3))
    compute = _fit_compute(batch, grad, weight)
    own = np.maximum(compute[0] + compute[1] * batch, _TIME_MIN_S)
    is_across = (sizes > 1) & (nodes > 1)
    is_within = (sizes > 1) & (nodes <= 1)
    more = np.maximum(sizes - 2, 0)

    steps = _Steps(more, own, step, weight)
    across, within = _fit_sync(steps, is_across), _fit_sync(steps, is_within)
    alone = np.where(is_across, across[0] + across[1] * more, 0.0)
    alone = np.where(is_within, within[0] + within[1] * more, alone)
    error = ((np.log(_joined(own, alone, _OVERLAPS) / step) * weight) ** 2).sum(axis=1)
    best = int((error + _OVERLAP_PENALTY * (_OVERLAPS[:, 0] - 1) ** 2).argmin())
    beyond, inside = _at(across, best), _at(within, best)
    if not is_across.any():
        beyond = (inside[0] * _ACROSS_NODES, inside[1] * _ACROSS_NODES)
    return StepModel(*compute, *beyond, *inside, float(_OVERLAPS[best, 0]))


class _Steps(NamedTuple):
    """Rows of measurements: replicas beyond two, gradient time, step time, weight."""

    more: Floats
    own: Floats
    step: Floats
    weight: Floats


def _joined(grad: Floats, sync: Floats, overlap: float | Floats) -> Floats:
    # Scaled by the larger part: powers of ten of very small or large times would leave the range.
    top = np.maximum(np.maximum(grad, sync), _TIME_MIN_S)
    joined: Floats = top * ((grad / top) ** overlap + (sync / top) ** overlap) ** (1.0 / overlap)
    return joined


def _fit_compute(batch: Floats, grad: Floats, weight: Floats) -> Line:
    if np.ptp(batch) <= 1e-9 * np.max(batch):
        # One batch size says nothing of the constant part: half is as good a guess as any.
        mean = float(np.average(grad, weights=weight))
        return mean / 2, mean / 2 / max(float(batch[0]), 1e-9)
    return _at(_lines(batch, grad[None, :], (weight / grad)[None, :]), 0)


def _fit_sync(steps: _Steps, chosen: NDArray[np.bool_]) -> _Lines:
    """Fits what is left of the chosen step times after the gradient's part, for all overlaps."""
    if not chosen.any():
        nothing = np.zeros((len(_OVERLAPS), 1))
        return nothing, nothing
    more, own, step, weight = (column[chosen] for column in steps)
    # In parts of the step, for the sake of powers of very small and large times.
    part = np.maximum(1.0 - (np.minimum(own, step) / step) ** _OVERLAPS, 1e-4**_OVERLAPS)
    part = part ** (1 / _OVERLAPS)
    # How much a second of synchronisation moves the logarithm of the step.
    influence = np.maximum(part ** (_OVERLAPS - 1), 1e-3) / step
    if not (more > 0).any():
        mean = (part * step * influence).sum(axis=1) / influence.sum(axis=1)
        return mean[:, None], np.zeros((len(_OVERLAPS), 1))
    return _lines(more, part * step, weight * influence)


def _lines(x: Floats, y: Floats, weight: Floats) -> _Lines:
    """Returns the non-negative lines y = a + b x with the least weighted squares, by rows of y."""
    w = weight**2
    sw, sx, sy = w.sum(axis=1), (w * x).sum(axis=1), (w * y).sum(axis=1)
    sxx, sxy = (w * x * x).sum(axis=1), (w * x * y).sum(axis=1)
    det = sw * sxx - sx * sx
    is_plain = det > 1e-12 * sw * sxx
    whole = np.where(is_plain, det, 1.0)
    a, b = (sxx * sy - sx * sxy) / whole, (sw * sxy - sx * sy) / whole
    is_plain &= (a >= 0) & (b >= 0)
    through_zero = sxy / np.where(sxx > 0, sxx, 1.0)
    flat = sy / sw
    error_zero = (w * (y - through_zero[:, None] * x) ** 2).sum(axis=1)
    error_flat = (w * (y - flat[:, None]) ** 2).sum(axis=1)
    # Where both explain the times, as with one size alone, a constant is taken.
    noise = _ROUNDING * (w * y**2).sum(axis=1)
    is_rising = (through_zero >= 0) & (error_zero + noise < error_flat)
    constant = np.where(is_plain, a, np.where(is_rising, 0.0, np.maximum(flat, 0.0)))
    slope = np.where(is_plain, b, np.where(is_rising, through_zero, 0.0))
    return constant[:, None], slope[:, None]


def _at(lines: _Lines, row: int) -> Line:
    return float(lines[0][row, 0]), float(lines[1][row, 0])
