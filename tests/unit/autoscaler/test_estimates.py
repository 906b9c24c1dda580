"""When waiting jobs start: remaining times, rolling a cluster forward, and what is written."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase, StartEstimate
from swell.api.codec import convert, to_body
from swell.api.meta import Body
from swell.api.times import format_time
from swell.api.training import TrainingStatus
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.estimates.jobs import StartSpread, has_moved, spread_of
from swell.autoscaler.estimates.keeper import PERIOD_S, EstimateKeeper
from swell.autoscaler.estimates.remaining import (
    SCENARIOS,
    RemainingSource,
    RunningFacts,
    remaining,
    shuffled,
)
from swell.autoscaler.estimates.rolling import RollingProblem, roll
from swell.autoscaler.status import SizeChange, decide_write
from swell.autoscaler.views import JobId
from swell.runtime.plan import PatchStatus
from tests.autoscaler_cases import a_job, a_node, a_pod, a_role, look

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("facts", "source"),
    [
        (RunningFacts(100.0, reported_left_s=500.0), RemainingSource.REPORT),
        (RunningFacts(100.0, earlier_runs_s=(300.0, 400.0, 500.0)), RemainingSource.HISTORY),
        (RunningFacts(100.0, limit_s=600.0, earlier_runs_s=(50.0,) * 9), RemainingSource.LIMIT),
        (RunningFacts(100.0), RemainingSource.UNKNOWN),
    ],
)
def test_remaining_time_comes_from_the_best_source(
    facts: RunningFacts, source: RemainingSource
) -> None:
    found, quantiles = remaining(facts)

    assert found is source
    assert len(quantiles) == SCENARIOS
    assert list(quantiles) == sorted(quantiles)
    if facts.limit_s is not None:
        assert quantiles[-1] <= facts.limit_s - facts.age_s


def test_earlier_runs_count_if_they_took_longer() -> None:
    """A job that has run for longer than most is not expected to have ended already."""
    _, quantiles = remaining(RunningFacts(1000.0, earlier_runs_s=(10, 20, 1100, 1200, 1300)))

    assert 100.0 <= quantiles[0] <= quantiles[-1] <= 300.0


def test_scenarios_are_only_put_in_another_order() -> None:
    values = np.arange(SCENARIOS, dtype=np.float64)

    for seed in range(300):
        assert sorted(shuffled(values, seed)) == list(values)


def rolled(free: int, held: list[int], ends: list[float], waiting: list[int]) -> list[float]:
    """The starts of waiting jobs that each run for 50 s, with the same ends in all scenarios."""
    found = roll(
        RollingProblem(
            free=np.array([free]),
            held=np.array(held).reshape(-1, 1),
            ends=np.repeat(np.array(ends).reshape(-1, 1), SCENARIOS, axis=1),
            waiting=np.array(waiting).reshape(-1, 1),
            durations=np.full((len(waiting), SCENARIOS), 50.0),
        )
    )
    assert (found == found[:, :1]).all()
    return [float(one) for one in found[:, 0]]


def test_jobs_start_in_their_order_as_room_becomes_free() -> None:
    assert rolled(0, [4, 4], [100.0, 200.0], [4, 4, 2]) == [100.0, 150.0, 200.0]


def test_one_that_does_not_fit_does_not_hold_up_others() -> None:
    assert rolled(2, [6], [100.0], [8, 2]) == [100.0, 0.0]


def test_one_that_never_fits_never_starts() -> None:
    assert rolled(0, [4], [np.inf], [2]) == [np.inf]
    assert rolled(4, [], [], [5, 1]) == [np.inf, 0.0]
    assert rolled(0, [], [], []) == []


def cluster(*, status: Body | None = None, minimum: int = 4) -> AutoscalerSnapshot:
    """A node of 4 cpus that a job holds, and another job of 2 that waits."""
    running = a_job("old", trainer=a_role(minimum, 4, replicas=4, cpu="1"))
    if status is not None:
        body = {**to_body(running)["status"], **status}
        running = structs.replace(running, status=convert(body, type(running.status)))
    waiting = a_job("new", phase="Pending", trainer=a_role(2, 2, cpu="1"))
    pods = [a_pod("old", "trainer", n, "n1", cpu="1") for n in range(4)]
    return look(a_node("n1", cpu="4", memory="8Gi", pods="20"), running, waiting, *pods)


def spread_for(snapshot: AutoscalerSnapshot, keeper: EstimateKeeper | None = None) -> StartSpread:
    keeper = keeper or EstimateKeeper(lambda _: 0)
    (found,) = keeper.estimate(snapshot, NOW).values()
    return found


def test_a_start_that_hangs_on_an_unknown_end_is_unknown_and_says_so() -> None:
    assert spread_for(cluster()) == StartSpread(None, None, None, "ns/old")


def test_a_start_follows_from_what_the_running_job_reports() -> None:
    training = TrainingStatus(samples=0, total_samples=6000, rates={"4": "10"})
    spread = spread_for(cluster(status={"training": to_body(training)}))

    assert spread.p10_s is not None
    assert spread.p50_s is not None
    assert spread.p90_s is not None
    assert 200 < spread.p10_s < spread.p50_s < spread.p90_s < 1500
    assert spread.p50_s == pytest.approx(600.0)
    assert not spread.depends_on


def test_elastic_jobs_are_expected_to_shrink_for_a_job_that_waits() -> None:
    assert spread_for(cluster(minimum=1)).p90_s == 0.0


def ended(name: str, ran_s: float) -> AITrainingJob:
    job = a_job(name, trainer=a_role(4, 4, cpu="1"))
    status = structs.replace(
        job.status,
        phase=AITrainingJobPhase.SUCCEED,
        start_running_time=format_time(NOW),
        end_time=format_time(NOW + ran_s),
    )
    metadata = structs.replace(job.metadata, uid=name)
    return structs.replace(job, metadata=metadata, status=status)


def test_earlier_jobs_of_the_program_are_remembered_once_each() -> None:
    keeper = EstimateKeeper(lambda _: 0)
    for name, ran_s in (("a", 900.0), ("b", 1000.0), ("c", 1100.0)):
        for _ in range(3):
            keeper.note_run(ended(name, ran_s))
    started = {"startRunningTime": format_time(NOW - 500)}
    spread = spread_for(cluster(status=started), keeper)

    assert spread.p50_s == pytest.approx(500.0, abs=2.0)


def estimate(p10: float | None, p50: float | None, p90: float | None) -> StartEstimate:
    return StartSpread(p10, p50, p90).body(NOW)


def test_an_estimate_is_written_only_when_it_has_moved_by_a_fifth() -> None:
    held = estimate(800.0, 1000.0, 1200.0)

    assert has_moved(None, held, NOW)
    assert not has_moved(held, held, NOW)
    assert not has_moved(held, estimate(850.0, 1100.0, 1400.0), NOW)
    assert has_moved(held, estimate(800.0, 1300.0, 1400.0), NOW)
    assert has_moved(held, estimate(800.0, 1000.0, None), NOW)


def test_unknown_scenarios_make_the_upper_percentiles_unknown() -> None:
    starts = np.array([10.0] * 8 + [np.inf] * 3)

    assert spread_of(starts, "team/fit").p90_s is None
    assert spread_of(starts, "team/fit").depends_on == "team/fit"
    assert spread_of(np.full(SCENARIOS, 5.0), "team/fit").depends_on == ""


def test_estimates_are_proposed_for_the_version_they_were_made_for() -> None:
    """Every half minute at most; taken out when the job has started; written on that version."""
    keeper = EstimateKeeper(lambda _: 0)
    job = a_job("new", phase="Pending", trainer=a_role(2, 2, cpu="1"))
    job = structs.replace(job, metadata=structs.replace(job.metadata, resource_version="7"))
    id_ = JobId("ns", "new")
    keeper.propose(cluster(), lambda _: job, NOW)
    proposal = keeper.take(id_, job)

    assert proposal is not None
    (patch,) = decide_write(SizeChange(job, None, proposal), NOW).actions
    assert isinstance(patch, PatchStatus)
    assert patch.status["startEstimate"]["dependsOn"] == "ns/old"
    later = structs.replace(job, metadata=structs.replace(job.metadata, resource_version="8"))
    assert decide_write(SizeChange(later, None, proposal), NOW).actions == ()
    assert keeper.take(id_, later) is None
    keeper.propose(cluster(), lambda _: job, NOW + PERIOD_S / 2)
    assert id_ not in keeper.proposals
    keeper.propose(cluster(), lambda _: job, NOW + PERIOD_S)
    assert id_ in keeper.proposals
