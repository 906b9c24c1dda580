"""Soft topology spread: prefers the domains that have fewer pods like the one to place.

The score is kube-scheduler's for constraints with `whenUnsatisfiable: ScheduleAnyway`. Its defaults
for pods of services and sets are not applied: gangs have no such owners.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from swell.scheduler.model.affinity import AffinityIndex, CountedNodes
from swell.scheduler.model.resources import Mask, Vector
from swell.scheduler.model.tasks import Task

_SCORE_MAX: Final = 100.0
_HOSTNAME: Final = "kubernetes.io/hostname"


def soft_spread(
    index: AffinityIndex, task: Task, scored: Mask, counted: CountedNodes
) -> Vector | None:
    """Returns 0 to 100 for each node; None for a task without such constraints.

    `scored` are the nodes that can take the task, which are compared with each other; `counted`
    returns those whose pods a constraint counts.
    """
    soft = [
        constraint
        for constraint in task.shape.spec.topology_spread_constraints
        if constraint.when_unsatisfiable == "ScheduleAnyway"
    ]
    if not soft:
        return None
    domains = [index.codes(constraint.topology_key) for constraint in soft]
    has_all: Mask = np.logical_and.reduce([codes >= 0 for codes in domains])
    compared = scored & has_all
    if not compared.any():
        return np.zeros(len(scored))
    total = np.zeros(len(scored))
    for constraint, codes in zip(soft, domains, strict=True):
        there = index.staying(index.spread_term(task, constraint))
        n_domains = int(compared.sum())
        if constraint.topology_key != _HOSTNAME:
            n_domains = len(np.unique(codes[compared]))
            inside = has_all & counted(constraint)
            by_domain = np.bincount(
                codes[inside], there[inside], minlength=int(codes.max(initial=0)) + 1
            )
            there = by_domain[np.maximum(codes, 0)].astype(np.float64)
        # More domains make a pod weigh more, so that constraints over few and many count alike.
        total += there * np.log(n_domains + 2) + (constraint.max_skew - 1)
    crowd = np.floor(total + 0.5)  # rounded as Go does
    least, most = crowd[compared].min(), crowd[compared].max()
    score: Vector = np.full(len(scored), _SCORE_MAX)
    if most > 0:
        score = np.floor(_SCORE_MAX * (most + least - crowd) / most)
    score[~compared] = 0.0
    return score
