"""Takes selected nodes back from volume claims that are still unbound.

A claim with a selected node is provisioned there or nowhere. Kubernetes takes that node back when
provisioning fails, but not when it hangs, and not when the node has gone. A batch takes it back at
its own deadline. It may have been given up before, or belong to an earlier process, and no pod can
be placed on the node any more: then the claim has as long again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from swell.api.meta import Key
from swell.runtime.clock import Clock
from swell.runtime.executor import FailureKind
from swell.runtime.logs import get_logger
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.live.preparation_writes import PreparationWriter
from swell.scheduler.model.volumes.claims import is_bound, selected_node
from swell.scheduler.model.volumes.preparation import SelectNode

log = get_logger(__name__)


class PinRemover:
    """Takes back the nodes that it is given, one claim after the other, until it is done."""

    def __init__(
        self, cache: SchedulerCache, writer: PreparationWriter, *, clock: Clock, random: Random
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._clock = clock
        # By claim and node: until when a volume may be made there with no pod placed on it.
        self._deadlines: dict[tuple[str, str], float] = {}
        # Claims with the node that is to be taken back from them.
        self._queue = WorkQueue[tuple[Key, str]](clock=clock, random=random)

    def add(self, pins: Mapping[str, str]) -> None:
        """Queue nodes by the keys of their claims."""
        for claim, node in pins.items():
            namespace, _, name = claim.partition("/")
            self._queue.add((Key(namespace, name), node))

    def watch(self, pins: Mapping[str, str], timeout_s: float) -> dict[str, str]:
        """Queue those nodes that have been among the given ones for so long, and return them."""
        now = self._clock.monotonic()
        deadlines = {pin: self._deadlines.get(pin, now + timeout_s) for pin in pins.items()}
        overdue = {claim: node for (claim, node), ends in deadlines.items() if ends <= now}
        # A refusal is not repeated in every cycle.
        deadlines |= dict.fromkeys(overdue.items(), now + timeout_s)
        self._deadlines = deadlines
        self.add(overdue)
        return overdue

    def deadlines(self) -> Iterable[float]:
        return self._deadlines.values()

    async def take_back(self, pins: Sequence[SelectNode]) -> None:
        """Make one attempt for claims that a batch is given up for; what fails is queued."""
        failure = await self._writer.write(pins)
        if failure is None:
            return
        # Read before the tasks are placed anew, or they would be sent to the same node.
        log.info("selected node not removed", why=failure.message)
        await self._writer.read(pins)
        for pin in pins:
            claim = self._cache.informers.claims.get(pin.claim.metadata.key)
            if claim is not None and selected_node(claim):
                self._queue.add((claim.metadata.key, selected_node(claim)))

    async def run(self) -> None:
        await self._queue.serve(self._unpin)

    def stop(self) -> None:
        self._queue.close()

    async def _unpin(self, pin: tuple[Key, str]) -> None:
        """Take the selected node of an unbound claim back, unless a placed pod counts on it."""
        key, node = pin
        claim = self._cache.informers.claims.get(key)
        if claim is None or is_bound(claim) or selected_node(claim) != node:
            return
        if self._cache.snapshot.volumes.reservations.is_chosen(str(key)):
            return
        failure = await self._writer.write((SelectNode(claim, None),))
        if failure is None or failure.kind is FailureKind.REFUSED:
            self._queue.forget(pin)
            return
        log.info("selected node not removed", claim=str(key), why=failure.message)
        await self._writer.read([SelectNode(claim, None)])
        self._queue.retry(pin, failure.retry_after_s)
