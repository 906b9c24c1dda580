"""The scheduler as a whole: what it follows, decides and carries out, as services to run.

`Scheduler` is the one assembly for `swell scheduler`, `swell up`, simulations and benches.
One process may run it beside others (`run` as a task), or as one of several replicas of which a
lease lets one work (`schedule`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from swell.api.meta import Key
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.guard import GuardedCluster
from swell.runtime.health import Health
from swell.runtime.leader import LeaderElector, LeaseTimes
from swell.runtime.manager import Manager, Service
from swell.runtime.metrics import Metrics
from swell.scheduler.live.options import SchedulerOptions

ACTOR = "swell-scheduler"


class Scheduler:
    """The parts, put together for one cluster; give it one behind a leader's guard where several
    run. `services` are in the order they are to be started; `run` runs them all.

    Nothing is decided before everything that is followed has been listed.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: SchedulerOptions = SchedulerOptions(),  # noqa: B008
        *,
        clock: Clock,
        random: Random,
        metrics: Metrics | None = None,
    ) -> None:
        self.options = options
        self._cluster, self._clock, self._random = cluster, clock, random
        del metrics
        self.services: tuple[Service, ...] = ()

    @property
    def is_synced(self) -> bool:
        """Whether decisions are being made: all caches are filled."""
        return False

    def problem(self) -> str:
        """What keeps it from knowing the cluster; empty when nothing does."""
        return ""

    async def run(self) -> None:
        """Run everything until cancelled; raises ServiceFailedError when a part ends."""
        manager = Manager(clock=self._clock)
        for service in self.services:
            manager.add(service.name, service.run, service.stop)
        await manager.run()


@dataclass(frozen=True, slots=True)
class Election:
    """How replicas agree on who works. The identity is one of this life of this process."""

    lease: Key
    identity: str
    times: LeaseTimes = field(default_factory=LeaseTimes)


async def schedule(
    cluster: Cluster,
    *,
    clock: Clock,
    random: Random,
    options: SchedulerOptions = SchedulerOptions(),  # noqa: B008
    election: Election | None = None,
    metrics: Metrics | None = None,
    health: Health | None = None,
) -> None:
    """Run until cancelled; with an election only while leading. Raises LeadershipLostError."""

    async def work(cluster: Cluster) -> None:
        scheduler = Scheduler(cluster, options, clock=clock, random=random, metrics=metrics)
        if health is not None:
            health.ready["scheduler caches"] = scheduler.problem
        await scheduler.run()

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
