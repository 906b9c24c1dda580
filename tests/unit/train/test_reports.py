"""Reports: smoothed rates, noise, stragglers, and the bound of a report."""

from __future__ import annotations

import random
from typing import cast

import msgspec
import pytest

from swell.api.report import REPORT_BYTES_MAX, SaveReport, TrainingReport, TrainingState
from swell.train.bus.plan import GroupPlan, Held, Member
from swell.train.collectives import Collectives
from swell.train.errors import TrainError
from swell.train.hang import HangWatch
from swell.train.reports.measures import Measured, Measures, SlowestMember
from swell.train.reports.noise import GradientNoise, noise_of
from swell.train.reports.rates import Rates
from swell.train.reports.reporter import PUBLISH_S, Facts, Reporter, slowest_of
from swell.train.scaling import rate_factor
from swell.train.state.ledger import Progress, TrainLedger


def test_rates_are_smoothed_and_kept_by_size() -> None:
    """One slow step moves a rate a little; sizes do not mix."""
    rates = Rates()
    for _ in range(50):
        rates.add(2, 100, 0.1, 0.02)
    rates.add(2, 100, 1.0, 0.02)
    rates.add(4, 100, 0.05, None)

    found = rates.by_size()

    assert 400 < found["2"] < 1000
    assert found["4"] == 2000
    assert rates.sync_s == pytest.approx(0.02)
    assert rates.compute_s == pytest.approx(0.17)


def test_noise_is_estimated_without_bias() -> None:
    """Norms of means over few and over many samples tell gradient and variance apart."""
    chance = random.Random(1)
    norm2 = variance = 0.0
    n_rounds, true_mean, true_deviation = 4000, 2.0, 3.0
    for _ in range(n_rounds):
        groups = [[chance.gauss(true_mean, true_deviation) for _ in range(8)] for _ in range(4)]
        means = [sum(group) / 8 for group in groups]
        found = noise_of([(mean**2, 8) for mean in means], (sum(means) / 4) ** 2)
        assert found is not None
        norm2 += found.norm2 / n_rounds
        variance += found.variance / n_rounds

    assert norm2 == pytest.approx(true_mean**2, rel=0.1)
    assert variance == pytest.approx(true_deviation**2, rel=0.1)
    assert noise_of([(1.0, 8)], 1.0) is None
    assert noise_of([(1.0, 8), (1.0, 0)], 1.0) is None


def test_the_slowest_is_named_if_it_is_slow() -> None:
    """A member is a straggler by the median of all."""
    assert slowest_of([1.0, 1.05, 1.1, 2.0], [0, 1, 2, 7]) == msgspec.convert(
        {"index": 7, "ratio": 1.82}, type(slowest_of([1.0, 1.0, 1.0, 9.0], [0, 1, 2, 3]))
    )
    assert slowest_of([1.0, 1.05, 1.1], [0, 1, 2]) is None


def test_reports_are_published_by_the_leader_when_old_or_changed() -> None:
    """Between two publications lies at least PUBLISH_S, unless the activity changes."""
    now = [0.0]
    published: list[TrainingReport] = []
    reporter = Reporter(published.append, None, clock=lambda: now[0])
    reporter.tick(Progress(step=1))
    reporter.tick(Progress(step=2))
    now[0] += PUBLISH_S
    reporter.tick(Progress(step=3))
    reporter.enter(TrainingState.SAVING, Progress(step=4))
    reporter.is_leader = False
    reporter.publish(Progress(step=5))

    assert [report.step for report in published] == [1, 3, 4]


class FakeWatch:
    """A watch for hangs that only counts."""

    def __init__(self) -> None:
        self.is_watching = False
        self.n_beats = 0

    def beat(self) -> None:
        self.is_watching = True
        self.n_beats += 1

    def pause(self) -> None:
        self.is_watching = False


def test_what_is_done_between_steps_is_said_and_is_no_hang() -> None:
    """The time of the next step begins anew after it."""
    published: list[TrainingReport] = []
    watch = FakeWatch()
    reporter = Reporter(published.append, None, hang=cast("HangWatch", watch))
    with reporter.during(TrainingState.COMPILING, Progress()):
        pass
    assert watch.n_beats == 0  # no step was due before the first one

    reporter.enter(TrainingState.TRAINING, Progress(step=1))
    reporter.tick(Progress(step=1))
    with reporter.during(TrainingState.EVALUATING, Progress(step=1)):
        seen = watch.is_watching

    assert (seen, watch.is_watching, watch.n_beats) == (False, True, 2)
    states = [report.state.value for report in published]
    assert states == ["compiling", "loading", "training", "evaluating", "training"]


def test_a_report_is_bounded() -> None:
    """With everything in it, a report is no longer than those who read it take."""
    reporter = Reporter(lambda _: None, None)
    facts = reporter.facts
    for size in range(1000, 1100):
        facts.rates.add(size, 10**6, 1.23456789e-5, 0.123456789)
    facts.noise = GradientNoise(1.23456789012e-17, 9.87654321e17)
    facts.loss, facts.state_bytes, facts.last_pause_s = 1 / 3, 10**15, 123.4567
    facts.total_samples, facts.global_batch = 10**15, 10**9

    report = reporter.report(Progress(10**12, 10**6, 10**12, 10**15))
    full = msgspec.structs.replace(
        report, last_save=SaveReport(10**12, "2026-01-01T00:00:00Z", 1 / 3)
    )

    assert len(msgspec.json.encode(full)) <= REPORT_BYTES_MAX
    assert msgspec.json.decode(msgspec.json.encode(report), type=TrainingReport) == report


def test_learning_rates_follow_their_rule() -> None:
    """Linear and square root by the ratio of batches; AdaScale between 1 and the ratio."""
    noise = GradientNoise(norm2=1.0, variance=64.0)

    def factor(rule: str, size: int = 4, noise: GradientNoise | None = noise) -> float:
        return rate_factor(rule, size=size, base=1, batch=32, noise=noise)

    assert factor("linear") == 4.0
    assert factor("sqrt") == 2.0
    assert factor("adascale") == pytest.approx((2 + 1) / (2 / 4 + 1))
    assert factor("adascale", noise=None) == 1.0
    assert factor("adascale", noise=GradientNoise(1e-9, 1e9)) == pytest.approx(4.0, rel=1e-3)
    with pytest.raises(TrainError, match='lr_rule is "cubic"'):
        factor("cubic")


class Gathered:
    """Collectives of one member: what all of them give in is known beforehand."""

    def __init__(self, *answers: list[bytes]) -> None:
        self.given: list[bytes] = []
        self._answers = list(answers)

    def gather(self, mine: bytes) -> list[bytes]:
        self.given.append(mine)
        return self._answers.pop(0)


@pytest.mark.parametrize("own", [None, GradientNoise(1.0, 2.0)])
def test_members_of_a_group_have_the_same_noise(own: GradientNoise | None) -> None:
    """That of the member whose state counts: one that is new, or missed an exchange, takes it."""
    members = tuple(Member(n, 1, n + 1, "h", 1, Held(3, 41)) for n in range(2))
    plan = GroupPlan(4, 1, members, "g", 1, (0,))
    theirs = msgspec.msgpack.encode((3.0, 5.0))
    collectives, ledger = Gathered([b"\xc0", theirs]), TrainLedger()
    ledger.noise = own
    measures = Measures(cast(Collectives, collectives), Facts(), ledger)
    measures.noise_counts = True
    measures.exchange(41, plan)
    measures.exchange(42, plan)  # once a group

    assert ledger.noise == GradientNoise(3.0, 5.0)
    kept = TrainLedger()
    kept.restore(ledger.capture())
    assert kept.noise == ledger.noise
    tree = {name: part for name, part in ledger.capture().items() if name != "noise"}
    kept.restore(tree)
    assert kept.noise is None


def test_slowest_member_is_named_with_the_steps_of_its_streak() -> None:
    """The ratio is that of all its steps; another member, or another group, begins anew."""
    streak = SlowestMember()

    def exchange(*seconds: float) -> tuple[int, float, int] | None:
        members = [Measured(compute_s=20 * one, n_steps=20) for one in seconds]
        found = streak.add(members, [0, 1, 2])
        return (found.index, found.ratio, found.steps) if found else None

    assert streak.is_new_group(1)
    assert exchange(1.0, 1.0, 2.0) == (2, 2.0, 20)
    assert exchange(1.0, 1.0, 1.5) == (2, 1.75, 40)
    assert not streak.is_new_group(1)
    assert exchange(2.0, 1.0, 1.0) == (0, 2.0, 20)
    assert exchange(1.0, 1.0, 1.0) is None
    assert exchange(2.0, 1.0, 1.0) == (0, 2.0, 20)
    assert streak.is_new_group(2)
    assert exchange(2.0, 1.0, 1.0) == (0, 2.0, 20)
