"""What a TrainingJob costs the API server, counted in the faultless simulated world."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from swell.api.kinds import RECORDED_EVENTS
from swell.sim.campaign.trial import TrialResult, try_faults
from swell.sim.scenario import Scenario
from swell.sim.world import SimulatedWorld
from tests.sim.trainingjob.scenarios import MULTI, trainingjob_subject, user_in

N_PSERVERS = 2


def a_life(n_trainers: int, **spec: object) -> TrialResult:
    """One job from submission to its released end, and ten quiet minutes after that."""

    async def script(world: SimulatedWorld) -> None:
        pserver = {"min-instance": N_PSERVERS}
        await user_in(world).submit("fit", size=(n_trainers, n_trainers), pserver=pserver, **spec)

    scenario = Scenario("one life", script, faulty_s=5, settle_s=4000, quiet_s=600)
    return try_faults(replace(trainingjob_subject(), scenarios=(scenario,)), scenario, n_trainers)


def writes_of(result: TrialResult) -> Counter[str]:
    """Every write request by kind."""
    return Counter(write.site.split(" ")[2].split("/")[0] for write in result.write_sites)


@pytest.mark.parametrize("fault_tolerant", [False, True])
@pytest.mark.parametrize("n_trainers", [1, 4, 16, 50])
def test_writes_are_bounded_by_the_number_of_pods(n_trainers: int, fault_tolerant: bool) -> None:
    """At most 4n + 16 writes for n pods and 6 events, however their ends are spread."""
    result = a_life(n_trainers, fault_tolerant=fault_tolerant, **MULTI)
    writes = writes_of(result)
    n_events = writes.pop(str(RECORDED_EVENTS))
    n_pods = n_trainers + N_PSERVERS + fault_tolerant

    assert result.violations == ()
    assert writes.total() <= 4 * n_pods + 16, dict(writes)
    assert n_events <= 6


def test_quiet_cluster_sees_no_writes() -> None:
    """Ten minutes in which nothing happens cost nothing, also while pods run."""

    async def script(world: SimulatedWorld) -> None:
        user = user_in(world)
        pserver = {"min-instance": 3}
        await user.submit("ant", fault_tolerant=True, runs_s=9000, pserver=pserver, **MULTI)
        await user.submit("bee", is_nccl=True, runs_s=9000)
        await user.until_running("ant", 6, within_s=60)
        await user.until_running("bee", 2, within_s=60)

    scenario = Scenario("quiet", script, faulty_s=60, settle_s=60, quiet_s=600)
    subject = replace(trainingjob_subject(), scenarios=(scenario,), liveness=lambda _: [])

    assert try_faults(subject, scenario, seed=1).violations == ()
