"""The operator as a subject of the simulator: alone, and as one of two replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from swell.api.meta import Key
from swell.operator.running import Meters, Operator, prepare
from swell.operator.settings import Settings
from swell.runtime.cluster import Cluster
from swell.runtime.guard import GuardedCluster
from swell.runtime.leader import LeaderElector, LeadershipLostError, LeaseTimes
from swell.sim.invariants import LivenessCheck, SafetyCheck
from swell.sim.leadership import LeadersWrite
from swell.sim.process import Main, Ports, ProcessExitError
from swell.sim.scenario import Subject
from swell.sim.world import World
from tests.sim.operator.disturbances import operator_disturbances
from tests.sim.operator.hopes import LeaderExists, end_state, liveness
from tests.sim.operator.rules import safety
from tests.sim.operator.scenarios import SCENARIOS

SETTINGS = Settings(
    creating_duration_period_s=25.0,
    creating_restart_period_s=600.0,
    gc_period_s=100.0,
    workers=2,
)
# What hand-overs may do harm to; the rest is the same for one replica and for two.
IN_PAIR = frozenset({"restart", "delete", "recreate", "resize"})
LEASE = Key("default", "swell-operator")
LEASE_TIMES = LeaseTimes()

# Plants a bug in an operator that has been put together and does not run yet.
Flaw = Callable[[Operator], None]


class BugMeter:
    """A bug the runtime contains is still a bug: here it ends the process, and the run."""

    def passed(self, controller: str, result: str, seconds: float) -> None:
        if result == "bug":
            raise AssertionError(f"bug in a pass of {controller}")

    def queued(self, controller: str, n_keys: int) -> None:
        pass


def operator_subject(flaw: Flaw | None = None) -> Subject:
    async def main(ports: Ports) -> None:
        await _run(ports.cluster, ports, flaw)

    return _subject("operator", main)


def operator_pair(flaw: Flaw | None = None, *, guarded: bool = True) -> Subject:
    """Two replicas, one of which leads; a paused one may believe that it still does."""

    async def main(ports: Ports) -> None:
        elector = LeaderElector(
            ports.cluster,
            LEASE,
            ports.name,
            clock=ports.clock,
            random=ports.random,
            times=LEASE_TIMES,
        )
        cluster = GuardedCluster(ports.cluster, elector.guard) if guarded else ports.cluster
        try:
            await elector.run(lambda: _run(cluster, ports, flaw))
        except LeadershipLostError:
            raise ProcessExitError from None

    def pair_safety(world: World) -> list[SafetyCheck]:
        return [*safety(world, SETTINGS), LeadersWrite(world, LEASE_TIMES.renew_deadline_s)]

    def pair_liveness(world: World) -> list[LivenessCheck]:
        return [*liveness(world), LeaderExists(world, LEASE)]

    return replace(
        _subject("operator pair", main),
        scenarios=tuple(
            replace(scenario, replicas=2) for scenario in SCENARIOS if scenario.name in IN_PAIR
        ),
        safety=pair_safety,
        liveness=pair_liveness,
    )


def _subject(name: str, main: Main) -> Subject:
    return Subject(
        name=name,
        components={"operator": main},
        scenarios=SCENARIOS,
        safety=lambda world: safety(world, SETTINGS),
        liveness=liveness,
        end_state=end_state,
        disturbances=operator_disturbances,
        calls_per_min_max=1500,
    )


async def _run(cluster: Cluster, ports: Ports, flaw: Flaw | None) -> None:
    operator = await prepare(
        cluster,
        clock=ports.clock,
        random=ports.random,
        settings=SETTINGS,
        meters=Meters(passes=BugMeter()),
    )
    if flaw is not None:
        flaw(operator)
    await asyncio.gather(*(service.run() for service in operator.services))
