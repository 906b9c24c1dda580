"""Replicas of which one leads, and their rules.

A replica sends no write after its lease has expired by its own clock, and in the end one leads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from swell.api.core import Lease
from swell.api.kinds import LEASES
from swell.api.meta import Key
from swell.cluster.embedded.storage import Commit
from swell.runtime.guard import GuardedCluster
from swell.runtime.leader import LeaderElector, LeadershipLostError, LeaseTimes
from swell.sim.faults.cluster import WRITE_VERBS
from swell.sim.invariants import LivenessCheck, SafetyCheck
from swell.sim.process import Ports, ProcessExitError
from swell.sim.scenario import SimulationSubject

if TYPE_CHECKING:
    from swell.sim.world import SimulatedWorld

LEASE_TIMES = LeaseTimes()


async def lead(
    ports: Ports, lease: Key, work: Callable[[Ports], Awaitable[None]], *, guarded: bool = True
) -> None:
    """Run a component while it leads. Unguarded, a paused replica may go on without its lease."""
    elector = LeaderElector(
        ports.cluster, lease, ports.name, clock=ports.clock, random=ports.random, times=LEASE_TIMES
    )
    if guarded:
        ports = replace(ports, cluster=GuardedCluster(ports.cluster, elector.guard))
    try:
        await elector.run(lambda: work(ports))
    except LeadershipLostError:
        raise ProcessExitError from None


def in_pair(subject: SimulationSubject, lease: Key) -> SimulationSubject:
    """Returns the subject with two processes of each component and the rules of leaders."""

    def safety(world: SimulatedWorld) -> list[SafetyCheck]:
        return [*subject.safety(world), LeadersWrite(world, LEASE_TIMES.renew_deadline_s)]

    def liveness(world: SimulatedWorld) -> list[LivenessCheck]:
        return [*subject.liveness(world), LeaderExists(world, lease)]

    return replace(
        subject,
        name=f"{subject.name} pair",
        scenarios=tuple(replace(scenario, replicas=2) for scenario in subject.scenarios),
        safety=safety,
        liveness=liveness,
    )


class LeadersWrite:
    """A write is sent only while the lease is held.

    Sent writes are checked, not commits: a write that lands late was still legal.
    """

    name = "only leaders write"

    def __init__(self, world: SimulatedWorld, renew_deadline_s: float) -> None:
        self._world = world
        self._deadline_s = renew_deadline_s
        self._sent_s: dict[str, float] = {}
        self._renewed_s: dict[str, float] = {}
        world.network.on_call.append(self._on_call)

    def on_commit(self, commit: Commit) -> Iterable[str]:
        if commit.collection == str(LEASES) and commit.actor in self._sent_s:
            # From when it was sent, as the elector counts: the commit is later.
            self._renewed_s[commit.actor] = self._sent_s[commit.actor]
        return ()

    def _on_call(self, actor: str, site: str) -> None:
        verb, resource = site.split(" ")[1:3]
        if verb not in WRITE_VERBS:
            return
        now_s = self._world.clock.monotonic()
        if resource == str(LEASES):
            self._sent_s[actor] = now_s
        elif now_s > self._renewed_s.get(actor, -1e9) + self._deadline_s:
            self._world.checker.report(self.name, f"{site}, though its lease is not surely held")


@dataclass
class LeaderExists:
    """One replica holds the lease."""

    world: SimulatedWorld
    lease: Key
    name: str = "L6 a leader exists"

    def missing(self) -> Iterator[str]:
        stored = self.world.storage.get(str(LEASES), self.lease)
        if stored is None or not stored.typed(Lease).spec.holder_identity:
            yield "nobody leads"
