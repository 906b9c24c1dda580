"""How the answers of plugins are combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import EvictionUnit, single_task_units
from swell.scheduler.hooks import Hooks, Vote, Votes
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import Task
from tests.scheduler_cases import group_of, pod_of

T = TypeVar("T")
NO = Refusal(WaitReason.QUEUE_QUOTA, "no")
YES, MAYBE, NEVER = Vote.PERMIT, Vote.ABSTAIN, Vote.REJECT


def votes(*tiers: Sequence[Hooks], off: Sequence[str] = ()) -> Votes:
    option = PluginOption("any", dict.fromkeys(off, False))
    return Votes([[(option, hooks) for hooks in tier] for tier in tiers])


def a_job(n_tasks: int = 3) -> JobInfo:
    snapshot = SchedulerSnapshot()
    snapshot.put_group(
        group_of({"namespace": "ns", "name": "g", "queue": "q", "minMember": 1, "phase": "Running"})
    )
    for n in range(n_tasks):
        row = {"namespace": "ns", "name": f"g-w-{n}", "group": "g", "phase": "Running", "node": "n"}
        snapshot.put_pod(pod_of(row))
    return snapshot.jobs["ns/g"]


@pytest.mark.parametrize(
    ("tiers", "admitted"),
    [
        ([], True),
        ([[MAYBE]], True),
        ([[MAYBE], [NO]], False),
        ([[YES], [NO]], True),  # a permit ends it: later tiers are not asked
        ([[YES, NO]], False),  # any refusal in the tier counts
        ([[NO], [YES]], False),
    ],
)
def test_admission_goes_tier_by_tier(tiers: list[list[Vote | Refusal]], admitted: bool) -> None:
    """A refusal is a no, a permit without one is a yes, and no vote at all is a yes."""
    asked = votes(*([Hooks(enqueueable=constant(v)) for v in tier] for tier in tiers))

    assert (asked.refuses_admission(a_job()) is None) is admitted


@pytest.mark.parametrize(
    ("tiers", "pipelined"),
    [([], True), ([[NEVER]], False), ([[YES], [NEVER]], True), ([[MAYBE], [NEVER]], False)],
)
def test_pipelined_goes_tier_by_tier(tiers: list[list[Vote]], pipelined: bool) -> None:
    """The same rule as admission."""
    asked = votes(*([Hooks(pipelined=constant(v)) for v in tier] for tier in tiers))

    assert asked.is_pipelined(a_job()) is pipelined


@pytest.mark.parametrize(
    ("tiers", "starving"),
    [
        ([], False),
        ([[True, True]], True),
        ([[True, False]], False),
        ([[], [True]], True),
        ([[False], [True]], False),  # the first tier with an opinion decides
    ],
)
def test_starving_is_for_the_first_tier_that_knows(tiers: list[list[bool]], starving: bool) -> None:
    """All plugins of that tier must agree; without such a plugin no job is starving."""
    asked = votes(*([Hooks(starving=constant(v)) for v in tier] for tier in tiers))

    assert asked.is_starving(a_job()) is starving


def test_switched_off_hook_has_no_vote() -> None:
    """A plugin takes part only in hooks that are switched on for it."""
    asked = votes([Hooks(starving=lambda job: True)], off=["enableJobStarving"])

    assert asked.is_starving(a_job()) is False


def test_victims_are_what_all_tiers_agree_on() -> None:
    """Plugins of later tiers are asked, too, and an empty agreement stays empty."""
    job = a_job()
    victims = single_task_units(job.tasks.values())
    preemptor = victims[0].tasks[0]

    def granting(*places: int) -> Hooks:
        def vote(_: Task, asked: Sequence[EvictionUnit]) -> list[EvictionUnit]:
            return [asked[n] for n in places]

        return Hooks(preemptable=vote)

    agreed = votes([granting(0, 1)], [granting(1, 2)]).preemptable(preemptor, victims)

    assert agreed == [victims[1]]
    assert votes([granting(0)], [granting(1)]).preemptable(preemptor, victims) == []
    assert votes([granting(0)], [granting(1), granting(0)]).preemptable(preemptor, victims) == []
    assert votes([]).preemptable(preemptor, victims) == []


def test_victim_needs_what_must_go_before_it() -> None:
    """A unit that needs another one evicted first is refused with it."""
    job = a_job()
    first, second, third = job.tasks.values()
    before = EvictionUnit(job, (first,))
    after = EvictionUnit(job, (second, third), after=(before,))

    def all_but_first(_: Task, asked: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        return [unit for unit in asked if unit is not before]

    agreed = votes([Hooks(preemptable=all_but_first)]).preemptable(first, [before, after])

    assert agreed == []


def test_order_is_decided_by_the_first_difference() -> None:
    """Later plugins decide only between equals; names break the last ties."""
    asked = votes([Hooks(job_key=lambda job: 0.0)], [Hooks(job_key=lambda job: -job.priority)])
    low, high = a_job(), a_job()
    high.priority = 5

    assert asked.job_key(high) < asked.job_key(low)


def test_gang_that_lost_pods_comes_first() -> None:
    """A gang below its minimum after it ran comes before fresh jobs, against any plugin."""
    asked = votes([Hooks(job_key=lambda job: -job.priority)])
    hurt, fresh = a_job(n_tasks=1), a_job(n_tasks=0)
    hurt.min_member, fresh.priority = 2, 1000
    fresh.phase = fresh.phase.INQUEUE

    assert asked.job_key(hurt) < asked.job_key(fresh)


def constant(value: T) -> Callable[[JobInfo], T]:
    return lambda job: value
