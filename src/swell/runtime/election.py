"""Replicas of a program: all of them ready, one of them at work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from swell.api.meta import Key
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


async def work_if_elected(
    cluster: Cluster,
    work: Callable[[Cluster], Awaitable[None]],
    election: Election | None,
    *,
    clock: Clock,
    random: Random,
    metrics: Metrics | None = None,
) -> None:
    """Work at once, or with an election only while leading. Raises LeadershipLostError."""
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
