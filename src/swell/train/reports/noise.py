"""The gradient's noise: pure arithmetic over squared norms.

Members' gradients are means over few samples, the group's is the mean over all of them. From the
two squared norms follow those of the true gradient and the variance of one sample's (the "noise
scale" is their ratio; a batch well below it loses little by growing).
"""

from __future__ import annotations

from dataclasses import dataclass

# The weight of one measurement; the two sums are smoothed apart, since their ratio is biased.
MEASURE_WEIGHT = 0.2


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """Smoothed squared norm of the mean gradient, and variance of the gradient of one sample."""

    norm2: float
    variance: float

    def smoothed(self, new: GradientNoise) -> GradientNoise:
        return GradientNoise(
            self.norm2 + MEASURE_WEIGHT * (new.norm2 - self.norm2),
            self.variance + MEASURE_WEIGHT * (new.variance - self.variance),
        )


def noise_of(members: list[tuple[float, int]], mean_norm2: float) -> GradientNoise | None:
    """The noise from (squared norm, samples) of members, and the squared norm of their mean.

    None where it cannot be told: with a single member, or one without samples of its own.
    """
    counts = [n for _, n in members if n > 0]
    if len(counts) < 2 or len(counts) < len(members):
        return None
    total = sum(counts)
    small = len(counts) / sum(1.0 / n for n in counts)
    small_norm2 = sum(norm2 for norm2, _ in members) / len(members)
    norm2 = (total * mean_norm2 - small * small_norm2) / (total - small)
    variance = (small_norm2 - mean_norm2) / (1.0 / small - 1.0 / total)
    return GradientNoise(max(norm2, 0.0), max(variance, 0.0))
