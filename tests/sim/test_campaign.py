"""Every subject under simulated faults: no rule is broken, and every planted bug is found."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from swell.sim.campaign import digest, digests_elsewhere
from swell.sim.figures import Figures
from swell.sim.plan import FaultKind, read_plan
from swell.sim.search import search_at_random, search_every_write
from swell.sim.trial import replay
from tests.sim.campaign import ENTRIES

PLANS = Path(__file__).parents[1] / "data" / "fault_plans"
SUBJECTS = {entry.subject.name: entry.subject for entry in ENTRIES}
# Of each subject in every run of the tests, 500 in all; `make sim` runs as many as one likes.
N_SEEDS = {
    "toy": 195,
    "toy pair": 25,
    "operator": 110,
    "operator pair": 15,
    "autoscaler": 60,
    "trainingjob": 80,
    "trainingjob kept": 15,
}
# The core scenarios of each subject, at whose every write something goes wrong.
CORE = (
    *(("toy", scenario.name, "") for scenario in SUBJECTS["toy"].scenarios),
    ("operator", "creation", ""),
    ("trainingjob kept", "finish", ""),
    ("autoscaler", "finish", "autoscaler"),
)
LONG = [
    pytest.param("trainingjob", name, "", marks=pytest.mark.long) for name in ("scale", "delete")
]


@cache
def figures_of(name: str) -> Figures:
    figures = Figures()
    n_seeds = int(os.environ.get(f"{name.upper().replace(' ', '_')}_SEEDS", N_SEEDS[name]))
    for result in search_at_random(SUBJECTS[name], range(n_seeds)):
        figures.add(result)
    return figures


@pytest.mark.parametrize("name", N_SEEDS)
def test_seeds_break_no_rule(name: str) -> None:
    """Whatever faults are drawn, nothing is violated and everything ends well."""
    failures = figures_of(name).failures

    assert [(r.scenario, r.seed, [str(v) for v in r.violations]) for r in failures] == []


def test_seeds_are_five_hundred_of_all_subjects() -> None:
    """Every subject has its part."""
    assert list(N_SEEDS) == list(SUBJECTS)
    assert sum(N_SEEDS.values()) == 500


@pytest.mark.parametrize("name", [name for name in N_SEEDS if N_SEEDS[name] >= 60])
def test_seeds_hit_every_kind_of_fault(name: str) -> None:
    """A fault that is never hit proves nothing."""
    subject, figures = SUBJECTS[name], figures_of(name)
    own = {kind for scenario in subject.scenarios for kind in scenario.disturbances}
    common = {kind for kind in FaultKind if kind in subject.scenarios[0].rates_max}
    missed = [kind for kind in sorted(own | common) if not figures.hit[kind]]

    assert missed == []
    assert figures.crashes > N_SEEDS[name] / 2


@pytest.mark.parametrize(
    ("name", "scenario", "whose"),
    [*CORE, *(pytest.param(*one, marks=pytest.mark.long) for one in LONG)],
)
def test_every_write_may_be_the_last(name: str, scenario: str, whose: str) -> None:
    """A crash before or after any write, or a lost answer to it, changes nothing in the end."""
    subject = SUBJECTS[name]
    results = list(search_every_write(subject, subject.scenario(scenario), seed=0, whose=whose))
    told = [(r.faults, [str(v) for v in r.violations]) for r in results if r.violations]
    n_writes = sum(write.site.startswith(whose) for write in results[0].write_sites)

    assert told == []
    assert len(results) == 1 + 3 * n_writes
    assert n_writes > 5
    assert sum(r.crashes for r in results) == 2 * n_writes


@pytest.mark.parametrize("name", [name for entry in ENTRIES for name in entry.mutants])
def test_planted_bug_is_found(name: str) -> None:
    """The stored plan shows the bug it was made for, and the correct subject survives it."""
    entry = next(entry for entry in ENTRIES if name in entry.mutants)
    plan = read_plan(PLANS / f"{name.replace(' ', '-')}.json")

    assert (plan.subject, plan.mutant) == (entry.subject.name, name)
    assert replay(entry.mutants[name], plan).breaks(plan.violates)
    assert replay(entry.subject, plan).violations == ()


def test_runs_are_the_same_in_other_processes() -> None:
    """Neither addresses nor hash seeds nor anything else from outside reaches a run."""
    here = digest(ENTRIES, 10)

    assert digests_elsewhere("tests.sim.campaign", 10) == [here, here]
