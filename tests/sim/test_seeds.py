"""Every subject under faults drawn at random: no rule is broken, and every kind of fault occurs."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache

import pytest

from swell.sim.campaign.figures import CampaignFigures
from swell.sim.campaign.search import search_at_random
from tests.sim.campaign import ENTRIES

SUBJECTS = {entry.subject.name: entry.subject for entry in ENTRIES}
# Of each subject in every run of the tests, 500 in all, most of those that cost least. As many as
# one likes by a variable (AUTOSCALER_SEEDS=500), or with `make sim`.
N_SEEDS = {
    "toy": 354,
    "toy pair": 30,
    "operator": 24,
    "operator history": 7,
    "operator pair": 12,
    "scheduler": 14,
    "scheduler pair": 4,
    "scheduler tree": 4,
    "scheduler native": 3,
    "scheduler domains": 4,
    "scheduler savers": 3,
    "scheduler storage": 3,
    "scheduler devices": 3,
    "autoscaler": 5,
    "autoscaler goodput": 3,
    "autoscaler trainers": 3,
    "trainingjob": 14,
    "trainingjob kept": 6,
    "trainingjob native": 4,
}


@cache
def figures_of(name: str) -> CampaignFigures:
    figures = CampaignFigures()
    n_seeds = int(os.environ.get(f"{name.upper().replace(' ', '_')}_SEEDS", N_SEEDS[name]))
    for result in search_at_random(SUBJECTS[name], range(n_seeds)):
        figures.add(result)
    return figures


@pytest.mark.parametrize("name", N_SEEDS)
def test_seeds_break_no_rule(name: str) -> None:
    """With any faults, nothing is violated and everything ends well."""
    failures = [failed.result for failed in figures_of(name).failures]

    assert [(r.scenario, r.seed, [str(v) for v in r.violations]) for r in failures] == []


def test_seeds_are_five_hundred_of_all_subjects() -> None:
    """Every subject has its part."""
    assert list(N_SEEDS) == list(SUBJECTS)
    assert sum(N_SEEDS.values()) == 500


def test_seeds_hit_every_kind_of_fault() -> None:
    """A fault that is never hit proves nothing."""
    scenarios = [scenario for subject in SUBJECTS.values() for scenario in subject.scenarios]
    kinds = {kind for scenario in scenarios for kind in scenario.rates_max}
    hit = sum((figures_of(name).hit for name in N_SEEDS), Counter[str]())

    assert [kind for kind in sorted(kinds) if not hit[kind]] == []
    assert sum(figures_of(name).crashes for name in N_SEEDS) > 250
