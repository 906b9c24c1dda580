"""The operator as a subject of the simulator: alone, and as one of two replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from swell.api.aitrainingjob import AITrainingJob
from swell.api.meta import Key
from swell.history.settings import HistorySettings
from swell.operator.aitrainingjob.kind import AITrainingJobInformers, ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.controller import JobOperator
from swell.operator.framework.kind import ControllerDependencies
from swell.sim.leadership import in_pair, lead
from swell.sim.process import BugMeter, Main, Ports
from swell.sim.scenario import SimulationSubject
from swell.sim.world import SimulatedWorld
from tests.sim.operator.disturbances import operator_disturbances
from tests.sim.operator.history_rules import LivesRecorded, RecordedOnce
from tests.sim.operator.liveness import end_state, liveness
from tests.sim.operator.node_rules import MarksArrive
from tests.sim.operator.programs import simulated_programs, with_addresses
from tests.sim.operator.rules import safety
from tests.sim.operator.scenarios import SCENARIOS
from tests.sim.operator.story_rules import KNOWN_PODS, NODES
from tests.sim.undecodable import HalfBlindCluster

SETTINGS = AITrainingJobSettings(
    gpu_fault_after_s=0,
    gpu_fault_device_taints=(),  # no device is tainted here
    creating_duration_period_s=25.0,
    creating_restart_period_s=600.0,
    gc_period_s=100.0,
    workers=2,
    # One of the four nodes may be tainted.
    cordon_suspects=True,
    suspects_max_share=0.25,
)
# What hand-overs may do harm to; the rest is the same for one replica and for two.
IN_PAIR = frozenset({"restart", "delete", "recreate", "resize"})
# Lives of every kind: they end, are deleted at any time, come again, and are interrupted.
WITH_HISTORY = frozenset({"finish", "restart", "delete", "recreate", "nodes", "end", "suspend"})
LEASE = Key("default", "swell-operator")

Operator = JobOperator[AITrainingJob, AITrainingJobSnapshot, AITrainingJobInformers]

# Plants a bug in an operator that has been put together and does not run yet.
Flaw = Callable[[Operator], None]


def operator_subject(flaw: Flaw | None = None) -> SimulationSubject:
    async def main(ports: Ports) -> None:
        await _run(ports, flaw)

    return _subject(main)


def operator_pair(flaw: Flaw | None = None, *, guarded: bool = True) -> SimulationSubject:
    """Two replicas, one of which leads; a paused one may believe that it still does."""

    async def main(ports: Ports) -> None:
        await lead(ports, LEASE, lambda own: _run(own, flaw), guarded=guarded)

    scenarios = tuple(scenario for scenario in SCENARIOS if scenario.name in IN_PAIR)
    return in_pair(replace(_subject(main), scenarios=scenarios), LEASE)


def operator_history(flaw: Flaw | None = None) -> SimulationSubject:
    """The operator that keeps a history; what it keeps is judged, too."""
    settings = replace(SETTINGS, history=HistorySettings(checkpoint_s=10.0))

    async def main(ports: Ports) -> None:
        await run_operator(ports, settings, flaw)

    truths: dict[int, RecordedOnce] = {}

    def truth(world: SimulatedWorld) -> RecordedOnce:
        return truths.setdefault(id(world), RecordedOnce(world))

    plain = _subject(main)
    return replace(
        plain,
        name="operator history",
        scenarios=tuple(scenario for scenario in SCENARIOS if scenario.name in WITH_HISTORY),
        safety=lambda world: [*plain.safety(world), truth(world)],
        liveness=lambda world: [*plain.liveness(world), LivesRecorded(world, truth(world))],
    )


def _subject(main: Main) -> SimulationSubject:
    return SimulationSubject(
        name="operator",
        components={"operator": main},
        scenarios=SCENARIOS,
        safety=lambda world: safety(world, SETTINGS),
        liveness=lambda world: [*liveness(world), MarksArrive(world, SETTINGS)],
        end_state=end_state,
        disturbances=operator_disturbances,
        calls_per_min_max=1500,
    )


async def _run(ports: Ports, flaw: Flaw | None) -> None:
    await run_operator(ports, SETTINGS, flaw)


async def run_operator(
    ports: Ports, settings: AITrainingJobSettings, flaw: Flaw | None = None
) -> None:
    dependencies = ControllerDependencies(
        HalfBlindCluster(ports.cluster),
        ports.clock,
        ports.random,
        passes=BugMeter(),
        draw=lambda: f"{ports.random.getrandbits(256):064x}",
        fetch_report=simulated_programs(ports),
    )
    kind = replace(ai_training_job_kind(settings), report_target=with_addresses)
    operator = JobOperator(kind, dependencies)
    ports.exposed[NODES] = operator.informers.nodes
    ports.exposed[KNOWN_PODS] = operator.informers.pods.all
    if flaw is not None:
        flaw(operator)
    await asyncio.gather(*(service.run() for service in operator.services))
