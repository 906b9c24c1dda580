"""What a job costs the API server, counted in the faultless simulated world."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from swell.api.kinds import RECORDED_EVENTS
from swell.sim.campaign.trial import TrialResult, try_faults
from swell.sim.scenario import Scenario
from swell.sim.world import SimulatedWorld
from tests.sim.operator.arriving import arrive
from tests.sim.operator.jobs import Pods, a_role
from tests.sim.operator.subject import operator_subject


def a_life(n_pods: int, runs_s: float, policy: str = "All") -> TrialResult:
    """One job from submission to its cleaned end, and ten quiet minutes after that."""

    async def script(world: SimulatedWorld) -> None:
        user = await arrive(world)
        role = a_role(Pods(runs_s=runs_s), replicas=n_pods)
        await user.submit("fit", {"trainer": role}, cleanPodPolicy=policy)

    scenario = Scenario("one life", script, faulty_s=5, settle_s=4000, quiet_s=600)
    return try_faults(replace(operator_subject(), scenarios=(scenario,)), scenario, n_pods)


def writes_of(result: TrialResult) -> Counter[str]:
    """Every write request by kind, dry runs included."""
    return Counter(write.site.split(" ")[2].split("/")[0] for write in result.write_sites)


@pytest.mark.parametrize(("runs_s", "n_more"), [(10.0, 12), (3000.0, 16)])
@pytest.mark.parametrize("n_pods", [1, 2, 3, 4, 7, 16, 50])
def test_writes_are_bounded_by_the_number_of_pods(n_pods: int, runs_s: float, n_more: int) -> None:
    """At most 4n + 12 writes for n pods that end within seconds, 4n + 16 however they end."""
    result = a_life(n_pods, runs_s)
    writes = writes_of(result)
    n_events = writes.pop(str(RECORDED_EVENTS))

    assert result.violations == ()
    assert writes.total() <= 4 * n_pods + n_more, dict(writes)
    assert n_events <= 12


def test_quiet_cluster_sees_no_writes() -> None:
    """Ten minutes in which nothing happens cost nothing, also while pods run."""

    async def script(world: SimulatedWorld) -> None:
        user = await arrive(world)
        for name in ("ant", "bee"):
            await user.submit(name, {"trainer": a_role(Pods(runs_s=9000), replicas=3)})

    scenario = Scenario("quiet", script, faulty_s=60, settle_s=60, quiet_s=600)
    subject = replace(operator_subject(), scenarios=(scenario,), liveness=lambda _: [])

    assert try_faults(subject, scenario, seed=1).violations == ()
