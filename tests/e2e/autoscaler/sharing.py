"""The life of three elastic jobs on one cluster, and what was seen of it.

They run at their minimum, and share the cluster as soon as they may; an urgent gang comes and goes;
a job comes that can never start; time passes; and one of them finishes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.autoscaler.settings import EMBEDDED
from tests.e2e.autoscaler.kinds import Bounds, a_job, elastic_job
from tests.e2e.autoscaler.stage import N_TRAINERS_MAX, NAMESPACE, URGENT, Stage

JOBS = ("ant", "bee", "cat")
LEAST, MOST = 2, 8
FAIR = N_TRAINERS_MAX // len(JOBS)
GANG, GANG_SIZE, GANG_S = "gang", 6, 10
HOPELESS, HOPELESS_SIZE = "hopeless", 17  # one more than there are cpus
HALF_AN_HOUR_S = 1800.0
A_WHILE_S = 6.0  # three periods, and more than a cool-down

Sizes = dict[str, int]


@dataclass
class Facts:
    """What was seen, in the order of the story."""

    shared: Sizes = field(default_factory=dict)
    squeezed: Sizes = field(default_factory=dict)
    n_gang: int = 0
    regrown: Sizes = field(default_factory=dict)
    beside_hopeless: Sizes = field(default_factory=dict)
    turns: Sizes = field(default_factory=dict)
    fewest: Sizes = field(default_factory=dict)
    last_target: int = 0  # of the job that finishes, when its first trainer was done
    finishing: list[int] = field(default_factory=list)  # its targets from then on
    newcomers: list[str] = field(default_factory=list)  # its pods that came after that


async def live(stage: Stage, kind: str) -> Facts:
    facts = Facts()
    for name in JOBS:
        await stage.submit(elastic_job(kind, name, NAMESPACE, Bounds(LEAST, MOST)))
    for name in JOBS:
        await stage.until_phase(name, "Running")
    stage.may_resize.set()
    facts.shared = await _all_room_used(stage, N_TRAINERS_MAX)
    await _gang_comes_and_goes(stage, facts)
    await _hopeless_job_waits(stage, facts)
    await _time_passes(stage, facts)
    facts.fewest = {name: stage.lows[name] for name in JOBS}
    await _one_finishes(stage, facts, JOBS[0])
    return facts


async def _gang_comes_and_goes(stage: Stage, facts: Facts) -> None:
    await stage.go_on(EMBEDDED.scale_period_s)
    does = {"duration": str(GANG_S)}
    size = Bounds(GANG_SIZE, GANG_SIZE)
    await stage.submit(a_job(GANG, NAMESPACE, size, does, priority=URGENT))
    await stage.until_phase(GANG, "Running")
    facts.n_gang = len(stage.trainers(GANG))
    facts.squeezed = await _all_room_used(stage, N_TRAINERS_MAX - GANG_SIZE)
    await stage.until_phase(GANG, "Succeed")
    facts.regrown = await _all_room_used(stage, N_TRAINERS_MAX)


async def _hopeless_job_waits(stage: Stage, facts: Facts) -> None:
    size = Bounds(HOPELESS_SIZE, HOPELESS_SIZE)
    await stage.submit(a_job(HOPELESS, NAMESPACE, size, priority=URGENT))
    await stage.until_phase(HOPELESS, "Pending")
    await stage.go_on(A_WHILE_S)
    facts.beside_hopeless = _sizes(stage)
    await stage.delete(HOPELESS)


async def _time_passes(stage: Stage, facts: Facts) -> None:
    """With the same jobs. Real time is too precious for half an hour of it."""
    stage.forget_turns()
    await stage.go_on(HALF_AN_HOUR_S if stage.is_virtual else 0.0)
    facts.turns = {name: stage.n_turns(name) for name in JOBS}


async def _one_finishes(stage: Stage, facts: Facts, job: str) -> None:
    """One trainer after the other is done, while the room of another job is free."""
    facts.last_target = stage.target(job)
    known = {pod.metadata.name for pod in stage.trainers(job)}
    await stage.end_well(stage.trainers(job)[0])
    await stage.until(
        "the first trainer is done", lambda: len(stage.trainers(job)) < facts.last_target
    )
    n_reported = len(stage.reported[job])
    await stage.delete(JOBS[1])
    await stage.go_on(A_WHILE_S)
    facts.newcomers = sorted({pod.metadata.name for pod in stage.trainers(job)} - known)
    facts.finishing = [target for _, target in stage.reported[job][n_reported - 1 :]]
    for pod in stage.trainers(job):
        await stage.end_well(pod)
    await stage.until_phase(job, "Succeed")


async def _all_room_used(stage: Stage, n_trainers: int) -> Sizes:
    """Wait until so many trainers run, and no other number is asked for."""

    def holds() -> bool:
        sizes = _sizes(stage)
        return sum(sizes.values()) == n_trainers and all(
            stage.target(name) == size for name, size in sizes.items()
        )

    await stage.until(f"{n_trainers} trainers", holds)
    return _sizes(stage)


def _sizes(stage: Stage) -> Sizes:
    return {name: len(stage.trainers(name)) for name in JOBS}
