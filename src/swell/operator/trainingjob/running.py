"""The operator of TrainingJobs as a whole: informers, controller, collector and events.

`TrainingJobOperator.services` are what a manager runs; `operate` runs them by itself.
"""

from __future__ import annotations

from random import Random

from swell.operator.framework.garbage import GarbageCollector, Rounds
from swell.operator.framework.shell import ACTOR, Means, Shell
from swell.operator.trainingjob.controller import Informers, TrainingJobController
from swell.operator.trainingjob.orphans import LITTER
from swell.operator.trainingjob.settings import Settings
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.controller import ControllerMeter
from swell.runtime.events import EventRecorder
from swell.runtime.executor import WriteMeter
from swell.runtime.health import HealthChecks
from swell.runtime.leader import Election, run_if_elected
from swell.runtime.manager import run_services
from swell.runtime.metrics import Metrics


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
        means = Means(cluster, clock, random, meter, write_meter)
        self.informers = Informers.over(means, settings)
        events = EventRecorder(cluster, ACTOR, clock=clock, random=random)
        self.controller = TrainingJobController(
            means, self.informers, settings=settings, events=events
        )
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
            "trainingjob",
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
    cluster: Cluster,
    *,
    clock: Clock,
    random: Random,
    settings: Settings,
    election: Election | None = None,
    metrics: Metrics | None = None,
    health: HealthChecks | None = None,
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
        await run_services(operator.services, clock)

    await run_if_elected(cluster, work, election, clock=clock, random=random, metrics=metrics)
