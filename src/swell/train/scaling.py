"""Learning-rate rules for a constant batch per member: pure arithmetic.

The script's learning rate is for `base` members. With `size` of them the global batch is
`size / base` times as large, and a rule says by which factor the rate grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from swell.train.errors import TrainError
from swell.train.reports.noise import GradientNoise


def linear(ratio: float, noise: GradientNoise | None) -> float:  # noqa: ARG001
    return ratio


def square_root(ratio: float, noise: GradientNoise | None) -> float:  # noqa: ARG001
    return math.sqrt(ratio)


def adascale(ratio: float, noise: GradientNoise | None) -> float:
    """AdaScale's gain: close to the ratio where noise dominates, close to 1 where it does not.

    The variance is that of the mean gradient of one base batch. Before anything is measured the
    factor is 1, which is always safe.
    """
    if noise is None or ratio <= 1.0 or noise.variance + noise.norm2 <= 0.0:
        return 1.0 if ratio > 1.0 else ratio
    return (noise.variance + noise.norm2) / (noise.variance / ratio + noise.norm2)


RULES: dict[str, Callable[[float, GradientNoise | None], float]] = {
    "linear": linear,
    "sqrt": square_root,
    "adascale": adascale,
}


def rate_factor(
    rule: str, *, size: int, base: int, batch: int, noise: GradientNoise | None
) -> float:
    """The factor of the learning rate in a group of this size, with so many samples per member."""
    if rule not in RULES:
        raise TrainError(f'lr_rule is "{rule}": it is one of {", ".join(sorted(RULES))}')
    per_batch = None
    if noise is not None:
        per_batch = GradientNoise(noise.norm2, noise.variance / max(1, batch * base))
    return RULES[rule](size / base, per_batch)
