"""Frees resource claims that only pods without a node use, and reports devices in two claims.

Claims are freed when they are in the way of a gang, as a cycle says, and when the pods that they
are reserved for have waited too long: an earlier process may have ended before it bound them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

from swell.api.core import EventSeverity
from swell.api.devices import ConsumerReference, ResourceClaim
from swell.api.kinds import RESOURCE_CLAIMS
from swell.api.meta import Key
from swell.runtime.clock import Clock
from swell.runtime.executor import EventSink, FailureKind
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.live.preparation_writes import PreparationWriter
from swell.scheduler.model.devices.preparation import FreeClaim, claim_key, overdue_claims
from swell.scheduler.model.tasks import TaskStatus

log = get_logger(__name__)

# The reason of the event on claims that have one device.
DEVICE_USED_TWICE: Final = "DeviceUsedTwice"
# How often all claims are looked through for pods that have waited too long.
_LOOK_S: Final = 5.0


class DeviceReleases:
    """Works off the claims that are to be freed. `free` only queues them."""

    def __init__(
        self,
        cache: SchedulerCache,
        writer: PreparationWriter,
        events: EventSink,
        *,
        clock: Clock,
        random: Random,
        wake: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._queue = WorkQueue[Key](clock=clock, random=random)
        self._clock = clock
        self._wake = wake  # has batches that wait for a claim looked at again
        self._looked_s = -_LOOK_S
        self._reported: Mapping[tuple[str, str, str], tuple[str, ...]] = {}

    def free(self, claims: Iterable[str]) -> None:
        for key in claims:
            self._add(claim_key(key))

    def check(self, timeout_s: float) -> None:
        """Free the claims of pods that have waited too long, and report devices in two claims."""
        now_s = self._clock.monotonic()
        if now_s < self._looked_s + _LOOK_S:
            return
        self._looked_s = now_s
        claims = self._cache.informers.resource_claims.all()
        for claim in overdue_claims(claims, self._is_waiting, timeout_s, self._clock.now()):
            log.info("devices freed", claim=str(claim.metadata.key), why="its pods got no node")
            self._add(claim.metadata.key)
        self._report_double_use()

    def _add(self, key: Key) -> None:
        # Every cycle asks again while a claim is in the way. One whose write has failed comes back
        # after its back-off: a right that is missing would be asked for many times a second.
        if not self._queue.failures(key):
            self._queue.add(key)

    async def run(self) -> None:
        await self._queue.serve(self._work)

    def stop(self) -> None:
        self._queue.close()

    async def _work(self, key: Key) -> None:
        """Free one claim. Once a write is sent, its outcome is awaited before anything else."""
        freeing = self._writer.freeing
        claim = self._cache.informers.resource_claims.get(key)
        if claim is None or claim.status.allocation is None:
            freeing.discard(key)
            self._queue.forget(key)
            self._wake()
            return
        # A write of this version may still be under way: whatever has changed, it is sent again.
        if key not in freeing and not self._is_unused(claim):
            self._queue.forget(key)
            return
        freeing.add(key)
        write = FreeClaim(claim)
        failure = await self._writer.write((write,))
        if failure is None:
            self._queue.add(key)
            return
        log.info("devices not freed", claim=str(key), why=failure.message)
        was_read = await self._writer.read((write,))
        if failure.kind is FailureKind.REFUSED or (was_read and failure.kind is FailureKind.STALE):
            # No earlier write can succeed any more, so it is decided anew.
            freeing.discard(key)
            self._wake()
        self._queue.retry(key, failure.retry_after_s)

    def _is_unused(self, claim: ResourceClaim) -> bool:
        """Whether a claim has devices, and nobody counts on them but pods that wait for a node."""
        if not self._cache.is_filled or claim.status.allocation is None:
            return False
        key, choices = str(claim.metadata.key), self._cache.snapshot.devices.choices
        if choices.is_chosen(key):
            return False
        namespace = claim.metadata.namespace
        return all(
            one.status is TaskStatus.PENDING for one in choices.users.get(key, {}).values()
        ) and all(self._is_waiting(one, namespace) for one in claim.status.reserved_for)

    def _is_waiting(self, consumer: ConsumerReference, namespace: str) -> bool:
        if consumer.api_group or consumer.resource != "pods":
            return False
        task = self._cache.task_of(Key(namespace, consumer.name), consumer.uid)
        return (
            task is not None
            and task.job is not None
            and not task.is_foreign
            and task.status is TaskStatus.PENDING
            and not task.pod.spec.node_name
        )

    def _report_double_use(self) -> None:
        """Emit an event on all claims that have one device, once for each set of them."""
        found = self._cache.snapshot.devices.objects.doubly_used()
        for device, claims in found.items():
            if self._reported.get(device) == claims:
                continue
            text = f"device {'/'.join(device)} is allocated to {', '.join(claims)}"
            log.error("device used twice", device="/".join(device), claims=list(claims))
            for one in claims:
                claim = self._cache.informers.resource_claims.get(claim_key(one))
                if claim is not None:
                    meta, warning = claim.metadata, EventSeverity.WARNING
                    event = EmitEvent(
                        RESOURCE_CLAIMS, meta.key, meta.uid, warning, DEVICE_USED_TWICE, text
                    )
                    self._events.record(event)
        self._reported = found
