"""The autoscaler in simulated clusters: without faults it never errs; and what it is good for."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from swell.sim.campaign.trial import try_faults
from swell.sim.loop import VirtualClock, run
from swell.sim.scenario import Scenario
from tests.figures import Figure
from tests.sim.autoscaler.classic import compare, turns_in_a_crowd
from tests.sim.autoscaler.rules import OBSERVATION_S, Visibility
from tests.sim.autoscaler.subject import SCENARIOS, autoscaler_subject, faultless
from tests.sim.autoscaler.web import measure_beside_service

N_CLASSIC = int(os.environ.get("AUTOSCALER_CLASSIC", "5"))
HALF_AN_HOUR_S = 1800.0


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_without_faults_every_raise_finds_room(scenario: Scenario) -> None:
    """Where the autoscaler sees what there is, every rule holds from the first moment."""
    result = try_faults(autoscaler_subject(), faultless(scenario), seed=1)

    assert [str(v) for v in result.violations] == []


@dataclass
class QuietWorld:
    """A world in which nothing is committed: its time, and when its faults ended."""

    clock: VirtualClock
    faults_ended_s: float | None = None


def test_faults_count_until_they_end_also_where_nothing_is_committed() -> None:
    """Rules that ask for a clear view ask for it from the end of the faults, not the last write."""

    async def story() -> None:
        world = QuietWorld(VirtualClock())
        view = Visibility(world)  # type: ignore[arg-type]
        assert not view.is_clear()
        await world.clock.sleep(300)
        world.faults_ended_s = world.clock.monotonic()
        await world.clock.sleep(OBSERVATION_S - 1)
        assert not view.is_clear()
        await world.clock.sleep(2)
        assert view.is_clear()

    run(story())


@pytest.mark.parametrize("seed", range(3))
def test_role_turns_at_most_once_while_the_jobs_are_the_same(seed: int) -> None:
    """In half an hour with an unchanged set of jobs no role changes direction more than once."""
    turns = turns_in_a_crowd(seed, HALF_AN_HOUR_S)

    assert turns.n_resizes > 5
    assert max((len(times) for times in turns.turned_at.values()), default=0) <= 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(N_CLASSIC))
def test_classic_scenario_waits_less_and_uses_more(seed: int, figure: Figure) -> None:
    """Twenty jobs of up to ten trainers, 90 s apart: shorter waits, a fuller cluster, and all done
    sooner. What is measured, `classic` says."""
    without, with_ = compare(seed)
    figure(f"autoscaler, seed {seed}: without {without}; with {with_}")

    assert with_.mean_pending_s < without.mean_pending_s
    assert with_.busy_arriving > without.busy_arriving
    assert with_.busy > without.busy
    assert with_.took_s < without.took_s


@pytest.mark.long
@pytest.mark.parametrize("policy", ["fulfillment", "goodput"])
def test_jobs_fill_what_a_service_leaves(policy: str, figure: Figure) -> None:
    """Beside a service that goes from 400 pods to 100 and back, nine tenths are used in the
    trough, and all its pods come back."""
    found = measure_beside_service(0, policy)
    figure(f"beside a service, {policy}: {found}")

    assert found.trough >= 0.9
    assert found.wait_longest_s < 60
