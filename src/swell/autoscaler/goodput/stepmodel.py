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

# A step cannot take less; it keeps logarithms and quotients finite.
_TIME_MIN_S = 1e-9
# The overlaps that are tried. More of them change the error of a fit by less than its noise.
_OVERLAPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 10.0)
# A weak preference for no overlap, which matters only while there is little to tell it by.
_OVERLAP_PENALTY = 1e-3
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

    def tried(overlap: float) -> tuple[float, float, Line, Line]:
        across = _fit_sync(_Steps(more, own, step, weight), is_across, overlap)
        within = _fit_sync(_Steps(more, own, step, weight), is_within, overlap)
        alone = np.where(is_across, across[0] + across[1] * more, 0.0)
        alone = np.where(is_within, within[0] + within[1] * more, alone)
        error = np.log(_joined(own, alone, overlap) / step) * weight
        return float(error @ error) + _OVERLAP_PENALTY * (overlap - 1) ** 2, overlap, across, within

    _, overlap, across, within = min(map(tried, _OVERLAPS), key=lambda one: one[0])
    if not is_across.any():
        across = (within[0] * _ACROSS_NODES, within[1] * _ACROSS_NODES)
    return StepModel(*compute, *across, *within, overlap)


class _Steps(NamedTuple):
    """Rows of measurements: replicas beyond two, gradient time, step time, weight."""

    more: Floats
    own: Floats
    step: Floats
    weight: Floats


def _joined(grad: Floats, sync: Floats, overlap: float) -> Floats:
    # Scaled by the larger part: powers of ten of very small or large times would leave the range.
    top = np.maximum(np.maximum(grad, sync), _TIME_MIN_S)
    return top * ((grad / top) ** overlap + (sync / top) ** overlap) ** (1.0 / overlap)


def _fit_compute(batch: Floats, grad: Floats, weight: Floats) -> Line:
    if np.ptp(batch) <= 1e-9 * np.max(batch):
        # One batch size says nothing of the constant part: half is as good a guess as any.
        mean = float(np.average(grad, weights=weight))
        return mean / 2, mean / 2 / max(float(batch[0]), 1e-9)
    return _line(batch, grad, weight / grad)


def _fit_sync(steps: _Steps, chosen: NDArray[np.bool_], g: float) -> Line:
    """Fits what is left of the chosen step times after the gradient's part, for this overlap."""
    if not chosen.any():
        return 0.0, 0.0
    more, own, step, weight = (column[chosen] for column in steps)
    left = np.maximum(step**g - np.minimum(own, step) ** g, (1e-4 * step) ** g) ** (1 / g)
    # How much a second of synchronisation moves the logarithm of the step.
    influence = np.maximum((left / step) ** (g - 1), 1e-3) / step
    if not (more > 0).any():
        return float(np.average(left, weights=influence)), 0.0
    return _line(more, left, weight * influence)


def _line(x: Floats, y: Floats, weight: Floats) -> Line:
    """Returns the non-negative line y = a + b x with the least weighted squares."""
    w = weight**2
    sw, sx, sy = w.sum(), (w * x).sum(), (w * y).sum()
    sxx, sxy = (w * x * x).sum(), (w * x * y).sum()
    det = sw * sxx - sx * sx
    if det > 1e-12 * sw * sxx:
        a, b = (sxx * sy - sx * sxy) / det, (sw * sxy - sx * sy) / det
        if a >= 0 and b >= 0:
            return float(a), float(b)
    through_zero = float(sxy / sxx) if sxx > 0 else 0.0
    flat = float(sy / sw)
    error_zero = (w * (y - through_zero * x) ** 2).sum()
    error_flat = (w * (y - flat) ** 2).sum()
    if through_zero >= 0 and error_zero < error_flat:
        return 0.0, through_zero
    return max(flat, 0.0), 0.0
