"""The system under test (a subject) and the circumstances of a run (a scenario). Values only.

Operator, scheduler and autoscaler each have a subject: their components, rules and scenarios. The
simulator around them is the same.
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
    """The actions of users, and the lengths of the phases of a run."""

    name: str
    script: Callable[[SimulatedWorld], Coroutine[Any, Any, None]]
    faulty_s: float = 240.0  # how long faults are on
    settle_s: float = 900.0  # then, how long until all liveness checks hold
    rest_s: float = 15.0  # then, how long delayed events and counts may still be written
    quiet_s: float = 60.0  # and then, how long no process under test may write
    replicas: int = 1  # processes of each component
    # Whether the end state and the numbers of creates and deletes do not depend on timing. They do
    # where users act at fixed times, whatever has happened by then.
    steady: bool = False
    disturbances: Mapping[str, float] = field(default_factory=dict)  # kind to highest rate

    @property
    def rates_max(self) -> dict[str, float]:
        return {**RATES_MAX, **self.disturbances}


@dataclass(frozen=True, slots=True)
class SimulationSubject:
    """Components under test, with their rules and scenarios."""

    name: str
    components: Mapping[str, Main]
    scenarios: tuple[Scenario, ...]
    safety: Callable[[SimulatedWorld], Sequence[SafetyCheck]]
    liveness: Callable[[SimulatedWorld], Sequence[LivenessCheck]]
    end_state: Callable[[SimulatedWorld], object]  # comparable; it must not depend on faults
    kinds: Sequence[ServedKind] = ()
    gates: frozenset[str] = frozenset()  # feature gates of the server
    behavior_of: Callable[[SimulatedWorld, Pod], PodBehavior] | None = None
    disturbances: Callable[[SimulatedWorld], Mapping[str, Disturbance]] = lambda _: {}
    calls_per_min_max: int = 600  # of one process; more is a hot loop
    # When a process will write next for no reason but the time; none if it will not.
    next_due_s: Callable[[SimulatedWorld], float | None] = lambda _: None

    def scenario(self, name: str) -> Scenario:
        return next(s for s in self.scenarios if s.name == name)
