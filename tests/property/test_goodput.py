"""The goodput policy: its arithmetic against brute force, and its laws on random clusters."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob
from swell.api.training import TrainingStatus
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.goodput import knapsack, prices
from swell.autoscaler.goodput.evidence import read_evidence
from swell.autoscaler.goodput.sizing import SizingProblem, choose_sizes
from swell.autoscaler.goodput.stepmodel import SpeedSample, StepModel, fit
from swell.autoscaler.plan import inquiry_resource
from swell.autoscaler.policies.goodput import goodput
from swell.autoscaler.policies.interface import Parameters, RoleTargets, SizeReason
from swell.scheduler.plan import plan_schedule
from tests.autoscaler_cases import a_job, a_node, a_pod, a_role, look, random_objects, sizes
from tests.property.autoscaler_limits import limited_objects
from tests.property.test_autoscaler_limits import scheduled

N_CLUSTERS = 60
NOW = 1_800_000_000.0


def decide(snapshot: AutoscalerSnapshot, now: float | None = NOW) -> RoleTargets:
    return goodput(snapshot.jobs, snapshot.cluster, Parameters(now=now))


def random_choices(chance: Random) -> tuple[np.ndarray, np.ndarray, int]:
    n_jobs, n_columns = chance.randint(1, 5), chance.randint(1, 4)
    units = np.array([sorted(chance.sample(range(9), n_columns)) for _ in range(n_jobs)], np.int64)
    value = np.array(
        [
            [
                chance.choice([-math.inf, chance.random() * 5]) if k else 0.0
                for k in range(n_columns)
            ]
            for _ in range(n_jobs)
        ]
    )
    return units, value, int(units[:, 0].sum()) + chance.randint(0, 12)


def best_by_trying_all(units: np.ndarray, value: np.ndarray, budget: int) -> float:
    rows = range(len(units))
    return max(
        sum(float(value[row, column]) for row, column in zip(rows, picked, strict=True))
        for picked in itertools.product(range(units.shape[1]), repeat=len(units))
        if sum(units[row, column] for row, column in zip(rows, picked, strict=True)) <= budget
    )


def test_exact_choice_equals_the_best_of_all() -> None:
    """Dynamic programming finds the greatest total value, within the budget."""
    chance = Random(1)
    for _ in range(300):
        units, value, budget = random_choices(chance)
        found = knapsack.exact(units, value, budget)
        rows = np.arange(len(units))

        assert found.value == pytest.approx(best_by_trying_all(units, value, budget))
        assert units[rows, found.columns].sum() <= budget
        assert value[rows, found.columns].sum() == pytest.approx(found.value)


def test_greedy_choice_is_within_its_bound() -> None:
    """The bound that the walk on hulls prints is never below the optimum."""
    chance = Random(2)
    for _ in range(300):
        units, value, budget = random_choices(chance)
        found = knapsack.greedy(units, value, budget)
        best = best_by_trying_all(units, value, budget)
        rows = np.arange(len(units))

        assert units[rows, found.columns].sum() <= budget
        assert found.value <= best + 1e-9
        assert found.bound >= best - 1e-9


def test_greedy_choice_is_near_the_optimum_of_large_pools() -> None:
    """With concave values and thousands of devices the printed gap is at most one percent."""
    chance = np.random.default_rng(3)
    column = np.array([1, 2, 4, 8, 16, 32, 64])
    for _ in range(5):
        serial = chance.uniform(0.01, 0.3, (400, 1))
        weight = chance.uniform(0.1, 3.0, (400, 1))
        value = weight * column / (1 + serial * (column - 1))
        units = np.broadcast_to(column, value.shape).astype(np.int64)
        found = knapsack.greedy(units, value, 2000)
        best = knapsack.exact(units, value, 2000)

        assert found.gap <= 0.01
        assert found.value >= 0.99 * best.value


def test_wishes_are_the_cheapest_sizes() -> None:
    """At any price every job wants the size with the least cost of a unit of work."""
    chance = np.random.default_rng(4)
    for _ in range(50):
        units = np.cumsum(chance.integers(1, 5, (6, 5)), axis=1)
        speed = np.where(chance.random((6, 5)) < 0.2, 0.0, chance.uniform(0.5, 9, (6, 5)))
        speed[:, 0] = 1.0
        wish = prices.wishes(units, speed)
        for price in chance.uniform(0, 2, 10):
            at = wish.chosen(price)
            rows = np.arange(6)
            cost = (1 + price * wish.units[rows, at]) / wish.speed[rows, at]
            every = np.where(speed > 0, (1 + price * units) / np.where(speed > 0, speed, 1), np.inf)

            assert cost == pytest.approx(every.min(axis=1))


def test_short_jobs_are_worth_more_in_a_full_pool() -> None:
    """Of equal jobs that compete for devices, the one with the least work left weighs most."""
    units = np.tile(np.array([1, 2, 4, 8]), (8, 1))
    speed = units / (1 + 0.05 * (units - 1.0))
    left = np.array([100.0 * 2**n for n in range(8)])
    weight, price = prices.weights(units, speed, left, 16)

    assert price > 0
    assert (np.diff(weight) <= 1e-9).all()
    assert weight[0] > weight[-1]


def test_weights_do_not_depend_on_the_order_of_jobs() -> None:
    units = np.tile(np.array([1, 2, 4, 8]), (9, 1))
    speed = units ** np.linspace(0.4, 0.95, 9)[:, None]
    left = np.linspace(50, 9000, 9)
    weight, price = prices.weights(units, speed, left, 12)
    turned, turned_price = prices.weights(units[::-1], speed[::-1], left[::-1], 12)

    assert turned[::-1] == pytest.approx(weight)
    assert turned_price == pytest.approx(price)


def test_deadline_that_can_be_kept_goes_before_speed() -> None:
    """Of equal jobs the one that can still be in time gets the least size for that, if it is known
    what is left of it; those that cannot be in time, or have no deadline, share the rest."""
    sizes = np.tile(np.array([1, 2, 4, 8]), (5, 1))
    problem = SizingProblem(
        sizes=sizes,
        speed=sizes / (1 + 0.05 * (sizes - 1.0)),
        units=np.ones(5, np.int64),
        current=np.full(5, 2),
        least=np.ones(5, np.int64),
        left_s=np.full(5, 3000.0),
        ends=np.array([True, True, True, True, False]),
        cost_s=np.full(5, 10.0),
        budget=10,
        due_s=np.array([1000.0, 50.0, -10.0, math.inf, 1000.0]),
    )

    assert choose_sizes(problem).sizes.tolist()[0] == 4
    assert choose_sizes(replace_due(problem, math.inf)).sizes.tolist()[0] == 2


def replace_due(problem: SizingProblem, due_s: float) -> SizingProblem:
    return dataclasses.replace(problem, due_s=np.full(len(problem.sizes), due_s))


def test_fit_finds_a_model_again() -> None:
    """A fit to exact measurements of a model predicts other sizes as that model does."""
    chance = Random(5)
    for _ in range(60):
        true = StepModel(
            chance.uniform(0.01, 0.2),
            chance.uniform(1e-4, 1e-2),
            chance.uniform(0.05, 0.3),
            chance.uniform(0.001, 0.01),
            chance.uniform(0.01, 0.05),
            chance.uniform(0.001, 0.01),
            chance.choice([1.0, 1.5, 2.5, 6.0]),
        )
        shapes = [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)]
        found = fit([_measured(true, *shape, batch) for shape in shapes for batch in (16, 64)])
        for size, nodes in ((3, 1), (12, 3), (24, 6)):
            asked = (np.array([size]), np.array([nodes]), np.array([32.0]))
            ratio = float(found.step_s(*asked)[0] / true.step_s(*asked)[0])
            assert 0.8 < ratio < 1.25


def _measured(model: StepModel, size: int, nodes: int, batch: int) -> SpeedSample:
    shape = (np.array([size]), np.array([nodes]), np.array([float(batch)]))
    step, grad = float(model.step_s(*shape)[0]), float(model.grad_s(shape[2])[0])
    return SpeedSample(size, nodes, batch, step, step - grad)


def test_targets_are_within_bounds_and_repeatable() -> None:
    """On random clusters every candidate ends within its bounds, and twice the same."""
    for seed in range(N_CLUSTERS):
        snapshot = inquiry_resource(random_objects(seed))
        views = {(j.view.id, r.view.name): r.view for j in snapshot.jobs for r in j.roles}
        targets = decide(snapshot)
        for id_, one in targets.items():
            if one.reason not in {SizeReason.HOPELESS, SizeReason.NO_CANDIDATE}:
                assert views[id_].minimum <= one.target <= views[id_].maximum
        assert decide(snapshot) == targets


def test_no_raise_is_refused_by_a_queue_of_the_scheduler() -> None:
    """The scheduler, given the pods of all raises, refuses none of them for its queue."""
    n_raised = 0
    for seed in range(N_CLUSTERS):
        objects = limited_objects(seed)
        targets = decide(inquiry_resource(objects))
        raised = {id_.job.name: one for id_, one in targets.items() if one.delta > 0}
        n_raised += bool(raised)
        plan = plan_schedule(scheduled(objects, targets))
        for name in raised:
            status = plan.groups[f"ns/{name}"]
            reason = status.refusal.reason.value if status.refusal is not None else ""
            assert not reason.startswith("Queue"), (seed, name, status)
    assert n_raised > N_CLUSTERS // 8


def running_jobs(reports: Sequence[TrainingStatus | None], n_nodes: int = 4) -> AutoscalerSnapshot:
    """Nodes of four GPUs, and jobs that run with one replica each and report what is given."""
    things: list[object] = [a_node(f"n{n}", cpu=64, memory="64Gi", gpu=4) for n in range(n_nodes)]
    for n, report in enumerate(reports):
        job = a_job(f"job-{n}", trainer=a_role(1, 16, gpu=1, cpu="1"))
        things.append(with_report(job, report))
        things.append(a_pod(f"job-{n}", "trainer", 0, f"n{n % n_nodes}", gpu=1, cpu="1"))
    return look(*things)  # type: ignore[arg-type]


def with_report(job: AITrainingJob, report: TrainingStatus | None) -> AITrainingJob:
    return replace(job, status=replace(job.status, training=report))


def a_report(rates: dict[str, str], **more: object) -> TrainingStatus:
    return TrainingStatus(reported_at="2026-01-01T00:00:00Z", rates=rates, **more)  # type: ignore[arg-type]


def test_devices_go_to_jobs_that_use_them() -> None:
    """Of two jobs, the one that scales gets more than the one whose speed stays the same."""
    scales = a_report({"1": "100", "2": "195", "4": "380", "8": "700"}, total_samples=10**7)
    stays = a_report({"1": "100", "2": "101", "4": "102", "8": "101"}, total_samples=10**7)
    found = sizes(decide(running_jobs([scales, stays])))

    assert found["job-1/trainer"] == 1
    assert found["job-0/trainer"] >= 8


def test_shrink_for_speed_is_not_taken_for_one_that_lets_a_job_start() -> None:
    """Waiting jobs for which there is room exempt nobody's resize from damping."""
    stays = a_report({"1": "100", "2": "101", "4": "102"}, total_samples=10**7)
    things: list[object] = [a_node(f"n{n}", cpu=64, memory="64Gi", gpu=4) for n in range(2)]
    job = a_job("flat", targets={"trainer": 4}, trainer=a_role(1, 16, gpu=1, cpu="1"))
    things.append(with_report(job, stays))
    things += [a_pod("flat", "trainer", index, "n0", gpu=1, cpu="1") for index in range(4)]
    for name in ("new", "newer"):
        things.append(a_job(name, phase="Pending", trainer=a_role(1, 4, gpu=1, cpu="1")))
    found = {id_.job.name: one for id_, one in decide(look(*things)).items()}  # type: ignore[arg-type]

    assert found["flat"].target == 1
    assert found["flat"].reason is SizeReason.WORTH_MORE_ELSEWHERE
    assert found["flat"].for_group == ""


def test_a_job_grows_to_twice_the_largest_measured_size() -> None:
    once = a_report({"1": "100", "2": "199"}, total_samples=10**9)
    found = sizes(decide(running_jobs([once])))

    assert found["job-0/trainer"] == 4


def test_a_nearly_finished_job_is_not_resized() -> None:
    """A resize that costs longer than the work left is not worth it."""
    rates = {"1": "100", "2": "195", "4": "380"}
    ending = a_report(rates, total_samples=1000, samples=990, last_pause_seconds="60")
    going_on = a_report(rates, total_samples=10**8, samples=990, last_pause_seconds="60")

    assert sizes(decide(running_jobs([ending])))["job-0/trainer"] == 1
    assert sizes(decide(running_jobs([going_on])))["job-0/trainer"] == 8


ABSURD = ("nan", "inf", "-inf", "-5", "1e300", "0", "", "many", "0x10", "9" * 40)


def a_liar(chance: Random) -> TrainingStatus:
    """A report in which at least one number that counts is absurd or contradicts another."""
    rates = {str(2**n): f"{100 * 2**n * 0.95**n:.4g}" for n in range(chance.randint(1, 5))}
    kind = chance.randrange(5)
    if kind == 0:
        rates[chance.choice(sorted(rates))] = chance.choice(ABSURD)
    elif kind == 1:
        rates[chance.choice(["-1", "x", "1e9", "9" * 30, "0", "1.5"])] = "100"
    elif kind == 2:
        rates[str(2 ** len(rates))] = f"{100 * 2 ** len(rates) * chance.uniform(5, 1e6):.6g}"
    elif kind == 3:
        times = chance.choice(["0.1/0.2", "nan/0", "-1/0", "0/0", "1e9/1", "0.1", "x/y"])
        return a_report(rates, step_times={f"{chance.randint(1, 8)}/1/64": times})
    else:
        total = chance.randint(1, 10**6)
        return a_report(rates, samples=total + chance.randint(1, 10**12), total_samples=total)
    return a_report(rates, samples=chance.randint(0, 10**6), total_samples=10**7)


def test_liars_are_sized_by_the_prior() -> None:
    """Of 1,000 random absurd reports none changes anybody's size from what the prior gives."""
    chance = Random(6)
    honest = a_report({"1": "50", "2": "95", "4": "170"}, samples=10**4, total_samples=10**6)
    others = [None, honest, None]
    expected = sizes(decide(running_jobs([None, *others])))
    for _ in range(1000):
        lie = a_liar(chance)
        assert read_evidence(lie) is None, lie
    for _ in range(25):
        assert sizes(decide(running_jobs([a_liar(chance), *others]))) == expected


def test_a_believable_lie_takes_no_minimum() -> None:
    """However well a job speaks of itself, all others keep at least their minimum."""
    chance = Random(7)
    for _ in range(25):
        rates = {str(2**n): f"{2**n * chance.uniform(0.9, 1.1) * 1e6:.6g}" for n in range(4)}
        boast = a_report(rates, samples=1, total_samples=10**6, last_pause_seconds="0")
        found = sizes(decide(running_jobs([boast, None, None, None])))

        assert min(found.values()) >= 1
        assert sum(found.values()) <= 16


def test_a_resize_of_minutes_is_worth_it_for_a_job_of_hours() -> None:
    """What a resize costs has to come back within ten times as long, and not within 300 s."""
    problem = SizingProblem(
        sizes=np.array([[1, 2]]),
        speed=np.array([[1.0, 1.7]]),
        units=np.ones(1, np.int64),
        current=np.ones(1, np.int64),
        least=np.ones(1, np.int64),
        left_s=np.array([50_000.0]),
        ends=np.array([True]),
        cost_s=np.array([250.0]),
        budget=2,
    )

    assert choose_sizes(problem).sizes.tolist() == [2]
    ending = dataclasses.replace(problem, left_s=np.array([300.0]))
    assert choose_sizes(ending).sizes.tolist() == [1]
