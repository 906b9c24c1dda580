"""The autoscaler as a program: who may work, what it tells people, what it counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from swell.api.meta import Key
from swell.autoscaler.loop import Meters, run_autoscaler
from swell.autoscaler.metrics import AutoscalerMetrics
from swell.autoscaler.settings import Settings
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.guard import GuardedCluster
from swell.runtime.leader import LeaderElector, LeaseTimes
from swell.runtime.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Election:
    """How replicas agree on who works. The identity is one of this life of this process."""

    lease: Key
    identity: str
    times: LeaseTimes = field(default_factory=LeaseTimes)


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
    guarded = GuardedCluster(cluster, elector.guard)
    await elector.run(lambda: work(guarded))
