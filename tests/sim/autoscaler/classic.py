"""The classic scenario, with and without the autoscaler: how long jobs wait, how full nodes are.

With it a job has two trainers at least and ten at most; without it, always ten. A job is pending
from its creation until it first runs. Utilisation is cpu of running trainers over cpu of the
cluster, both summed over time: over the half hour in which jobs arrive, and over all the time from
the first arrival until the last job has ended. Both runs do the same work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobPhase
from swell.api.meta import Uid
from swell.autoscaler.settings import AutoscalerSettings
from swell.cluster.embedded.storage import Commit
from swell.sim.campaign.trial import try_faults
from swell.sim.invariants import SafetyCheck
from swell.sim.observation import pod_states
from swell.sim.scenario import Scenario
from swell.sim.world import SimulatedWorld
from tests.sim.autoscaler.rules import Turns, safety
from tests.sim.autoscaler.scenarios import (
    CLASSIC_APART_S,
    CLASSIC_CPUS,
    CLASSIC_JOBS,
    CLASSIC_NODES,
    classic,
    crowd,
)
from tests.sim.autoscaler.subject import autoscaler_subject
from tests.sim.operator.observation import job_states

SETTINGS = AutoscalerSettings()
ARRIVING_S = CLASSIC_JOBS * CLASSIC_APART_S
MINIMUM = 2
MAXIMUM = 10


@dataclass(frozen=True, slots=True)
class Figures:
    mean_pending_s: float
    busy_arriving: float  # utilisation as long as jobs arrive
    busy: float  # utilisation until all have ended
    took_s: float

    def __str__(self) -> str:
        return (
            f"{self.mean_pending_s:6.1f} s pending, {self.busy_arriving:.1%} used while arriving,"
            f" {self.busy:.1%} in all {self.took_s:.0f} s"
        )


@dataclass
class Observer:
    """Watches how long jobs wait and how many trainers run. It finds nothing wrong, ever."""

    world: SimulatedWorld
    name: str = "observer"
    _born: dict[Uid, float] = field(default_factory=dict)
    _waited: dict[Uid, float] = field(default_factory=dict)
    _running: dict[str, None] = field(default_factory=dict)
    _since: float = 0.0
    _used_s: float = 0.0
    _used_arriving_s: float = 0.0
    _ended: float = 0.0

    def on_commit(self, commit: Commit) -> Iterator[str]:
        now = self.world.clock.monotonic()
        n_running = len(self._running)
        self._used_s += n_running * (now - self._since)
        self._used_arriving_s += n_running * max(0.0, min(now, ARRIVING_S) - self._since)
        self._since = now
        before, job = job_states(commit)
        if job is not None:
            uid = job.metadata.uid
            self._born.setdefault(uid, now)
            if job.status.phase is AITrainingJobPhase.RUNNING:
                self._waited.setdefault(uid, now - self._born[uid])
            if (
                job.status.phase in FINAL_PHASES
                and before
                and before.status.phase not in FINAL_PHASES
            ):
                self._ended = now
        old, pod = pod_states(commit)
        if old is not None or pod is not None:
            is_running = pod is not None and pod.status.phase.value == "Running"
            if is_running:
                self._running[str(commit.key)] = None
            else:
                self._running.pop(str(commit.key), None)
        yield from ()

    def figures(self) -> Figures:
        waits = list(self._waited.values())
        n_cpus = CLASSIC_NODES * CLASSIC_CPUS
        return Figures(
            mean_pending_s=sum(waits) / len(waits),
            busy_arriving=self._used_arriving_s / (n_cpus * ARRIVING_S),
            busy=self._used_s / (n_cpus * self._ended),
            took_s=self._ended,
        )


def measure(seed: int, *, is_on: bool) -> Figures:
    """One run. Without the autoscaler every job asks for all its trainers at once."""
    seen: list[Observer] = []

    def watched(world: SimulatedWorld) -> list[SafetyCheck]:
        seen.append(Observer(world))
        return [*safety(world, SETTINGS), seen[0]]

    minimum = MINIMUM if is_on else MAXIMUM
    script = partial(classic, minimum=minimum, replicas=minimum)
    scenario = Scenario("classic", script, faulty_s=1.0, settle_s=20_000.0)
    subject = replace(
        autoscaler_subject(settings=SETTINGS, scenarios=(scenario,), is_on=is_on), safety=watched
    )
    result = try_faults(subject, scenario, seed)
    if result.violations:
        raise AssertionError(str(result.violations[0]))
    return seen[0].figures()


def compare(seed: int) -> tuple[Figures, Figures]:
    """Without and with the autoscaler."""
    return measure(seed, is_on=False), measure(seed, is_on=True)


def turns_in_a_crowd(seed: int, within_s: float) -> Turns:
    """How often roles change direction while the same jobs share a full cluster."""
    seen: list[Turns] = []

    def watched(world: SimulatedWorld) -> list[SafetyCheck]:
        seen.append(Turns(world))
        return [*safety(world, SETTINGS), seen[0]]

    scenario = Scenario("crowd", crowd, faulty_s=within_s, settle_s=1.0, quiet_s=1.0)
    quiet = replace(
        autoscaler_subject(settings=SETTINGS, scenarios=(scenario,)),
        safety=watched,
        liveness=lambda _: [],
    )
    result = try_faults(quiet, scenario, seed)
    if result.violations:
        raise AssertionError(str(result.violations[0]))
    return seen[0]
