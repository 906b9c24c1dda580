"""The autoscaler as a program: who may work, what it tells people, what it counts."""

from __future__ import annotations

from random import Random

from swell.autoscaler.loop import Meters, run_autoscaler
from swell.autoscaler.metrics import AutoscalerMetrics
from swell.autoscaler.settings import Settings
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.election import Election, work_if_elected
from swell.runtime.metrics import Metrics


async def autoscale(
    cluster: Cluster,
    *,
    clock: Clock,
    random: Random,
    settings: Settings,
    namespace: str = "",
    election: Election | None = None,
    metrics: Metrics | None = None,
) -> None:
    """Run until cancelled; with an election only while leading. Raises LeadershipLostError."""
    meters = Meters()
    if metrics is not None:
        meters = Meters(AutoscalerMetrics(metrics.registry), metrics, metrics)

    async def work(cluster: Cluster) -> None:
        await run_autoscaler(
            cluster,
            settings=settings,
            clock=clock,
            random=random,
            namespace=namespace,
            meters=meters,
        )

    await work_if_elected(cluster, work, election, clock=clock, random=random)
