"""The operator as a whole: its informers, controller, collector and events, as services to run.

One process may run it beside others (`operate` as a task), alone, or as one of several replicas
of which a lease lets one work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from swell.api.kinds import POD_GROUPS
from swell.api.meta import Key
from swell.operator.garbage import GarbageCollector
from swell.operator.jobs import Informers, JobController
from swell.operator.metrics import JobMetrics
from swell.operator.settings import Settings
from swell.runtime.backoff import Backoff
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.controller import ControllerMeter
from swell.runtime.errors import ClusterError, NotFoundError, UnreachableError
from swell.runtime.events import EventRecorder
from swell.runtime.executor import EventSink, WriteMeter
from swell.runtime.guard import GuardedCluster
from swell.runtime.health import Health
from swell.runtime.leader import LeaderElector, LeaseTimes
from swell.runtime.logs import get_logger
from swell.runtime.manager import Manager, Service
from swell.runtime.metrics import Metrics

log = get_logger(__name__)

ACTOR = "swell-operator"
_ASK_AGAIN = Backoff(base_s=0.5, cap_s=30.0)
# Priority classes are waited for only so long: they may never be listable.
_PRIORITIES_S = 5.0


@dataclass(frozen=True, slots=True)
class Meters:
    """Who measures; nobody need."""

    passes: ControllerMeter | None = None
    writes: WriteMeter | None = None
    jobs: JobMetrics | None = None

    @classmethod
    def on(cls, metrics: Metrics) -> Meters:
        return cls(metrics, metrics, JobMetrics(metrics.registry))


class Operator:
    """The parts, put together for one cluster; `services` in the order they are to be started."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        random: Random,
        settings: Settings,
        gang_served: bool,
        meters: Meters = Meters(),  # noqa: B008
    ) -> None:
        self.informers = Informers.over(
            cluster, clock, random, settings=settings, gang_served=gang_served
        )
        events = EventRecorder(cluster, ACTOR, clock=clock, random=random)
        sink: EventSink = events
        if meters.jobs is not None:
            meters.jobs.watch(self.informers.jobs.all)
            sink = meters.jobs.counting(events)
        self.controller = JobController(
            cluster,
            self.informers,
            settings=settings,
            clock=clock,
            random=random,
            events=sink,
            meter=meters.passes,
            write_meter=meters.writes,
        )
        collector = GarbageCollector(
            cluster,
            settings=settings,
            clock=clock,
            pods=self.informers.pods.all,
            node_states=self.controller.nodes.states,
        )
        self.services = (
            Service("events", events.run),
            *(Service(f"{one.resource} cache", one.run) for one in self.informers.every),
            Service("nodes", self.controller.nodes.run),
            Service("garbage", collector.run),
            Service("jobs", self._work, self.controller.loop.stop),
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


async def prepare(
    cluster: Cluster,
    *,
    clock: Clock,
    random: Random,
    settings: Settings,
    meters: Meters = Meters(),  # noqa: B008
) -> Operator:
    """An operator for what this cluster serves."""
    gang_served = settings.gang and await _is_gang_served(cluster, clock, random, settings)
    if settings.gang and not gang_served:
        log.warning("the cluster has no PodGroup kind; pods are scheduled one by one")
    return Operator(
        cluster,
        clock=clock,
        random=random,
        settings=settings,
        gang_served=gang_served,
        meters=meters,
    )


@dataclass(frozen=True, slots=True)
class Election:
    """How replicas agree on who works. The identity is one of this life of this process."""

    lease: Key
    identity: str
    times: LeaseTimes = field(default_factory=LeaseTimes)


async def operate(
    connect: Callable[[str], Cluster],
    *,
    clock: Clock,
    random: Random,
    settings: Settings,
    election: Election | None = None,
    metrics: Metrics | None = None,
    health: Health | None = None,
) -> None:
    """Run until cancelled; what has begun is then finished. Raises LeadershipLostError."""
    meters = Meters.on(metrics) if metrics else Meters()
    cluster = connect(ACTOR)

    async def work(cluster: Cluster) -> None:
        operator = await prepare(
            cluster, clock=clock, random=random, settings=settings, meters=meters
        )
        if health is not None:
            health.ready["caches"] = operator.problem
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

    async def lead() -> None:
        if metrics is not None:
            metrics.led(True)
        await work(GuardedCluster(cluster, elector.guard))

    await elector.run(lead)


async def _is_gang_served(
    cluster: Cluster, clock: Clock, random: Random, settings: Settings
) -> bool:
    """Whether there are PodGroups; asked until there is an answer."""
    failures = 0
    while True:
        try:
            await cluster.list(POD_GROUPS.untyped(), Selection(settings.namespace), limit=1)
        except NotFoundError:
            return False
        except (ClusterError, UnreachableError, TimeoutError) as error:
            failures += 1
            log.info("PodGroups not listed", why=str(error))
            await clock.sleep(_ASK_AGAIN.delay_s(failures, random))
        else:
            return True
