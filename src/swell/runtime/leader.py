"""Leader election by a Lease, with fencing of a former leader's writes.

The clocks of two machines are never compared. A candidate takes a lease for expired when it has
seen no change of it for its whole duration, by its own monotonic clock. A leader counts its time
from the moment at which it sent the renewal that succeeded. So it stops writing before a candidate
may start.

    candidate -- lease free, or unchanged for `duration_s` --> leader --+-- renewed --> leader
        ^                                                       |
        +-- process restarts -- LeadershipLostError <-- no renewal for `renew_deadline_s`
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from swell.api.core import Lease, LeaseSpec
from swell.api.kinds import LEASES
from swell.api.meta import Body, Key
from swell.api.times import format_micro_time
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    UnreachableError,
)
from swell.runtime.guard import GuardedCluster, LeaderGuard
from swell.runtime.logs import get_logger
from swell.runtime.metrics import Metrics

log = get_logger(__name__)

_FAILURES = (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError)


class LeadershipLostError(Exception):
    """The lease could not be renewed in time: this process has to start again."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """A leader stops writing `renew_deadline_s` after its last renewal, and others take over after
    `duration_s` without one. The difference makes the hand-over safe.

    The values are those of client-go's leader election in Kubernetes' own components.
    """

    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration_s > self.renew_deadline_s > self.retry_s > 0:
            raise ValueError(f"lease times must fall: {self}")


class LeaderElector:
    """Takes and renews the lease. `guard` is open only while this process surely leads."""

    def __init__(
        self,
        cluster: Cluster,
        key: Key,
        identity: str,
        *,
        clock: Clock,
        random: Random,
        times: LeaseTimes = LeaseTimes(),  # noqa: B008
    ) -> None:
        """Takes an `identity` unique to this run of this process: a restarted one is another."""
        self.guard = LeaderGuard(clock)
        self._cluster = cluster
        self._key = key
        self._identity = identity
        self._clock = clock
        self._random = random
        self._times = times
        self._held: Lease | None = None
        self._seen_version = ""
        self._seen_at = 0.0

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait to become leader, then lead until `lead` returns, or the lease is lost.

        Being cancelled while leading cancels `lead`, keeps the lease while that ends, and then
        gives the lease up. Raises LeadershipLostError, after cancelling `lead`, when renewal fails.
        """
        await self._acquire()
        log.info("leading", lease=str(self._key), identity=self._identity)
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew_until_lost())
        # An event and not asyncio.wait: its sets of tasks have no order, so that a simulation
        # could not be repeated.
        ended = asyncio.Event()
        leading.add_done_callback(lambda _: ended.set())
        renewing.add_done_callback(lambda _: ended.set())
        try:
            await ended.wait()
        finally:
            # The order matters: the work ends while the lease is still renewed, and the lease is
            # given up only after the guard has closed. So two leaders never write at once.
            await _ended(leading)
            await _ended(renewing)
            self.guard.close()
            await self._release()
            if not leading.cancelled() and leading.exception():
                log.error(
                    "failed while leading", lease=str(self._key), exc_info=leading.exception()
                )
        # We cancelled it ourselves, above, because the renewing task ended first.
        if leading.cancelled():
            raise LeadershipLostError(str(self._key))
        leading.result()

    async def _acquire(self) -> None:
        while not await self._try_once():
            # Jittered, so that candidates do not ask in step.
            await self._clock.sleep(self._times.retry_s * (1 + self._random.random()))

    async def _renew_until_lost(self) -> None:
        while True:
            await self._clock.sleep(self._times.retry_s)
            # A renewal may fail several times before the deadline; only the guard's time counts.
            if not await self._try_once() and not self.guard.is_open:
                log.error("lease lost", lease=str(self._key), identity=self._identity)
                return

    async def _try_once(self) -> bool:
        """Take or renew the lease if it is free or ours. Returns whether that surely succeeded."""
        # The time before the call: the server may store the renewal at any moment of it.
        sent_at = self._clock.monotonic()
        try:
            # A third of the deadline, so that a call that hangs leaves time for two more.
            async with asyncio.timeout(self._times.renew_deadline_s / 3):
                written = await self._write()
        except _FAILURES as error:
            log.info("lease not written", lease=str(self._key), error=str(error))
            # The write may have happened, so the version we hold may be old: read it next time.
            self._held = None
            return False
        if not written:
            return False
        self.guard.open_until(sent_at + self._times.renew_deadline_s)
        return True

    async def _write(self) -> bool:
        if self._held is not None:
            self._held = await self._cluster.update(LEASES, self._body(self._held))
            return True
        try:
            found = await self._cluster.get(LEASES, self._key)
        except NotFoundError:
            try:
                self._held = await self._cluster.create(LEASES, self._body(None))
            except AlreadyExistsError:
                return False
            return True
        if not self._is_free(found):
            self.guard.close()
            return False
        try:
            self._held = await self._cluster.update(LEASES, self._body(found))
        except ConflictError:
            return False
        return True

    def _is_free(self, found: Lease) -> bool:
        now = self._clock.monotonic()
        if found.metadata.resource_version != self._seen_version:
            self._seen_version, self._seen_at = found.metadata.resource_version, now
        # Ours without our knowing: the answer to the write that took it was lost.
        if found.spec.holder_identity in {"", self._identity}:
            return True
        duration_s = found.spec.lease_duration_seconds or self._times.duration_s
        return now - self._seen_at > duration_s

    def _body(self, former: Lease | None) -> Body:
        now = format_micro_time(self._clock.now())
        spec = former.spec if former else LeaseSpec()
        is_ours = spec.holder_identity == self._identity
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        if former:
            metadata["resourceVersion"] = former.metadata.resource_version
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._times.duration_s)),
                "acquireTime": spec.acquire_time if is_ours else now,
                "renewTime": now,
                "leaseTransitions": spec.lease_transitions + (0 if is_ours or not former else 1),
            },
        }

    async def _release(self) -> None:
        """Let the next leader start at once. It may fail: leases also expire by themselves."""
        if self._held is None:
            return
        body = self._body(self._held)
        # As client-go releases a lease: without a holder, and valid for the shortest time allowed.
        body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        self._held = None
        try:
            async with asyncio.timeout(self._times.retry_s):
                await self._cluster.update(LEASES, body)
        except _FAILURES as error:
            log.info("lease not released", lease=str(self._key), error=str(error))


async def _ended(task: asyncio.Future[None]) -> None:
    """Cancel a task of ours, if it has not ended, and wait until it has."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Election:
    """The lease by which replicas agree on a leader, and the identity of this run of one."""

    lease: Key
    identity: str
    times: LeaseTimes = field(default_factory=LeaseTimes)


async def run_if_elected(
    cluster: Cluster,
    work: Callable[[Cluster], Awaitable[None]],
    election: Election | None,
    *,
    clock: Clock,
    random: Random,
    metrics: Metrics | None = None,
) -> None:
    """Work at once or, with an election, only while leading. Raises LeadershipLostError.

    While leading, `work` is given a cluster that refuses writes once the lease is lost.
    """
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
            metrics.set_leading(True)
        await work(GuardedCluster(cluster, elector.guard))

    await elector.run(lead)
