"""The speed of a job by size: by what it has reported, or else by a prior. Pure, numpy only."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from swell.autoscaler.goodput.batches import best_batches
from swell.autoscaler.goodput.evidence import SpeedEvidence
from swell.autoscaler.goodput.stepmodel import Floats, SpeedSample, StepModel, fit

# The serial share of a job of which nothing is known: s(n) = n / (1 + share (n - 1)).
PRIOR_SERIAL = 0.05
# No size counts as more than this much faster than linear: a larger lead is an error or a lie.
ABOVE_LINEAR_MAX = 1.1
# A job may grow to this many times the largest size that it was measured at.
GROWTH_MAX = 2
# A job without a report has at least this much work left, in seconds of one replica.
UNKNOWN_LEFT_S = 600.0
# What a resize costs a job that has not reported one: a start of a process and its data.
RESIZE_S = 30.0
# Bounds of what a report may say of the work left: a wrong one cannot make a job worth more than
# the shortest jobs are, nor less than those that last a quarter of a year.
_LEFT_S_MIN, _LEFT_S_MAX = 30.0, 90 * 86400.0


class SpeedTable(NamedTuple):
    """Speeds over that of one replica by size, and the work left in seconds of one replica.

    `is_known` says that the work left was reported and not guessed; `tier` names the source.
    """

    speed: Floats
    left_s: float
    is_known: bool
    cost_s: float
    tier: str


@lru_cache(maxsize=4096)
def prior(sizes: tuple[int, ...], serial: float = PRIOR_SERIAL) -> Floats:
    """Returns the speeds that are assumed of a job of which nothing is known."""
    n = np.array(sizes, np.float64)
    speed: Floats = n / (1.0 + serial * (n - 1.0))
    speed.flags.writeable = False
    return speed


def size_limit(evidence: SpeedEvidence | None, maximum: int) -> int:
    """Returns the largest size that a job may be given by what is known of it."""
    if evidence is None or evidence.is_shared or not evidence.largest:
        return maximum
    return min(maximum, GROWTH_MAX * evidence.largest)


def speed_table(
    evidence: SpeedEvidence | None,
    sizes: tuple[int, ...],
    per_node: int,
    attained_s: float,
    serial: float = PRIOR_SERIAL,
) -> SpeedTable:
    """Returns the speeds of a job at these sizes. `attained_s` is its service so far."""
    guess = min(max(attained_s, UNKNOWN_LEFT_S), _LEFT_S_MAX)
    if evidence is None:
        return SpeedTable(prior(sizes, serial), guess, False, RESIZE_S, "prior")
    rate_of_one, speed = _measured(_speed_facts(evidence), sizes, per_node)
    if evidence.left is None:
        left_s = min(max(evidence.done / rate_of_one, UNKNOWN_LEFT_S), _LEFT_S_MAX)
        is_known = False
    else:
        left_s = min(max(evidence.left / rate_of_one, _LEFT_S_MIN), _LEFT_S_MAX)
        is_known = True
    cost_s = RESIZE_S if evidence.pause_s is None else evidence.pause_s
    tier = "shared" if evidence.is_shared else "measured"
    return SpeedTable(speed, left_s, is_known, cost_s, tier)


def _speed_facts(evidence: SpeedEvidence) -> SpeedEvidence:
    """Returns the part of a report that speeds follow from: it changes far less often."""
    noise = None if evidence.noise is None else float(f"{evidence.noise:.3g}")
    return replace(evidence, done=0.0, total=None, pause_s=None, noise=noise)


@lru_cache(maxsize=16384)
def _measured(
    evidence: SpeedEvidence, sizes: tuple[int, ...], per_node: int
) -> tuple[float, Floats]:
    """Returns samples a second of one replica, and the speeds over it. Cached by content."""
    asked = np.array((1, *sizes), np.int64)
    adapts = evidence.batches is not None and evidence.noise is not None
    n_facts = len(evidence.rates) + len(evidence.samples)
    if evidence.model is None and n_facts < 2 and not (evidence.samples and adapts):
        # One size says nothing of others: they are the prior's, and only the scale is measured.
        size, rate_there = _only_rate(evidence)
        one = rate_there / float(prior((size,))[0])
        return one, prior(sizes)
    nodes = -(-asked // max(per_node, 1))
    model = _model(evidence, per_node)
    if evidence.batches is not None and evidence.noise is not None:
        # A program that adapts its batch grows by that too, so one shape says something of others.
        found = best_batches(model, evidence.noise, evidence.batches, asked, nodes)
        rate = found.goodput * evidence.batches.first
    else:
        batch = evidence.global_batch or 1.0
        rate = batch / model.step_s(asked, nodes, batch / asked)
        # What was measured counts more than what the model says of it.
        known = dict(evidence.rates)
        rate = np.array([known.get(int(n), r) for n, r in zip(asked, rate, strict=True)])
    one = max(float(rate[0]), 1e-12)
    speed = np.minimum(rate[1:] / one, ABOVE_LINEAR_MAX * asked[1:])
    speed.flags.writeable = False
    return one, speed


def _only_rate(evidence: SpeedEvidence) -> tuple[int, float]:
    """Returns the one size that was measured, and samples a second there."""
    if evidence.rates:
        return evidence.rates[0]
    one = evidence.samples[0]
    return one.size, one.size * one.batch / one.step_s


def _model(evidence: SpeedEvidence, per_node: int) -> StepModel:
    if evidence.model is not None:
        return evidence.model
    if evidence.samples:
        return _fitted(evidence.samples)
    batch = evidence.global_batch or 1.0
    return _fitted(
        tuple(
            SpeedSample(size, -(-size // max(per_node, 1)), batch / size, batch / rate, 0.0)
            for size, rate in evidence.rates
        )
    )


@lru_cache(maxsize=16384)
def _fitted(samples: tuple[SpeedSample, ...]) -> StepModel:
    return fit(samples)
