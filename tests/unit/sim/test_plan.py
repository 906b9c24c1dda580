"""Faults are decided per site and call, recorded, written down and read back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from swell.sim.chance import Chance
from swell.sim.faults.plan import (
    DrawnFaults,
    Fault,
    FaultInjector,
    FaultKind,
    FaultPlan,
    PlannedFaults,
    read_plan,
    write_plan,
)
from swell.sim.faults.swarm import OVERLAPS, RATES_MAX, draw_rates

OFFERED = (FaultKind.CONFLICT, FaultKind.SLOW)
HALF: Mapping[str, float] = {FaultKind.CONFLICT: 0.25, FaultKind.SLOW: 0.25, FaultKind.GONE: 0.5}


def test_drawn_fault_depends_on_site_and_call_alone() -> None:
    """More traffic at one site leaves the faults of the others as they were."""
    quiet, busy = (FaultInjector(DrawnFaults(Chance(5), HALF)) for _ in range(2))
    for _ in range(50):
        busy.consult("other", OFFERED)

    assert [quiet.consult("site", OFFERED) for _ in range(50)] == [
        busy.consult("site", OFFERED) for _ in range(50)
    ]


def test_drawn_fault_is_one_that_was_offered() -> None:
    """A kind that cannot happen at a site is not drawn there, however high its rate."""
    injector = FaultInjector(DrawnFaults(Chance(5), HALF))
    for _ in range(400):
        injector.consult("site", OFFERED)

    assert {fault.kind for fault in injector.taken} == set(OFFERED)
    assert 140 < len(injector.taken) < 260


def test_planned_faults_happen_where_the_plan_says() -> None:
    """The n-th call of the site, and no other."""
    fault = Fault("site", 2, FaultKind.SLOW, 0.5)
    injector = FaultInjector(PlannedFaults([fault]))

    assert [injector.consult("site", OFFERED) for _ in range(3)] == [None, fault, None]
    assert injector.consult("other", OFFERED) is None
    assert injector.taken == [fault]


def test_book_that_is_off_still_counts_calls() -> None:
    """Calls while faults are off are calls: later ones keep their number."""
    injector = FaultInjector(PlannedFaults([Fault("site", 2, FaultKind.SLOW)]))
    injector.on = False
    injector.consult("site", OFFERED)
    injector.on = True

    assert injector.consult("site", OFFERED) is not None
    assert injector.count("site") == 2


def test_plan_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    """A plan on disk is the plan."""
    plan = FaultPlan(
        subject="s", scenario="c", seed=7, mutant="m", faults=(Fault("a b", 3, "F1 x", 0.25),)
    )
    write_plan(tmp_path / "plan.json", plan)

    assert read_plan(tmp_path / "plan.json") == plan


def test_rates_differ_between_seeds() -> None:
    """Some seeds lack a kind, some have plenty of it; no seed is all faults."""
    drawn = [draw_rates(Chance(seed)) for seed in range(300)]
    conflicts = [rates.get(FaultKind.CONFLICT, 0.0) for rates in drawn]

    assert conflicts.count(0.0) > 60
    assert max(conflicts) > 0.15
    assert all(any(rates.get(kind) for rates in drawn) for kind in RATES_MAX), (
        "every kind has its season"
    )
    assert {frozenset(r) for r in drawn} > {
        frozenset(k for k in overlap if k in RATES_MAX) for overlap in OVERLAPS
    }
