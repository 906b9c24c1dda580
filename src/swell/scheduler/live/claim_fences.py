"""Fences the resource claims that an earlier process of the scheduler may still be writing.

A write may reach the server long after the process that sent it has ended. What gives devices to a
claim, or takes them back, names the version of the claim that it replaces. So this process changes
the version of every such claim before it gives any devices away: a late write either is seen by
then, or fails.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from swell.api.devices import ConsumerReference
from swell.api.meta import Key
from swell.runtime.clock import Clock
from swell.runtime.executor import FailureKind
from swell.runtime.logs import get_logger
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.live.preparation_writes import PreparationWriter
from swell.scheduler.model.devices.claims import PODS
from swell.scheduler.model.devices.preparation import FenceClaim, needs_fence

log = get_logger(__name__)


class ClaimFences:
    """Works off the claims to fence. `begin` only queues them."""

    def __init__(
        self,
        cache: SchedulerCache,
        writer: PreparationWriter,
        *,
        clock: Clock,
        random: Random,
        wake: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._claims = cache.informers.resource_claims
        self._writer = writer
        self._queue = WorkQueue[Key](clock=clock, random=random)
        self._wake = wake  # has batches that wait for a claim looked at again

    def begin(self) -> None:
        """Queue the claims to fence, once the cache is filled and before the first cycle."""
        for claim in self._claims.all():
            if needs_fence(claim, self._is_at_work):
                self._writer.fencing.add(claim.metadata.key)
                self._queue.add(claim.metadata.key)

    async def run(self) -> None:
        await self._queue.serve(self._work)

    def stop(self) -> None:
        self._queue.close()

    async def _work(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None:
            self._end(key)
            return
        write = FenceClaim(claim)
        failure = await self._writer.write((write,))
        # Without the right to write claims an earlier process has not written any, either.
        if failure is None or failure.kind is FailureKind.REFUSED:
            self._end(key)
            return
        log.info("claim not taken over", claim=str(key), why=failure.message)
        await self._writer.read((write,))
        self._queue.retry(key, failure.retry_after_s)

    def _end(self, key: Key) -> None:
        self._writer.fencing.discard(key)
        self._queue.forget(key)
        self._wake()

    def _is_at_work(self, consumer: ConsumerReference, namespace: str) -> bool:
        """Whether a user of a claim has a node, or is none of the pods that are placed here."""
        if consumer.api_group or consumer.resource != PODS:
            return True
        pod = self._cache.informers.pods.get(Key(namespace, consumer.name))
        if pod is None or pod.metadata.uid != consumer.uid:
            return False
        return bool(pod.spec.node_name)
