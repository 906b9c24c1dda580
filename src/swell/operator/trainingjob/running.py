"""The operator of TrainingJobs as a whole: informers, controller, collector and events.

`TrainingJobOperator.services` are what a manager runs; `operate` runs them by itself.
"""

from __future__ import annotations

import asyncio
from random import Random

from swell.operator.running import Election
from swell.operator.trainingjob.controller import Informers, TrainingJobController
from swell.operator.trainingjob.orphans import GarbageCollector
from swell.operator.trainingjob.settings import Settings
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.controller import ControllerMeter
from swell.runtime.events import EventRecorder
from swell.runtime.executor import WriteMeter
from swell.runtime.guard import GuardedCluster
from swell.runtime.health import Health
from swell.runtime.leader import LeaderElector
from swell.runtime.logs import get_logger
from swell.runtime.manager import Manager, Service
from swell.runtime.metrics import Metrics

log = get_logger(__name__)

ACTOR = "swell-operator"
# Priority classes are waited for only so long: they may never be listable.
_PRIORITIES_S = 5.0


class TrainingJobOperator:
    """The parts, put together for one cluster; `services` in the order they are to be started."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        random: Random,
        settings: Settings,
        meter: ControllerMeter | None = None,
        write_meter: WriteMeter | None = None,
    ) -> None:
        self.informers = Informers.over(cluster, clock, random, settings)
        events = EventRecorder(cluster, ACTOR, clock=clock, random=random)
        self.controller = TrainingJobController(
            cluster,
            self.informers,
            settings=settings,
            clock=clock,
            random=random,
            events=events,
            meter=meter,
            write_meter=write_meter,
        )
        collector = GarbageCollector(cluster, settings=settings, clock=clock)
        self.services = (
            Service("trainingjob events", events.run),
            *(
                Service(f"trainingjob {one.resource} cache", one.run)
                for one in self.informers.every
            ),
            Service("trainingjob garbage", collector.run),
            Service("trainingjob", self._work, self.controller.loop.stop),
        )

    def problem(self) -> str:
        """What keeps the operator from knowing its jobs; empty when nothing does."""
        problems = ((one.resource, one.problem()) for one in self.informers.required)
        return "; ".join(f"{resource}: {wrong}" for resource, wrong in problems if wrong)

    async def _work(self) -> None:
        """Pods get their priority when they are created, so the classes have to be known."""
        try:
            async with asyncio.timeout(_PRIORITIES_S):
                await self.informers.priorities.wait_synced()
        except TimeoutError:
            log.warning("priority classes cannot be listed; pods get no priority")
        await self.controller.loop.run()


async def operate(
    cluster: Cluster,
    *,
    clock: Clock,
    random: Random,
    settings: Settings,
    election: Election | None = None,
    metrics: Metrics | None = None,
    health: Health | None = None,
) -> None:
    """Run until cancelled; what has begun is then finished. Raises LeadershipLostError."""

    async def work(cluster: Cluster) -> None:
        operator = TrainingJobOperator(
            cluster,
            clock=clock,
            random=random,
            settings=settings,
            meter=metrics,
            write_meter=metrics,
        )
        if health is not None:
            health.ready["TrainingJob caches"] = operator.problem
        manager = Manager(clock=clock)
        for service in operator.services:
            manager.add(service.name, service.run, service.stop)
        await manager.run()

    if election is None:
        await work(cluster)
        return
    elector = LeaderElector(
        cluster,
        election.lease,
        election.identity,
        clock=clock,
        random=random,
        times=election.times,
    )
    await elector.run(lambda: work(GuardedCluster(cluster, elector.guard)))
