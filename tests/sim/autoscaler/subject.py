"""The autoscaler as a subject of the simulator, with operator and scheduler, all under faults."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from swell.api.kinds import PODS
from swell.autoscaler.controller import Autoscaler, AutoscalerMeters
from swell.autoscaler.informers import AutoscalerInformers
from swell.autoscaler.policies.interface import Parameters
from swell.autoscaler.settings import AutoscalerSettings
from swell.sim.actors.nemesis import RATES_MAX, Disturbance, common_disturbances
from swell.sim.faults.plan import FaultKind
from swell.sim.process import BugMeter, Main, Ports
from swell.sim.scenario import Scenario, SimulationSubject
from swell.sim.world import SimulatedWorld
from tests.sim.autoscaler.flaws import Flaw
from tests.sim.autoscaler.rules import AUTOSCALER, OPERATOR, end_state, liveness, safety
from tests.sim.autoscaler.scenarios import GOODPUT_SCRIPTS, SCRIPTS
from tests.sim.scheduler.observation import SCHEDULER
from tests.sim.scheduler.subject import operate, run_scheduler

SETTINGS = AutoscalerSettings(scale_period_s=10.0, scale_cooldown_s=30.0)
# No job waits for half an hour here.
GOODPUT_SETTINGS = replace(SETTINGS, policy="goodput", parameters=Parameters(starve_after_s=600.0))
# Pods are never lost here: a resize could not be distinguished from a restart.
DISTURBANCES = {kind: rate for kind, rate in RATES_MAX.items() if kind != FaultKind.POD_DELETED}
GOODPUT_SCENARIOS = tuple(
    Scenario(name, script, faulty_s=300.0, settle_s=3000.0, disturbances=DISTURBANCES)
    for name, script in GOODPUT_SCRIPTS.items()
)
SCENARIOS = tuple(one for one in GOODPUT_SCENARIOS if one.name in SCRIPTS)


def autoscaler_subject(
    flaw: Flaw | None = None,
    *,
    settings: AutoscalerSettings = SETTINGS,
    scenarios: tuple[Scenario, ...] = SCENARIOS,
    is_on: bool = True,
    name: str = "autoscaler",
) -> SimulationSubject:
    """Operator, scheduler and autoscaler; without the last if it is off."""
    components: dict[str, Main] = {OPERATOR: operate, SCHEDULER: run_scheduler}
    if is_on:
        components[AUTOSCALER] = autoscaler_main(settings, flaw)
    return SimulationSubject(
        name=name,
        components=components,
        scenarios=scenarios,
        safety=lambda world: safety(world, settings),
        liveness=liveness,
        end_state=end_state,
        disturbances=disturbances,
        calls_per_min_max=1500,
    )


def goodput_subject(flaw: Flaw | None = None) -> SimulationSubject:
    return autoscaler_subject(
        flaw, name="autoscaler goodput", settings=GOODPUT_SETTINGS, scenarios=GOODPUT_SCENARIOS
    )


def autoscaler_main(settings: AutoscalerSettings, flaw: Flaw | None = None) -> Main:
    async def main(ports: Ports) -> None:
        informers = AutoscalerInformers.over(ports.cluster, ports.clock, ports.random)
        autoscaler = Autoscaler(
            ports.cluster,
            informers,
            settings=settings,
            clock=ports.clock,
            random=ports.random,
            meters=AutoscalerMeters(passes=BugMeter()),
        )
        ports.exposed[str(PODS)] = informers.pods
        if flaw is not None:
            flaw(autoscaler)
        await asyncio.gather(informers.run(), autoscaler.run())

    return main


def disturbances(world: SimulatedWorld) -> Mapping[str, Disturbance]:
    every = common_disturbances(world)
    return {kind: act for kind, act in every.items() if kind in DISTURBANCES}


def faultless(scenario: Scenario) -> Scenario:
    return replace(scenario, faulty_s=1.0)
