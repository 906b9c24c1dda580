"""Operator, scheduler and autoscaler, put together for a replay."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from swell.autoscaler.controller import Autoscaler, AutoscalerMeters
from swell.autoscaler.informers import AutoscalerInformers
from swell.autoscaler.settings import AutoscalerSettings
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.controller import JobOperator
from swell.operator.framework.kind import ControllerDependencies
from swell.operator.framework.reports import (
    NoReportError,
    ReportAnswer,
    ReportSource,
    ReportTarget,
)
from swell.replay.live.manifests import address_of
from swell.replay.live.programs import ReplayedProgram
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.scheduler.config import DEFAULT, Arguments, PluginOption
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.plugins.nodeorder import BALANCED, LEAST
from swell.sim.chance import Chance

# Gangs are kept together, which is what a cluster of accelerators is run with: the default spreads
# replicas over nodes, because it weighs cpus and memory alone.
PACKED = replace(
    DEFAULT,
    tiers=(
        DEFAULT.tiers[0],
        (
            PluginOption("overcommit"),
            PluginOption("predicates"),
            PluginOption("nodeorder", {}, Arguments({LEAST: 0, BALANCED: 0})),
            PluginOption("gang-packing"),
        ),
    ),
)

Connect = Callable[[str], Cluster]
Services = list[Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Everything that the three programs get from outside."""

    connect: Connect
    clock: Clock
    chance: Chance

    def operator(self, programs: dict[str, ReplayedProgram]) -> Services:
        random = self.chance.generator("operator")

        by_address = {address_of(name): program for name, program in programs.items()}

        async def fetch(_: ReportTarget, source: ReportSource) -> ReportAnswer:
            if source.address not in by_address:
                raise NoReportError(source.address)
            return by_address[source.address].answer()

        dependencies = ControllerDependencies(
            self.connect("operator"),
            self.clock,
            random,
            draw=lambda: f"{random.getrandbits(256):064x}",
            fetch_report=fetch,
        )
        # No kubelet has to be told of new members: hollow nodes mount nothing.
        settings = AITrainingJobSettings(touched_pods_max=0)
        operator = JobOperator(ai_training_job_kind(settings), dependencies)
        return [service.run() for service in operator.services]  # type: ignore[misc]

    def scheduler(self) -> Services:
        scheduler = Scheduler(
            self.connect("scheduler"),
            SchedulerSettings(config=PACKED),
            clock=self.clock,
            random=self.chance.generator("scheduler"),
        )
        return [service.run() for service in scheduler.services]  # type: ignore[misc]

    def autoscaler(self, settings: AutoscalerSettings, meters: AutoscalerMeters) -> Services:
        random = self.chance.generator("autoscaler")
        cluster = self.connect("autoscaler")
        informers = AutoscalerInformers.over(cluster, self.clock, random)
        autoscaler = Autoscaler(
            cluster,
            informers,
            settings=settings,
            clock=self.clock,
            random=random,
            meters=meters,
        )
        return [informers.run(), autoscaler.run()]


def settings_of(policy: str, period_s: float, cooldown_s: float) -> AutoscalerSettings:
    """Returns the autoscaler's settings for a replay."""
    return replace(
        AutoscalerSettings(), policy=policy, scale_period_s=period_s, scale_cooldown_s=cooldown_s
    )
