"""What is tried (a subject) and in which circumstances (a scenario). Values, and nothing runs here.

Operator, scheduler and autoscaler each bring a subject: their components, the rules they must
keep, their scenarios. The machinery around them is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from swell.api.pod import Pod
from swell.cluster.embedded.registry import ServedKind
from swell.sim.actors.nemesis import Disturbance
from swell.sim.actors.pod_lifecycle import PodBehavior
from swell.sim.faults.swarm import RATES_MAX
from swell.sim.invariants import LivenessCheck, SafetyCheck
from swell.sim.process import Main

if TYPE_CHECKING:
    from swell.sim.world import SimulatedWorld

USER = "user"  # the actor whose creates count as submitted work


@dataclass(frozen=True, slots=True)
class Scenario:
    """What users do, and for how long things go wrong meanwhile."""

    name: str
    script: Callable[[SimulatedWorld], Coroutine[Any, Any, None]]
    faulty_s: float = 240.0  # how long faults are on
    settle_s: float = 900.0  # from then on, how long everything may take to be right
    rest_s: float = 15.0  # events and numbers are told at their own pace, after what they tell of
    quiet_s: float = 60.0  # and then, how long nobody may write
    replicas: int = 1  # processes of each component
    # Whether what comes out, and how often anything is created and deleted for it, depends on no
    # timing: not so where users act at their own time, whatever has come about by then.
    steady: bool = False
    disturbances: Mapping[str, float] = field(default_factory=dict)  # kind to highest rate

    @property
    def rates_max(self) -> dict[str, float]:
        return {**RATES_MAX, **self.disturbances}


@dataclass(frozen=True, slots=True)
class SimulationSubject:
    """Components under test with their rules."""

    name: str
    components: Mapping[str, Main]
    scenarios: tuple[Scenario, ...]
    safety: Callable[[SimulatedWorld], Sequence[SafetyCheck]]
    liveness: Callable[[SimulatedWorld], Sequence[LivenessCheck]]
    end_state: Callable[[SimulatedWorld], object]  # what must not depend on faults, comparable
    kinds: Sequence[ServedKind] = ()
    behavior_of: Callable[[SimulatedWorld, Pod], PodBehavior] | None = None
    disturbances: Callable[[SimulatedWorld], Mapping[str, Disturbance]] = lambda _: {}
    calls_per_min_max: int = 600  # of one process; more is a hot loop

    def scenario(self, name: str) -> Scenario:
        return next(s for s in self.scenarios if s.name == name)
