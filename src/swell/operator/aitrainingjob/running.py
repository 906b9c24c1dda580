"""The operator as a whole: its informers, controller, collector and events, as services to run.

One process may run it beside others (`operate` as a task), alone, or as one of several replicas
of which a lease lets one work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from swell.operator.aitrainingjob.controller import Informers, JobController
from swell.operator.aitrainingjob.metrics import JobMetrics
from swell.operator.aitrainingjob.orphans import LITTER
from swell.operator.aitrainingjob.settings import Settings
from swell.operator.framework.garbage import GarbageCollector, Rounds
from swell.operator.framework.shell import ACTOR, Means, Shell
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.controller import ControllerMeter
from swell.runtime.events import EventRecorder
from swell.runtime.executor import EventSink, WriteMeter
from swell.runtime.health import HealthChecks
from swell.runtime.leader import Election, run_if_elected
from swell.runtime.manager import run_services
from swell.runtime.metrics import Metrics


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
        meters: Meters = Meters(),  # noqa: B008
    ) -> None:
        means = Means(cluster, clock, random, meters.passes, meters.writes)
        self.informers = Informers.over(means, settings)
        events = EventRecorder(cluster, ACTOR, clock=clock, random=random)
        sink: EventSink = events
        if meters.jobs is not None:
            meters.jobs.watch(self.informers.jobs.all)
            sink = meters.jobs.counting(events)
        self.controller = JobController(means, self.informers, settings=settings, events=sink)
        nodes = self.controller.nodes
        self.collector = GarbageCollector(
            cluster,
            LITTER,
            Rounds(settings.namespace, settings.gc_period_s, settings.node_fence_after_s),
            clock=clock,
            pods=self.informers.pods.all,
            node_states=nodes.states,
        )
        shell = Shell(
            "aitrainingjob",
            self.informers,
            self.controller.loop,
            nodes,
            self.collector,
            events,
            settings.sees_cluster,
        )
        self.services = shell.services
        self.problem = shell.problem


async def operate(
    connect: Callable[[str], Cluster],
    *,
    clock: Clock,
    random: Random,
    settings: Settings,
    election: Election | None = None,
    metrics: Metrics | None = None,
    health: HealthChecks | None = None,
) -> None:
    """Run until cancelled; what has begun is then finished. Raises LeadershipLostError."""
    meters = Meters.on(metrics) if metrics else Meters()

    async def work(cluster: Cluster) -> None:
        operator = Operator(cluster, clock=clock, random=random, settings=settings, meters=meters)
        if health is not None:
            health.ready["caches"] = operator.problem
        await run_services(operator.services, clock)

    cluster = connect(ACTOR)
    await run_if_elected(cluster, work, election, clock=clock, random=random, metrics=metrics)
